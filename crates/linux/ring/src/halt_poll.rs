//! The time that a lane polls before it sleeps. It grows and shrinks with the previous waits, as in
//! KVM for halted processors.
//!
//! A short wait during which the lane slept grows the limit; a wait that is too long for any poll
//! shrinks it. In addition, polling must have a benefit: for clients that send requests at their
//! own times, it takes processor time without making them faster. So polling begins with a trial,
//! and continues only while requests follow the answers sooner than when the lane slept. Polls
//! without a result are limited by a budget.
//!
//! A wait is the time from an answer to the next request. The time from a request to its answer is
//! no part of it: polling does not change it, and some answers come from a slow device. Its mean
//! only decides whether shorter waits make the client noticeably faster.
//!
//! No clock and no system call here. Source: the kernel's Documentation/virt/kvm/halt-polling.rst,
//! and `grow_halt_poll_ns` and `shrink_halt_poll_ns` in virt/kvm/kvm_main.c.

/// Maximum time of a poll, in nanoseconds.
pub(crate) const LIMIT_MAX_NS: u64 = 50_000;
/// Initial limit, and the minimum after shrinking, in nanoseconds.
const LIMIT_START_NS: u64 = 10_000;
/// Maximum wait for polling, in nanoseconds. If both the client and the lane sleep, a wait contains
/// two wake-ups, of up to 75 us each on virtual processors; polling could shorten only the rest.
const WAIT_MAX_NS: u64 = 200_000;
/// Number of requests of a trial, and of the measurement that it is compared with.
const TRIAL: u32 = 32;
/// Maximum number of slower requests in between, which are not counted: on a shared machine, nearly
/// always one of 32 consecutive requests has to wait for a processor.
const SLOW_MAX: u32 = TRIAL / 4;
/// Number of consecutive slow requests that ends polling.
const SLOW_IN_A_ROW_MAX: u32 = 3;
/// Minimum gain for polling: this part of the interval between requests while the lane slept.
const GAIN_PART: u64 = 8;
/// Number of requests over which the time from request to answer is averaged.
const SERVICE_REQUESTS: u64 = 64;
/// Longer service counts as this long, so that one stall does not prevent polling for seconds; in
/// nanoseconds.
const SERVICE_MAX_NS: u64 = 1_000_000;
/// Minimum sleep after a failed trial, doubled each time; in nanoseconds.
const PAUSE_MIN_NS: u64 = 20_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;
/// Polling time between two comparisons with sleeping, in nanoseconds.
const SPELL_NS: u64 = 1_000_000_000;
/// Maximum share of a lane's time for polls without a result: one in this number of nanoseconds.
const BUDGET_PART: u64 = 50;
/// Maximum unused budget, in nanoseconds.
const BUDGET_MAX_NS: u64 = 2_000_000;

/// The arrival of a request after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Time of arrival.
    pub(crate) now_ns: u64,
    /// Time of the answer to the request before.
    pub(crate) answered_ns: u64,
    /// Part of the wait that was spent polling.
    pub(crate) polled_ns: u64,
    /// Whether the lane has slept.
    pub(crate) has_slept: bool,
    /// Whether the client sends each request only after the answer to the one before, and no other
    /// client has sent any since.
    pub(crate) is_alone: bool,
}

/// A token bucket: polls without a result take from it, time fills it.
#[derive(Debug)]
struct Budget {
    left_ns: u64,
    filled_ns: u64,
}

impl Budget {
    fn fill(&mut self, now_ns: u64) {
        let due = now_ns.saturating_sub(self.filled_ns) / BUDGET_PART;
        if due > 0 {
            self.left_ns = (self.left_ns + due).min(BUDGET_MAX_NS);
            self.filled_ns = now_ns;
        }
    }

    fn take(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(ns);
    }
}

