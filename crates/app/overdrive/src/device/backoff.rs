//! Restarts of a daemon that has ended: when, and when not.

use stack::Exit;
use std::process::ExitStatus;
use std::time::Duration;

/// A daemon that lived this long was healthy.
const WELL: Duration = Duration::from_secs(10);
/// The pause before the second restart in a row. Each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause: well below the time for which requests wait.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Number of ends in a row with the same status, before anything was served, after which the daemon
/// is not restarted.
const REFUSALS_MAX: u32 = 5;

/// The end of a daemon.
pub(super) struct End {
    pub(super) status: ExitStatus,
    pub(super) lived: Duration,
    /// Whether it had served.
    pub(super) served: bool,
}

/// The step after the end of a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The daemon is restarted after this time.
    StartAfter(Duration),
    /// The daemon ended by itself, with this status.
    End(i32),
    /// The daemon refuses repeatedly, with this status.
    GiveUp(i32),
}

/// The ends of a device's daemons.
#[derive(Default)]
pub(super) struct Backoff {
    /// Ends in a row of daemons that did not live long.
    short_lives: u32,
    /// Ends in a row before anything was served, and their status.
    refusals: (u32, i32),
    /// Whether one of them has served.
    has_served: bool,
}

impl Backoff {
    /// Returns the next step. A signal never stops the restarts, because it came from outside. A
    /// daemon that served and then ended with a status was stopped, or has reported its failure;
    /// one that never served has reported the reason.
    pub(super) fn next(&mut self, end: &End) -> Next {
        self.has_served |= end.served;
        if let Some(code) = end.status.code() {
            if end.served || !self.has_served || code == 0 {
                return Next::End(code);
            }
            let (count, last) = self.refusals;
            self.refusals = match u8::try_from(code).is_ok_and(|code| Exit::of(code).is_lasting()) {
                true if last == code => (count + 1, code),
                _ => (1, code),
            };
            if self.refusals.0 == REFUSALS_MAX {
                return Next::GiveUp(code);
            }
        } else {
            self.refusals = (0, 0);
        }
        self.short_lives = if end.lived < WELL { self.short_lives + 1 } else { 1 };
        Next::StartAfter(pause_after(self.short_lives))
    }
}

/// Returns the pause after this many short lives in a row: none after the first.
fn pause_after(short_lives: u32) -> Duration {
    match short_lives {
        0 | 1 => Duration::ZERO,
        more => (PAUSE_MIN * (1 << (more - 2).min(16))).min(PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn killed(lived_s: u64) -> End {
        let status = ExitStatus::from_raw(9);
        End { status, lived: Duration::from_secs(lived_s), served: true }
    }

    fn ended(code: i32, served: bool) -> End {
        let status = ExitStatus::from_raw(code << 8);
        End { status, lived: Duration::from_millis(30), served }
    }

    #[test]
    fn kills_never_end_the_restarts_and_space_them_out() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..30)
            .map(|_| match backoff.next(&killed(1)) {
                Next::StartAfter(pause) => pause.as_millis() as u64,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(pauses[..6], [0, 100, 200, 400, 800, 1600]);
        assert_eq!(pauses[29], 10_000);
        assert_eq!(backoff.next(&killed(60)), Next::StartAfter(Duration::ZERO));
    }

    #[test]
    fn a_status_ends_it_where_it_served_or_never_has() {
        assert_eq!(Backoff::default().next(&ended(2, false)), Next::End(2));
        assert_eq!(Backoff::default().next(&ended(6, true)), Next::End(6));
        let mut backoff = Backoff::default();
        backoff.next(&killed(1));
        assert_eq!(backoff.next(&ended(0, false)), Next::End(0));
    }

    #[test]
    fn a_refusal_that_repeats_ends_it_and_others_do_not() {
        let mut backoff = Backoff::default();
        backoff.next(&killed(20));
        for code in [5, 5, 5, 5, 6, 5, 5, 5, 5] {
            assert!(matches!(backoff.next(&ended(code, false)), Next::StartAfter(_)), "{code}");
        }
        backoff.next(&killed(1));
        for _ in 0..4 {
            assert!(matches!(backoff.next(&ended(5, false)), Next::StartAfter(_)));
        }
        assert_eq!(backoff.next(&ended(5, false)), Next::GiveUp(5));
    }

    #[test]
    fn a_server_that_cannot_be_reached_for_a_while_ends_no_restarts() {
        let mut backoff = Backoff::default();
        backoff.next(&killed(20));
        for code in [3, 6] {
            let steps = (0..100).map(|_| backoff.next(&ended(code, false)));
            assert!(steps.into_iter().all(|step| matches!(step, Next::StartAfter(_))), "{code}");
        }
    }
}
