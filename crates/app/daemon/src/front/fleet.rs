//! All fronts of a daemon.

use super::inherited::{Handover, leave};
use super::{Ending, Front};
use crate::lanes::Lanes;
use export::Export;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A front, and the names of what it serves.
struct Berth {
    front: Rc<dyn Front>,
    exports: Vec<String>,
}

impl Berth {
    fn serves(&self, export: &str) -> bool {
        self.exports.iter().any(|name| name == export)
    }
}

/// The fronts of a daemon, in the order of its plan.
#[derive(Default)]
pub(crate) struct Fleet(RefCell<Vec<Berth>>);

impl Fleet {
    /// Adds a front that will serve these.
    pub(crate) fn add(&self, front: Rc<dyn Front>, exports: &[String]) {
        self.0.borrow_mut().push(Berth { front, exports: exports.to_vec() });
    }

    /// The fronts themselves: none of them is called while the list is borrowed.
    fn fronts(&self) -> Vec<Rc<dyn Front>> {
        self.0.borrow().iter().map(|berth| berth.front.clone()).collect()
    }

    /// Where clients find an export: at every front that serves it.
    pub(crate) fn addresses(&self, export: &str) -> Vec<String> {
        let berths = self.0.borrow();
        let serving = berths.iter().filter(|berth| berth.serves(export));
        serving.map(|berth| berth.front.address(export)).collect()
    }

    /// Begins to serve, each front what it was added for.
    pub(crate) fn open(&self, lanes: &Rc<Lanes>, export: impl Fn(&str) -> Option<Export>) {
        for berth in self.0.borrow().iter() {
            let exports = berth.exports.iter().filter_map(|name| export(name)).collect();
            berth.front.clone().open(exports, lanes);
        }
    }

    /// New clients of any front do not find this export any more.
    pub(crate) fn remove(&self, export: &str) {
        self.fronts().iter().for_each(|front| front.remove(export));
    }

    /// See [`Front::close`].
    pub(crate) fn close(&self, ending: Ending) {
        self.fronts().iter().for_each(|front| front.close(ending));
    }

    /// See [`Front::end`].
    pub(crate) async fn end(&self, deadline_ns: u64) {
        for front in self.fronts() {
            front.end(deadline_ns).await;
        }
    }

    /// Leaves what the fronts have open to the next program.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn leave(&self) -> io::Result<Handover> {
        let fronts = self.fronts();
        leave(fronts.iter().flat_map(|front| front.inherit()).collect())
    }

    /// Lets go of the fronts, and of their sockets with them.
    pub(crate) fn release(&self) {
        let berths = self.0.take();
        drop(berths);
    }
}
