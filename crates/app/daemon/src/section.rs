//! TOML files written by users: tables with a fixed set of keys; each mistake is reported with its
//! line and a correction.

use stack::{Exit, Failure};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A mistake: its position in the text, and one sentence with a correction.
pub type Wrong = (Range<usize>, String);

/// Reads a user's file of this kind.
///
/// # Errors
/// One sentence with the file, the line, the key and a correction.
pub fn read<T>(
    path: &Path,
    kind: &str,
    parse: impl FnOnce(&str) -> Result<T, Wrong>,
) -> Result<T, Failure> {
    let text = read_text(path, kind)?;
    parse(&text).map_err(|(at, message)| {
        let line = text.as_bytes().iter().take(at.start).filter(|byte| **byte == b'\n').count() + 1;
        Failure::new(Exit::Usage, format!("{}:{line}: {message}", path.display()))
    })
}

/// Parses a text from its outermost table.
///
/// # Errors
/// The text is no TOML; those of `interpret`.
pub fn parse<T>(
    text: &str,
    interpret: impl FnOnce(&Section<'_>) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        (at, error.message().to_owned())
    })?;
    interpret(&Section { name: String::new(), at: 0..0, table: table.get_ref() })
}

/// Maximum size of a user's file, in bytes; a larger one is no such file.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Reads a user's file of this kind.
///
/// # Errors
/// It cannot be read, or is too large for its kind: one sentence that names it.
fn read_text(path: &Path, kind: &str) -> Result<String, Failure> {
    let mut text = String::new();
    // The path may be a pipe, so its size is checked while reading.
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text));
    if read.is_ok() && text.len() as u64 > TEXT_BYTES_MAX {
        let message = format!("{}: is not a {kind}, which has at most 1 MiB", path.display());
        return Err(Failure::new(Exit::Usage, message));
    }
    read.map(|_| text).map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::Negative,
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Usage,
        };
        Failure::new(exit, format!("{}: cannot be read: {error}", path.display()))
    })
}

/// Returns the correction for an unknown key.
pub(crate) fn nearest(name: &str, known: &[&str]) -> String {
    match stack::near(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("the known names are {}", known.join(", ")),
    }
}

/// A table of the file, with its name for messages.
pub struct Section<'a> {
    /// Its head as written: `[volume.db]`.
    name: String,
    at: Range<usize>,
    table: &'a DeTable<'a>,
}

impl Section<'_> {
    fn place_of(&self, key: &str) -> String {
        match self.name.as_str() {
            "" => key.to_owned(),
            name => format!("{key} in {name}"),
        }
    }

    /// Returns its position.
    pub fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    /// Refuses unknown keys.
    ///
    /// # Errors
    /// The first of them, with the nearest known key, or with all known keys.
    pub fn check_keys(&self, known: &[&str]) -> Result<(), Wrong> {
        for (key, _) in self.table.iter() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let mend = nearest(name, known);
            return Err((key.span(), format!("unknown key {}; {mend}", self.place_of(name))));
        }
        Ok(())
    }

    /// Returns the position of a key's value.
    pub fn span(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or(0..0, |value| value.span())
    }

    /// Returns a value that is written as text, parsed by `read`. A bare number is passed as it is
    /// written. None: the key is missing.
    ///
    /// # Errors
    /// It is neither; those of `read`.
    pub fn text<T>(
        &self,
        key: &str,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let read = match value.get_ref() {
            DeValue::String(text) => read(text),
            DeValue::Integer(number) => read(number.as_str()),
            _ => Err("write the value in quotes".to_owned()),
        };
        read.map(Some).map_err(|why| (value.span(), format!("{}: {why}", self.place_of(key))))
    }

    /// Returns true or false. None: the key is missing.
    ///
    /// # Errors
    /// It is neither.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Wrong> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(*flag)),
            _ => Err((value.span(), format!("{}: write true or false", self.place_of(key)))),
        }
    }

    /// Returns the tables below a key, by their names: `[key.NAME]`. None: the key is missing.
    ///
    /// # Errors
    /// The value is no table.
    pub fn named(&self, key: &str) -> Result<Option<Vec<(String, Section<'_>)>>, Wrong> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let DeValue::Table(tables) = value.get_ref() else {
            return Err((value.span(), format!("{key}: write [{key}.NAME]")));
        };
        let all = tables.iter().map(|(name, value)| {
            let head = format!("[{key}.{}]", name.get_ref());
            let DeValue::Table(table) = value.get_ref() else {
                return Err((value.span(), format!("{key}.{}: write {head}", name.get_ref())));
            };
            Ok((name.get_ref().to_string(), Section { name: head, at: value.span(), table }))
        });
        all.collect::<Result<_, _>>().map(Some)
    }

    /// Returns the tables of a list, each headed `[[key]]`. Empty: the key is missing.
    ///
    /// # Errors
    /// The value is no list of tables.
    pub fn list(&self, key: &str) -> Result<Vec<Section<'_>>, Wrong> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let head = format!("[[{key}]]");
        let wrong = |at| (at, format!("{key}: write {head} once for each"));
        let DeValue::Array(all) = value.get_ref() else { return Err(wrong(value.span())) };
        let tables = all.iter().map(|value| {
            let DeValue::Table(table) = value.get_ref() else { return Err(wrong(value.span())) };
            Ok(Section { name: head.clone(), at: value.span(), table })
        });
        tables.collect()
    }
}
