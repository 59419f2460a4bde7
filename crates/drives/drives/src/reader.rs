//! Reads a drive's file: each value with its source, each error as a sentence.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use toml::de::DeTable;
use toml::{Table, Value};

/// An error in a drive's file: one sentence that names the file, the line if there is one, the key
/// and the remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1; None if the error is not in a line of the file.
    pub line: Option<usize>,
    /// Section and key, or a section; empty if there is none.
    pub key: String,
    /// The problem and the remedy.
    pub what: String,
}

impl ModelError {
    pub(crate) fn new(file: &str, key: &str, what: &str) -> ModelError {
        let [file, key, what] = [file, key, what].map(ToOwned::to_owned);
        ModelError { file, line: None, key, what }
    }

    /// Adds the line of the key, if it is in this text.
    pub(crate) fn located(mut self, text: &str) -> ModelError {
        self.line = self.line.or_else(|| line_of(text, &self.key));
        self
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.file)?;
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(formatter, "{}: ", self.key)?;
        }
        formatter.write_str(&self.what)
    }
}

/// Returns the line of a key, from 1, or otherwise of its section.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    let (found, value) = table.get_ref().get_key_value(section)?;
    let within = value.get_ref().as_table().and_then(|table| table.get_key_value(name));
    let at = within.map_or(found.span(), |(found, _)| found.span()).start;
    Some(line_at(text, at))
}

/// Returns the line of a position, from 1.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

impl core::error::Error for ModelError {}

/// A value of a drive's file, and its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Section and key: `nand.dies`.
    pub key: String,
    /// The value as written in the file.
    pub value: String,
    /// Its source, or the word assumed with the reason.
    pub source: String,
}

/// Reads keys from a file's tables, and records which.
pub(crate) struct Reader<'a> {
    file: &'a str,
    table: &'a Table,
    known: BTreeSet<String>,
    pub(crate) facts: Vec<Fact>,
}

