//! How long a lane polls before it sleeps: grown and shrunk as KVM does it for halted processors, from what
//! the waits before were like.
//!
//! A short wait that was slept through grows the limit, one that no poll would have met shrinks it. On top of
//! that polling has to pay: for clients that send each request in their own time, however short, it takes a
//! processor and brings nothing. So it begins with a trial, and goes on only while requests follow one another
//! faster by it than they did when the lane slept. What finds nothing is paid from a budget.
//!
//! No clock and no system call here. Source: the kernel's Documentation/virt/kvm/halt-polling.rst, and
//! `grow_halt_poll_ns` and `shrink_halt_poll_ns` in virt/kvm/kvm_main.c.

/// The longest poll, in nanoseconds.
pub(crate) const LIMIT_MAX_NS: u64 = 50_000;
/// The limit that growing begins with, and the least that shrinking leaves, in nanoseconds.
const LIMIT_START_NS: u64 = 10_000;
/// Requests that follow one another more slowly than this are not waited for, in nanoseconds. Two waits that
/// are slept through, the client's and ours, have two wake-ups in them, of up to 75 us each between virtual
/// processors; the rest a poll would meet.
const PERIOD_MAX_NS: u64 = 200_000;
/// Requests of a trial, and of what it is compared with.
const TRIAL: u32 = 32;
/// So many slower ones may be among them, which are left out: on a machine that others share, hardly any 32
/// follow one another without one that had to wait for a processor.
const SLOW_MAX: u32 = TRIAL / 4;
/// So many slow ones in a row end polling.
const SLOW_IN_A_ROW_MAX: u32 = 3;
/// What a period must have become by polling, in eighths, for polling to go on.
const GAIN_EIGHTHS: u64 = 7;
/// After a trial that failed the lane sleeps at least so long, each time twice as long; in nanoseconds.
const PAUSE_MIN_NS: u64 = 20_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;
/// So long polling goes on before the lane sleeps for a trial's length, to compare anew; in nanoseconds.
const SPELL_NS: u64 = 1_000_000_000;
/// One in so many nanoseconds of a lane's time may be spent on polling that finds nothing.
const BUDGET_PART: u64 = 50;
/// What may be saved up of that, in nanoseconds.
const BUDGET_MAX_NS: u64 = 2_000_000;

/// A request has come, after a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When.
    pub(crate) now_ns: u64,
    /// How much of the wait was spent in polling.
    pub(crate) polled_ns: u64,
    /// The lane has slept.
    pub(crate) has_slept: bool,
    /// It is of a client that sends each request only once it has the answer to the one before, and no other
    /// client has sent any meanwhile.
    pub(crate) is_alone: bool,
}

