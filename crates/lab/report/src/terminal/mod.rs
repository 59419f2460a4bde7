//! Text for terminals: lines with coloured parts, and tables that fit a width.
//!
//! Nothing here writes: the caller prints the lines, with the colours or without them.

mod line;
mod table;

pub use line::{Line, Look, Span, Text};
pub use table::{Align, Column, Fit, Table};

/// Maximum width of text, in columns: longer lines are hard to read.
const WIDTH_MAX: usize = 100;

/// Returns the width at which paragraphs are broken in an output of this width. None: the output is
/// no terminal.
pub fn sentence_width(width: Option<usize>) -> usize {
    width.map_or(WIDTH_MAX, |width| width.min(WIDTH_MAX))
}

/// Whether a table fits an output of this width. Where the output is no terminal, other programs
/// may read it, and each row is one whole line.
pub fn fits(table: &Table, width: Option<usize>) -> bool {
    width.is_none_or(|width| table.width() <= width)
}
