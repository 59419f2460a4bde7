//! Rules for the files on a volume, as users write them.

use crate::Size;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Text for no rules.
const NONE: &str = "none";
/// Maximum length of all rules, in bytes.
const BYTES_MAX: usize = 4096;

/// The files or blocks that a rule is about. Of several that match a file, the longest directory
/// counts, then the ending, then the largest size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern<'a> {
    /// All blocks of the class with this name.
    Class(&'a str),
    /// Files with this ending, without the dot: `*.iso`. Upper and lower case are the same.
    Ending(&'a str),
    /// Files below this directory of a file system, which begins with a slash.
    Directory(&'a str),
    /// Files that are larger: `>1G`.
    Larger(Size),
}

impl<'a> Pattern<'a> {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none: a sentence with a correction.
    pub fn parse(text: &'a str) -> Result<Pattern<'a>, String> {
        let bad = |why: &str| Err(format!("'{text}' {why}"));
        if let Some(size) = text.strip_prefix('>') {
            return size.parse().map(Pattern::Larger);
        }
        if let Some(ending) = text.strip_prefix("*.") {
            return match ending.is_empty() || ending.contains(['*', '/']) {
                true => bad("is no ending; write it like *.iso"),
                false => Ok(Pattern::Ending(ending)),
            };
        }
        if text.starts_with('/') {
            return match text.contains("//") || text.split('/').any(|part| part == "..") {
                true => bad("is no directory; write it like /srv/films"),
                false => Ok(Pattern::Directory(text.strip_suffix('/').unwrap_or(text))),
            };
        }
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        match !text.is_empty() && text.bytes().all(is_word) {
            true => Ok(Pattern::Class(text)),
            false => bad("is no pattern; write a class, *.ENDING, /DIRECTORY or >SIZE"),
        }
    }
}

/// Rules for the files on a volume: each a [`Pattern`], `=`, and a value; separated by commas.
/// Their syntax has been checked, not their values.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rules(String);

impl Rules {
    /// Returns the rules of these patterns and values.
    ///
    /// # Errors
    /// One of them is no rule: a sentence with a correction.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Rules, String> {
        let mut all: Vec<String> = Vec::new();
        for (pattern, value) in pairs {
            let (pattern, value) = (pattern.trim(), value.trim());
            Pattern::parse(pattern)?;
            if value.is_empty() || [pattern, value].iter().any(|part| part.contains([',', '='])) {
                return Err(format!(
                    "'{pattern}={value}' is no rule; neither part may be empty or have a comma or \
                     an equals sign"
                ));
            }
            if all.iter().any(|rule| rule.split_once('=').is_some_and(|(one, _)| one == pattern)) {
                return Err(format!("'{pattern}' has two rules; write one"));
            }
            all.push(format!("{pattern}={value}"));
        }
        let text = all.join(",");
        match text.len() > BYTES_MAX {
            true => Err(format!("the rules have more than {BYTES_MAX} bytes; write fewer")),
            false => Ok(Rules(text)),
        }
    }

    /// The patterns and their values.
    pub fn pairs(&self) -> impl Iterator<Item = (Pattern<'_>, &str)> {
        let rules = self.0.split(',').filter_map(|rule| rule.split_once('='));
        rules.filter_map(|(pattern, value)| Some((Pattern::parse(pattern).ok()?, value)))
    }
}

impl FromStr for Rules {
    type Err = String;

    fn from_str(text: &str) -> Result<Rules, String> {
        if text == NONE {
            return Ok(Rules::default());
        }
        let pairs = text.split(',').map(|rule| {
            rule.rsplit_once('=').ok_or_else(|| {
                format!("'{rule}' is no rule; write PATTERN=VALUE, separated by commas, or none")
            })
        });
        Rules::of(pairs.collect::<Result<Vec<_>, String>>()?)
    }
}

impl TryFrom<String> for Rules {
    type Error = String;

    fn try_from(text: String) -> Result<Rules, String> {
        text.parse()
    }
}

impl From<Rules> for String {
    fn from(rules: Rules) -> String {
        rules.to_string()
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { NONE } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        let text = "big-media=never,*.ISO=archives,/srv/films=big-media,>1G=big-media";
        let rules: Rules = text.parse().expect("rules");
        assert_eq!(
            (rules.to_string().as_str(), rules.to_string().parse()),
            (text, Ok(rules.clone()))
        );
        let patterns = [
            Pattern::Class("big-media"),
            Pattern::Ending("ISO"),
            Pattern::Directory("/srv/films"),
            Pattern::Larger(Size(1 << 30)),
        ];
        let values = ["never", "archives", "big-media", "big-media"];
        assert!(rules.pairs().eq(patterns.into_iter().zip(values)));
        let spaced: Rules = " metadata = 4 second-access , / = other".parse().expect("rules");
        assert_eq!(spaced.to_string(), "metadata=4 second-access,/=other");
        assert!(spaced.pairs().any(|(pattern, _)| pattern == Pattern::Directory("")));
        for text in ["none", "metadata=4"] {
            let rules: Rules = text.parse().expect("rules");
            assert_eq!(serde_json::from_value(serde_json::json!(rules)).ok(), Some(rules));
        }
        assert!(Rules::default().pairs().next().is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("", "PATTERN=VALUE"),
            ("metadata", "PATTERN=VALUE"),
            ("metadata=", "is no rule"),
            ("*.=other", "*.iso"),
            ("*.a/b=other", "*.iso"),
            ("/a/../b=other", "/srv/films"),
            ("/a//b=other", "/srv/films"),
            (">=other", "is not a size"),
            ("Metadata=4", "is no pattern"),
            ("a=b=c", "is no pattern"),
            ("metadata=1,metadata=2", "two rules"),
        ] {
            let wrong = text.parse::<Rules>().expect_err(text);
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
        let long = (0..600).map(|number| format!("/{number}")).collect::<Vec<_>>();
        assert!(Rules::of(long.iter().map(|one| (one.as_str(), "other"))).is_err());
    }
}
