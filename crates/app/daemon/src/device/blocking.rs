//! Work that waits for the kernel, on a separate thread, so that the lane continues: the kernel may
//! be waiting for the lane.

use lane::Event;
use stack::{Exit, Failure};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Runs the work on another thread. If the future is dropped, the work still completes.
///
/// # Errors
/// No thread can be started.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let slot = Arc::new((Mutex::new(None), Event::new()));
    let filled = slot.clone();
    let working = move || {
        let done = work();
        *filled.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        filled.1.notify();
    };
    let started = thread::Builder::new().name("overdrive-waits".to_owned()).spawn(working);
    started
        .map_err(|error| Failure::new(Exit::Io, format!("a thread cannot be started: {error}")))?;
    loop {
        let seen = slot.1.seen();
        let done = slot.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(done) = done {
            return Ok(done);
        }
        slot.1.after(seen).await;
    }
}
