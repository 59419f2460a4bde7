//! A rig that records loads instead of running them.

use super::Rig;
use block::{Null, SECTOR, Stack};
use lane::{Prices, World};
use load::Load;
use std::cell::RefCell;
use std::rc::Rc;

/// The recorded loads: name and load.
pub(crate) type Loads = Rc<RefCell<Vec<(String, Load)>>>;

/// A rig that records loads instead of running them.
pub(crate) struct Listed {
    world: World,
    device: Stack,
    loads: Loads,
}

impl Listed {
    /// Returns a rig for a device of this size, and the list of its loads.
    pub(crate) fn new(bytes: u64) -> (Listed, Loads) {
        let mut world = World::timed(Prices::default());
        let device = Stack::new(&world.lane(), Null::new(bytes / SECTOR, 0));
        let loads = Loads::default();
        (Listed { world, device, loads: loads.clone() }, loads)
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
}
