//! Standard output and standard error as terminals: their width, and the colours of lines.

use anstyle::{AnsiColor, Style};
use block::printable;
use report::terminal::{Line, Look, Span};
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Width below which nothing is made to fit.
const WIDTH_MIN: usize = 40;

/// Returns the width of the standard output in columns; COLUMNS replaces it. None: it is no
/// terminal.
pub(crate) fn width() -> Option<usize> {
    width_of(&std::io::stdout())
}

fn width_of(output: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = given.or_else(|| {
        let size = output.is_terminal().then(|| rustix::termios::tcgetwinsize(output).ok());
        size.flatten().map(|size| usize::from(size.ws_col))
    });
    // A terminal without a size reports 0.
    width.filter(|width| *width > 0).map(|width| width.max(WIDTH_MIN))
}

/// Blanks before the further lines of a message.
const MESSAGE_INDENT: usize = 2;

/// Breaks a message for the standard error, which is a terminal, between words. Each line of it
/// ends with a line end.
pub(crate) fn fit_message(message: &str) -> String {
    let width = width_of(&std::io::stderr());
    let lines = message.lines().flat_map(|line| Line::from(line).fitted(width, MESSAGE_INDENT));
    lines.map(|line| format!("{line}\n")).collect()
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

/// Prints the lines of a text, as [`print_wrapped`] does. Verdicts in it have these looks.
pub(crate) fn print_text(text: &str, indent: usize, verdicts: &[(&str, Look)]) {
    for line in text.lines() {
        print_wrapped(&with_verdict(&printable(line), verdicts), indent);
    }
}

/// Returns a line whose first verdict has its look.
fn with_verdict(line: &str, verdicts: &[(&str, Look)]) -> Line {
    let found = verdicts.iter().find_map(|(word, look)| {
        let (before, after) = line.split_once(word)?;
        Some(Line::from(before).with(Span::new(*look, *word)).with(after))
    });
    found.unwrap_or_else(|| Line::from(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_a_look_and_the_rest_has_none() {
        let verdicts = [("FAILING", Look::Bad), ("passed", Look::Good)];
        let line = with_verdict("verdict  FAILING", &verdicts);
        assert_eq!(line.spans(), ["verdict  ".into(), Span::new(Look::Bad, "FAILING")]);
        let line = with_verdict("passed, and more", &verdicts);
        assert_eq!(line.spans(), [Span::new(Look::Good, "passed"), ", and more".into()]);
        assert_eq!(with_verdict("nothing", &verdicts), Line::from("nothing"));
    }
}
