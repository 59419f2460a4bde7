//! The process that samples drives.

use super::SAMPLE_DRIVES;
use super::query::{Outcome, Query};
use crate::rights;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open, setpriority_process};
use stack::{Exit, Failure};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The lowest priority.
const NICE: i32 = 19;
/// Time until the first sample: a daemon that ends sooner has none.
const FIRST: Duration = Duration::from_secs(60);
/// Time between two attempts to find a busy drive without requests.
const BUSY: Duration = Duration::from_secs(30);
/// The time without requests before a query.
const QUIET: Duration = Duration::from_secs(1);

/// Samples drives for the daemon with this process number, until the daemon ends.
///
/// # Errors
/// No daemon has started this process.
pub fn sample_drives(
    daemon: i32,
    every: Duration,
    file: &Path,
    drives: Vec<PathBuf>,
) -> Result<(), Failure> {
    let wrong = || Failure::new(Exit::Usage, format!("{SAMPLE_DRIVES}: only a daemon starts this"));
    let pid = Pid::from_raw(daemon).ok_or_else(wrong)?;
    // The daemon's end, also of a later program in the same process.
    let parent = Parent(pidfd_open(pid, PidfdFlags::empty()).map_err(|_| wrong())?);
    if getppid() != Some(pid) {
        return Err(wrong());
    }
    // Ctrl-C in the daemon's terminal is the daemon's; this process ends after it.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"od-drives");
    let _ = setpriority_process(None, NICE);
    // Where this is not permitted, the process has the rights of its daemon's start.
    let _ = rights::restrict_drive_sampler();
    let query = Query {
        smartctl: find("smartctl"),
        file: file.to_owned(),
        every_s: i64::try_from(every.as_secs()).unwrap_or(i64::MAX),
    };
    run(&parent, &query, every, drives);
    Ok(())
}

/// Samples the drives until the daemon ends.
fn run(parent: &Parent, query: &Query, every: Duration, mut drives: Vec<PathBuf>) {
    let mut reported = None;
    let mut next = every.min(FIRST);
    // Time for which a drive has been busy since the last samples of all.
    let mut waited = Duration::ZERO;
    let mut due = drives.clone();
    while parent.lives_for(Some(next)) {
        let mut busy = Vec::new();
        for drive in std::mem::take(&mut due) {
            match query.sample(&drive, now_s(), || parent.lives_for(Some(QUIET))) {
                Outcome::Recorded(note) => {
                    note.iter().for_each(|note| crate::tell!("overdrive: {note}"));
                    reported = None;
                }
                Outcome::Later => {}
                Outcome::Busy => busy.push(drive),
                Outcome::Never => drives.retain(|one| *one != drive),
                Outcome::Failed(why) => {
                    if reported.as_ref() != Some(&why) {
                        crate::tell!("overdrive: the health of drives is not recorded: {why}");
                        reported = Some(why);
                    }
                }
            }
        }
        if drives.is_empty() {
            // Its end belongs to the daemon's, which does not wait for it.
            parent.lives_for(None);
            return;
        }
        // A drive that is busy for the whole period is left out.
        if !busy.is_empty() && waited + BUSY < every {
            (due, next) = (busy, BUSY);
            waited += BUSY;
        } else {
            (due, next) = (drives.clone(), every - waited);
            waited = Duration::ZERO;
        }
    }
}

/// The daemon's process.
struct Parent(OwnedFd);

impl Parent {
    /// Waits for this time, or without end. Returns whether the daemon is still there.
    fn lives_for(&self, time: Option<Duration>) -> bool {
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        loop {
            let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut polled, time.as_ref()) {
                Ok(0) => return true,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return false,
            }
        }
    }
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Returns a program in PATH, or in the directories of administrators.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut all = std::env::split_paths(&path).chain(usual).map(|it| it.join(name));
    all.find(|candidate| candidate.is_file())
}
