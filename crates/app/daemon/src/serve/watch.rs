//! Reports events to the operator that clients see only as errors.

use super::captive::either;
use super::volume_service::VolumeService;
use crate::control::errors::BackingErrors;
use crate::control::statistics::Link;
use ring::Ring;
use std::rc::Rc;

/// Time between two checks, in nanoseconds.
const PERIOD_NS: u64 = 250_000_000;
/// Time between two reports of errors, in nanoseconds.
const ERRORS_PERIOD_NS: u64 = 1_000_000_000;
/// Pause after a holder could not be started, in nanoseconds.
const HOLDER_PAUSE_NS: u64 = 5_000_000_000;

/// Checks a volume periodically while it is served.
#[derive(Clone)]
pub(crate) struct Watch {
    ring: Ring,
    service: Rc<VolumeService>,
}

/// Events already reported.
#[derive(Default)]
struct ReportState {
    errors: BackingErrors,
    /// New errors are not reported before this time.
    errors_due_ns: u64,
    failed: bool,
    stalled: bool,
    damaged: bool,
    link_down: bool,
}

impl Watch {
    pub(crate) fn new(ring: &Ring, service: &Rc<VolumeService>) -> Watch {
        Watch { ring: ring.clone(), service: service.clone() }
    }

    /// Starts; it ends with the volume.
    pub(crate) fn start(self) {
        let (lane, keeping) = (self.ring.lane().clone(), self.clone());
        lane.spawn(async move { keeping.replace_dead_holders().await })
            .expect("a fresh lane has room");
        let exchanging = self.clone();
        lane.spawn(async move { exchanging.exchange_descriptors().await })
            .expect("a fresh lane has room");
        lane.spawn(async move { self.report().await }).expect("a fresh lane has room");
    }

    /// Reports stalls, errors and failures, until the volume ends.
    async fn report(self) {
        let lane = self.ring.lane();
        let name = &self.service.name;
        let mut reported = ReportState::default();
        loop {
            let seen = self.service.ended.seen();
            let stopped = self.service.has_ended();
            let link = self.service.link().unwrap_or_default();
            let is_link_down = link.is_down();
            if let Some(news) = reported.of_link(&link) {
                match is_link_down {
                    true => crate::complain!(volume = name, "overdrive: {name}: {news}"),
                    false => crate::tell!(volume = name, "overdrive: {name}: {news}"),
                }
            }
            // With `serve-clean`, a link that is down stalls the volume as well.
            let stalled = self.service.is_stalled() && !is_link_down;
            if stalled || is_link_down {
                // A freeze that waits for changes to end then checks whether to give up.
                self.service.volume.valve().nudge();
            }
            match reported.of_stall(stalled) {
                Some(news) if stalled => {
                    crate::complain!(volume = name, "overdrive: {name}: {news}")
                }
                Some(news) => crate::tell!(volume = name, "overdrive: {name}: {news}"),
                None => {}
            }
            let failed = self.service.shared().is_some_and(|shared| shared.has_failed());
            let retried = self.service.shared().is_some() && !failed;
            let errors = self.service.errors();
            if let Some(news) = reported.of_errors(errors, retried, lane.now(), stopped) {
                crate::complain!(volume = name, "overdrive: {name}: {news}");
                self.report_damage(&mut reported);
            }
            match reported.of_failure(failed) {
                Some(news) if failed => {
                    crate::complain!(volume = name, "overdrive: {name}: {news}")
                }
                Some(news) => crate::tell!(volume = name, "overdrive: {name}: {news}"),
                None => {}
            }
            // Only now, so that the last events are reported as well.
            if stopped {
                return;
            }
            either(self.service.ended.after(seen), lane.sleep_until(lane.now() + PERIOD_NS)).await;
        }
    }

    /// Reports damage to the backing, which explains its errors, once.
    fn report_damage(&self, reported: &mut ReportState) {
        if let Some(damage) = self.service.volume.damage().filter(|_| !reported.damaged) {
            reported.damaged = true;
            let name = &self.service.name;
            crate::complain!(volume = name, "overdrive: {name}: {damage}");
        }
    }

    /// Gives new descriptors of the backing to the holder as soon as there are some.
    async fn exchange_descriptors(self) {
        let Some(retention) = self.service.volume.retention() else { return };
        let _exchanger = retention.serve();
        loop {
            let (seen, changed) = (self.service.ended.seen(), retention.changed().seen());
            if self.service.has_ended() {
                return;
            }
            if let Err(failure) = self.service.volume.keep_changed() {
                crate::complain!(
                    volume = &self.service.name,
                    "overdrive: {}: {failure}",
                    self.service.name
                );
            }
            either(self.service.ended.after(seen), retention.changed().after(changed)).await;
        }
    }