/// The state of one lane.
#[derive(Debug)]
pub(crate) struct HaltPoll {
    /// Current time of a poll; 0: sleep immediately.
    limit_ns: u64,
    /// Arrival of the previous request.
    before_ns: u64,
    /// Requests of the current trial or measurement, and the sum of the waits for them.
    requests: u32,
    sum_ns: u64,
    /// Slow requests that were not counted, in total and in a row.
    slow: u32,
    slow_in_a_row: u32,
    /// The mean wait while the lane slept.
    slept_ns: u64,
    /// The moving mean of the time from request to answer, times [`SERVICE_REQUESTS`].
    service_sum_ns: u64,
    /// The initial limit of the next trial.
    start_ns: u64,
    /// Start of the current spell of polling.
    began_ns: u64,
    /// Time polled in this trial.
    polled_ns: u64,
    /// Earliest time of the next trial, and the pause after the next failure.
    not_before_ns: u64,
    pause_ns: u64,
    budget: Budget,
}

impl Default for HaltPoll {
    fn default() -> HaltPoll {
        HaltPoll {
            limit_ns: 0,
            before_ns: 0,
            requests: 0,
            sum_ns: 0,
            slow: 0,
            slow_in_a_row: 0,
            slept_ns: 0,
            service_sum_ns: 0,
            start_ns: LIMIT_START_NS,
            began_ns: 0,
            polled_ns: 0,
            not_before_ns: 0,
            pause_ns: PAUSE_MIN_NS,
            budget: Budget { left_ns: BUDGET_MAX_NS, filled_ns: 0 },
        }
    }
}

