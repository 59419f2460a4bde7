//! A chart as a picture: a file of its own, for documents that cannot contain the chart itself.

use crate::style::STYLE;

/// The name of SVG's elements; it is an identifier and loads nothing.
const NAMESPACE: &str = "http://www.w3.org/2000/svg";

/// Returns the drawing of a chart's element as an SVG file with the style of pages, on paper of its
/// own. None: the element has no drawing.
pub fn picture(figure: &str) -> Option<String> {
    // The keys of a legend are drawings without a role.
    let is_chart = |start: &usize| {
        figure[*start..].split_once('>').is_some_and(|(head, _)| head.contains(" role="))
    };
    let start = figure.match_indices("<svg ").map(|(start, _)| start).find(is_chart)?;
    let end = start + figure[start..].find("</svg>")? + "</svg>".len();
    let svg = figure[start + "<svg".len()..end].trim_end();
    let (head, rest) = svg.split_once('>')?;
    Some(format!(
        "<svg xmlns=\"{NAMESPACE}\"{head}>\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>{rest}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::{Bar, Test, bars};

    #[test]
    fn a_picture_has_its_style_and_paper_and_is_one_element() {
        let bar = Bar { value: 3.0, interval: None };
        let bars_of_two = vec![Some(bar), Some(bar)];
        let tests = [Test { name: "a & b".into(), bars: bars_of_two, published: None }];
        let names = ["one".to_owned(), "two".to_owned()];
        let drawn = picture(&bars("Rates", "MB/s", &names, &tests)).expect("a drawing");
        assert!(drawn.starts_with("<svg xmlns="), "{drawn}");
        assert_eq!((drawn.matches("<svg").count(), drawn.matches("</svg>").count()), (1, 1));
        assert!(drawn.contains("--paper") && drawn.contains("a &amp; b"), "{drawn}");
        assert_eq!(picture("<p>no drawing</p>"), None);
    }
}
