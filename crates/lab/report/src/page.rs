//! The frame of a page: what comes first, the parts, the raw data.

use crate::plot::escaped;
use crate::style::STYLE;
use std::fmt::Write;

/// What a page is made of. All but `style` and `parts` is plain text.
pub struct Page<'a> {
    /// Its name, which is its heading, too.
    pub title: &'a str,
    /// Where the figures come from, in small letters.
    pub sub: &'a str,
    /// What there is to see, in a sentence or two; each line is one of its own.
    pub verdict: &'a str,
    /// Rules of its own, after those that all pages have.
    pub style: &'a str,
    /// Plots, tables and text, as HTML.
    pub parts: &'a str,
    /// What the raw data is.
    pub schema: &'a str,
    /// The raw data: JSON.
    pub raw: &'a str,
}

/// What stands before the raw data. It is no script: of this type none is run.
const BEFORE_DATA: &str = "<script type=\"application/json\" id=\"raw\">";
const BEHIND_DATA: &str = "</script>";

impl Page<'_> {
    /// The page, as a file has it.
    pub fn html(&self) -> String {
        let title = escaped(self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>{STYLE}{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
             <p class=\"sub\">{}</p>\n<p class=\"verdict\">{}</p>\n{}",
            self.style,
            escaped(self.sub),
            escaped(self.verdict),
            self.parts
        );
        // In JSON a < stands in strings only, where it can be written in another way: nothing ends the element early.
        let raw = self.raw.replace('<', "\\u003c");
        _ = write!(
            page,
            "<details><summary>Raw data: {}</summary>\n{BEFORE_DATA}{raw}{BEHIND_DATA}\n</details>\n\
             </body>\n</html>\n",
            escaped(self.schema),
        );
        page
    }
}

/// The raw data of a page; None: it has none, or was cut off before its end.
pub fn raw_data(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(BEFORE_DATA)?;
    rest.split_once(BEHIND_DATA).map(|(raw, _)| raw)
}

/// A heading with what stands below it; nothing if that is nothing.
pub fn section(heading: &str, parts: &str) -> String {
    match parts.is_empty() {
        true => String::new(),
        false => format!("<h2>{}</h2>\n{parts}", escaped(heading)),
    }
}

/// Plots beside one another, as many as there is room for.
pub fn side_by_side(figures: &[String]) -> String {
    match figures.is_empty() {
        true => String::new(),
        false => format!("<div class=\"plots\">\n{}</div>\n", figures.concat()),
    }
}

/// A table of names and what is known of each.
pub fn facts(facts: &[(&str, String)]) -> String {
    let row = |(name, told): &(&str, String)| {
        format!("<tr><th>{}</th><td>{}</td></tr>\n", escaped(name), escaped(told))
    };
    format!("<table class=\"facts\">\n{}</table>\n", facts.iter().map(row).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_data_stays_data() {
        let bad = "<script>\"&";
        let raw = "{\"a\": \"</script><!-- <script>\"}";
        let page = Page {
            title: bad,
            sub: bad,
            verdict: bad,
            style: "",
            parts: "<p>x</p>\n",
            schema: bad,
            raw,
        };
        let html = page.html();
        assert_eq!(html.matches("<script").count(), 1);
        assert_eq!(html.matches("</script").count(), 1);
        assert!(!html.contains("<!--") && html.contains("<p>x</p>"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;&quot;&amp;").count(), 5);
        assert!(html.starts_with("<!doctype html>\n") && html.ends_with("</body>\n</html>\n"));
        let found = raw_data(&html).expect("the data");
        assert_eq!(found.replace("\\u003c", "<"), raw);
        assert_eq!((raw_data("<p>"), raw_data(&html[..html.len() - 40])), (None, None));
    }

    #[test]
    fn parts_that_are_empty_leave_nothing() {
        assert_eq!((section("A", ""), side_by_side(&[])), (String::new(), String::new()));
        assert_eq!(section("A & B", "<p>"), "<h2>A &amp; B</h2>\n<p>");
        assert!(facts(&[("a", "<".to_owned())]).contains("<th>a</th><td>&lt;</td>"));
    }
}
