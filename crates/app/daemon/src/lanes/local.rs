//! State of a further lane, and its interface to other threads.

use export::Export;
use lane::{Event, Inbox};
use ring::Ring;
use std::any::Any;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of jobs that wait for a lane.
const JOBS_MAX: usize = 256;

/// Work for a further lane.
pub(crate) type Job = Box<dyn FnOnce(&Local) + Send>;

/// State of a further lane.
pub(crate) struct Local {
    pub(crate) ring: Ring,
    exports: RefCell<Vec<Export>>,
    parts: RefCell<Vec<Part>>,
}

/// A front's state on this lane, made from the lane's exports and shared by all its clients here.
struct Part {
    front: String,
    made: Rc<dyn Any>,
    /// Removes a volume from it.
    forget: Box<dyn Fn(&str)>,
}

impl Local {
    pub(super) fn new(ring: &Ring, exports: Vec<Export>) -> Local {
        let (exports, parts) = (RefCell::new(exports), RefCell::default());
        Local { ring: ring.clone(), exports, parts }
    }

    /// Returns the state of the front with this name on this lane; creates it on first use.
    /// `forget` removes a volume from it.
    pub(crate) fn part<T: 'static>(
        &self,
        front: &str,
        make: impl FnOnce() -> T,
        forget: fn(&T, &str),
    ) -> Rc<T> {
        let mut parts = self.parts.borrow_mut();
        if let Some(part) = parts.iter().find(|part| part.front == front) {
            return part.made.clone().downcast().expect("a front makes one kind of part");
        }
        let made = Rc::new(make());
        let held = made.clone();
        let forget = Box::new(move |name: &str| forget(&held, name));
        parts.push(Part { front: front.to_owned(), made: made.clone(), forget });
        made
    }

    /// Returns the exports with these names, as this lane serves them.
    pub(crate) fn exports(&self, names: &[String]) -> Vec<Export> {
        let exports = self.exports.borrow();
        exports.iter().filter(|export| names.contains(&export.name)).cloned().collect()
    }

    pub(super) fn forget(&self, name: &str) {
        self.parts.borrow().iter().for_each(|part| (part.forget)(name));
        let mut exports = self.exports.borrow_mut();
        let forgotten: Vec<Export> = exports.extract_if(.., |export| export.name == name).collect();
        drop(exports);
        // Outside the borrow, because this may drop the last handle of a stack.
        drop(forgotten);
    }
}

/// A further lane, as other threads use it.
pub(super) struct Remote {
    pub(super) jobs: Inbox<Job>,
}

impl Default for Remote {
    fn default() -> Remote {
        Remote { jobs: Inbox::new(JOBS_MAX) }
    }
}

/// Threads that have ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) count: AtomicUsize,
    pub(super) event: Event,
}

impl Ended {
    pub(super) fn note(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.event.notify();
    }
}
