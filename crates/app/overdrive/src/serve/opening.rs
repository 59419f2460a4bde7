//! Reports while a volume is opened: a bar for its memory, and lines about a long wait for an
//! earlier process.

use crate::progress::Bytes;
use block::Size;
use stack::OpenStep;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Most waits end within this time, and need no report.
const FIRST: Duration = Duration::from_secs(2);
/// Time between two lines.
const LINES: Duration = Duration::from_secs(10);

/// The latest step, in words. None: it has its own report.
type Words = Mutex<Option<String>>;

/// Runs `open`, which reports its steps.
pub(super) fn open_with_reports<T>(
    backing: &str,
    quiet: bool,
    open: impl FnOnce(&mut dyn FnMut(OpenStep)) -> T,
) -> T {
    let (bar, words) = (Bytes::new("memory"), Words::default());
    let (ended, wait) = channel();
    let opened = std::thread::scope(|scope| {
        let reported = &words;
        if !quiet {
            scope.spawn(move || print_waits(reported, &wait));
        }
        let opened = open(&mut |step| {
            if let OpenStep::Memory { done_bytes, all_bytes } = step {
                bar.set(done_bytes, all_bytes);
            }
            *reported.lock().unwrap_or_else(PoisonError::into_inner) = words_of(backing, step);
        });
        drop(ended);
        opened
    });
    bar.finish();
    opened
}

/// Prints the step of a long wait until the other end of `wait` is dropped.
fn print_waits(words: &Words, wait: &Receiver<()>) {
    let mut pause = FIRST;
    while wait.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let words = words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pause = if words.is_some() { LINES } else { FIRST };
        words.into_iter().for_each(|words| daemon::tell!("overdrive: {words}"));
    }
}

fn words_of(backing: &str, step: OpenStep) -> Option<String> {
    match step {
        OpenStep::Memory { .. } => None,
        OpenStep::Fence => Some(format!(
            "{backing}: waits until the last requests of the earlier process have ended"
        )),
        OpenStep::TakeOver => {
            Some(format!("{backing}: the memory of the earlier process is being taken over"))
        }
        OpenStep::WriteBack { left_bytes } => Some(format!(
            "{backing}: will be served once the writes of the earlier process are on it; {} are \
             left to be written back",
            Size(left_bytes)
        )),
    }
}
