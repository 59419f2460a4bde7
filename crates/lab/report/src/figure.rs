//! The frame of a chart: its caption, the names of its parts, the drawing, and its figures as CSV.

use crate::html::escaped;
use std::fmt::Write;

/// The figures of a chart, as lines of CSV (RFC 4180).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Csv(String);

impl Csv {
    /// Returns a table with these heads only.
    pub fn new(heads: &[&str]) -> Csv {
        let mut csv = Csv(String::new());
        csv.line(heads.iter().map(|head| (*head).to_owned()));
        csv
    }

    /// Adds a line.
    pub fn line(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(quote).collect();
        _ = write!(self.0, "{}\r\n", cells.join(","));
    }

    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Formats a value for a program: at most three decimals, which is what the JSON has.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn quote(cell: String) -> String {
    match cell.contains(['"', ',', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// A chart as an element of a page.
pub(crate) struct Figure<'a> {
    /// The caption.
    pub(crate) title: &'a str,
    /// The names of its parts, as HTML; empty if there are none.
    pub(crate) keys: &'a str,
    /// Whether the drawing may be wider than a phone, and is then scrolled.
    pub(crate) is_wide: bool,
    /// The drawing: an SVG element.
    pub(crate) svg: &'a str,
    /// Its figures. None: the page has them elsewhere.
    pub(crate) csv: Option<&'a Csv>,
}

impl Figure<'_> {
    /// Returns the element. Its CSV is a link that needs no network; the page's script adds links
    /// that save the drawing.
    pub(crate) fn html(&self) -> String {
        let title = escaped(self.title);
        let keys = match self.keys.is_empty() {
            true => String::new(),
            false => format!("<p class=\"keys\">{}</p>\n", self.keys),
        };
        let frame = match self.is_wide {
            true => format!(
                " class=\"wide plot\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\""
            ),
            false => String::new(),
        };
        let link = |csv: &Csv| {
            format!(
                "<p class=\"save\"><a download=\"{}.csv\" aria-label=\"CSV of {title}\" \
                 href=\"data:text/csv;charset=utf-8,{}\">CSV</a></p>\n",
                file_name(self.title),
                percent_encoded(csv.text())
            )
        };
        let link = self.csv.map(link).unwrap_or_default();
        format!(
            "<figure>\n<figcaption>{title}</figcaption>\n{keys}<div{frame}>\n{}</div>\n\
             {link}</figure>\n",
            self.svg,
        )
    }
}

/// Longest name of a saved file, without its extension.
const FILE_NAME_MAX: usize = 60;

/// Returns a name for a file with the figures: letters, digits and hyphens.
fn file_name(title: &str) -> String {
    let mut name = String::new();
    for letter in title.chars() {
        match letter {
            plain if plain.is_ascii_alphanumeric() => name.push(plain.to_ascii_lowercase()),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    name.truncate(FILE_NAME_MAX);
    let name = name.trim_end_matches('-');
    if name.is_empty() { "chart".to_owned() } else { name.to_owned() }
}

/// Encodes text as a part of a URL (RFC 3986), which is also safe within an attribute.
fn percent_encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' | b'/' => {
                url.push(byte.into());
            }
            _ => _ = write!(url, "%{byte:02X}"),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_saved_without_a_network() {
        let mut csv = Csv::new(&["test", "MB/s"]);
        csv.line(["a, \"b\" <c>".to_owned(), plain(1.5)]);
        assert_eq!(csv.text(), "test,MB/s\r\n\"a, \"\"b\"\" <c>\",1.5\r\n");
        let figure = Figure {
            title: "A & B: 4 KiB",
            keys: "",
            is_wide: false,
            svg: "<svg></svg>\n",
            csv: Some(&csv),
        };
        let html = figure.html();
        for part in [
            "<figcaption>A &amp; B: 4 KiB</figcaption>",
            "download=\"a-b-4-kib.csv\"",
            "href=\"data:text/csv;charset=utf-8,test,MB/s%0D%0A%22a,%20%22%22b%22%22%20%3Cc%3E%22,1.5%0D%0A\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(
            (file_name("<>"), plain(100.0), plain(-0.25)),
            ("chart".into(), "100".into(), "-0.25".into())
        );
    }
}
