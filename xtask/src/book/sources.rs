//! The documents as mdBook reads them: a copy of the ones that the table of contents names.
//!
//! Links to files of the repository that are no chapter become plain text, because the pages are
//! read without the repository.

use super::reference::Chapter;
use anyhow::{Context, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The table of contents; its links are relative to its folder.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The heading of the reference in it.
const REFERENCE: &str = "# Reference\n\n";
/// Files of mdBook itself, and pictures, with their names in the copy.
const MORE: [(&str, &str); 3] = [
    ("docs/book.toml", "book.toml"),
    ("docs/book.css", "book.css"),
    ("docs/report.png", "src/docs/report.png"),
];

/// The folder of the written reviews, with their drawings.
const REVIEWS: &str = "docs/reviews";

/// Copies the documents of the project at `root` to the directory `to`, which is replaced.
///
/// # Errors
/// A chapter does not exist, or a document of the project is no chapter.
pub(super) fn copy(root: &Path, to: &Path) -> anyhow::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| to.display().to_string())?;
    }
    let read = |name: &str| fs::read_to_string(root.join(name)).context(name.to_owned());
    let summary = read(SUMMARY)?;
    let chapters: BTreeSet<String> = targets(&summary).map(|it| resolve(SUMMARY, it)).collect();
    let left_out: Vec<String> =
        documents(root)?.into_iter().filter(|name| !chapters.contains(name)).collect();
    ensure!(left_out.is_empty(), "{SUMMARY} lacks {}", left_out.join(", "));
    let source = to.join("src");
    for name in &chapters {
        let is_foreign = |target: &str| !chapters.contains(target) && root.join(target).exists();
        write(&source.join(name), &without_foreign_links(name, &read(name)?, is_foreign))?;
    }
    let contents =
        rewrite(&summary, |label, target| format!("[{label}]({})", resolve(SUMMARY, target)));
    write(&source.join("SUMMARY.md"), &contents)?;
    for (from, name) in MORE {
        let (from, name) = (root.join(from), to.join(name));
        fs::copy(&from, &name).with_context(|| from.display().to_string())?;
    }
    copy_drawings(&root.join(REVIEWS), &source.join(REVIEWS))
}

/// Copies the drawings of a folder.
fn copy_drawings(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            let name = path.file_name().context("a file has a name")?;
            fs::copy(&path, to.join(name)).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Adds the chapters of the commands to a copy, behind the heading of the reference.
///
/// # Errors
/// The table of contents has no such heading.
pub(super) fn add_reference(copy: &Path, chapters: &[Chapter]) -> anyhow::Result<()> {
    let source = copy.join("src");
    let mut entries = String::new();
    for (index, chapter) in chapters.iter().enumerate() {
        let path = format!("docs/reference/{}.md", chapter.name.replace(' ', "-"));
        write(&source.join(&path), &chapter.text)?;
        let indent = if index == 0 { "" } else { "    " };
        entries += &format!("{indent}- [{}]({path})\n", chapter.name);
    }
    let contents = source.join("SUMMARY.md");
    let text = fs::read_to_string(&contents)?;
    let (before, after) =
        text.split_once(REFERENCE).with_context(|| format!("{SUMMARY} has no reference"))?;
    write(&contents, &format!("{before}{REFERENCE}{entries}{after}"))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Returns the documents that must be chapters: those of the root and below docs.
fn documents(root: &Path) -> anyhow::Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![root.join("docs")]);
    let mut add = |path: PathBuf| -> anyhow::Result<()> {
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        if name.ends_with(".md") && name != SUMMARY {
            found.push(name);
        }
        Ok(())
    };
    for entry in fs::read_dir(root)? {
        add(entry?.path())?;
    }
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                add(path)?;
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the targets of a text's links, without anchors.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target.split('#').next().unwrap_or(target))
}

/// Returns the path of a link's target from the root.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Replaces each link of a text. `replace` gets its label and its target.
fn rewrite(text: &str, replace: impl Fn(&str, &str) -> String) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(middle) = rest.find("](") {
        let end = rest[middle..].find(')').map(|end| middle + end);
        // A picture or a label in brackets has an inner pair, whose opening bracket is the last.
        let (Some(start), Some(end)) = (rest[..middle].rfind('['), end) else { break };
        done += &rest[..start];
        done += &replace(&rest[start + 1..middle], &rest[middle + 2..end]);
        rest = &rest[end + 1..];
    }
    done + rest
}

/// Removes the links of a document to files that are no chapters, and keeps their labels. A link
/// to a file that does not exist stays, and is found when the links of the pages are checked.
fn without_foreign_links(document: &str, text: &str, is_foreign: impl Fn(&str) -> bool) -> String {
    rewrite(text, |label, target| {
        let path = target.split('#').next().unwrap_or(target);
        let is_kept = path.is_empty()
            || path.contains("://")
            || path.ends_with(".png")
            || path.ends_with(".svg")
            || !is_foreign(&resolve(document, path));
        if is_kept { format!("[{label}]({target})") } else { label.to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_chapters_stay_and_others_become_text() {
        let is_foreign = |target: &str| target == "xtask/src/a.rs";
        let text =
            "a [x](../README.md#y), [`p`](../xtask/src/a.rs); ![r](r.png) [b](#c) [e](NO.md)";
        assert_eq!(
            without_foreign_links("docs/A.md", text, is_foreign),
            "a [x](../README.md#y), `p`; ![r](r.png) [b](#c) [e](NO.md)"
        );
        assert_eq!(without_foreign_links("docs/A.md", "[0] a](b", is_foreign), "[0] a](b");
    }

    #[test]
    fn targets_are_resolved_from_the_folder_of_the_document() {
        let found: Vec<String> =
            targets("[a](../R.md#x) [b](c/D.md)").map(|it| resolve(SUMMARY, it)).collect();
        assert_eq!(found, ["R.md", "docs/c/D.md"]);
    }
}
