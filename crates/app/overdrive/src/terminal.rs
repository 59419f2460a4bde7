//! The standard output as a terminal: its width, and the colours of lines.

use anstyle::{AnsiColor, Style};
use block::printable;
use report::terminal::{Line, Look};
use std::io::IsTerminal;

/// Width below which nothing is made to fit.
const WIDTH_MIN: usize = 40;

/// Returns the width of the standard output in columns; COLUMNS replaces it. None: it is no
/// terminal.
pub(crate) fn width() -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = given.or_else(|| {
        let stdout = std::io::stdout();
        let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok());
        size.flatten().map(|size| usize::from(size.ws_col))
    });
    // A terminal without a size reports 0.
    width.filter(|width| *width > 0).map(|width| width.max(WIDTH_MIN))
}

fn style(look: Look) -> Style {
    match look {
        Look::Plain => Style::new(),
        Look::Heading => Style::new().bold(),
        Look::Good => AnsiColor::Green.on_default(),
        Look::Doubtful => AnsiColor::Yellow.on_default(),
        Look::Bad => AnsiColor::Red.on_default().bold(),
    }
}

/// Prints lines.
pub(crate) fn print(lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        let spans = line.spans().iter();
        daemon::console::say_styled(spans.map(|span| (style(span.look), span.text.as_str())));
    }
}

/// Prints a line of a report; if it is too long, its further lines begin with `indent` blanks.
pub(crate) fn print_wrapped(line: &Line, indent: usize) {
    print(line.fitted(width(), indent));
}

/// Prints the lines of a text, as [`print_wrapped`] does.
pub(crate) fn print_text(text: &str, indent: usize) {
    text.lines().for_each(|line| print_wrapped(&Line::from(&*printable(line)), indent));
}
