//! Comments and documents in plain language: phrases that readers stumble over become fewer in each
//! folder, and never more. Comment lines of Rust end at column 100.
//!
//! CONTRIBUTING.md gives the reason. Tables and code blocks of documents are not read.

use crate::metadata::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Names of the columns of [`LEFT`].
const COLUMNS: [&str; 5] =
    ["clause as a subject", "speaking program", "amount by `so`", "idiom", "line over 100 columns"];

type Counts = [usize; COLUMNS.len()];

/// Beginnings of sentences whose subject is a clause, unless [`QUESTION`] follows.
const CLAUSES: [&str; 5] = ["What", "Whatever", "Whichever", "Who", "Whoever"];
const QUESTION: &str = "is the";

/// Phrases in which a program or a document speaks or listens.
const SPEECH: [&str; 6] = ["told", "tells", "tell", "is heard", "hears", "has said"];

/// Amounts that refer to something unnamed, unless `as` follows.
const AMOUNTS: [&str; 8] =
    ["so many", "so long", "so much", "so far", "So many", "So long", "So much", "So far"];

const IDIOMS: [&str; 16] = [
    "no business",
    "goes past",
    "stand in",
    "stands in",
    "stand beside",
    "stands beside",
    "stand once",
    "stands once",
    "stand apart",
    "stands apart",
    "stand there",
    "stands there",
    "as much as it",
    "of its own accord",
    "in vain",
    "anew",
];

/// Maximum length of a comment line, in characters.
const WIDTH: usize = 100;

/// Counts that are left, by folder. A folder that is not listed has none. They may only fall.
const LEFT: &[(&str, Counts)] = &[
    ("crates/app/daemon", [0, 2, 0, 0, 0]),
    ("crates/app/overdrive", [1, 1, 3, 0, 0]),
    ("crates/drives/drives", [0, 0, 4, 0, 0]),
    ("crates/lab/load", [0, 0, 3, 0, 0]),
    ("crates/lab/rigs", [0, 0, 3, 0, 0]),
    ("crates/lab/simulator", [0, 0, 1, 0, 0]),
    ("crates/lab/suites", [0, 0, 4, 0, 0]),
    ("crates/lab/trace", [0, 0, 2, 0, 0]),
    ("crates/proof/benchmarks", [0, 0, 2, 0, 0]),
    ("crates/proof/killtest", [0, 0, 3, 0, 0]),
    ("docs", [0, 0, 0, 1, 0]),
];

/// Directories that do not belong to the tree, and the fuzzers, which are a workspace of their own.
const SKIPPED: [&str; 2] = ["target", "fuzz"];

fn is_of_a_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the texts after each occurrence of a phrase that begins and ends with whole words.
fn after<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(phrase).filter_map(move |(at, _)| {
        let (before, rest) = (&text[..at], &text[at + phrase.len()..]);
        let is_whole = !before.ends_with(is_of_a_word) && !rest.starts_with(is_of_a_word);
        is_whole.then_some(rest)
    })
}

/// Counts the sentences or their parts that begin with a clause as the subject.
fn clauses(text: &str) -> usize {
    let starts = [". ", "; ", ": "].map(|end| text.match_indices(end).map(move |(at, _)| at + 2));
    let starts = std::iter::once(0).chain(starts.into_iter().flatten());
    let is_clause = |start: usize| {
        let words = CLAUSES.iter().filter_map(|word| text[start..].strip_prefix(word));
        words.filter_map(|rest| rest.strip_prefix(' ')).any(|rest| {
            let behind = rest.strip_prefix(QUESTION);
            let is_question = behind.is_some_and(|behind| !behind.starts_with(is_of_a_word));
            rest.starts_with(|letter: char| letter.is_ascii_lowercase()) && !is_question
        })
    };
    starts.filter(|&start| is_clause(start)).count()
}

fn phrases(text: &str, list: &[&str]) -> usize {
    list.iter().map(|phrase| after(text, phrase).count()).sum()
}

/// Counts the phrases in a line of text. The last column is that of the whole line.
fn counts(text: &str) -> Counts {
    let amounts = AMOUNTS.iter().flat_map(|amount| after(text, amount));
    let amounts = amounts.filter(|rest| !rest.starts_with(" as")).count();
    [clauses(text), phrases(text, &SPEECH), amounts, phrases(text, &IDIOMS), 0]
}

/// Returns the text of a comment line of Rust.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    let text = text.strip_prefix(['/', '!']).unwrap_or(text);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

