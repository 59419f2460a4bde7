//! Tables of a page: on a narrow screen each row becomes a block of names and values.

use crate::plot::escaped;
use std::fmt::Write;

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a> {
    /// Its heading, which is never empty.
    pub name: &'a str,
    /// Whether its cells are text, aligned to the left; otherwise numbers.
    pub is_text: bool,
}

impl<'a> Head<'a> {
    /// Returns a column of text.
    pub fn text(name: &'a str) -> Head<'a> {
        Head { name, is_text: true }
    }

    /// Returns a column of numbers.
    pub fn number(name: &'a str) -> Head<'a> {
        Head { name, is_text: false }
    }
}

/// A cell: plain text, and a CSS class that marks its meaning.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TableCell {
    /// Its text.
    pub text: String,
    /// Its class; may be empty.
    pub class: &'static str,
}

impl TableCell {
    /// Returns a cell with a class.
    pub fn marked(text: impl Into<String>, class: &'static str) -> TableCell {
        TableCell { text: text.into(), class }
    }
}

impl<T: Into<String>> From<T> for TableCell {
    fn from(text: T) -> TableCell {
        TableCell::marked(text, "")
    }
}

/// Returns a table as an element of a page. `name` is its name for screen readers. The first cell
/// of a row is its heading.
pub fn table(name: &str, heads: &[Head<'_>], rows: &[Vec<TableCell>]) -> String {
    let name = escaped(name);
    // Explicit roles: rows that are displayed as blocks would lose their own.
    let mut html = format!(
        "<table class=\"stack\" role=\"table\" aria-label=\"{name}\">\n\
         <thead role=\"rowgroup\"><tr role=\"row\">"
    );
    for head in heads {
        let class = if head.is_text { " class=\"text\"" } else { "" };
        _ = write!(
            html,
            "<th scope=\"col\" role=\"columnheader\"{class}>{}</th>",
            escaped(head.name)
        );
    }
    html.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    for row in rows {
        html.push_str("<tr role=\"row\">");
        for (number, (head, cell)) in heads.iter().zip(row).enumerate() {
            let class = [if head.is_text { "text" } else { "" }, cell.class].join(" ");
            let class = match class.trim() {
                "" => String::new(),
                class => format!(" class=\"{class}\""),
            };
            let text = escaped(&cell.text);
            match number {
                0 => _ = write!(html, "<th scope=\"row\" role=\"rowheader\"{class}>{text}</th>"),
                _ => {
                    let label = escaped(head.name);
                    _ = write!(html, "<td role=\"cell\" data-head=\"{label}\"{class}>{text}</td>");
                }
            }
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table>");
    scrolled(&name, &html)
}

/// Returns a table, as an element, that is scrolled by the keyboard as well where it is too wide.
/// `name` is its name for screen readers, escaped.
pub fn scrolled(name: &str, table: &str) -> String {
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">{table}</div>\n"
    )
}

/// Returns a table of plain text whose first row has the headings. It stays a table on a narrow
/// screen.
pub fn plain_table<R: AsRef<[String]>>(name: &str, rows: &[R]) -> String {
    let mut html = "<table>\n".to_owned();
    for (number, row) in rows.iter().enumerate() {
        let cell = |text: &String| {
            // A head without text names nothing: screen readers would read an empty one.
            let (begin, end) = match number == 0 && !text.is_empty() {
                true => ("th scope=\"col\"", "th"),
                false => ("td", "td"),
            };
            format!("<{begin}>{}</{end}>", escaped(text))
        };
        let cells = row.as_ref().iter().map(cell);
        _ = writeln!(html, "<tr>{}</tr>", cells.collect::<String>());
    }
    scrolled(&escaped(name), &(html + "</table>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_its_heading_for_a_narrow_screen() {
        let heads = [Head::text("test"), Head::number("MB/s"), Head::text("notes")];
        let rows = [vec!["a <b>".into(), TableCell::marked("12", "worse"), "".into()]];
        let html = table("Figures", &heads, &rows);
        for part in [
            "<th scope=\"row\" role=\"rowheader\" class=\"text\">a &lt;b&gt;</th>",
            "<td role=\"cell\" data-head=\"MB/s\" class=\"worse\">12</td>",
            "<td role=\"cell\" data-head=\"notes\" class=\"text\"></td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("></th>"), "no heading is empty: {html}");
        assert!(html.starts_with("<div class=\"wide\" tabindex=\"0\" role=\"region\""), "{html}");
    }

    #[test]
    fn a_head_without_text_is_an_ordinary_cell() {
        let html = plain_table("Hits", &[[String::new(), "size".to_owned()]]);
        assert!(html.contains("<tr><td></td><th scope=\"col\">size</th></tr>"), "{html}");
    }

    #[test]
    fn a_plain_table_is_scrolled_by_the_keyboard() {
        let html = plain_table("A & B", &[["size".to_owned()], ["<1".to_owned()]]);
        assert_eq!(
            html,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"A &amp; B\"><table>\n\
             <tr><th scope=\"col\">size</th></tr>\n<tr><td>&lt;1</td></tr>\n</table></div>\n"
        );
    }
}
