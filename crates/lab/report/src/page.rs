//! The frame of a page: its head, the parts, the raw data.

use crate::plot::escaped;
use crate::style::STYLE;
use std::fmt::Write;

/// The contents of a page. All but `style` and `parts` is plain text.
pub struct Page<'a> {
    /// Its name, also its heading.
    pub title: &'a str,
    /// The source of the figures, in small letters.
    pub sub: &'a str,
    /// The summary, in a sentence or two; each line becomes a paragraph.
    pub verdict: &'a str,
    /// Additional CSS rules, after those of all pages.
    pub style: &'a str,
    /// Plots, tables and text, as HTML.
    pub parts: &'a str,
    /// The name of the raw data's schema.
    pub schema: &'a str,
    /// The raw data: JSON.
    pub raw: &'a str,
}

/// The start of the raw data. Browsers do not run a script element of this type.
const BEFORE_DATA: &str = "<script type=\"application/json\" id=\"raw\">";
const BEHIND_DATA: &str = "</script>";

/// Adds the buttons that save a chart as SVG and PNG. The rest of a page does not depend on it.
const SCRIPT: &str = include_str!("script.js");
/// The page loads nothing, and runs nothing but the script with this digest, which is printed by
/// `openssl dgst -sha256 -binary script.js | base64`. A browser reports a wrong one as an error.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                      script-src 'sha256-MJC76EkVI3rolmp/l9ssN8FgbMzlVKwiTR6ERApckUk='";

impl Page<'_> {
    /// Returns the page as the contents of a file.
    pub fn html(&self) -> String {
        let title = escaped(self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<title>{title}</title>\n\
             <style>{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
             <p class=\"sub\">{}</p>\n<p class=\"verdict\">{}</p>\n{}",
            self.style,
            escaped(self.sub),
            escaped(self.verdict),
            self.parts
        );
        // In JSON a < occurs in strings only, where it can be escaped: no text in the data can end
        // the element.
        let raw = self.raw.replace('<', "\\u003c");
        _ = write!(
            page,
            "<script>{SCRIPT}</script>\n<details><summary>Raw data: {}</summary>\n{BEFORE_DATA}{raw}{BEHIND_DATA}\n</details>\n</main>\n\
             </body>\n</html>\n",
            escaped(self.schema),
        );
        page
    }
}

/// Returns the raw data of a page. None: it has none, or is truncated.
pub fn raw_data(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(BEFORE_DATA)?;
    rest.split_once(BEHIND_DATA).map(|(raw, _)| raw)
}

/// Returns the CSS rules of all pages, for a page with another frame.
pub fn style() -> &'static str {
    STYLE
}

/// Returns a page without its script, for a server that allows none: the page lacks the buttons
/// that save a chart.
pub fn without_script(page: &str) -> String {
    page.replacen(&format!("<script>{SCRIPT}</script>\n"), "", 1)
}

/// Returns a heading with its contents; nothing if there are none.
pub fn section(heading: &str, parts: &str) -> String {
    match parts.is_empty() {
        true => String::new(),
        false => format!("<h2>{}</h2>\n{parts}", escaped(heading)),
    }
}

/// Returns plots side by side, as many as fit.
pub fn side_by_side(figures: &[String]) -> String {
    match figures.is_empty() {
        true => String::new(),
        false => format!("<div class=\"plots\">\n{}</div>\n", figures.concat()),
    }
}

/// Returns a table of names and values.
pub fn facts(facts: &[(&str, String)]) -> String {
    let row = |(name, value): &(&str, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(name), escaped(value))
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
        assert_eq!(html.matches("<script").count(), 2, "the data, and the page's own");
        assert_eq!(html.matches("</script").count(), 2);
        assert!(!html.contains("<!--") && html.contains("<p>x</p>"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;&quot;&amp;").count(), 5);
        assert!(html.starts_with("<!doctype html>\n") && html.ends_with("</body>\n</html>\n"));
        let plain = without_script(&html);
        assert!(plain.len() < html.len() && !plain.contains("<script>"), "only the data is left");
        let found = raw_data(&html).expect("the data");
        assert_eq!(found.replace("\\u003c", "<"), raw);
        assert_eq!((raw_data("<p>"), raw_data(&html[..html.len() - 40])), (None, None));
    }

    #[test]
    fn parts_that_are_empty_leave_nothing() {
        assert_eq!((section("A", ""), side_by_side(&[])), (String::new(), String::new()));
        assert_eq!(section("A & B", "<p>"), "<h2>A &amp; B</h2>\n<p>");
        assert!(facts(&[("a", "<".to_owned())]).contains(">a</th><td>&lt;</td>"));
    }
}
