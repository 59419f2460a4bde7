//! Progress of what takes longer than a moment: a bar, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar over bytes on stderr; silent where that is no terminal.
pub(crate) struct Bytes(ProgressBar);

impl Bytes {
    pub(crate) fn new(what: &str) -> Bytes {
        let terminal = std::io::stderr().is_terminal();
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = "{msg} {bar:30} {binary_bytes}/{binary_total_bytes}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        bar.set_message(what.to_owned());
        Bytes(bar)
    }

    pub(crate) fn set(&self, done: usize, all: usize) {
        self.0.set_length(all as u64);
        self.0.set_position(done as u64);
    }

    pub(crate) fn finish(self) {
        self.0.finish_and_clear();
    }
}
