//! The program that the test `own_node` starts and kills: `trial hold` is a holder;
//! `trial serve DIRECTORY [back|none]` opens a volume over its own kind of backing and obeys lines
//! on stdin.
//!
//! The backing models a network volume. Its data is in DIRECTORY/disk; DIRECTORY/name is the name
//! that the server uses, and may change; DIRECTORY/session is a connection, whose state (its
//! position) belongs to the open file description. Opening takes a moment. If DIRECTORY/unfenced
//! exists, its fence fails once. If DIRECTORY/slow exists, each write takes longer than a second.
//! Steps of opening the volume are printed.

use block::{Buf, CacheSpec, DelaySpec, Extent, Limits, Request, Size, Spec, Stack, WriteMode};
use host::{FileVolume, OpenOptions};
use lane::Lane;
use layers::{Delay, DelayShared};
use ring::{FileBackend, Ring};
use rustix::fs::SeekFrom;
use stack::{
    Attached, Backing, Exit, Failure, Former, Identity, Keep, OpenFlags, OpenNode, OpenStep,
    Opened, Opening, Unkept, Volume,
};
use std::fs::{self, File};
use std::io::{self, BufRead};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

const SECTORS: u32 = 8;
const OPENING_NS: u64 = 20_000_000;
/// Time of a write to a slow disk, in microseconds.
const SLOW_US: u64 = 1_500_000;
/// The state of a session.
const LOGGED_IN: u64 = 7;

struct Remote {
    directory: PathBuf,
    is_renamed_at_will: bool,
}

struct RemoteNode {
    volume: Arc<FileVolume>,
    session: host::File,
    directory: PathBuf,
    is_renamed_at_will: bool,
}

fn failed(message: impl ToString) -> Failure {
    Failure::new(Exit::Io, message.to_string())
}

fn server_name(directory: &Path) -> Option<String> {
    Some(fs::read_to_string(directory.join("name")).ok()?.trim().to_owned())
}

/// Opens the connection again, or continues with the one that was retained.
fn log_in(directory: &Path, kept: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    if let Some(session) = kept {
        let state = rustix::fs::seek(&session, SeekFrom::Current(0)).map_err(failed)?;
        return match state {
            LOGGED_IN => Ok(session),
            state => Err(failed(format!("the session that was kept has state {state}"))),
        };
    }
    let session = OwnedFd::from(File::create(directory.join("session")).map_err(failed)?);
    rustix::fs::seek(&session, SeekFrom::Start(LOGGED_IN)).map_err(failed)?;
    Ok(session)
}

impl Backing for Remote {
    fn name(&self) -> String {
        format!("remote:{}", self.directory.display())
    }

    fn key(&self) -> Option<String> {
        server_name(&self.directory)
    }

    fn open(&self, ring: &Ring, is_read_only: bool, former: Former) -> Opening {
        let (lane, directory) = (ring.lane().clone(), self.directory.clone());
        let is_renamed_at_will = self.is_renamed_at_will;
        let options = OpenOptions { read_only: is_read_only, ..OpenOptions::default() };
        Box::pin(async move {
            lane.sleep_until(lane.now() + OPENING_NS).await;
            let path = directory.join("disk");
            let mut kept = former.kept.into_iter().flatten();
            let volume = match kept.next() {
                Some(disk) => FileVolume::from_file(&path, disk, options)?,
                None => FileVolume::open_waiting(&path, options, 2_000)?,
            };
            let session = log_in(&directory, kept.next())?;
            let session = Arc::new(session);
            let node = RemoteNode { volume, session, directory, is_renamed_at_will };
            Ok(Opened { node: Box::new(node), notes: Vec::new() })
        })
    }
}

impl OpenNode for RemoteNode {
    fn limits(&self) -> Limits {
        self.volume.limits().clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let stack = Stack::new(ring.lane(), FileBackend::attach(&self.volume, ring));
        if !self.directory.join("slow").exists() {
            return Attached { stack, cache: None };
        }
        let shared = DelayShared::new(&DelaySpec { write_us: SLOW_US, ..DelaySpec::default() });
        let stack = Stack::new(ring.lane(), Delay::attach(shared, ring.lane(), stack));
        Attached { stack, cache: None }
    }

    fn identity(&self) -> Option<Identity> {
        let key = server_name(&self.directory)?;
        let name = format!("remote:{}", self.directory.display());
        Some(Identity { key, number: 4711, birth: String::new(), name })
    }

    fn keepable(&self) -> Result<Vec<host::File>, Unkept> {
        match self.is_renamed_at_will {
            true => Err(Unkept::Other("its server may give it another name".to_owned())),
            false => Ok(vec![self.volume.file().clone(), self.session.clone()]),
        }
    }

