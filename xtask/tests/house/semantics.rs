//! Each clause of SEMANTICS.md is tied to the planted bugs that only its test catches.
//!
//! The convention: `enum Bug` documents each variant as `C4: what it breaks`; SEMANTICS.md has a
//! heading, a list item or a table row that begins with the clause's name, and there, up to the
//! next clause, names its bugs in backquotes.

use crate::metadata::root;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// The clauses that are implemented.
const BUILT: [&str; 14] =
    ["C1", "C2", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C12", "C13", "C14", "C15"];

/// Where the planted bugs are that this page names: in the engine, in the layers on top of it, in
/// what the daemon takes over, and in the fence of NBD exports.
const PLANTED: [&str; 4] = [
    "crates/core/cache/src/planted.rs",
    "crates/core/layers/src/planted.rs",
    "crates/app/stack/src/planted.rs",
    "crates/fronts/nbd/src/fence/planted.rs",
];

/// Returns the variants of `enum Bug` with the clause that each breaks (empty if its text names
/// none).
fn planted(source: &str) -> BTreeMap<String, String> {
    let tokens: TokenStream = source.parse().expect("planted.rs is Rust");
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let start = tokens
        .windows(2)
        .position(|pair| pair[0].to_string() == "enum" && pair[1].to_string() == "Bug")
        .expect("planted.rs has an `enum Bug`");
    let body = tokens[start..].iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    });
    let mut clause = None;
    let mut bugs = BTreeMap::new();
    for token in body.expect("an enum has a body") {
        match token {
            TokenTree::Group(text) => {
                // The first line of the variant's text names the clause.
                clause.get_or_insert_with(|| clause_of_text(&text.to_string()));
            }
            TokenTree::Ident(name) => {
                bugs.insert(name.to_string(), clause.take().unwrap_or_default());
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => (),
        }
    }
    bugs
}

/// Returns `C4` for `[doc = " C4: a write changes ..."]`.
fn clause_of_text(attribute: &str) -> String {
    let text = attribute.split('"').nth(1).unwrap_or_default();
    let (clause, _) = text.split_once(':').unwrap_or_default();
    clause.trim().to_owned()
}

/// Whether this is the name of a clause: `C12`.
fn is_clause(word: &str) -> bool {
    let number = word.strip_prefix('C').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether this looks like the name of a bug: two words or more in one.
fn is_bug_name(word: &str) -> bool {
    let capitals = word.chars().filter(char::is_ascii_uppercase).count();
    let small = word.chars().filter(char::is_ascii_lowercase).count();
    word.starts_with(|letter: char| letter.is_ascii_uppercase())
        && capitals >= 2
        && small >= 2
        && capitals + small == word.len()
}

/// Returns the bugs that the text names, each with the clauses of its occurrences.
fn named(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut clause = String::new();
    let mut bugs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(|letter: char| !letter.is_ascii_alphanumeric());
        match words.find(|word| !word.is_empty()) {
            Some(first) if is_clause(first) => clause = first.to_owned(),
            _ => (),
        }
        for quoted in line.split('`').skip(1).step_by(2) {
            let name = quoted.strip_prefix("Bug::").unwrap_or(quoted);
            if is_bug_name(name) {
                bugs.entry(name.to_owned()).or_default().insert(clause.clone());
            }
        }
    }
    bugs
}

fn mismatches(sources: &[String], text: &str) -> Vec<String> {
    let planted: BTreeMap<_, _> = sources.iter().flat_map(|source| planted(source)).collect();
    let named = named(text);
    let mut wrong = Vec::new();
    for (bug, clause) in &planted {
        match named.get(bug) {
            _ if !is_clause(clause) => wrong.push(format!("{bug} does not say what it breaks")),
            Some(clauses) if clauses.contains(clause) => (),
            _ => wrong.push(format!("SEMANTICS.md does not name `{bug}` under {clause}")),
        }
    }
    let unknown = named.keys().filter(|bug| !planted.contains_key(*bug));
    wrong.extend(unknown.map(|bug| format!("SEMANTICS.md names `{bug}`, which does not exist")));
    let has_bug = |clause: &str| planted.values().any(|broken| broken == clause);
    let bare = BUILT.iter().filter(|clause| !has_bug(clause));
    wrong.extend(bare.map(|clause| format!("{clause} has no planted bug")));
    wrong
}

#[test]
fn each_clause_names_its_planted_bugs_and_each_bug_its_clause() {
    let Ok(text) = std::fs::read_to_string(root().join("SEMANTICS.md")) else {
        eprintln!("skipped: SEMANTICS.md, the contract, is not written yet");
        return;
    };
    let sources = PLANTED.map(|path| {
        std::fs::read_to_string(root().join(path)).expect("the planted bugs have a file")
    });
    assert_eq!(mismatches(&sources, &text), [""; 0]);
}

const SOURCE: &str = "
    /// All.
    pub enum Bug {
        /// C1: a flush is answered early,
        /// and more on C9: nothing.
        AckEarly,
        /// C2: out of order.
        OutOfOrder,
        /// Says nothing.
        Silent,
    }";

const TEXT: &str = "
| C1 durable | a promise; `Result`, `Bug::AckEarly` |
### C2: epochs
- C1 is meant to be read first
text with `OutOfOrder` and `NeverPlanted` and `CleanTooEarly";

#[test]
fn bugs_are_read_from_the_source_and_from_the_text() {
    let pair = |bug: &str, clause: &str| (bug.to_owned(), clause.to_owned());
    let bugs = [pair("AckEarly", "C1"), pair("OutOfOrder", "C2"), pair("Silent", "")];
    assert_eq!(planted(SOURCE), BTreeMap::from(bugs));
    let names: Vec<String> = named(TEXT).into_keys().collect();
    assert_eq!(names, ["AckEarly", "CleanTooEarly", "NeverPlanted", "OutOfOrder"]);
}

#[test]
fn what_does_not_match_is_said() {
    let said = mismatches(&[SOURCE.to_owned()], TEXT);
    for expected in [
        "SEMANTICS.md does not name `OutOfOrder` under C2",
        "Silent does not say what it breaks",
        "SEMANTICS.md names `NeverPlanted`, which does not exist",
        "C15 has no planted bug",
    ] {
        assert!(said.iter().any(|line| line == expected), "{expected}: {said:?}");
    }
    assert!(!said.iter().any(|line| line.contains("AckEarly")));
}
