//! A rig that records loads instead of running them.

use super::Rig;
use block::{Null, SECTOR, Stack};
use lane::{Prices, World};
use load::Load;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The recorded loads: name and load.
pub(crate) type Loads = Rc<RefCell<Vec<(String, Load)>>>;

/// The bytes of the recorded traces.
pub(crate) type TraceBytes = Rc<Cell<u64>>;

/// A rig that records loads instead of running them.
pub(crate) struct Listed {
    world: World,
    device: Stack,
    loads: Loads,
    trace_bytes: TraceBytes,
}

impl Listed {
    /// Returns a rig for a device of this size, the list of its loads, and the bytes of its traces.
    pub(crate) fn new(bytes: u64) -> (Listed, Loads, TraceBytes) {
        let mut world = World::timed(Prices::default());
        let device = Stack::new(&world.lane(), Null::new(bytes / SECTOR, 0));
        let (loads, trace_bytes) = (Loads::default(), TraceBytes::default());
        let (kept, kept_bytes) = (loads.clone(), trace_bytes.clone());
        (Listed { world, device, loads, trace_bytes }, kept, kept_bytes)
    }
}

impl Rig for Listed {
    fn device(&self) -> &Stack {
        &self.device
    }

    fn time(&self) -> &'static str {
        "virtual"
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        done() || self.world.step()
    }

    fn notes(&mut self, stage: &str, load: &Load) -> bool {
        self.loads.borrow_mut().push((stage.to_owned(), load.clone()));
        true
    }

    fn notes_trace(&mut self, bytes: u64) -> bool {
        self.trace_bytes.set(self.trace_bytes.get().saturating_add(bytes));
        true
    }
}
