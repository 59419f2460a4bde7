//! The documents: links and anchors lead somewhere, and sources that they name exist.

use crate::metadata::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A document: its path from the workspace's root, and its text.
pub(crate) struct Document {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Folders without sources of the project, beside those whose name begins with a dot.
const NOT_OURS: [&str; 1] = ["target"];

/// All files below the root with these extensions, as paths from there.
fn files(extensions: &[&str]) -> BTreeSet<String> {
    let (root, mut found) = (root(), BTreeSet::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !path.is_symlink() {
                if !name.starts_with('.') && !NOT_OURS.contains(&name) {
                    folders.push(path);
                }
            } else if extensions.iter().any(|it| path.extension().is_some_and(|found| found == *it))
            {
                let path = path.strip_prefix(&root).expect("below the root");
                found.insert(path.to_str().expect("plain").to_owned());
            }
        }
    }
    found
}

/// All Markdown files of the project.
pub(crate) fn documents() -> Vec<Document> {
    let read = |path: String| {
        let text = std::fs::read_to_string(root().join(&path)).expect("a document is UTF-8");
        Document { path, text }
    };
    files(&["md"]).into_iter().map(read).collect()
}

/// The lines of a text outside code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// The anchor of a heading, as GitHub derives it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.flat_map(char::to_lowercase).map(|it| if it == ' ' { '-' } else { it }).collect()
}

/// The anchors of a document: its headings, and `<a id="...">`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let slug = slug(heading);
            let earlier = uses.entry(slug.clone()).or_default();
            found.insert(if *earlier == 0 { slug } else { format!("{slug}-{earlier}") });
            *earlier += 1;
        }
        for part in line.split("<a id=\"").skip(1) {
            found.extend(part.split('"').next().map(str::to_owned));
        }
    }
    found
}

/// The targets of the links of a document, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Between backquotes there is code.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in plain.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// A path without `..`, from the root.
fn resolve(document: &str, target: &str) -> PathBuf {
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut resolved = folder.to_path_buf();
    for part in Path::new(target) {
        if part == ".." {
            resolved.pop();
        } else {
            resolved.push(part);
        }
    }
    resolved
}

/// Why a link of a document leads nowhere, if it does.
fn fault(document: &Document, target: &str, all: &[Document]) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = match path {
        "" => PathBuf::from(&document.path),
        path => resolve(&document.path, path),
    };
    if !root().join(&resolved).exists() {
        return Some(format!("there is no {}", resolved.display()));
    }
    let other = all.iter().find(|other| Path::new(&other.path) == resolved)?;
    let is_there = anchor.is_empty() || anchors(&other.text).contains(anchor);
    (!is_there).then(|| format!("{} has no anchor '{anchor}'", other.path))
}

#[test]
fn links_and_anchors_resolve() {
    let all = documents();
    assert!(all.len() > 20, "{} documents", all.len());
    let (mut faults, mut checked) = (Vec::new(), 0);
    for document in &all {
        for (line, target) in links(&document.text) {
            checked += 1;
            let fault = fault(document, &target, &all);
            faults.extend(fault.map(|fault| format!("{}:{line}: {fault}", document.path)));
        }
    }
    assert!(checked > 100, "{checked} links");
    assert_eq!(faults, [""; 0], "links that lead nowhere");
}

/// The Rust files that a text names in backquotes: `shard/read.rs`.
fn sources(text: &str) -> Vec<(usize, &str)> {
    let quoted = |(number, line)| {
        let parts = str::split(line, '`').skip(1).step_by(2);
        parts.map(move |part: &str| (number, part))
    };
    let is_path = |part: &str| {
        let mut letters = part.chars();
        part.ends_with(".rs") && letters.all(|it| it.is_alphanumeric() || "/._-".contains(it))
    };
    prose(text).flat_map(quoted).filter(|(_, part)| is_path(part)).collect()
}

