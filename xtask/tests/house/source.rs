//! Reads Rust source for the rules: words and paths as the compiler sees them, so that comments and
//! strings do not count.

use crate::metadata::{crates, root};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::{Path, PathBuf};

/// A source file: its path relative to the workspace's root, and its text.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A path or a single word in a source, with its line: `std::thread::spawn`. A `use` is flattened,
/// a glob ends in `*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// Returns all Rust files of the crates in the workspace: sources, tests and benchmarks.
pub(crate) fn all() -> Vec<Source> {
    let mut sources = Vec::new();
    for (_, directory) in crates() {
        collect(&directory, &mut sources);
    }
    assert!(sources.len() > 30, "{} files found", sources.len());
    sources
}

/// Returns the Rust files of `src` in these crates.
pub(crate) fn of_crates(names: &[&str]) -> Vec<Source> {
    let mut sources = Vec::new();
    for (name, directory) in crates() {
        if names.contains(&name.as_str()) {
            collect(&directory.join("src"), &mut sources);
        }
    }
    sources
}

fn collect(directory: &Path, sources: &mut Vec<Source>) {
    let entries = directory.read_dir().expect("a directory of the workspace");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy();
            let text = std::fs::read_to_string(&path).expect("source is UTF-8");
            sources.push(Source { path: shown.into_owned(), text });
        }
    }
}

impl Source {
    fn tokens(&self) -> TokenStream {
        let parsed = self.text.parse();
        parsed.unwrap_or_else(|error| panic!("{}: not Rust: {error}", self.path))
    }

    /// Returns all paths and words, including those of test modules.
    pub(crate) fn names(&self) -> Vec<Name> {
        let mut names = Vec::new();
        walk(self.tokens(), false, &mut names);
        names
    }

    /// Returns all paths and words outside `#[cfg(test)]`.
    pub(crate) fn shipped_names(&self) -> Vec<Name> {
        let mut names = Vec::new();
        walk(self.tokens(), true, &mut names);
        names
    }
}

fn walk(tokens: TokenStream, skip_tests: bool, names: &mut Vec<Name>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' && skip_tests => {
                if tokens.get(at + 1).is_some_and(is_cfg_test) {
                    at = after_item(&tokens, at + 2);
                    continue;
                }
            }
            TokenTree::Ident(_) => {
                at = path(&tokens, at, Vec::new(), skip_tests, names);
                continue;
            }
            TokenTree::Group(group) => walk(group.stream(), skip_tests, names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => (),
        }
        at += 1;
    }
}

/// Whether this is `[cfg(test)]`, without its hash.
fn is_cfg_test(token: &TokenTree) -> bool {
    let text = token.to_string();
    let words: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    words == "[cfg(test)]"
}

/// Returns the position after the item that starts here: after its braces, or its semicolon.
fn after_item(tokens: &[TokenTree], start: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    };
    let length = tokens[start..].iter().position(ends);
    length.map_or(tokens.len(), |length| start + length + 1)
}

/// Whether `::` is at this position.
fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |token: Option<&TokenTree>| match token {
        Some(TokenTree::Punct(punct)) => punct.as_char() == ':',
        _ => false,
    };
    colon(tokens.get(at)) && colon(tokens.get(at + 1))
}

/// Reads the path that starts here; a group after `::` represents several paths. Returns the
/// position after it.
fn path(
    tokens: &[TokenTree],
    mut at: usize,
    mut segments: Vec<String>,
    skip_tests: bool,
    names: &mut Vec<Name>,
) -> usize {
    let line = tokens[at].span().start().line;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => segments.push(ident.to_string()),
            Some(TokenTree::Punct(star)) if star.as_char() == '*' => segments.push("*".into()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                each_of_group(group.stream(), &segments, skip_tests, names);
                return at + 1;
            }
            // A turbofish or similar: the path ends here.
            _ => break,
        }
        at += 1;
        if !is_path_separator(tokens, at) {
            break;
        }
        at += 2;
    }
    names.push(Name { line, segments });
    at
}

/// Returns the paths of a group in a `use`: `{self, mem, time::{Instant}}`.
fn each_of_group(group: TokenStream, prefix: &[String], skip_tests: bool, names: &mut Vec<Name>) {
    let tokens: Vec<TokenTree> = group.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = match &tokens[at] {
            TokenTree::Ident(_) => true,
            TokenTree::Punct(punct) => punct.as_char() == '*',
            _ => false,
        };
        if is_start {
            at = path(&tokens, at, prefix.to_vec(), skip_tests, names);
        } else {
            at += 1;
        }
    }
}

fn source(text: &str) -> Source {
    Source { path: "example.rs".into(), text: text.into() }
}

fn spoken(names: &[Name]) -> Vec<String> {
    names.iter().map(|name| name.segments.join("::")).collect()
}

#[test]
fn comments_and_strings_are_no_words() {
    let names = source(
        "// unsafe\n/* unsafe /* nested */ unsafe */ /// unsafe\n\
         fn f() { \"unsafe\"; r#\"unsafe \" \"#; b\"unsafe\"; 'u'; }\n\
         struct Unsafe<'unsafety>(&'unsafety u8);\nunsafe impl X for Y {}",
    )
    .names();
    let found: Vec<_> = names.iter().filter(|name| name.segments == ["unsafe"]).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, 5);
}

#[test]
fn uses_are_flattened() {
    let names = source("use std::{thread, time::{self, Instant as Now}, collections::*};").names();
    let expected = [
        "use",
        "std::thread",
        "std::time::self",
        "std::time::Instant",
        "std::time::as",
        "std::time::Now",
        "std::collections::*",
    ];
    assert_eq!(spoken(&names), expected);
}

#[test]
fn paths_inside_bodies_and_macros_are_seen() {
    let names = source("fn f() { vec![std::thread::spawn(|| Vec::<u8>::new())]; }").names();
    let spoken = spoken(&names);
    assert!(spoken.contains(&"std::thread::spawn".to_owned()));
}

#[test]
fn test_modules_are_not_shipped() {
    let source = source(
        "use a::b;\n#[cfg(test)]\nuse c::d;\n#[cfg(test)]\n#[allow(x)]\nmod tests { use e::f; }\n\
         #[cfg(not(test))]\nmod real { use g::h; }",
    );
    let shipped = spoken(&source.shipped_names());
    for (name, is_shipped) in [("a::b", true), ("c::d", false), ("e::f", false), ("g::h", true)] {
        assert_eq!(shipped.contains(&name.to_owned()), is_shipped, "{name}");
    }
    assert!(spoken(&source.names()).contains(&"e::f".to_owned()));
}
