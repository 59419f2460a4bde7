//! All fronts of a daemon.

use super::inherited::{Handover, leave};
use super::{Ending, Front};
use crate::lanes::Lanes;
use export::Export;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A front, and the names of its exports.
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
    /// Adds a front that will serve these exports.
    pub(crate) fn add(&self, front: Rc<dyn Front>, exports: &[String]) {
        self.0.borrow_mut().push(Berth { front, exports: exports.to_vec() });
    }

    /// Returns the fronts, so that none of them is called while the list is borrowed.
    fn fronts(&self) -> Vec<Rc<dyn Front>> {
        self.0.borrow().iter().map(|berth| berth.front.clone()).collect()
    }

    /// Returns the addresses of an export: one for each front that serves it.
    pub(crate) fn addresses(&self, export: &str) -> Vec<String> {
        let berths = self.0.borrow();
        let serving = berths.iter().filter(|berth| berth.serves(export));
        serving.map(|berth| berth.front.address(export)).collect()
    }

    /// Starts to serve; each front serves the exports that it was added with.
    pub(crate) fn open(&self, lanes: &Rc<Lanes>, export: impl Fn(&str) -> Option<Export>) {
        for berth in self.0.borrow().iter() {
            let exports = berth.exports.iter().filter_map(|name| export(name)).collect();
            berth.front.clone().open(exports, lanes);
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
        leave(fronts.iter().flat_map(|front| front.inherit()).collect())
    }

    /// Drops the fronts, and with them their sockets.
    pub(crate) fn release(&self) {
        let berths = self.0.take();
        drop(berths);
    }
}