    /// Starts a new holder if the one that retains the volume's memory ends (C5).
    async fn replace_dead_holders(self) {
        let lane = self.ring.lane();
        loop {
            let seen = self.service.ended.seen();
            let is_over = || self.service.has_ended() || self.service.lane_volume.stop.is_asked();
            if is_over() {
                return;
            }
            let Some(socket) = self.service.volume.keeper_socket() else {
                self.service.ended.after(seen).await;
                continue;
            };
            either(self.ring.readable(&socket), self.service.ended.after(seen)).await;
            if is_over() {
                return;
            }
            // The answer to a request was readable.
            if self.service.volume.is_kept() {
                continue;
            }
            let name = &self.service.name;
            match self.service.volume.keep_again() {
                Ok(()) => {
                    crate::tell!(
                        volume = name,
                        "overdrive: {name}: its holder has ended; another one was started"
                    )
                }
                Err(failure) => {
                    crate::complain!(volume = name, "overdrive: {failure}; trying again");
                    let pause = lane.sleep_until(lane.now() + HOLDER_PAUSE_NS);
                    either(self.service.ended.after(seen), pause).await;
                }
            }
        }
    }
}

impl ReportState {
    /// Returns the sentence about a backing that does not answer, or that answers again, once.
    fn of_stall(&mut self, stalled: bool) -> Option<&'static str> {
        match (std::mem::replace(&mut self.stalled, stalled), stalled) {
            (false, true) => Some(
                "the backing has not answered for retry_time: requests that need it fail until \
                 it answers",
            ),
            (true, false) => Some("the backing answers again"),
            _ => None,
        }
    }

    /// Returns the sentence about a link that is down, or up again, once.
    fn of_link(&mut self, link: &Link) -> Option<String> {
        let is_down = link.is_down();
        match (std::mem::replace(&mut self.link_down, is_down), is_down) {
            (false, true) => Some(format!(
                "the link to the server of the backing is down: {}",
                link.consequence()
            )),
            (true, false) => Some(format!(
                "the link to the server of the backing is up again; in all it was down for {} \
                 (times: {})",
                crate::units::nanoseconds(link.down_ns),
                link.downs
            )),
            _ => None,
        }
    }

    /// Returns the sentence about a volume that has failed, once.
    fn of_failure(&mut self, failed: bool) -> Option<&'static str> {
        let was_failed = std::mem::replace(&mut self.failed, failed);
        (failed && !was_failed).then_some(
            "the volume has failed: the backing has refused changes for retry_time, or once where \
             memory had no copy to write again; writes and flushes fail from now on, reads \
             continue; repair the backing, then see 'overdrive volume clear-error --help'",
        )
    }

    /// Returns the sentence about errors that were not reported yet: at most one per period, and
    /// one at the end (`is_last`).
    fn of_errors(
        &mut self,
        errors: BackingErrors,
        retried: bool,
        now_ns: u64,
        is_last: bool,
    ) -> Option<String> {
        let new = errors.since(&self.errors);
        let is_due = is_last || self.errors_due_ns <= now_ns;
        if new.sum() == 0 || !is_due {
            return None;
        }
        (self.errors, self.errors_due_ns) = (errors, now_ns + ERRORS_PERIOD_NS);
        let fate = match new.has_changes() && retried {
            true => {
                "; data in memory stays there and is written again, requests made directly to \
                 the backing have failed"
            }
            false => "",
        };
        Some(format!("the backing has returned errors: {new} ({} in all){fate}", errors.sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_and_again_when_it_comes_again() {
        let mut reported = ReportState::default();
        assert_eq!(reported.of_failure(false), None);
        assert!(reported.of_failure(true).is_some_and(|news| news.contains("has failed")));
        assert_eq!(reported.of_failure(true), None, "it goes on");
        assert_eq!(reported.of_failure(false), None, "an operator has cleared it");
        assert!(reported.of_failure(true).is_some());
    }

    #[test]
    fn errors_are_reported_at_most_once_per_second_and_none_is_left_out() {
        const MS: u64 = 1_000_000;
        let mut reported = ReportState::default();
        let mut errors = BackingErrors::default();
        assert_eq!(reported.of_errors(errors, true, 0, false), None);
        errors.reads = 1;
        let first = reported.of_errors(errors, true, 10 * MS, false).expect("an error is news");
        assert_eq!(first, "the backing has returned errors: 1 read (1 in all)");
        (errors.writes, errors.flushes) = (4, 1);
        assert_eq!(reported.of_errors(errors, true, 900 * MS, false), None, "too early");
        let second = reported.of_errors(errors, true, 1010 * MS, false).expect("it is time");
        assert!(
            second.contains("4 writes, 1 flush (6 in all); data in memory stays there"),
            "{second}"
        );
        assert_eq!(reported.of_errors(errors, true, 5000 * MS, false), None, "nothing is new");
        errors.discards = 1;
        let third = reported.of_errors(errors, false, 5000 * MS, false).expect("an error is news");
        assert!(third.ends_with("1 discard (7 in all)"), "nothing is kept in memory: {third}");
        errors.zeroes = 1;
        let last = reported.of_errors(errors, false, 5001 * MS, true).expect("the volume ends");
        assert!(last.contains("1 write-zeroes (8 in all)"), "{last}");
    }
}
