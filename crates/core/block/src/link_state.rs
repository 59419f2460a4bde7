//! The link of a device to its server: whether it is down, and how the device's users handle that.
//!
//! ```text
//!   a connection ends, or an attempt to connect fails   lost   down for a second: the link is down
//!   an attempt to connect succeeds                      up
//! ```

use crate::settings::LinkDown;
use lane::Event;
use lane::atomic::{AtomicU8, AtomicU64, Ordering};

/// Time without a connection before a link counts as down: the restart of a server takes less.
pub const LINK_GRACE_NS: u64 = 1_000_000_000;

/// The state of a link, which all lanes share.
#[derive(Default, Debug)]
pub struct LinkState {
    /// When the link was lost, plus one; 0: it is up.
    lost: AtomicU64,
    /// Times that the link has been down, without the present one.
    downs: AtomicU64,
    /// Sum of these times.
    down_ns: AtomicU64,
    /// Number of times that it was up again, also after losses that were shorter.
    returns: AtomicU64,
    /// When it was up again for the last time, or a hold that follows a loss has ended.
    counts_from_ns: AtomicU64,
    policy: AtomicU8,
    notice_ns: u64,
    changed: Event,
}

/// A link at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkReport {
    /// Time since its loss, if it is down; 0: it is up.
    pub down_since_ns: u64,
    /// Number of times that it has been down, with the present one.
    pub downs: u64,
    /// Time that it has been down in all.
    pub down_ns: u64,
}

impl LinkReport {
    /// Whether the link is down.
    pub fn is_down(&self) -> bool {
        self.down_since_ns > 0
    }
}

impl LinkState {
    /// A link that is up. `notice_ns`: time after which a cut is noticed at the latest, while
    /// requests are in flight.
    pub fn new(notice_ns: u64) -> LinkState {
        LinkState { notice_ns, ..LinkState::default() }
    }

    /// Notes that a connection has ended, or that an attempt to connect has failed.
    pub fn note_lost(&self, now_ns: u64) {
        let new = now_ns.saturating_add(1);
        if self.lost.compare_exchange(0, new, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.changed.notify();
        }
    }

    /// Notes that an attempt to connect has succeeded.
    pub fn note_up(&self, now_ns: u64) {
        // Before the link counts as up: an error in between would count from an earlier return.
        if self.lost_ns().is_some() {
            self.counts_from_ns.fetch_max(now_ns, Ordering::SeqCst);
            self.returns.fetch_add(1, Ordering::SeqCst);
        }
        let lost = self.lost.swap(0, Ordering::SeqCst);
        if lost == 0 {
            return;
        }
        let took_ns = now_ns.saturating_sub(lost - 1);
        if took_ns >= LINK_GRACE_NS {
            self.downs.fetch_add(1, Ordering::Relaxed);
            self.down_ns.fetch_add(took_ns, Ordering::Relaxed);
        }
        self.changed.notify();
    }

    /// Notes that a change was held back until now because a connection had ended (C15).
    pub fn note_hold(&self, now_ns: u64) {
        self.counts_from_ns.fetch_max(now_ns, Ordering::SeqCst);
    }

    /// Returns the time of the loss, if the link is not up.
    pub fn lost_ns(&self) -> Option<u64> {
        self.lost.load(Ordering::SeqCst).checked_sub(1)
    }

