//! Comments and documents treat tasks, requests, clients and programs as things. Only operators and
//! users are persons.

use crate::documents::documents;
use crate::source::all;

/// Words for persons.
const PERSONS: [&str; 14] = [
    "he",
    "him",
    "his",
    "himself",
    "who",
    "whom",
    "whoever",
    "nobody",
    "somebody",
    "everybody",
    "anybody",
    "someone",
    "anyone",
    "everyone",
];

/// The words that may precede `who`.
const MAY_BE: [&str; 6] = ["operator", "operators", "user", "users", "reader", "readers"];

/// Files whose comments contain some of these words, with their number. The list may shrink, and
/// never grow.
const LEFT: &[(&str, usize)] = &[];

/// The comments of a source, each with the line that it begins on; what is in quotes is none.
fn comments(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if rest.starts_with('"') {
            string(rest)
        } else if let Some(length) = raw_string(&text[..at], rest) {
            length
        } else if rest.starts_with('\'') {
            character(rest)
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        let token = &rest[..length];
        if token.starts_with("//") || token.starts_with("/*") {
            found.push((line, token));
        }
        line += token.matches('\n').count();
        at += length;
    }
    found
}

/// Length of a comment in `/*` and `*/`, which may be nested.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            rest if rest.starts_with("/*") => (depth, at) = (depth + 1, at + 2),
            rest if rest.starts_with("*/") && depth == 1 => return at + 2,
            rest if rest.starts_with("*/") => (depth, at) = (depth - 1, at + 2),
            rest => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    at
}

/// Length of a string in double quotes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Length of a raw string, if one begins here: `r"..."`, `r#"..."#`.
fn raw_string(before: &str, text: &str) -> Option<usize> {
    let inside_a_word = |letter: char| letter.is_alphanumeric() && letter != 'b' && letter != 'c';
    if before.ends_with(inside_a_word) {
        return None;
    }
    let marks = text.strip_prefix('r')?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let inner = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let behind = inner.find(&end).map_or(inner.len(), |at| at + end.len());
    Some(1 + hashes + 1 + behind)
}

/// Length of a character in single quotes, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some(_)) => {
            letters.find(|(_, letter)| *letter == '\'').map_or(1, |it| it.0 + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the words for persons in a text, except for text in backquotes and for `who` after a
/// person.
fn persons(text: &str) -> Vec<String> {
    let words = text.split('`').step_by(2);
    let words = words.flat_map(|part| part.split(|letter: char| !is_of_a_word(letter)));
    let words: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let is_person = |at: usize| {
        let before = at.checked_sub(1).map(|before| words[before].as_str());
        let may_be = words[at] == "who" && before.is_some_and(|word| MAY_BE.contains(&word));
        PERSONS.contains(&words[at].as_str()) && !may_be
    };
    (0..words.len()).filter(|&at| is_person(at)).map(|at| words[at].clone()).collect()
}

fn is_of_a_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[test]
fn comments_speak_of_things() {
    let mut left = Vec::new();
    let mut shown = String::new();
    for source in all() {
        let mut count = 0;
        for (line, comment) in comments(&source.text) {
            let found = persons(comment);
            count += found.len();
            for word in found {
                shown += &format!("{}:{line}: {word}\n", source.path);
            }
        }
        if count > 0 {
            left.push((source.path, count));
        }
    }
    let left: Vec<(&str, usize)> = left.iter().map(|(path, count)| (&**path, *count)).collect();
    assert_eq!(left, LEFT, "words for persons in comments; say it of things:\n{shown}");
}

#[test]
fn documents_speak_of_things() {
    let mut found = Vec::new();
    for document in documents() {
        for (number, line) in document.text.lines().enumerate() {
            // The last word before may stand at the end of the line before.
            let words = persons(line).into_iter();
            found.extend(words.map(|word| format!("{}:{}: {word}", document.path, number + 1)));
        }
    }
    assert_eq!(found, [""; 0], "words for persons; say it of things");
}

#[test]
fn words_in_comments_are_found_and_those_in_code_are_not() {
    let text = "let who = \"nobody // he\"; // whoever\n'\"'; r#\"his \"// \"#; fn f<'a>() {}\n\
                /* a /* somebody */ b */ '\\''; // The operators who know, `he`, and who does not.\n";
    let found: Vec<_> = comments(text).iter().map(|(line, it)| (*line, persons(it))).collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let expected = [(1, words(&["whoever"])), (3, words(&["somebody"])), (3, words(&["who"]))];
    assert_eq!(found, expected);
    assert_eq!(comments("let x = 'é'; // é"), [(1, "// é")]);
}
