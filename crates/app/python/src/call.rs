//! Long calls: other threads of Python run meanwhile, and Ctrl-C ends them.

use crate::errors::InternalError;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time between two looks at signals.
const LOOKS: Duration = Duration::from_millis(50);

/// The watch of a long call: looks at Python's signals.
pub(crate) struct Signals {
    /// Python handles signals on its main thread only.
    is_main: bool,
    next: Option<Instant>,
    /// The exception of a signal's handler, which ends the call.
    raised: Option<PyErr>,
}

impl Signals {
    fn new(py: Python<'_>) -> PyResult<Signals> {
        let threading = py.import("threading")?;
        let [this, main] =
            ["current_thread", "main_thread"].map(|name| threading.call_method0(name));
        Ok(Signals { is_main: this?.is(&main?), next: None, raised: None })
    }

    /// Runs the handlers of signals that have arrived, if it is time to look. Returns whether the
    /// call continues.
    pub(crate) fn look(&mut self) -> bool {
        if !self.is_main || self.raised.is_some() {
            return self.raised.is_none();
        }
        #[allow(clippy::disallowed_methods, reason = "a call from Python runs in real time")]
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return true;
        }
        self.next = Some(now + LOOKS);
        self.raised = Python::attach(|py| py.check_signals()).err();
        self.raised.is_none()
    }
}

impl simulator::Watch for Signals {
    fn look(&mut self, _: &'static str, _: f64) -> bool {
        Signals::look(self)
    }
}

impl suites::Watch for Signals {
    fn look(&mut self, _: &str, _: f64) -> bool {
        Signals::look(self)
    }
}

/// Runs work without Python's lock. The work ends early when its watch returns false.
///
/// # Errors
/// The exception of a signal's handler, or `InternalError` if the work panics.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Signals) -> T + Send,
) -> PyResult<T> {
    let mut signals = Signals::new(py)?;
    let result = py.detach(|| catch_unwind(AssertUnwindSafe(|| work(&mut signals))));
    match (signals.raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(result)) => Ok(result),
        (None, Err(panic)) => Err(InternalError::new_err(text_of(&*panic))),
    }
}

/// Returns the message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a fault of overdrive, please report it: {}", text.unwrap_or("a panic without text"))
}
