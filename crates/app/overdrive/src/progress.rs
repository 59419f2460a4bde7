//! Progress of long work: a bar, only on a terminal.

use block::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Returns the target of the progress display.
fn target() -> ProgressDrawTarget {
    let terminal = std::io::stderr().is_terminal();
    if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}

/// The variable that makes progress also appear as lines of JSON on stderr, if its value is `json`:
/// a line for each stage and each percent.
const LINES: &str = "OVERDRIVE_PROGRESS";

/// A bar with the completed share of a stage; not shown if stderr is no terminal, nor in the first
/// two seconds, within which most work ends.
pub(crate) struct Stages {
    /// Whether another program reads the progress, and what was written to it last.
    lines: Option<(String, u64)>,
    bar: ProgressBar,
    shown: bool,
    pause: Duration,
    template: &'static str,
}

impl Stages {
    pub(crate) fn new() -> Stages {
        Stages::shown_after(Duration::from_secs(2))
    }

    /// Creates a bar that is shown immediately.
    pub(crate) fn new_at_once() -> Stages {
        Stages::shown_after(Duration::ZERO)
    }

    /// Creates a bar with the remaining time of the stage.
    pub(crate) fn with_time_left() -> Stages {
        Stages { template: "{msg} {bar:30} {percent} %, {eta} left", ..Stages::new() }
    }

    fn shown_after(pause: Duration) -> Stages {
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden());
        let lines = std::env::var(LINES).is_ok_and(|form| form == "json").then(Default::default);
        Stages { lines, bar, shown: false, pause, template: "{msg} {bar:30} {percent} %" }
    }

    pub(crate) fn set(&mut self, stage: &str, share: f64) {
        if let Some(last) = &mut self.lines {
            let step = (stage.to_owned(), (share * 100.0) as u64);
            if *last != step {
                daemon::tell!("{}", serde_json::json!({ "stage": stage, "share": share }));
                *last = step;
            }
        }
        if !self.shown && self.bar.elapsed() > self.pause {
            self.shown = true;
            self.bar.set_draw_target(target());
            let style = ProgressStyle::with_template(self.template);
            self.bar.set_style(style.expect("a valid template"));
        }
        let stage = printable(stage);
        if self.bar.message() != stage {
            self.bar.set_message(stage.into_owned());
            self.bar.reset_eta();
        }
        self.bar.set_position((share * 1000.0) as u64);
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// A bar over bytes on stderr; not shown if that is no terminal.
pub(crate) struct Bytes(ProgressBar);

impl Bytes {
    pub(crate) fn new(what: &str) -> Bytes {
        let bar = ProgressBar::with_draw_target(None, target());
        let style = "{msg} {bar:30} {binary_bytes}/{binary_total_bytes}";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        bar.set_message(printable(what).into_owned());
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
