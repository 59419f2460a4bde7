//! The driver of another vendor's cache: the processor time that it takes for each request, and
//! that it passes requests through while the processors are busy.
//!
//! Only the lab has it. It changes nothing of the engine below: a busy machine sets the engine's
//! own write mode.

use block::{Layer, Padding, Request, Stack, WriteMode};
use cache::Shared;
use lane::Lane;
use std::cell::RefCell;
use std::sync::Arc;

/// Cost and rule of a driver, in virtual time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DriverCost {
    /// Time of a request that is answered from memory, except for its blocks, in nanoseconds.
    pub served_ns: u64,
    /// Additional time of a request that goes to the drive, in nanoseconds.
    pub passed_ns: u64,
    /// Processors of the machine.
    pub processors: u32,
    /// Load of other programs, in percent of all processors.
    pub other_load_percent: u32,
    /// Load of all processors above which requests are passed through, in percent.
    pub load_percent_max: u32,
}

/// Time between two looks at the load of the processors.
const WINDOW_NS: u64 = 50_000_000;

/// Puts the driver in front of a cache, and starts its rule.
pub(crate) fn attach(
    cost: DriverCost,
    write: WriteMode,
    shared: Arc<Shared>,
    lane: &Lane,
    below: Stack,
) -> Stack {
    let rule = Rule { cost, write, shared, lane: lane.clone(), mark: (lane.now(), lane.charged()) };
    Stack::new(lane, Driver { rule: RefCell::new(rule), lane: lane.clone(), cost, below })
}

/// The rule: while the processors are busy, nothing is cached.
struct Rule {
    cost: DriverCost,
    write: WriteMode,
    shared: Arc<Shared>,
    lane: Lane,
    /// Time, and charged work, at the last look.
    mark: (u64, u64),
}

impl Rule {
    /// Looks at the load if a window has passed.
    fn look(&mut self) {
        let (now, charged) = (self.lane.now(), self.lane.charged());
        let (then, before) = self.mark;
        if now < then + WINDOW_NS {
            return;
        }
        let own = (charged - before) as f64 / (now - then) as f64;
        let load = 100.0 * own / f64::from(self.cost.processors.max(1))
            + f64::from(self.cost.other_load_percent);
        let is_busy = load > f64::from(self.cost.load_percent_max);
        self.shared.set_write_mode(if is_busy { WriteMode::None } else { self.write });
        self.mark = (now, charged);
    }
}

struct Driver {
    rule: RefCell<Rule>,
    lane: Lane,
    cost: DriverCost,
    below: Stack,
}

impl Layer for Driver {
    fn lower(&self) -> &Stack {
        &self.below
    }

    fn try_now(&self, request: &Request) -> Option<block::Result> {
        let answer = self.below.try_now(request);
        if answer.is_some() {
            self.lane.charge_ns(self.cost.served_ns);
            self.rule.borrow_mut().look();
        }
        answer
    }

    async fn serve(&self, request: Request, padding: Padding) -> block::Result {
        self.lane.charge_ns(self.cost.passed_ns);
        self.rule.borrow_mut().look();
        self.below.serve(request, padding).await
    }
}
