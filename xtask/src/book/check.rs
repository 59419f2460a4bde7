//! The links of the rendered pages: each leads to a file of the manual, and to an anchor in it.
//! Links to other sites are not followed.

use std::collections::{BTreeMap, BTreeSet};

/// The files of the manual by their paths; the text of pages, none of others.
pub(super) type Files = BTreeMap<String, String>;

/// Attributes that lead somewhere.
const LINKS: [&str; 2] = ["href", "src"];

/// Returns the links that lead nowhere, with their pages.
pub(super) fn faults(files: &Files) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        files.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut faults = Vec::new();
    for (path, text) in files {
        for (name, target) in attributes(text).filter(|(name, _)| LINKS.contains(name)) {
            if let Some(fault) = fault(path, &target.replace("&amp;", "&"), &anchors) {
                faults.push(format!("{path}: {name}={target:?}: {fault}"));
            }
        }
    }
    faults
}

fn fault(page: &str, target: &str, anchors: &BTreeMap<&str, BTreeSet<String>>) -> Option<String> {
    // Another site, or data in the link itself.
    if target.split(['/', '#']).next().is_some_and(|start| start.contains(':')) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() { page.to_owned() } else { resolve(page, file) };
    let Some(there) = anchors.get(file.as_str()) else {
        return Some(format!("the manual has no {file}"));
    };
    let is_there = anchor.is_empty() || there.contains(anchor);
    (!is_there).then(|| format!("{file} has no anchor {anchor:?}"))
}

/// Returns the path of a target from the directory of the pages.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn anchors(text: &str) -> BTreeSet<String> {
    let ids = attributes(text).filter(|(name, _)| *name == "id");
    ids.map(|(_, id)| id.to_owned()).collect()
}

/// Returns the attributes of all tags, with their values. The code of scripts is left out.
fn attributes(text: &str) -> impl Iterator<Item = (&str, &str)> {
    tags(text).into_iter().flat_map(|tag| {
        // Between quotes there are values: name="value" name="value".
        let parts: Vec<&str> = tag.split('"').collect();
        let pairs: Vec<(&str, &str)> = parts.chunks_exact(2).map(|it| (it[0], it[1])).collect();
        pairs.into_iter().filter_map(|(before, value)| {
            let name = before.strip_suffix('=')?.rsplit([' ', '\n']).next()?;
            Some((name, value))
        })
    })
}

/// Returns the insides of all tags.
fn tags(text: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        let mut is_quoted = false;
        let end = rest.find(|letter| {
            is_quoted ^= letter == '"';
            letter == '>' && !is_quoted
        });
        let Some(end) = end else { break };
        let tag = &rest[..end];
        found.push(tag);
        rest = &rest[end + 1..];
        if tag.starts_with("script") {
            rest = rest.split_once("</script").map_or("", |(_, behind)| behind);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found_and_others_are_not() {
        let page = "<h1 id=\"top\">A > B</h1><!-- <a href=\"none.html\"> -->\
                    <script src=\"x.js\">if (a < b) { c = '<a href=\"none.html\">' }</script>\
                    <a class=\"l\" href=\"#top\"></a><a href=\"b/c.html#d\"></a>\
                    <a href=\"https://example.com/\"></a><img src=\"data:image/png;base64,\">";
        let other = "<p id=\"d\"></p><a href=\"../a.html#top\"></a>";
        let files = |page: &str| -> Files {
            [("a.html", page), ("b/c.html", other), ("x.js", "")]
                .map(|(path, text)| (path.to_owned(), text.to_owned()))
                .into()
        };
        assert_eq!(faults(&files(page)), [""; 0]);
        let broken = page.replace("#top\"", "#none\"").replace("b/c.html#d", "c.html");
        assert_eq!(
            faults(&files(&broken)),
            [
                "a.html: href=\"#none\": a.html has no anchor \"none\"",
                "a.html: href=\"c.html\": the manual has no c.html",
            ]
        );
        assert_eq!(faults(&files("<h1>none</h1>")).len(), 1, "the other page's link");
    }
}
