//! The life of the process that maps files. A thread waits for its end, and the lane ends it when
//! it is no longer wanted, or has made no progress for long.

use lane::{Event, Lane, first};
use rustix::process::{Signal, pidfd_send_signal};
use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Longest time without progress, in nanoseconds. A process of the lowest priority that shares its
/// processor with others needs most of it to sort a large map.
const STUCK_NS: u64 = 60_000_000_000;

/// Reason why the daemon has ended the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Its volume is no longer served, or its map is no longer wanted.
    Unwanted,
    /// It has made no progress.
    Stuck,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Unwanted => f.write_str("its process was ended, because no map is wanted"),
            Ended::Stuck => write!(
                f,
                "its process has made no progress for {} s and was ended; another one is started \
                 later",
                STUCK_NS / 1_000_000_000
            ),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Whether the process may run: from before its start until it was waited for.
    is_open: bool,
    /// The process, once it runs.
    process: Option<OwnedFd>,
    ended: Option<Ended>,
}

/// The life of one process.
#[derive(Debug, Default)]
pub(crate) struct Life {
    state: Mutex<State>,
    /// Signalled when the process was waited for.
    over: Event,
}

impl Life {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reason why the daemon has ended the process, or will not let it start.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.state().ended
    }

    /// Whether the process runs.
    pub(crate) fn is_running(&self) -> bool {
        self.state().process.is_some()
    }

    /// Opens the life before the process is started. Returns the reason if it must not start.
    pub(super) fn open(&self) -> Result<(), Ended> {
        let mut state = self.state();
        state.is_open = state.ended.is_none();
        state.ended.map_or(Ok(()), Err)
    }

    /// Begins with the process that was started just now.
    pub(super) fn begin(&self, process: OwnedFd) {
        let mut state = self.state();
        if state.ended.is_some() {
            kill(&process);
        }
        state.process = Some(process);
    }

    /// Notes that the process was waited for, or did not start.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        (state.is_open, state.process) = (false, None);
        drop(state);
        self.over.notify();
    }

    /// Ends the process, also one that has not begun yet.
    pub(crate) fn end(&self, why: Ended) {
        let mut state = self.state();
        state.ended.get_or_insert(why);
        state.process.iter().for_each(kill);
    }

    /// Waits until no process runs.
    pub(crate) async fn over(&self) {
        loop {
            let seen = self.over.seen();
            if !self.state().is_open {
                return;
            }
            self.over.after(seen).await;
        }
    }

    /// Ends the process once it is not wanted, or has made no progress for long. `progressed_ns` is
    /// the time of its last progress; `changed` is signalled when it may not be wanted any more.
    pub(crate) async fn guard(
        &self,
        lane: &Lane,
        changed: &Event,
        is_wanted: impl Fn() -> bool,
        progressed_ns: &Cell<u64>,
    ) -> Infallible {
        let mut begun_ns = lane.now();
        let mut was_running = false;
        loop {
            let seen = changed.seen();
            let is_running = self.is_running();
            // It may still wait for the map of another volume, or have begun since the last look.
            if !is_running || !was_running {
                begun_ns = lane.now();
            }
            was_running = is_running;
            let mut due_ns = progressed_ns.get().max(begun_ns).saturating_add(STUCK_NS);
            match () {
                () if !is_wanted() => self.end(Ended::Unwanted),
                () if is_running && lane.now() >= due_ns => self.end(Ended::Stuck),
                () => {}
            }
            if lane.now() >= due_ns {
                due_ns = lane.now().saturating_add(STUCK_NS);
            }
            first(changed.after(seen), lane.sleep_until(due_ns)).await;
        }
    }
}

/// Kills a process, also one that is stopped. The thread that waits for it notices.
fn kill(process: &OwnedFd) {
    // It may have ended just now.
    let _ = pidfd_send_signal(process, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::{Prices, World};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};
    use std::rc::Rc;

    /// Starts a process that ends with its input, which stays open.
    fn start() -> (Child, OwnedFd) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a program");
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("it was not waited for");
        (child, pidfd)
    }

    /// The guard of a process in virtual time.
    struct Guarded {
        world: World,
        lane: Lane,
        life: Rc<Life>,
        changed: Rc<Event>,
        is_wanted: Rc<Cell<bool>>,
        progressed_ns: Rc<Cell<u64>>,
    }

    impl Guarded {
        fn new() -> Guarded {
            let mut world = World::timed(Prices::default());
            let lane = world.lane();
            let guarded = Guarded {
                world,
                lane: lane.clone(),
                life: Rc::default(),
                changed: Rc::default(),
                is_wanted: Rc::new(Cell::new(true)),
                progressed_ns: Rc::default(),
            };
            let (life, changed) = (guarded.life.clone(), guarded.changed.clone());
            let (is_wanted, progressed) =
                (guarded.is_wanted.clone(), guarded.progressed_ns.clone());
            let work = async move {
                life.guard(&lane, &changed, || is_wanted.get(), &progressed).await;
            };
            guarded.lane.spawn(work).expect("a fresh lane has room");
            guarded
        }

        fn pass_s(&mut self, seconds: u64) {
            let (lane, done) = (self.lane.clone(), Rc::new(Cell::new(false)));
            let (until_ns, ends) = (lane.now() + seconds * 1_000_000_000, done.clone());
            let waiting = async move {
                lane.sleep_until(until_ns).await;
                ends.set(true);
            };
            self.lane.spawn(waiting).expect("room");
            assert!(self.world.run_until(|| done.get()));
        }
    }

    fn is_killed(mut child: Child) -> bool {
        // Keeps its input open until it was killed.
        let input = child.stdin.take();
        let status = child.wait().expect("it was not waited for");
        drop(input);
        status.signal() == Some(9)
    }

    #[test]
    fn a_process_without_progress_is_ended_even_if_it_is_stopped() {
        let mut guarded = Guarded::new();
        // As long as the process does not run, another one has its turn.
        guarded.pass_s(300);
        let (child, process) = start();
        pidfd_send_signal(&process, Signal::STOP).expect("it runs");
        guarded.life.begin(process);
        for _ in 0..10 {
            guarded.progressed_ns.set(guarded.lane.now());
            guarded.pass_s(59);
        }
        assert_eq!(guarded.life.ended(), None, "it makes progress");
        guarded.pass_s(62);
        assert_eq!(guarded.life.ended(), Some(Ended::Stuck));
        assert!(is_killed(child));
        guarded.life.finish();
        assert!(!guarded.life.is_running());
    }

    #[test]
    fn a_process_that_is_not_wanted_is_ended_immediately_or_when_it_begins() {
        for is_late in [false, true] {
            let mut guarded = Guarded::new();
            let (child, process) = start();
            let mut process = Some(process);
            if !is_late {
                process.take().into_iter().for_each(|process| guarded.life.begin(process));
            }
            guarded.is_wanted.set(false);
            guarded.changed.notify();
            guarded.pass_s(1);
            assert_eq!(guarded.life.ended(), Some(Ended::Unwanted));
            process.into_iter().for_each(|process| guarded.life.begin(process));
            assert!(is_killed(child));
        }
    }
}