pub(crate) type Read<T> = Result<T, ModelError>;

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a str, table: &'a Table) -> Reader<'a> {
        let known = ["like", "title", "kind"].map(ToOwned::to_owned).into();
        Reader { file, table, known, facts: Vec::new() }
    }

    pub(crate) fn wrong(&self, key: &str, what: &str) -> ModelError {
        ModelError::new(self.file, key, what)
    }

    /// Returns a text from the top of the file.
    pub(crate) fn word(&self, key: &str) -> Read<&'a str> {
        let value = self.table.get(key).and_then(Value::as_str);
        value.ok_or_else(|| self.wrong(key, &format!("missing; write {key} = \"...\" at the top")))
    }

    fn has(&self, key: &str) -> Option<&'a Value> {
        let (section, name) = key.split_once('.')?;
        self.table.get(section)?.as_table()?.get(name)
    }

    /// Returns a value with its source, if the key exists.
    fn value(&mut self, key: &str) -> Read<Option<&'a Value>> {
        self.known.insert(key.to_owned());
        let Some(found) = self.has(key) else {
            return Ok(None);
        };
        let form = "write [value, \"source\"], with the word assumed if there is no source";
        let pair = found.as_array().ok_or_else(|| self.wrong(key, form))?;
        match pair.as_slice() {
            [value, Value::String(source)] if !source.trim().is_empty() => {
                let (key, source) = (key.to_owned(), source.clone());
                self.facts.push(Fact { key, value: value.to_string(), source });
                Ok(Some(value))
            }
            _ => Err(self.wrong(key, form)),
        }
    }

    /// Returns a number within bounds, if the key exists.
    pub(crate) fn number_if(&mut self, key: &str, range: RangeInclusive<f64>) -> Read<Option<f64>> {
        let Some(value) = self.value(key)? else {
            return Ok(None);
        };
        let number = match value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return Err(self.wrong(key, &format!("{value} is not a number; give one"))),
        };
        if !range.contains(&number) {
            let (low, high) = range.into_inner();
            let what = format!("{number} is out of range; give {low} to {high}");
            return Err(self.wrong(key, &what));
        }
        Ok(Some(number))
    }

    /// Returns a required number.
    pub(crate) fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> Read<f64> {
        let found = self.number_if(key, range)?;
        found.ok_or_else(|| self.missing(key))
    }

    /// Returns a required whole number.
    pub(crate) fn count(&mut self, key: &str, range: RangeInclusive<u64>) -> Read<u64> {
        let (low, high) = range.into_inner();
        let number = self.number(key, low as f64..=high as f64)?;
        if number != number as u64 as f64 {
            return Err(self.wrong(key, &format!("{number} is not whole; give a whole number")));
        }
        Ok(number as u64)
    }

    /// Returns a whole number that is required if `needed`; if not, it may be inherited, and the
    /// result is 0.
    pub(crate) fn count_where(
        &mut self,
        needed: bool,
        key: &str,
        range: RangeInclusive<u64>,
    ) -> Read<u64> {
        self.known.insert(key.to_owned());
        if needed || self.has(key).is_some() { self.count(key, range) } else { Ok(0) }
    }

    /// Returns a number, or a default if the key does not exist.
    pub(crate) fn number_or(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
        otherwise: f64,
    ) -> Read<f64> {
        Ok(self.number_if(key, range)?.unwrap_or(otherwise))
    }

    /// Returns one of these words, or the first if the key does not exist.
    pub(crate) fn choice(&mut self, key: &str, words: &[&'static str]) -> Read<&'static str> {
        let Some(value) = self.value(key)? else {
            return Ok(words[0]);
        };
        let word = value.as_str().unwrap_or_default();
        let found = words.iter().find(|known| **known == word);
        found.copied().ok_or_else(|| {
            self.wrong(key, &format!("{value} is unknown; give one of {}", words.join(", ")))
        })
    }

    /// Returns a text, empty if the key does not exist.
    pub(crate) fn text(&mut self, key: &str) -> Read<String> {
        match self.value(key)? {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(value) => Err(self.wrong(key, &format!("{value} is not text; put it in quotes"))),
        }
    }

    /// Returns a flag, false if the key does not exist.
    pub(crate) fn flag(&mut self, key: &str) -> Read<bool> {
        match self.value(key)? {
            None => Ok(false),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(value) => {
                Err(self.wrong(key, &format!("{value} is neither true nor false; give one")))
            }
        }
    }

    fn missing(&self, key: &str) -> ModelError {
        let (section, name) = key.split_once('.').unwrap_or(("", key));
        let mend = format!("missing; add {name} = [value, \"source\"] under [{section}]");
        self.wrong(key, &mend)
    }

    /// Refuses keys that were not read.
    pub(crate) fn end(&self) -> Read<()> {
        for (section, value) in self.table {
            if self.known.contains(section) {
                continue;
            }
            let Some(keys) = value.as_table() else {
                return Err(self.wrong(section, "unknown here; put numbers under a [section]"));
            };
            for name in keys.keys() {
                let key = format!("{section}.{name}");
                if !self.known.contains(&key) {
                    let similar = self.known.iter().filter(|known| {
                        known.split('.').next_back().is_some_and(|last| similar(last, name))
                    });
                    let similar: Vec<_> = similar.map(String::as_str).collect();
                    let mend = match similar.as_slice() {
                        [] => "remove it".to_owned(),
                        some => format!("did you mean {}?", some.join(" or ")),
                    };
                    return Err(self.wrong(&key, &format!("no such key; {mend}")));
                }
            }
        }
        Ok(())
    }
}

/// Whether two keys share their beginning or their end.
fn similar(known: &str, given: &str) -> bool {
    let head = given.get(..4).unwrap_or(given);
    let tail = given.len().checked_sub(5).and_then(|at| given.get(at..)).unwrap_or(given);
    known.starts_with(head) || known.ends_with(tail)
}
