//! The program that the tests of the holder start and kill: `trial hold` is a holder; `trial start`
//! and `trial find` are daemons that obey lines on stdin and print the results on stdout.
//!
//! Their memory is simpler than an arena: a number of dirty blocks, whether the volume has failed,
//! and some bytes that must not be lost.

use holder::{Contents, Found, HolderOptions, Keeper, RetainedVolume};
use ring::{Fence, HugePages, SharedMemory, shared_memory};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::FlockOperation;
use std::fs::File;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const DIRTY_AT: usize = 0;
const FAILED_AT: usize = 8;
const CLEAN_AT: usize = 16;
const TEXT_AT: usize = 4096;
const TEXT: &[u8; 8] = b"precious";

fn word(file: BorrowedFd<'_>, at: usize) -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::io::pread(file, &mut bytes, at as u64)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn survey(arena: BorrowedFd<'_>) -> io::Result<Contents> {
    let failed = word(arena, FAILED_AT)? != 0;
    let (dirty_blocks, clean_blocks) = (word(arena, DIRTY_AT)?, word(arena, CLEAN_AT)?);
    Ok(Contents { dirty_blocks, clean_blocks, failed, ..Contents::default() })
}

struct Daemon {
    runtime: PathBuf,
    image: PathBuf,
    retained: RetainedVolume,
    arena: SharedMemory,
    backing: Vec<OwnedFd>,
    keeper: Option<Keeper>,
    _fence: Fence,
}

fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

impl Daemon {
    fn start(runtime: &Path, image: &Path) -> io::Result<Daemon> {
        let backing = OwnedFd::from(File::options().read(true).write(true).open(image)?);
        // As with the locks of images, this one belongs to the open file description.
        rustix::fs::flock(&backing, FlockOperation::NonBlockingLockExclusive)?;
        let arena = shared_memory("trial", 1 << 20, HugePages::Never, &mut |_, _| ())?;
        arena.memory().write(TEXT_AT, TEXT);
        let fence = Fence::take(arena.file(), 1000)?;
        let key = holder::key_at(image)?;
        let retained = RetainedVolume {
            volume: "vol".into(),
            backing: image.display().to_string(),
            key,
            is_recorded: true,
        };
        let (runtime, image) = (runtime.to_owned(), image.to_owned());
        let mut daemon = Daemon {
            runtime,
            image,
            retained,
            arena,
            backing: vec![backing],
            keeper: None,
            _fence: fence,
        };
        daemon.keep()?;
        Ok(daemon)
    }

    fn keep(&mut self) -> io::Result<()> {
        let arena = self.arena.file();
        let backing: Vec<_> = self.backing.iter().map(OwnedFd::as_fd).collect();
        let program = own_program();
        self.keeper =
            Some(Keeper::start(&self.runtime, &self.retained, arena, &backing, &program)?);
        Ok(())
    }

    fn with_found(runtime: &Path, image: &Path, found: Found) -> io::Result<Daemon> {
        let Found { retained, arena, backing, keeper, .. } = found;
        let arena = SharedMemory::adopt(arena)?;
        let fence = Fence::take(arena.file(), 5000)?;
        let (runtime, image) = (runtime.to_owned(), image.to_owned());
        Ok(Daemon { runtime, image, retained, arena, backing, keeper: Some(keeper), _fence: fence })
    }

    fn obey(mut self, line: &str) -> io::Result<Option<Daemon>> {
        match line.split_once(' ').unwrap_or((line, "0")) {
            ("dirty", number) => {
                let number: u64 = number.parse().map_err(io::Error::other)?;
                self.arena.memory().write(DIRTY_AT, &number.to_ne_bytes());
            }
            // From now on the holder watches for other programs that open the image.
            ("clean", number) => {
                let number: u64 = number.parse().map_err(io::Error::other)?;
                self.arena.memory().write(CLEAN_AT, &number.to_ne_bytes());
                self.keeper.as_ref().ok_or(io::ErrorKind::NotFound)?.watch()?;
            }
            ("failed", _) => self.arena.memory().write(FAILED_AT, &1u64.to_ne_bytes()),
            ("watch", _) => {
                let socket = self.keeper.as_ref().and_then(Keeper::owner_socket);
                let socket = socket.ok_or(io::ErrorKind::NotFound)?;
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], None)?;
            }
            ("keep", _) => self.keep()?,
            ("exchange", count) => {
                let count = count.parse().map_err(io::Error::other)?;
                let backing = vec![self.backing[0].as_fd(); count];
                let keeper = self.keeper.as_ref().ok_or(io::ErrorKind::NotFound)?;
                keeper.exchange(&backing)?;
            }
            ("count", _) => println!("{}", self.backing.len()),
            ("exec", _) => {
                let mut next = Command::new(own_program());
                holder::scrub(&mut next);
                return Err(next.arg("find").arg(&self.runtime).arg(&self.image).exec());
            }
            ("release", _) => {
                let keeper = self.keeper.take().ok_or(io::ErrorKind::NotFound)?;
                keeper.release()?;
                println!("released");
                return Ok(None);
            }
            _ => return Err(io::Error::other(format!("{line}: no such order"))),
        }
        println!("done");
        Ok(Some(self))
    }
}

fn found_line(daemon: &Daemon) -> io::Result<String> {
    let mut text = [0; TEXT.len()];
    daemon.arena.memory().read(TEXT_AT, &mut text);
    let dirty = word(daemon.arena.file(), DIRTY_AT)?;
    let text = String::from_utf8_lossy(&text);
    Ok(format!("found {dirty} {text} {}", daemon.retained.volume))
}

fn daemon(mode: &str, runtime: &Path, image: &Path) -> io::Result<()> {
    let mut daemon = if mode == "start" {
        println!("started");
        Daemon::start(runtime, image)?
    } else {
        match Keeper::find(runtime, &holder::key_at(image)?) {
            Ok(None) => {
                println!("none");
                return Ok(());
            }
            Ok(Some(found)) => {
                let daemon = Daemon::with_found(runtime, image, found)?;
                println!("{}", found_line(&daemon)?);
                daemon
            }
            Err(error) => match holder::Busy::of(&error) {
                Some(busy) => {
                    println!("busy {}", busy.pid);
                    return Ok(());
                }
                None => return Err(error),
            },
        }
    };
    println!("ready");
    for line in io::stdin().lock().lines() {
        match daemon.obey(&line?)? {
            Some(same) => daemon = same,
            None => return Ok(()),
        }
    }
    // As if killed: nothing is released.
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [holder::HOLD] => holder::hold_on(&HolderOptions {
            survey: &survey,
            look_every: Duration::from_millis(50),
            clean_max: Duration::from_millis(50),
        }),
        [mode, runtime, image] => match daemon(mode, Path::new(runtime), Path::new(image)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("error {error}");
                ExitCode::FAILURE
            }
        },
        _ => ExitCode::from(2),
    }
}