    fn fence(&self) -> io::Result<()> {
        match fs::remove_file(self.directory.join("unfenced")) {
            Ok(()) => Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer")),
            Err(_) => Ok(()),
        }
    }
}

fn spec_of(directory: &Path, mode: &str) -> Spec {
    let file = Spec::File { path: directory.join("disk"), read_only: false, buffered: false };
    let cache = CacheSpec {
        memory: Size(8 << 20),
        write: WriteMode::BackNow,
        // Nothing is written back by age during the test.
        dirty_age_ms: 3_600_000,
        ..CacheSpec::default()
    };
    match mode {
        "none" => file,
        _ => Spec::Cache { cache, below: Box::new(file) },
    }
}

fn open(directory: &Path, mode: &str) -> Result<Volume, Failure> {
    let program = PathBuf::from("/proc/self/exe");
    let keep = Keep { runtime: directory.join("run"), program };
    let flags = OpenFlags { name: "remote".into(), keep: Some(keep), ..OpenFlags::default() };
    let is_renamed_at_will = mode == "renamed";
    let remote = |spec: &Spec, _: &OpenFlags| -> Option<Box<dyn Backing>> {
        let Spec::File { path, .. } = spec else { return None };
        let directory = path.parent()?.to_owned();
        Some(Box::new(Remote { directory, is_renamed_at_will }))
    };
    Volume::open_over(spec_of(directory, mode), flags, &remote, &mut |step| match step {
        OpenStep::Memory { .. } => {}
        step => println!("step {step:?}"),
    })
}

/// Returns a write of block `number`, filled with its version.
fn request(number: u64, version: u8) -> Request {
    let from = Buf::new(SECTORS, 512);
    from.write(&[version; SECTORS as usize * 512]);
    Request::Write { at: Extent::new(number * u64::from(SECTORS), SECTORS), from, fua: false }
}

fn read(ring: &Ring, stack: &Stack, number: u64) -> Result<u8, String> {
    let into = Buf::new(SECTORS, 512);
    let at = Extent::new(number * u64::from(SECTORS), SECTORS);
    let (stack, request) = (stack.clone(), Request::Read { at, into: into.clone() });
    let done = ring.block_on(async move { stack.run(request).await });
    done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let mut bytes = vec![0; SECTORS as usize * 512];
    into.read(&mut bytes);
    match bytes.iter().all(|byte| *byte == bytes[0]) {
        true => Ok(bytes[0]),
        false => Err(format!("block {number} is torn")),
    }
}

fn obey(ring: &Ring, stack: &Stack, line: &str, directory: &Path) -> Result<String, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |word: &str| word.parse::<u64>().map_err(|error| error.to_string());
    match words[..] {
        ["write", count, version] => {
            let version = number(version)? as u8;
            for block in 0..number(count)? {
                let (stack, request) = (stack.clone(), request(block, version));
                let done = ring.block_on(async move { stack.run(request).await });
                done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            }
            Ok("written".to_owned())
        }
        ["read", count] => {
            let versions = (0..number(count)?).map(|block| read(ring, stack, block));
            let versions = versions.collect::<Result<std::collections::BTreeSet<_>, _>>()?;
            Ok(format!("{versions:?}"))
        }
        ["exec"] => {
            let mut next = Command::new("/proc/self/exe");
            Err(next.arg("serve").arg(directory).exec().to_string())
        }
        _ => Err(format!("{line}: no such order")),
    }
}

fn serve(directory: &Path, mode: &str) -> Result<(), String> {
    let volume = open(directory, mode).map_err(|failure| failure.to_string())?;
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(|error| error.to_string())?;
    let stack = volume.attach(&ring).map_err(|failure| failure.to_string())?.stack;
    for note in volume.notes() {
        println!("note {note}");
    }
    if let Err(refused) = volume.check_absorbing() {
        println!("note absorbing is refused: {refused}");
    }
    println!("ready {}", if volume.outlives_exec() { "outlives" } else { "ends" });
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        match obey(&ring, &stack, &line, directory) {
            Ok(answer) => println!("{answer}"),
            Err(error) => println!("error {error}"),
        }
    }
    // Exits as if killed: nothing is written back, and nothing is released.
    std::process::exit(0)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (directory, mode) = match arguments[..] {
        [holder::HOLD] => return holder::hold(),
        ["serve", directory] => (directory, "back"),
        ["serve", directory, mode] => (directory, mode),
        _ => return ExitCode::from(2),
    };
    match serve(Path::new(directory), mode) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {error}");
            ExitCode::FAILURE
        }
    }
}
