//! Pools and stripes: several backings as one.
//!
//! A pool's map is read on a lane of its own, before anything is served.

use crate::failure::{Exit, Failure};
use crate::half::Half;
use block::{Size, Stack};
use host::{FileVolume, Intent, OpenOptions};
use lane::Lane;
use pool::{Layout, Reason, Refusal};
use ring::{FileBackend, Ring};
use std::future::Future;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long an image that another process has locked is waited for.
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

/// The refusal with the path of the member that it is about.
fn failure(refusal: &Refusal, path: impl Fn(usize) -> Option<PathBuf>) -> Failure {
    let exit = exit_of(&refusal.reason);
    match refusal.member.and_then(path) {
        Some(path) => Failure::new(exit, format!("{}: {}", path.display(), refusal.reason)),
        None => Failure::new(exit, refusal.to_string()),
    }
}

/// Runs some work on a lane of its own.
fn alone<T: 'static, F: Future<Output = T> + 'static>(
    work: impl FnOnce(&Ring) -> F,
) -> Result<T, Failure> {
    let broken = |error: std::io::Error| Failure::new(Exit::Io, format!("io_uring: {error}"));
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(broken)?;
    let work = work(&ring);
    let result = ring.block_on(work).map_err(broken);
    lane.abandon();
    result
}

/// Opens the pool of these members; None is one that is gone.
pub(crate) fn open(members: Vec<Option<Half>>, notes: &mut Vec<String>) -> Result<Half, Failure> {
    let stack = |ring: &Ring, member: &Option<Half>| Some(member.as_ref()?.attach(ring).stack);
    let opened = alone(|ring| {
        let stacks: Vec<Option<Stack>> = members.iter().map(|member| stack(ring, member)).collect();
        async move { pool::open(&stacks).await }
    })?;
    let path =
        |number: usize| members.get(number)?.as_ref()?.file().map(|file| file.path().to_owned());
    let shared = opened.map_err(|refusal| failure(&refusal, path))?;
    let gone = members.iter().filter(|member| member.is_none()).count();
    if gone > 0 {
        notes.push(format!(
            "{gone} of the pool's {} members is missing: what lies on it cannot be read, and a pool \
             that is changed without it does not take another that was",
            members.len()
        ));
    }
    Ok(Half::Pool { shared, members })
}

/// The stripe over these members.
pub(crate) fn stripe(members: Vec<Half>, chunk: Size) -> Result<Half, Failure> {
    let limits: Vec<_> = members.iter().map(Half::limits).collect();
    let chunk_bytes = u32::try_from(chunk.0).unwrap_or(0);
    let limits = pool::stripe_limits(&limits, chunk_bytes)
        .map_err(|sentence| Failure::new(Exit::Usage, format!("the stripe: {sentence}")))?;
    Ok(Half::Stripe { limits, chunk_bytes, members })
}

/// Makes a pool of files and devices, in this order, and returns its size. With `overwrite`, also of
/// such as hold data, which is lost then.
///
/// # Errors
/// With the exit status for it: members that are missing, busy, too small or not blank.
pub fn create_pool(paths: &[PathBuf], overwrite: bool) -> Result<Size, Failure> {
    let mut files: Vec<Arc<FileVolume>> = Vec::new();
    let intent = Intent::PoolMember { is_agreed: overwrite };
    for path in paths {
        files.push(host::claim(path, OpenOptions::default(), intent, LOCK_WAIT_MS)?.volume);
    }
    let identity = random_identity()?;
    let made: Result<Layout, Refusal> = alone(|ring| {
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
