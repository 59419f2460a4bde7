//! All fronts of a daemon.

use super::inherited::{Handover, hand_over};
use super::{Ending, Front};
use crate::lanes::Lanes;
use export::Export;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A front, with the names of its exports.
struct ServedFront {
    front: Rc<dyn Front>,
    exports: Vec<String>,
}

impl ServedFront {
    fn serves(&self, export: &str) -> bool {
        self.exports.iter().any(|name| name == export)
    }
}

/// The fronts of a daemon, in the order of its plan.
#[derive(Default)]
pub(crate) struct Fronts(RefCell<Vec<ServedFront>>);

impl Fronts {
    /// Adds a front that will serve these exports.
    pub(crate) fn add(&self, front: Rc<dyn Front>, exports: &[String]) {
        self.0.borrow_mut().push(ServedFront { front, exports: exports.to_vec() });
    }

    /// Returns a copy of the list, so that no front is called while the list is borrowed.
    fn fronts(&self) -> Vec<Rc<dyn Front>> {
        self.0.borrow().iter().map(|served| served.front.clone()).collect()
    }

    /// Returns the addresses of an export: one for each front that serves it.
    pub(crate) fn addresses(&self, export: &str) -> Vec<String> {
        let served = self.0.borrow();
        let serving = served.iter().filter(|served| served.serves(export));
        serving.map(|served| served.front.address(export)).collect()
    }

    /// Starts to serve: each front gets the exports with which it was added.
    pub(crate) fn open(&self, lanes: &Rc<Lanes>, export: impl Fn(&str) -> Option<Export>) {
        for served in self.0.borrow().iter() {
            let exports = served.exports.iter().filter_map(|name| export(name)).collect();
            served.front.clone().open(exports, lanes);
        }
    }

    /// Removes an export from all fronts: new clients do not find it any more.
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

    /// Leaves the open descriptors of the fronts to the next program.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn leave(&self) -> io::Result<Handover> {
        let fronts = self.fronts();
        hand_over(fronts.iter().flat_map(|front| front.handover_files()).collect())
    }

    /// Drops the fronts, and with them their sockets.
    pub(crate) fn release(&self) {
        let served = self.0.take();
        drop(served);
    }
}
