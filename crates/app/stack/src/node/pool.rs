//! Pools: several backings as one.
//!
//! A pool's map is read on a temporary lane, before any volume is served.

use super::{Attached, OpenNode, Unkept};
use crate::failure::{Exit, Failure};
use crate::setup_lane::SetupLane;
use crate::target::check_member;
use block::{Limits, Size, Stack};
use host::{File, FileVolume, Intent, OpenOptions};
use pool::{Layout, MissingDevice, PoolShared, Reason, Refusal};
use ring::{FileBackend, Ring};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest wait for an image that another process has locked, in milliseconds.
const LOCK_WAIT_MS: u64 = 1_000;

fn exit_of(reason: &Reason) -> Exit {
    match reason {
        Reason::Device(_) => Exit::Io,
        Reason::Damaged
        | Reason::Version(_)
        | Reason::Shrunk
        | Reason::Split
        | Reason::NoJournal
        | Reason::LostPage(_)
        | Reason::BadMap => Exit::Integrity,
        _ => Exit::Usage,
    }
}

/// Converts a refusal into a failure that names the member's path.
fn failure(refusal: &Refusal, path: impl Fn(usize) -> Option<PathBuf>) -> Failure {
    let exit = exit_of(&refusal.reason);
    match refusal.member.and_then(path) {
        Some(path) => Failure::new(exit, format!("{}: {}", path.display(), refusal.reason)),
        None => Failure::new(exit, refusal.to_string()),
    }
}

/// A pool, with its members in order; None is a missing member.
pub(crate) struct PoolNode {
    pub(crate) shared: Arc<PoolShared>,
    members: Vec<Option<Box<dyn OpenNode>>>,
}

impl OpenNode for PoolNode {
    fn children(&self) -> Vec<&dyn OpenNode> {
        self.members.iter().flatten().map(|member| &**member).collect()
    }

    fn limits(&self) -> Limits {
        self.shared.limits().clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let lane = ring.lane();
        let present = self.children().into_iter().next();
        let present = present.expect("a pool was opened with at least one member");
        let member = |member: &Option<Box<dyn OpenNode>>| match member {
            Some(node) => node.attach(ring).stack,
            None => Stack::new(lane, MissingDevice::new(present.limits())),
        };
        let members = self.members.iter().map(member).collect();
        let pool = pool::Pool::attach(&self.shared, lane, members);
        Attached { stack: Stack::new(lane, pool), cache: None }
    }

    fn is_of_several(&self) -> bool {
        true
    }

    fn keepable(&self) -> Result<Vec<File>, Unkept> {
        Err(Unkept::Several)
    }
}

/// Opens the pool of these members; None is a missing member.
///
/// # Errors
/// With the exit status for the reason: no pool, a damaged one, members that do not belong
/// together.
pub(crate) fn open(
    members: Vec<Option<Box<dyn OpenNode>>>,
    notes: &mut Vec<String>,
) -> Result<PoolNode, Failure> {
    let opened = SetupLane::new()?.run(|ring| {
        let stack = |member: &Option<Box<dyn OpenNode>>| Some(member.as_ref()?.attach(ring).stack);
        let stacks: Vec<Option<Stack>> = members.iter().map(stack).collect();
        async move { pool::open(&stacks).await }
    })?;
    let path = |number: usize| Some(PathBuf::from(members.get(number)?.as_ref()?.identity()?.name));
    let shared = opened.map_err(|refusal| failure(&refusal, path))?;
    let gone = members.iter().filter(|member| member.is_none()).count();
    if gone > 0 {
        notes.push(format!(
            "{gone} of the pool's {} members is missing: data on it cannot be read, and once the \
             pool is changed without it, the member cannot come back",
            members.len()
        ));
    }
    Ok(PoolNode { shared, members })
}

/// Creates a pool of files and devices, in this order, and returns its size. With `overwrite`,
/// members that hold data are accepted too, and their data is lost.
///
/// # Errors
/// With the exit status for the reason: members that are missing, busy, too small or not
/// blank.
pub fn create_pool(paths: &[PathBuf], overwrite: bool) -> Result<Size, Failure> {
    let mut files: Vec<Arc<FileVolume>> = Vec::new();
    let intent = Intent::PoolMember { is_agreed: overwrite };
    for path in paths {
        check_member(&path.to_string_lossy())?;
        files.push(host::claim(path, OpenOptions::default(), intent, LOCK_WAIT_MS)?.volume);
    }
    let identity = random_identity()?;
    let made: Result<Layout, Refusal> = SetupLane::new()?.run(|ring| {
        let stack =
            |file: &Arc<FileVolume>| Stack::new(ring.lane(), FileBackend::attach(file, ring));
        let stacks: Vec<Stack> = files.iter().map(stack).collect();
        async move { pool::create(&stacks, identity, overwrite).await }
    })?;
    let layout = made.map_err(|refusal| failure(&refusal, |number| paths.get(number).cloned()))?;
    Ok(Size(layout.sectors() * block::SECTOR))
}

fn random_identity() -> Result<u128, Failure> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Failure::new(Exit::Io, format!("{}: {error}", path.display())))?;
    Ok(u128::from_le_bytes(bytes))
}
