//! Files in TOML that people write: tables whose keys are known, and each mistake with its line and its mend.

use stack::{Exit, Failure};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// What is wrong: where in the text, and one sentence with the mend.
pub type Wrong = (Range<usize>, String);

/// Reads a file that people write, of this kind.
///
/// # Errors
/// One sentence with the file, the line, the key and the mend.
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

/// Understands a text by its outermost table.
///
/// # Errors
/// It is no TOML; or what `understand` says.
pub fn parse<T>(
    text: &str,
    understand: impl FnOnce(&Section<'_>) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        (at, error.message().to_owned())
    })?;
    understand(&Section { name: String::new(), at: 0..0, table: table.get_ref() })
}

/// The most that a file may hold that people write: what is larger is something else.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Reads a file that people write, of this kind.
///
/// # Errors
/// It cannot be read, or is too large for its kind: one sentence that names it.
fn read_text(path: &Path, kind: &str) -> Result<String, Failure> {
    let mut text = String::new();
    // A pipe may be meant, so its size says nothing: what is read does.
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text));
    if read.is_ok() && text.len() as u64 > TEXT_BYTES_MAX {
        let message = format!("{}: is no {kind}: those have at most 1 MiB", path.display());
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

/// The mend for an unknown key.
pub(crate) fn nearest(name: &str, known: &[&str]) -> String {
    match stack::near(name, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// A table of the file, with its name for messages.
pub struct Section<'a> {
    /// As its head is written: `[volume.db]`.
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

    /// Where it stands.
    pub fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    /// Refuses keys that are not known.
    ///
    /// # Errors
    /// The first of them, with the one that is near it, or with all that are known.
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

    /// Where the value of a key stands.
    pub fn span(&self, key: &str) -> Range<usize> {
        self.table.get(key).map_or(0..0, |value| value.span())
    }

    /// A value that is written as a text, understood by `read`. A bare number is taken as it stands. None: it is not
    /// there.
    ///
    /// # Errors
    /// It is neither; or what `read` says.
    pub fn text<T>(
        &self,
        key: &str,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let read = match value.get_ref() {
            DeValue::String(text) => read(text),
            DeValue::Integer(number) => read(number.as_str()),
            _ => Err("write it as a text in quotes".to_owned()),
        };
        read.map(Some).map_err(|why| (value.span(), format!("{}: {why}", self.place_of(key))))
    }

    /// True or false. None: it is not there.
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

    /// The tables below a key, by their names: `[key.NAME]`. None: the key is not there.
    ///
    /// # Errors
    /// What is there is no table.
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

    /// The tables of a list: each is headed `[[key]]`. Nothing: the key is not there.
    ///
    /// # Errors
    /// What is there is no list of tables.
    pub fn list(&self, key: &str) -> Result<Vec<Section<'_>>, Wrong> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let head = format!("[[{key}]]");
        let wrong = |at| (at, format!("{key}: write {head}, once for each"));
        let DeValue::Array(all) = value.get_ref() else { return Err(wrong(value.span())) };
        let tables = all.iter().map(|value| {
            let DeValue::Table(table) = value.get_ref() else { return Err(wrong(value.span())) };
            Ok(Section { name: head.clone(), at: value.span(), table })
        });
        tables.collect()
    }
}