fn of_source(line: &str) -> Counts {
    let Some(text) = comment(line) else { return Counts::default() };
    let mut found = counts(text);
    found[COLUMNS.len() - 1] = usize::from(line.chars().count() > WIDTH);
    found
}

/// Returns the counts of each line of a document, without its tables and code blocks.
fn of_document(text: &str) -> Vec<Counts> {
    let mut in_block = false;
    let lines = text.lines().map(|line| {
        let line = line.trim();
        in_block ^= line.starts_with("```");
        let is_text = !in_block && !line.starts_with("```") && !line.starts_with('|');
        if is_text { counts(line) } else { Counts::default() }
    });
    lines.collect()
}

/// Returns the folder of a file: its crate, the first part of its path, or `.` for the root.
fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let length = if parts[0] == "crates" { 3 } else { 1 };
    if parts.len() <= length { ".".to_owned() } else { parts[..length].join("/") }
}

/// Calls `each` with the path, relative to the root, and the text of every source and document.
fn visit(directory: &Path, each: &mut impl FnMut(&str, &str)) {
    for entry in fs::read_dir(directory).expect("a directory of the tree").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || SKIPPED.contains(&&*name) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            visit(&path, each);
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            let text = fs::read_to_string(&path).expect("a file is UTF-8");
            let path = path.strip_prefix(root()).expect("a file of the tree").to_string_lossy();
            each(&path, &text);
        }
    }
}

/// Returns the table as Rust, for a copy into this file.
fn table(found: &BTreeMap<String, Counts>) -> String {
    found.iter().map(|(folder, counts)| format!("    ({folder:?}, {counts:?}),\n")).collect()
}

#[test]
fn phrases_become_fewer() {
    let mut found: BTreeMap<String, Counts> = BTreeMap::new();
    let mut lines: BTreeMap<(String, usize), String> = BTreeMap::new();
    visit(&root(), &mut |path, text| {
        let each = match path.ends_with(".rs") {
            true => text.lines().map(of_source).collect(),
            false => of_document(text),
        };
        for (number, counts) in each.iter().enumerate() {
            for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let folder = folder(path);
                found.entry(folder.clone()).or_default()[column] += count;
                let line = format!("    {path}:{}\n", number + 1);
                lines.entry((folder, column)).or_default().push_str(&line);
            }
        }
    });
    let left: BTreeMap<&str, Counts> = LEFT.iter().copied().collect();
    let mut more = String::new();
    for ((folder, column), lines) in &lines {
        let (count, most) =
            (found[folder][*column], left.get(&**folder).map_or(0, |it| it[*column]));
        if count > most {
            more += &format!("{folder}: {}: {count}, at most {most}:\n{lines}", COLUMNS[*column]);
        }
    }
    assert!(more.is_empty(), "say it in the words that CONTRIBUTING.md asks for:\n{more}");
    let is_lower = left.iter().any(|(folder, counts)| found.get(*folder) != Some(counts));
    assert!(!is_lower, "fewer than before: lower the table `LEFT` to\n{}", table(&found));
}

#[test]
fn phrases_are_counted() {
    assert_eq!(counts("What is left goes. What is the time? Then; What else"), [2, 0, 0, 0, 0]);
    assert_eq!(counts("It tells what it was told, foretells and retold."), [0, 2, 0, 0, 0]);
    assert_eq!(counts("So many of them, so long as it is, also far, so far"), [0, 0, 2, 0, 0]);
    assert_eq!(counts("It stands inside; it stands in line, anew."), [0, 0, 0, 2, 0]);
    assert_eq!(of_source("    //! In vain").iter().sum::<usize>(), 0);
    assert_eq!(of_source("    /// it hears"), [0, 1, 0, 0, 0]);
    assert_eq!(of_source("let told = 1; // told"), [0; 5]);
    assert_eq!(of_source(&format!("//{}", "é".repeat(WIDTH - 1))), [0, 0, 0, 0, 1]);
    assert_eq!(of_source(&format!("//{}", "é".repeat(WIDTH - 2))), [0; 5]);
    let document = "told\n```\ntold\n```\n| told |\n  in vain\n";
    let sum = of_document(document).iter().map(|line| line.iter().sum::<usize>()).sum::<usize>();
    assert_eq!(sum, 2);
    let paths = ["README.md", "docs/A.md", "crates/core/cache/src/a.rs", "xtask/src/a.rs"];
    assert_eq!(paths.map(folder), [".", "docs", "crates/core/cache", "xtask"]);
}