    /// Returns a number that grows whenever the link is up again: a loss can end before a user of
    /// the link has noticed it.
    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::SeqCst)
    }

    /// Returns its state at `now_ns`.
    pub fn report(&self, now_ns: u64) -> LinkReport {
        let lost_for_ns = self.lost_ns().map_or(0, |lost_ns| now_ns.saturating_sub(lost_ns));
        let down_since_ns = if lost_for_ns >= LINK_GRACE_NS { lost_for_ns } else { 0 };
        LinkReport {
            down_since_ns,
            downs: self.downs.load(Ordering::Relaxed) + u64::from(down_since_ns > 0),
            down_ns: self.down_ns.load(Ordering::Relaxed) + down_since_ns,
        }
    }

    /// Whether requests that need the link, and changes, get errors at `now_ns`.
    pub fn refuses(&self, now_ns: u64) -> bool {
        self.policy() == LinkDown::ServeClean && self.report(now_ns).is_down()
    }

    /// Returns the time before which errors of the device do not count, because the link was lost,
    /// or a change was held afterwards. While the link is lost, that time is not over.
    pub fn errors_count_from_ns(&self) -> u64 {
        match self.policy() {
            LinkDown::Fail => 0,
            _ if self.lost_ns().is_some() => u64::MAX,
            _ => self.counts_from_ns.load(Ordering::SeqCst),
        }
    }

    /// Returns how the present users of the device handle a link that is down.
    pub fn policy(&self) -> LinkDown {
        LinkDown::ALL[usize::from(self.policy.load(Ordering::Relaxed))]
    }

    /// Changes the policy.
    pub fn set_policy(&self, policy: LinkDown) {
        let index = LinkDown::ALL.iter().position(|other| *other == policy).unwrap_or_default();
        self.policy.store(index as u8, Ordering::Relaxed);
        self.changed.notify();
    }

    /// Returns the time for which a watchdog must not count an unanswered request: all of it while
    /// the link is lost, and the time that the loss of a link needs to be noticed.
    pub fn held_ns(&self) -> u64 {
        match (self.policy(), self.lost_ns()) {
            (LinkDown::Fail, _) => 0,
            (_, Some(_)) => u64::MAX,
            (_, None) => self.notice_ns,
        }
    }

    /// Notified when the link is lost or up again, and when the policy changes.
    pub fn changed(&self) -> &Event {
        &self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = LINK_GRACE_NS;

    #[test]
    fn errors_do_not_count_while_the_link_is_lost() {
        let link = LinkState::new(7);
        link.set_policy(LinkDown::Wait);
        assert_eq!(link.errors_count_from_ns(), 0);
        link.note_lost(S);
        assert_eq!(link.errors_count_from_ns(), u64::MAX);
        link.note_up(3 * S);
        assert_eq!(link.errors_count_from_ns(), 3 * S);
        link.note_hold(5 * S);
        link.note_hold(4 * S);
        assert_eq!(link.errors_count_from_ns(), 5 * S, "a hold follows from the loss");
        link.set_policy(LinkDown::Fail);
        assert_eq!(link.errors_count_from_ns(), 0);
    }

    #[test]
    fn a_link_is_down_after_a_second_and_only_then_counted() {
        let link = LinkState::new(7);
        assert_eq!(link.report(S), LinkReport::default());
        link.note_lost(0);
        link.note_lost(S / 2);
        assert!(!link.report(S - 1).is_down(), "the server may just restart");
        let down = LinkReport { down_since_ns: S, downs: 1, down_ns: S };
        assert_eq!(link.report(S), down, "the first loss counts");
        link.note_up(3 * S);
        let up = LinkReport { down_since_ns: 0, downs: 1, down_ns: 3 * S };
        assert_eq!(link.report(9 * S), up);
        link.note_up(3 * S);
        assert_eq!(link.returns(), 1, "it was up already");
        link.note_lost(4 * S);
        link.note_up(5 * S - 1);
        link.note_up(8 * S);
        assert_eq!(link.report(9 * S), up, "that was too short");
    }

    #[test]
    fn a_watchdog_waits_for_a_lost_link_unless_the_policy_is_to_fail() {
        let link = LinkState::new(7);
        assert_eq!((link.policy(), link.held_ns()), (LinkDown::Fail, 0));
        link.note_lost(1);
        assert_eq!(link.held_ns(), 0);
        for policy in [LinkDown::Wait, LinkDown::ServeClean] {
            link.set_policy(policy);
            assert_eq!((link.policy(), link.held_ns()), (policy, u64::MAX));
            link.note_up(2);
            assert_eq!(link.held_ns(), 7);
            link.note_lost(3);
        }
    }
}
