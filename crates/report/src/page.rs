//! The frame of a page: what comes first, the parts, the raw data.

use crate::plot::escaped;
use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --rule: #d8dde3; --paper: #ffffff;
  --one: #0b62c4; --two: #c2410c; --three: #15803d; --four: #7e22ce; --five: #be185d; --six: #946200; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --rule: #343b43;
  --paper: #14181c; --one: #6db1ff; --two: #fb923c; --three: #4ade80; --four: #c4a1ff; --five: #f783b4;
  --six: #facc15; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.sub { color: var(--soft); margin-top: .2rem; } .verdict { font-size: 1.1rem; }
svg { width: 100%; height: auto; margin: .6rem 0; font: 12px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg .title { font-size: 14px; font-weight: 600; }
svg .tick, svg .name { fill: var(--soft); } svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .axis, svg .mark { stroke: var(--soft); stroke-width: 1; }
svg .dots { stroke-width: 2.4; stroke-linecap: round; fill: none; opacity: .75; }
svg .line { stroke-width: 1.6; fill: none; stroke-linejoin: round; } svg .bar { fill: var(--one); }
svg .points { stroke-width: 5; stroke-linecap: round; fill: none; }
svg .lead { stroke-width: .8; fill: none; opacity: .7; } svg .d1 { stroke-dasharray: 7 3; }
svg .d2 { stroke-dasharray: 2 3; } svg .bound { stroke: var(--ink); } svg .line.bound { stroke-dasharray: 1 4;
  stroke-linecap: round; stroke-width: 2; }
svg .c0 { stroke: var(--one); } svg .c1 { stroke: var(--two); } svg .c2 { stroke: var(--three); }
svg .c3 { stroke: var(--four); } svg .c4 { stroke: var(--five); } svg .c5 { stroke: var(--six); }
svg .f0 { fill: var(--one); } svg .f1 { fill: var(--two); } svg .f2 { fill: var(--three); }
svg .f3 { fill: var(--four); } svg .f4 { fill: var(--five); } svg .f5 { fill: var(--six); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { padding: .3rem .4rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; } th { color: var(--soft); font-weight: 500; }
pre { overflow: auto; max-height: 24rem; font-size: .75rem; border: 1px solid var(--rule); padding: .6rem; }
";

/// What a page is made of. All but `style` and `parts` is plain text.
pub struct Page<'a> {
    /// Its name, which is its heading, too.
    pub title: &'a str,
    /// Where the figures come from, in small letters.
    pub sub: &'a str,
    /// What there is to see, in a sentence or two.
    pub verdict: &'a str,
    /// Rules of its own, after those that all pages have.
    pub style: &'a str,
    /// Plots, tables and text, as HTML.
    pub parts: &'a str,
    /// What the raw data is.
    pub schema: &'a str,
    /// The raw data.
    pub raw: &'a str,
}

impl Page<'_> {
    /// The page, as a file has it.
    pub fn html(&self) -> String {
        let title = escaped(self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
             <p class=\"sub\">{}</p>\n<p class=\"verdict\">{}</p>\n{}",
            self.style,
            escaped(self.sub),
            escaped(self.verdict),
            self.parts
        );
        _ = write!(
            page,
            "<h2>Raw data</h2>\n<details><summary>{}</summary>\n\
             <pre id=\"raw\">{}</pre></details>\n</body>\n</html>\n",
            escaped(self.schema),
            escaped(self.raw)
        );
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let bad = "<script>\"&";
        let page = Page {
            title: bad,
            sub: bad,
            verdict: bad,
            style: "",
            parts: "<p>x</p>\n",
            schema: bad,
            raw: bad,
        };
        let html = page.html();
        assert!(!html.contains("<script") && html.contains("<p>x</p>"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;&quot;&amp;").count(), 6);
        assert!(html.starts_with("<!doctype html>\n") && html.ends_with("</body>\n</html>\n"));
    }
}
