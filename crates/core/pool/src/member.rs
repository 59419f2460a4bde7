//! One member, as seen by the pool's decisions: its free places, its queue, its wear.

use crate::bits::Bits;

/// Wear that weighs as much as one request in flight, in slots: 256 KiB.
const SLOTS_A_REQUEST: u64 = 64;
/// A difference of wear weighs at most as much as this number of requests plus a quarter of the
/// queue: beyond that the queue decides, and a slow member gets less.
const REQUESTS_MAX: u64 = 2;
/// Maximum difference of wear from an earlier life that is compensated, in slots: 4 MiB.
const CATCH_UP_SLOTS: u64 = 1024;
/// Minimum run of old places that is discarded: 64 KiB. Shorter runs are soon reused.
pub(crate) const TRIM_SLOTS: u32 = 16;
/// Number of runs that are tried to find one that is long enough.
const RUNS_TRIED: usize = 8;
/// Minimum number of requests for a latency estimate.
const LATENCY_REQUESTS: u64 = 64;

/// State of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// Works as well as the others.
    Good,
    /// Its requests take at least three times as long as the fastest member's.
    Slow,
    /// A write or a flush has failed: it gets no more of them until the pool is opened again. Its
    /// data is read as long as it answers.
    Failed,
}

/// Statistics of a member. Counted since the pool was opened, except for the wear.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemberStatistics {
    /// Completed reads, counting each piece of a request.
    pub reads: u64,
    /// Completed writes of data.
    pub writes: u64,
    /// Runs of places that were discarded.
    pub trims: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Bytes of data written since the pool was created (after a crash, as of the last commit).
    pub written_bytes: u64,
    /// Reads and writes in flight.
    pub in_flight: u32,
    /// Moving mean of the time of a request, in nanoseconds.
    pub latency_ns: u64,
    /// Bytes free for data, without places that wait for a commit.
    pub free_bytes: u64,
    /// State of the member.
    pub state: MemberState,
}

/// Consecutive places on a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Run {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

pub(crate) struct Member {
    /// Places for new data.
    pub(crate) free: Bits,
    /// Places whose successors are durable, but that reads may still use.
    pub(crate) waiting: Bits,
    /// Same, and no read uses them any more.
    pub(crate) ready: Bits,
    /// Places that a client has discarded: sent to the device as discards even if they are few.
    pub(crate) discarded: Bits,
    cursor: u32,
    size: u32,
    pub(crate) in_flight: u32,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) trims: u64,
    pub(crate) errors: u64,
    /// Slots written since the pool was created.
    pub(crate) written: u64,
    /// Same, without the differences that are not compensated any more.
    wear: u64,
    pub(crate) latency_ns: u64,
    pub(crate) failed: bool,
    /// Whether discards have an effect there.
    pub(crate) can_trim: bool,
    /// Whether data was written that no flush has covered.
    pub(crate) unflushed: bool,
}

impl Member {
    /// A member with `size` places, none of them free.
    pub(crate) fn new(size: u32) -> Member {
        let [free, waiting, ready, discarded] = [(); 4].map(|()| Bits::new(size));
        Member {
            free,
            waiting,
            ready,
            discarded,
            cursor: 0,
            size,
            in_flight: 0,
            reads: 0,
            writes: 0,
            trims: 0,
            errors: 0,
            written: 0,
            wear: 0,
            latency_ns: 0,
            failed: false,
            can_trim: false,
            unflushed: false,
        }
    }

    /// Takes a run of at most `want` free places: the lowest, or for long requests a long one. (The
    /// lowest, so that data stays together, and the device treats the rest as unused.)
    pub(crate) fn take(&mut self, want: u32) -> Option<Run> {
        let mut from = if want >= TRIM_SLOTS { self.cursor } else { 0 };
        let mut best = Run::default();
        for _ in 0..RUNS_TRIED {
            let Some(first) = self.free.next(from).or_else(|| self.free.next(0)) else { break };
            let count = self.free.run(first, want);
            if count > best.count {
                best = Run { first, count };
            }
            if count == want {
                break;
            }
            from = first + count;
        }
        if best.count == 0 {
            return None;
        }
        (best.first..best.first + best.count).for_each(|place| _ = self.free.clear(place));
        if want >= TRIM_SLOTS {
            self.cursor = best.first + best.count;
        }
        Some(best)
    }

    pub(crate) fn count_write(&mut self, slots: u32) {
        self.writes += 1;
        self.written += u64::from(slots);
        self.wear += u64::from(slots);
        self.unflushed = true;
    }

    pub(crate) fn end_request(&mut self, took_ns: u64) {
        self.in_flight -= 1;
        self.latency_ns = match self.latency_ns {
            0 => took_ns,
            mean => mean - mean / 32 + took_ns / 32,
        };
    }

    /// Wear in slots, scaled to the size of the largest member.
    fn wear_by_size(&self, largest: u32) -> u64 {
        let wear = u128::from(self.wear) * u128::from(largest) / u128::from(self.size.max(1));
        u64::try_from(wear).unwrap_or(u64::MAX)
    }