impl HaltPoll {
    /// Returns the time to poll before sleeping, in nanoseconds.
    pub(crate) fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    /// Returns the number of waits counted in the current trial or measurement.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> u32 {
        self.requests
    }

    /// Records the arrival of a request. Returns true if a trial is due, for which
    /// [`HaltPoll::begin`] may be called.
    pub(crate) fn record_arrival(&mut self, arrival: &Arrival) -> bool {
        let wait_ns = arrival.now_ns.saturating_sub(arrival.answered_ns);
        if arrival.is_alone {
            let service_ns = arrival.answered_ns.saturating_sub(self.before_ns);
            self.service_sum_ns -= self.service_sum_ns / SERVICE_REQUESTS;
            self.service_sum_ns += service_ns.min(SERVICE_MAX_NS);
        }
        self.before_ns = arrival.now_ns;
        self.budget.fill(arrival.now_ns);
        match self.limit_ns {
            0 => self.record_after_sleep(arrival, wait_ns),
            _ => {
                self.record_while_polling(arrival, wait_ns);
                false
            }
        }
    }

    /// Whether waits that are shorter by this much make the client noticeably faster.
    fn is_worth(&self, gain_ns: u64) -> bool {
        let period_ns = self.slept_ns + self.service_sum_ns / SERVICE_REQUESTS;
        gain_ns * GAIN_PART >= period_ns
    }

    fn restart(&mut self) {
        (self.requests, self.sum_ns, self.polled_ns) = (0, 0, 0);
        (self.slow, self.slow_in_a_row) = (0, 0);
    }

    /// Counts a wait, unless it is too long.
    fn count(&mut self, wait_ns: u64) {
        if wait_ns > WAIT_MAX_NS {
            self.slow += 1;
            self.slow_in_a_row += 1;
        } else {
            self.slow_in_a_row = 0;
            self.requests += 1;
            self.sum_ns += wait_ns;
        }
    }

    /// Measures the mean wait for consecutive requests, with which a trial is compared.
    fn record_after_sleep(&mut self, arrival: &Arrival, wait_ns: u64) -> bool {
        self.count(wait_ns);
        if !arrival.is_alone || self.slow > SLOW_MAX {
            self.restart();
            return false;
        }
        if self.requests < TRIAL {
            return false;
        }
        self.slept_ns = self.sum_ns / u64::from(self.requests);
        self.restart();
        let may_try = arrival.now_ns >= self.not_before_ns && self.is_worth(self.slept_ns);
        may_try && self.budget.left_ns >= 2 * LIMIT_MAX_NS
    }

    /// Starts polling.
    pub(crate) fn begin(&mut self) {
        (self.limit_ns, self.began_ns) = (self.start_ns, self.before_ns);
        self.restart();
    }

    /// Stops polling. A new trial may begin soon, as there was no failure.
    pub(crate) fn end(&mut self) {
        self.limit_ns = 0;
        self.restart();
    }

    /// Stops polling, for longer than after the previous failure.
    pub(crate) fn fail(&mut self) {
        // All polls count against the budget: even those with a result had no benefit.
        self.budget.take(self.polled_ns);
        self.not_before_ns = self.before_ns + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(PAUSE_MAX_NS);
        self.start_ns = LIMIT_START_NS;
        self.end();
    }

    fn record_while_polling(&mut self, arrival: &Arrival, wait_ns: u64) {
        if arrival.has_slept {
            self.budget.take(arrival.polled_ns);
        } else {
            self.polled_ns += arrival.polled_ns;
        }
        if !arrival.is_alone {
            return self.end();
        }
        if arrival.has_slept && arrival.polled_ns == 0 {
            // Another lane had the permit, or a request was in flight when the wait began.
            return;
        }
        self.count(wait_ns);
        if arrival.has_slept {
            self.resize(wait_ns);
        }
        let is_too_slow = self.slow_in_a_row == SLOW_IN_A_ROW_MAX || self.slow > SLOW_MAX;
        if is_too_slow || self.budget.left_ns < LIMIT_MAX_NS {
            return self.fail();
        }
        self.judge();
    }

    /// Adjusts the limit after a poll without a result.
    fn resize(&mut self, wait_ns: u64) {
        if wait_ns <= WAIT_MAX_NS && self.limit_ns < LIMIT_MAX_NS {
            self.limit_ns = (2 * self.limit_ns).min(LIMIT_MAX_NS);
        } else {
            self.limit_ns = (self.limit_ns / 2).max(LIMIT_START_NS);
        }
    }

    /// Decides at the end of a trial whether polling has a benefit.
    fn judge(&mut self) {
        if self.requests < TRIAL {
            return;
        }
        let mean_ns = self.sum_ns / u64::from(self.requests);
        if !self.is_worth(self.slept_ns.saturating_sub(mean_ns)) {
            return self.fail();
        }
        self.pause_ns = PAUSE_MIN_NS;
        self.restart();
        if self.before_ns - self.began_ns >= SPELL_NS {
            // The next spell starts with the current limit.
            self.start_ns = self.limit_ns;
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane and a client, in virtual time.
    struct World {
        poll: HaltPoll,
        now_ns: u64,
        /// Time from the answer to the next request, and the additional time of a wake-up if the
        /// lane sleeps.
        gap_ns: u64,
        wake_ns: u64,
        /// Time from the previous request to its answer.
        service_ns: u64,
        /// Interval of a client that sends at its own times, in nanoseconds.
        own_time_ns: Option<u64>,
        spent_ns: u64,
        vain_ns: u64,
        may_poll: bool,
    }

    impl World {
        fn new(gap_ns: u64, wake_ns: u64) -> World {
            let now_ns = 1_000_000_000;
            World {
                poll: HaltPoll::default(),
                now_ns,
                gap_ns,
                wake_ns,
                service_ns: 0,
                own_time_ns: None,
                spent_ns: 0,
                vain_ns: 0,
                may_poll: true,
            }
        }

        /// Simulates one wait, and the request that ends it.
        fn step(&mut self, is_alone: bool) {
            let limit_ns = self.poll.limit_ns();
            self.now_ns += self.service_ns;
            let answered_ns = self.now_ns;
            let due = self.own_time_ns.map(|every| (self.now_ns / every + 1) * every - self.now_ns);
            let gap_ns = due.unwrap_or(self.gap_ns);
            let has_slept = gap_ns > limit_ns;
            let polled_ns = gap_ns.min(limit_ns);
            self.spent_ns += polled_ns;
            self.vain_ns += if has_slept { polled_ns } else { 0 };
            self.now_ns += gap_ns + if has_slept { self.wake_ns } else { 0 };
            let arrival =
                Arrival { now_ns: self.now_ns, answered_ns, polled_ns, has_slept, is_alone };
            if self.poll.record_arrival(&arrival) && self.may_poll {
                self.poll.begin();
            }
        }

        fn steps(&mut self, count: u32) {
            (0..count).for_each(|_| self.step(true));
        }

        fn run(&mut self, ns: u64) {
            let end_ns = self.now_ns + ns;
            while self.now_ns < end_ns {
                self.step(true);
            }
        }
    }

    #[test]
    fn short_waits_grow_the_limit_until_it_meets_them() {
        let mut world = World::new(30_000, 30_000);
        world.steps(TRIAL - 1);
        assert_eq!(world.poll.limit_ns(), 0, "too few requests to compare with");
        let mut seen = Vec::new();
        for _ in 0..8 {
            world.step(true);
            seen.push(world.poll.limit_ns());
        }
        assert_eq!(seen[..4], [10_000, 20_000, 40_000, 40_000]);
        world.run(500_000_000);
        assert_eq!(world.poll.limit_ns(), 40_000, "it pays, so it goes on");
        let mut far = World::new(48_000, 30_000);
        far.steps(3 * TRIAL);
        assert_eq!(far.poll.limit_ns(), LIMIT_MAX_NS);
    }

    #[test]
    fn long_waits_end_polling() {
        let mut world = World::new(30_000, 30_000);
        world.steps(2 * TRIAL);
        assert_eq!(world.poll.limit_ns(), 40_000);
        world.gap_ns = 5_000_000;
        let mut seen = Vec::new();
        for _ in 0..3 {
            world.step(true);
            seen.push(world.poll.limit_ns());
        }
        assert_eq!(seen, [20_000, 10_000, 0]);
        world.steps(1000);
        assert_eq!(world.poll.limit_ns(), 0, "no poll would meet these");
    }

    #[test]
    fn occasional_waits_for_a_processor_do_not_end_polling() {
        // As many as the budget for polls without a result permits.
        for (gap_ns, every) in [(6_000, 10), (30_000, 50)] {
            let mut world = World::new(gap_ns, 40_000);
            let mut polling = 0;
            for round in 0..40_000 {
                world.gap_ns = if round % every == 0 { 300_000 } else { gap_ns };
                world.step(true);
                polling += u32::from(world.poll.limit_ns() > 0);
            }
            assert!(polling > 28_000, "{polling} of 40,000 rounds polled");
        }
        let mut slow = World::new(10_000, 0);
        for round in 0..40_000 {
            slow.gap_ns = if round % 3 == 0 { 300_000 } else { 10_000 };
            slow.step(true);
        }
        assert_eq!(slow.spent_ns, 0, "a third is more than now and then");
    }

    #[test]
    fn no_polling_for_a_client_with_its_own_schedule() {
        let mut world = World::new(0, 0);
        (world.own_time_ns, world.wake_ns) = (Some(50_000), 3_000);
        world.run(10_000_000_000);
        assert!(world.spent_ns > 0, "it was tried");
        assert!(world.spent_ns < 100_000_000, "{} of 10 s", world.spent_ns);
        let before = world.spent_ns;
        world.run(10_000_000_000);
        assert!(world.spent_ns - before < 20_000_000, "trials become rare");
    }

    /// Steps `world` with hits, of which one in `every` is a miss that takes half a millisecond.
    /// Returns how many of 40,000 requests were polled for.
    fn polled_of_misses(every: u32) -> u32 {
        let mut world = World::new(10_000, 25_000);
        let mut polling = 0;
        for round in 0..40_000 {
            world.service_ns = if round % every == 0 { 500_000 } else { 3_000 };
            world.step(true);
            polling += u32::from(world.poll.limit_ns() > 0);
        }
        polling
    }

    #[test]
    fn misses_between_hits_do_not_end_it_unless_they_are_most_of_the_time() {
        assert!(polled_of_misses(10) > 36_000, "{}", polled_of_misses(10));
        let most = polled_of_misses(1);
        assert!(most <= TRIAL, "{most}: shorter waits would make hardly a difference");
    }

    #[test]
    fn a_wait_that_could_not_be_polled_says_nothing() {
        let mut world = World::new(30_000, 30_000);
        world.steps(2 * TRIAL);
        let limit_ns = world.poll.limit_ns();
        assert_eq!(limit_ns, 40_000);
        for _ in 0..1000 {
            world.now_ns += 300_000;
            let answered_ns = world.now_ns - 150_000;
            let now_ns = world.now_ns;
            let arrival =
                Arrival { now_ns, answered_ns, polled_ns: 0, has_slept: true, is_alone: true };
            world.poll.record_arrival(&arrival);
        }
        assert_eq!(world.poll.limit_ns(), limit_ns);
    }

    #[test]
    fn polls_without_a_result_stay_within_two_percent() {
        // Each poll ends shortly before the request.
        for gap_ns in [51_000, 60_000, 90_000, 150_000] {
            let mut world = World::new(gap_ns, 10_000);
            world.run(20_000_000_000);
            assert!(world.vain_ns > 0, "{gap_ns}");
            assert!(world.vain_ns <= 20_000_000_000 / BUDGET_PART + BUDGET_MAX_NS, "{gap_ns}");
        }
        // Polls alternate between success and failure, and each success has a benefit.
        let mut world = World::new(0, 40_000);
        for round in 0..400_000 {
            world.gap_ns = if round % 2 == 0 { 20_000 } else { 120_000 };
            world.step(true);
        }
        let elapsed = world.now_ns - 1_000_000_000;
        assert!(world.vain_ns <= elapsed / BUDGET_PART + BUDGET_MAX_NS, "{}", world.vain_ns);
    }

    #[test]
    fn several_requests_at_a_time_end_polling_and_never_begin_it() {
        let mut world = World::new(30_000, 30_000);
        (0..1000).for_each(|_| world.step(false));
        assert_eq!(world.spent_ns, 0);
        world.steps(2 * TRIAL);
        assert!(world.poll.limit_ns() > 0);
        world.step(false);
        assert_eq!(world.poll.limit_ns(), 0);
        world.steps(2 * TRIAL);
        assert!(world.poll.limit_ns() > 0, "nothing had failed");
    }

    #[test]
    fn polling_is_compared_with_sleeping_again_and_continues_with_its_limit() {
        let mut world = World::new(30_000, 30_000);
        let mut ends = 0;
        world.run(10_000_000);
        for _ in 0..100_000 {
            let before = world.poll.limit_ns();
            world.step(true);
            let now = world.poll.limit_ns();
            ends += u32::from(before > 0 && now == 0);
            assert!(before > 0 || now == 0 || now == 40_000, "it need not grow again");
        }
        assert_eq!(ends, 3, "one a second");
    }

    #[test]
    fn a_trial_that_is_not_permitted_is_due_again() {
        let mut world = World::new(30_000, 30_000);
        world.may_poll = false;
        world.steps(10 * TRIAL);
        assert_eq!(world.spent_ns, 0);
        world.may_poll = true;
        world.steps(TRIAL);
        assert!(world.poll.limit_ns() > 0);
        world.poll.fail();
        world.run(PAUSE_MIN_NS / 2);
        assert_eq!(world.poll.limit_ns(), 0);
        world.run(PAUSE_MIN_NS);
        assert!(world.poll.limit_ns() > 0);
    }
}
