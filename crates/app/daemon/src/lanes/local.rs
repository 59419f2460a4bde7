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
    states: RefCell<Vec<FrontState>>,
}

/// A front's state on this lane, made from the lane's exports and shared by the front's clients.
struct FrontState {
    front: String,
    state: Rc<dyn Any>,
    /// Removes a volume from it.
    forget: Box<dyn Fn(&str)>,
}

impl Local {
    pub(super) fn new(ring: &Ring, exports: Vec<Export>) -> Local {
        let (exports, states) = (RefCell::new(exports), RefCell::default());
        Local { ring: ring.clone(), exports, states }
    }

    /// Returns the state of the front with this name on this lane; creates it on first use.
    /// `forget` removes a volume from it.
    pub(crate) fn front_state<T: 'static>(
        &self,
        front: &str,
        make: impl FnOnce() -> T,
        forget: fn(&T, &str),
    ) -> Rc<T> {
        let mut states = self.states.borrow_mut();
        if let Some(state) = states.iter().find(|state| state.front == front) {
            return state.state.clone().downcast().expect("a front makes one kind of state");
        }
        let made = Rc::new(make());
        let held = made.clone();
        let forget = Box::new(move |name: &str| forget(&held, name));
        states.push(FrontState { front: front.to_owned(), state: made.clone(), forget });
        made
    }

    /// Returns the exports with these names, as this lane serves them.
    pub(crate) fn exports(&self, names: &[String]) -> Vec<Export> {
        let exports = self.exports.borrow();
        exports.iter().filter(|export| names.contains(&export.name)).cloned().collect()
    }

    pub(super) fn forget(&self, name: &str) {
        self.states.borrow().iter().for_each(|state| (state.forget)(name));
        let mut exports = self.exports.borrow_mut();
        let forgotten: Vec<Export> = exports.extract_if(.., |export| export.name == name).collect();
        drop(exports);
        // Outside the borrow, because this may drop the last handle of a stack.
        drop(forgotten);
    }
}

/// Interface of a further lane to other threads.
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
pub(super) struct EndedThreads {
    pub(super) count: AtomicUsize,
    pub(super) event: Event,
}

impl EndedThreads {
    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.event.notify();
    }
}