/// A bucket of tokens: polling in vain takes from it, time fills it.
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
    /// How long it polls; 0: it sleeps at once.
    limit_ns: u64,
    /// When the request before has come.
    before_ns: u64,
    /// Requests of this trial, or of what the next one will be compared with, and their periods' sum.
    requests: u32,
    sum_ns: u64,
    /// Those that were too slow to count, among these and in a row.
    slow: u32,
    slow_in_a_row: u32,
    /// The mean period while the lane slept.
    slept_ns: u64,
    /// What the next trial begins with.
    start_ns: u64,
    /// When this spell of polling began.
    began_ns: u64,
    /// What was polled in this trial.
    polled_ns: u64,
    /// No trial before this time; and how long a failure will put the next one off.
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
    /// How long to poll before sleeping, in nanoseconds.
    pub(crate) fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    /// A request has come. True: a trial is due, for which [`HaltPoll::begin`] may be called.
    pub(crate) fn arrived(&mut self, arrival: &Arrival) -> bool {
        let period_ns = arrival.now_ns.saturating_sub(self.before_ns);
        self.before_ns = arrival.now_ns;
        self.budget.fill(arrival.now_ns);
        match self.limit_ns {
            0 => self.slept(arrival, period_ns),
            _ => {
                self.polled(arrival, period_ns);
                false
            }
        }
    }

    fn restart(&mut self) {
        (self.requests, self.sum_ns, self.polled_ns) = (0, 0, 0);
        (self.slow, self.slow_in_a_row) = (0, 0);
    }

    /// Counts a period, unless it is too long for that.
    fn count(&mut self, period_ns: u64) {
        if period_ns > PERIOD_MAX_NS {
            self.slow += 1;
            self.slow_in_a_row += 1;
        } else {
            self.slow_in_a_row = 0;
            self.requests += 1;
            self.sum_ns += period_ns;
        }
    }

    /// A mean of one after the other is what a trial is compared with.
    fn slept(&mut self, arrival: &Arrival, period_ns: u64) -> bool {
        self.count(period_ns);
        if !arrival.is_alone || self.slow > SLOW_MAX {
            self.restart();
            return false;
        }
        if self.requests < TRIAL {
            return false;
        }
        self.slept_ns = self.sum_ns / u64::from(self.requests);
        self.restart();
        arrival.now_ns >= self.not_before_ns && self.budget.left_ns >= 2 * LIMIT_MAX_NS
    }

    /// Polls from now on.
    pub(crate) fn begin(&mut self) {
        (self.limit_ns, self.began_ns) = (self.start_ns, self.before_ns);
        self.restart();
    }

    /// Sleeps from now on. It may try again soon: nothing has failed.
    pub(crate) fn end(&mut self) {
        self.limit_ns = 0;
        self.restart();
    }

    /// Sleeps from now on, and longer than after the failure before.
    pub(crate) fn fail(&mut self) {
        // Not only what found nothing: nothing of it was worth its while.
        self.budget.take(self.polled_ns);
        self.not_before_ns = self.before_ns + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(PAUSE_MAX_NS);
        self.start_ns = LIMIT_START_NS;
        self.end();
    }

    fn polled(&mut self, arrival: &Arrival, period_ns: u64) {
        if arrival.has_slept {
            self.budget.take(arrival.polled_ns);
        } else {
            self.polled_ns += arrival.polled_ns;
        }
        if !arrival.is_alone {
            return self.end();
        }
        self.count(period_ns);
        if arrival.has_slept {
            self.resize(period_ns);
        }
        let is_too_slow = self.slow_in_a_row == SLOW_IN_A_ROW_MAX || self.slow > SLOW_MAX;
        if is_too_slow || self.budget.left_ns < LIMIT_MAX_NS {
            return self.fail();
        }
        self.judge();
    }

    /// Polling has met nothing.
    fn resize(&mut self, period_ns: u64) {
        if period_ns <= PERIOD_MAX_NS && self.limit_ns < LIMIT_MAX_NS {
            self.limit_ns = (2 * self.limit_ns).min(LIMIT_MAX_NS);
        } else {
            self.limit_ns = (self.limit_ns / 2).max(LIMIT_START_NS);
        }
    }

    /// At the end of a trial: whether it has paid.
    fn judge(&mut self) {
        if self.requests < TRIAL {
            return;
        }
        let mean_ns = self.sum_ns / u64::from(self.requests);
        if mean_ns * 8 > self.slept_ns * GAIN_EIGHTHS {
            return self.fail();
        }
        self.pause_ns = PAUSE_MIN_NS;
        self.restart();
        if self.before_ns - self.began_ns >= SPELL_NS {
            // What it has grown to is where it will go on.
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
        /// From our answer to the next request, and how much longer it takes because of us: what a wake-up
        /// adds when we sleep.
        gap_ns: u64,
        wake_ns: u64,
        /// The client sends in its own time, every so many nanoseconds.
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
                own_time_ns: None,
                spent_ns: 0,
                vain_ns: 0,
                may_poll: true,
            }
        }

        /// One wait, and the request that ends it.
        fn step(&mut self, is_alone: bool) {
            let limit_ns = self.poll.limit_ns();
            let due = self.own_time_ns.map(|every| (self.now_ns / every + 1) * every - self.now_ns);
            let gap_ns = due.unwrap_or(self.gap_ns);
            let has_slept = gap_ns > limit_ns;
            let polled_ns = gap_ns.min(limit_ns);
            self.spent_ns += polled_ns;
            self.vain_ns += if has_slept { polled_ns } else { 0 };
            self.now_ns += gap_ns + if has_slept { self.wake_ns } else { 0 };
            let arrival = Arrival { now_ns: self.now_ns, polled_ns, has_slept, is_alone };
            if self.poll.arrived(&arrival) && self.may_poll {
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
        world.steps(TRIAL);
        assert_eq!(world.poll.limit_ns(), 0, "the first period is not known");
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
    fn long_waits_shrink_it_to_nothing() {
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
    fn a_wait_for_a_processor_now_and_then_keeps_it_from_nothing() {
        // As many as the budget for polling in vain allows.
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
    fn a_client_that_keeps_its_own_time_is_not_polled_for() {
        let mut world = World::new(0, 0);
        (world.own_time_ns, world.wake_ns) = (Some(50_000), 3_000);
        world.run(10_000_000_000);
        assert!(world.spent_ns > 0, "it was tried");
        assert!(world.spent_ns < 100_000_000, "{} of 10 s", world.spent_ns);
        let before = world.spent_ns;
        world.run(10_000_000_000);
        assert!(world.spent_ns - before < 20_000_000, "trials become rare");
    }

    #[test]
    fn what_finds_nothing_stays_within_two_percent() {
        // Each poll ends shortly before the request.
        for gap_ns in [51_000, 60_000, 90_000, 150_000] {
            let mut world = World::new(gap_ns, 10_000);
            world.run(20_000_000_000);
            assert!(world.vain_ns > 0, "{gap_ns}");
            assert!(world.vain_ns <= 20_000_000_000 / BUDGET_PART + BUDGET_MAX_NS, "{gap_ns}");
        }
        // Met and missed in turns, and each that is met pays.
        let mut world = World::new(0, 40_000);
        for round in 0..400_000 {
            world.gap_ns = if round % 2 == 0 { 20_000 } else { 120_000 };
            world.step(true);
        }
        let elapsed = world.now_ns - 1_000_000_000;
        assert!(world.vain_ns <= elapsed / BUDGET_PART + BUDGET_MAX_NS, "{}", world.vain_ns);
    }

    #[test]
    fn several_requests_at_a_time_end_it_and_never_begin_it() {
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
    fn it_compares_anew_now_and_then_and_goes_on_where_it_was() {
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
    fn without_leave_it_sleeps_and_asks_again() {
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