#[test]
fn sources_that_documents_name_exist() {
    let files: Vec<String> = files(&["rs"]).into_iter().map(|path| format!("/{path}")).collect();
    // A crate's name may stand for its `src`.
    let short: Vec<String> = files.iter().map(|path| path.replace("/src/", "/")).collect();
    let exists = |named: &str| {
        let end = format!("/{named}");
        files.iter().chain(&short).any(|path| path.ends_with(&end))
    };
    let mut faults = Vec::new();
    for document in documents() {
        let missing = sources(&document.text).into_iter().filter(|(_, named)| !exists(named));
        faults.extend(missing.map(|(line, it)| format!("{}:{line}: {it}", document.path)));
    }
    assert_eq!(faults, [""; 0], "sources that do not exist; name the file that has this now");
}

#[test]
fn anchors_links_and_sources_are_read_from_the_text() {
    let text = "# A `b` C: d/e\n## Twice\n## Twice\n```\n# no heading [x](none)\n```\n\
                see [x](y.md#z), `[no](link)` and `a/b.rs`, `c.rs --x`; <a id=\"own\"></a>\n";
    let expected = ["a-b-c-de", "own", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(expected));
    assert_eq!(links(text), [(7, "y.md#z".to_owned())]);
    assert_eq!(sources(text), [(7, "a/b.rs")]);
    assert_eq!(resolve("docs/design/a.md", "../B.md"), Path::new("docs/B.md"));
    let all = [Document { path: "README.md".into(), text: "# One\n".into() }];
    let fault = |target| fault(&all[0], target, &all);
    assert_eq!(fault("xtask/src/main.rs"), None);
    assert_eq!(fault("https://example.com/none"), None);
    assert_eq!(fault("#one"), None);
    assert_eq!(fault("#two").as_deref(), Some("README.md has no anchor 'two'"));
    assert_eq!(fault("none.md#x").as_deref(), Some("there is no none.md"));
}

/// The messages that a text quotes, cut where a name or a number stands.
fn quotes(text: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let quoted = text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let cut = |quote: &String| {
        let blanks = ["...", "PID", "DIR", "NAME", "FILE"];
        let cut = blanks.iter().fold(quote.clone(), |text, blank| text.replace(blank, "\n"));
        cut.lines().map(|part| part.trim().to_owned()).collect::<Vec<_>>()
    };
    quoted.iter().flat_map(cut).filter(|part| part.len() > 8).collect()
}

/// A user searches this page for the message that a command has printed.
#[test]
fn messages_that_the_page_of_symptoms_quotes_exist() {
    let read = |path: &String| std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let sources: Vec<String> = files(&["rs"]).iter().map(read).collect();
    // Literals continue behind a backslash at the end of a line.
    let all = sources.join("\n").replace("\\\n", " ");
    let all = all.split_whitespace().collect::<Vec<_>>().join(" ");
    let page = read(&"docs/TROUBLESHOOTING.md".to_owned());
    // Messages of other programs.
    let foreign = |quote: &&String| ["Failed to get", "lock"].contains(&quote.as_str());
    let missing: Vec<String> = quotes(&page)
        .into_iter()
        .filter(|it| !foreign(&it) && !all.contains(it.as_str()))
        .collect();
    assert!(quotes(&page).len() > 10, "the page quotes messages");
    assert_eq!(missing, [""; 0], "messages that no source has");
}

/// The commands of the project in a text that measure something.
fn measurements(text: &str) -> Vec<&str> {
    let is_one = |part: &&str| {
        let kinds = ["bench ", "kills ", "guest "];
        let command = part.strip_prefix("cargo xtask ");
        command.is_some_and(|rest| kinds.iter().any(|kind| rest.starts_with(kind)))
    };
    text.split('`').filter(is_one).collect()
}

/// Figures that other pages repeat are in the table, with their command.
#[test]
fn commands_that_show_a_figure_are_in_the_table_of_figures() {
    let read = |path| std::fs::read_to_string(root().join(path)).expect("a document");
    let figures = read("docs/FIGURES.md");
    let known = measurements(&figures);
    for page in ["docs/RAPID.md", "docs/PEERS.md"] {
        let text = read(page);
        let commands = measurements(&text);
        assert!(!commands.is_empty(), "{page} has commands");
        let unknown: Vec<&&str> = commands.iter().filter(|it| !known.contains(it)).collect();
        assert!(unknown.is_empty(), "{page}: not in docs/FIGURES.md: {unknown:?}");
    }
}