    fn may_write(&self) -> bool {
        !self.failed && self.free.count() > 0
    }

    fn is_slow(&self, fastest_ns: u64) -> bool {
        self.reads + self.writes >= LATENCY_REQUESTS && self.latency_ns / 3 >= fastest_ns.max(1)
    }

    pub(crate) fn statistics(&self, slot_bytes: u64, fastest_ns: u64) -> MemberStatistics {
        MemberStatistics {
            reads: self.reads,
            writes: self.writes,
            trims: self.trims,
            errors: self.errors,
            written_bytes: self.written * slot_bytes,
            in_flight: self.in_flight,
            latency_ns: self.latency_ns,
            free_bytes: u64::from(self.free.count()) * slot_bytes,
            state: match (self.failed, self.is_slow(fastest_ns)) {
                (true, _) => MemberState::Failed,
                (false, true) => MemberState::Slow,
                (false, false) => MemberState::Good,
            },
        }
    }
}

/// Returns the latency of the fastest member, in nanoseconds.
pub(crate) fn fastest_ns(members: &[Member]) -> u64 {
    let known = members.iter().filter(|member| member.reads + member.writes >= LATENCY_REQUESTS);
    known.map(|member| member.latency_ns).min().unwrap_or(u64::MAX)
}

/// Sets the wear that counts, from the bytes written in earlier lives.
pub(crate) fn settle_wear(members: &mut [Member]) {
    let least = members.iter().map(|member| member.written).min().unwrap_or(0);
    for member in members {
        member.wear = (member.written - least).min(CATCH_UP_SLOTS);
    }
}

/// Returns the member for the next write: the one with the fewest requests in flight, where more
/// wear counts as more requests. None: no member has a free place.
pub(crate) fn choose(members: &[Member]) -> Option<usize> {
    let largest = members.iter().map(|member| member.size).max()?;
    let usable = || members.iter().enumerate().filter(|(_, member)| member.may_write());
    let least = usable().map(|(_, member)| member.wear_by_size(largest)).min()?;
    let shortest = usable().map(|(_, member)| u64::from(member.in_flight)).min()?;
    let most = (REQUESTS_MAX + shortest / 4) * SLOTS_A_REQUEST;
    let weight = |member: &Member| {
        let ahead = member.wear_by_size(largest) - least;
        (u64::from(member.in_flight) * SLOTS_A_REQUEST + ahead.min(most), ahead)
    };
    usable().min_by_key(|(_, member)| weight(member)).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn members(count: usize, places: u32) -> Vec<Member> {
        let mut members: Vec<Member> = (0..count).map(|_| Member::new(places)).collect();
        for member in &mut members {
            (0..places).for_each(|place| _ = member.free.set(place));
        }
        members
    }

    #[test]
    fn the_shortest_queue_is_chosen_and_wear_breaks_ties() {
        let mut members = members(3, 64);
        (members[0].in_flight, members[1].in_flight, members[2].in_flight) = (2, 1, 1);
        members[1].wear = 3;
        assert_eq!(choose(&members), Some(2));
        members[2].wear = 4;
        assert_eq!(choose(&members), Some(1));
        members[1].failed = true;
        members[2].free = Bits::new(64);
        assert_eq!(choose(&members), Some(0));
        members[0].failed = true;
        assert_eq!(choose(&members), None);
    }

    #[test]
    fn much_wear_weighs_as_a_queue_but_never_closes_a_member() {
        let mut members = members(2, 64);
        members[0].wear = 2 * SLOTS_A_REQUEST;
        members[1].in_flight = 1;
        assert_eq!(choose(&members), Some(1), "the one in flight weighs less than the wear");
        members[0].wear = 1 << 40;
        members[1].in_flight = 3;
        assert_eq!(choose(&members), Some(0), "but three do not");
    }

    #[test]
    fn members_wear_in_proportion_to_their_sizes() {
        let mut members = members(2, 64);
        members[1] = self::members(1, 32).remove(0);
        for _ in 0..300 {
            let chosen = choose(&members).expect("free places");
            members[chosen].count_write(1);
        }
        assert_eq!((members[0].written, members[1].written), (200, 100));
    }

    #[test]
    fn short_runs_come_from_the_start_and_long_ones_in_one_piece() {
        let mut member = members(1, 256).remove(0);
        (1..40).step_by(2).for_each(|place| _ = member.free.clear(place));
        assert_eq!(member.take(1), Some(Run { first: 0, count: 1 }));
        assert_eq!(member.take(2), Some(Run { first: 2, count: 1 }), "what is there");
        assert_eq!(member.take(32).map(|run| run.count), Some(1), "too many holes on the way");
        member.cursor = 39;
        assert_eq!(member.take(32), Some(Run { first: 40, count: 32 }));
        assert_eq!(member.take(32), Some(Run { first: 72, count: 32 }));
    }
}
