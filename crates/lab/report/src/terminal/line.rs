//! A line of text whose parts have looks.

use super::sentence_width;
use std::fmt;
use unicode_width::UnicodeWidthStr;

/// The look of a part of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Look {
    /// As the terminal shows text.
    #[default]
    Plain,
    /// The heading of a column or of a section.
    Heading,
    /// A good result or state.
    Good,
    /// A state that may need attention.
    Doubtful,
    /// A failure, or a state that needs attention.
    Bad,
}

/// A part of a line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The text, without line ends.
    pub text: String,
    /// Its look.
    pub look: Look,
}

impl Span {
    /// Returns a part with this look.
    pub fn new(look: Look, text: impl Into<String>) -> Span {
        Span { text: text.into(), look }
    }

    /// Returns the number of columns that it occupies.
    pub(super) fn width(&self) -> usize {
        self.text.width()
    }
}

impl<Text: Into<String>> From<Text> for Span {
    fn from(text: Text) -> Span {
        Span::new(Look::Plain, text)
    }
}

/// A line of text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line(Vec<Span>);

impl Line {
    /// Returns a line of one part.
    pub fn of(span: impl Into<Span>) -> Line {
        Line::default().with(span)
    }

    /// Returns a line with the look of a heading.
    pub fn heading(text: impl Into<String>) -> Line {
        Line::of(Span::new(Look::Heading, text))
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, span: impl Into<Span>) -> Line {
        self.push(span.into());
        self
    }

    /// Adds the parts of another line.
    #[must_use]
    pub fn with_all(mut self, other: Line) -> Line {
        other.0.into_iter().for_each(|span| self.push(span));
        self
    }

    pub(super) fn push(&mut self, span: Span) {
        match self.0.last_mut() {
            _ if span.text.is_empty() => {}
            Some(last) if last.look == span.look => last.text.push_str(&span.text),
            _ => self.0.push(span),
        }
    }

    /// Returns its parts.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// Returns the number of columns that it occupies.
    pub fn width(&self) -> usize {
        self.0.iter().map(Span::width).sum()
    }

    /// Returns its words: the parts between blanks, which may have several looks.
    fn words(&self) -> Vec<Line> {
        let mut words = vec![Line::default()];
        for span in &self.0 {
            for (number, part) in span.text.split(' ').enumerate() {
                if number > 0 {
                    words.push(Line::default());
                }
                let last = words.last_mut().expect("there is one");
                last.push(Span::new(span.look, part));
            }
        }
        words
    }

    /// Returns the look of the blank between this line and a word: that of both, if it is the same.
    fn look_before(&self, word: &Line) -> Look {
        let looks = [self.0.last(), word.0.first()].map(|span| span.map(|span| span.look));
        match looks {
            [Some(before), Some(after)] if before == after => before,
            _ => Look::Plain,
        }
    }

    /// Breaks it if the output has a width. Elsewhere other programs may read the line, which stays
    /// whole.
    pub fn fitted(&self, width: Option<usize>, indent: usize) -> Vec<Line> {
        match width {
            Some(_) => self.wrapped(sentence_width(width), indent),
            None => vec![self.clone()],
        }
    }

    /// Breaks it between words, so that each line has at most this width; lines after the first one
    /// begin with `indent` blanks. A longer word, such as a path, stays whole.
    pub fn wrapped(&self, width: usize, indent: usize) -> Vec<Line> {
        let (mut lines, mut line, mut has_letters) = (Vec::new(), Line::default(), false);
        for (number, word) in self.words().into_iter().enumerate() {
            let more = word.width();
            // A label is not left alone: the next line has no more room than this one.
            let may_break = has_letters && line.width() + 1 > indent;
            if may_break && more > 0 && line.width() + 1 + more > width {
                lines.push(std::mem::take(&mut line).trimmed());
                line.push(" ".repeat(indent).into());
            } else if number > 0 {
                line.push(Span::new(line.look_before(&word), " "));
            }
            has_letters |= more > 0;
            word.0.into_iter().for_each(|span| line.push(span));
        }
        lines.push(line.trimmed());
        lines
    }

    /// Returns it without blanks at its end.
    pub(super) fn trimmed(mut self) -> Line {
        while let Some(last) = self.0.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if !last.text.is_empty() {
                break;
            }
            self.0.pop();
        }
        self
    }
}

impl<Text: Into<String>> From<Text> for Line {
    fn from(text: Text) -> Line {
        Line::of(text)
    }
}

/// Writes the text without its looks.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|span| f.write_str(&span.text))
    }
}

/// Lines of text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text(Vec<Line>);

impl Text {
    /// Adds a line.
    pub fn push(&mut self, line: impl Into<Line>) {
        self.0.push(line.into());
    }
}

impl Extend<Line> for Text {
    fn extend<Lines: IntoIterator<Item = Line>>(&mut self, lines: Lines) {
        self.0.extend(lines);
    }
}

impl IntoIterator for Text {
    type Item = Line;
    type IntoIter = std::vec::IntoIter<Line>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Writes the lines without their looks.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &Line, width: usize, indent: usize) -> Vec<String> {
        line.wrapped(width, indent).iter().map(Line::to_string).collect()
    }

    #[test]
    fn lines_are_broken_between_words() {
        let line = Line::from("reads     12, half of them from memory");
        assert_eq!(texts(&line, 80, 10), ["reads     12, half of them from memory"]);
        assert_eq!(
            texts(&line, 24, 10),
            ["reads     12, half of", "          them from", "          memory"]
        );
        assert_eq!(texts(&Line::from("  a b"), 4, 2), ["  a", "  b"]);
        assert_eq!(
            texts(&Line::from("see /a/very/long/path now"), 8, 0),
            ["see", "/a/very/long/path", "now"]
        );
        assert_eq!(texts(&Line::from("uri  /a/long/path"), 8, 5), ["uri  /a/long/path"]);
        assert_eq!(texts(&Line::default(), 8, 0), [""]);
    }

    #[test]
    fn a_word_keeps_its_looks_on_the_next_line() {
        let bad = Span::new(Look::Bad, "very bad");
        let line = Line::from("this is ").with(bad).with("; do it");
        let lines = line.wrapped(10, 1);
        let bad = |text: &str| Span::new(Look::Bad, text);
        assert_eq!(lines[0], Line::from("this is"));
        assert_eq!(lines[1].spans(), [" ".into(), bad("very bad"), ";".into()]);
    }
}
