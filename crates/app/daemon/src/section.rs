//! TOML files written by users: tables with a fixed set of keys; each mistake is reported with its
//! line and a correction.

use stack::{Exit, Failure};
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
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
    let texts = Texts::read(&[path.to_owned()], kind)?;
    parse(&texts.0[0].text).map_err(|wrong| texts.failure(wrong))
}

/// Reads several files of a kind as one: a key of a later file replaces that of an earlier one.
///
/// # Errors
/// All mistakes, at least one, in the order of their positions; each as of [`read`]. If a file is
/// no TOML, only those that keep files from being parsed.
pub fn read_merged<T>(
    paths: &[PathBuf],
    kind: &str,
    interpret: impl FnOnce(&Section<'_>, &Texts) -> Result<T, Vec<Wrong>>,
) -> Result<T, Vec<Failure>> {
    let texts = Texts::read(paths, kind).map_err(|failure| vec![failure])?;
    let mut mistakes = Mistakes::default();
    let parsed = texts.0.iter().map(|text| {
        let (table, errors) = DeTable::parse_recoverable(&text.text);
        mistakes.extend(errors.into_iter().map(|error| wrong_toml(&error, text.base)));
        (table, text.base)
    });
    let tables: Vec<_> = parsed.collect();
    let layers = tables.iter().map(|(table, base)| Layer { table: table.get_ref(), base: *base });
    let top = Section { name: String::new(), at: 0..0, layers: layers.collect() };
    let read = mistakes.check().and_then(|()| interpret(&top, &texts));
    read.map_err(|wrong| wrong.into_iter().map(|one| texts.failure(one)).collect())
}

/// Mistakes that do not keep the rest of a file from being read.
#[derive(Default)]
pub struct Mistakes(Vec<Wrong>);

impl Mistakes {
    /// Notes a mistake. Returns the value otherwise; None: it is missing, or is a mistake.
    pub fn note<T>(&mut self, read: Result<Option<T>, Wrong>) -> Option<T> {
        read.unwrap_or_else(|wrong| {
            self.0.push(wrong);
            None
        })
    }

    /// Notes these mistakes.
    pub fn extend(&mut self, wrong: impl IntoIterator<Item = Wrong>) {
        self.0.extend(wrong);
    }

    /// Returns the number of mistakes.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Checks that there is none.
    ///
    /// # Errors
    /// The mistakes, in the order of their positions.
    pub fn check(mut self) -> Result<(), Vec<Wrong>> {
        self.0.sort_by_key(|(at, _)| at.start);
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// Parses a text from its outermost table.
///
/// # Errors
/// The text is no TOML; those of `interpret`.
pub fn parse<T>(
    text: &str,
    interpret: impl FnOnce(&Section<'_>) -> Result<T, Wrong>,
) -> Result<T, Wrong> {
    let table = DeTable::parse(text).map_err(|error| wrong_toml(&error, 0))?;
    let layers = vec![Layer { table: table.get_ref(), base: 0 }];
    interpret(&Section { name: String::new(), at: 0..0, layers })
}

/// Returns the mistake of a text whose first byte has this position.
fn wrong_toml(error: &toml::de::Error, base: usize) -> Wrong {
    (shifted(error.span().unwrap_or(0..0), base), error.message().to_owned())
}

fn shifted(at: Range<usize>, base: usize) -> Range<usize> {
    at.start + base..at.end + base
}

/// A text with its file, and the position of its first byte among all texts.
struct Text {
    path: PathBuf,
    text: String,
    base: usize,
}

/// The texts of the files of a configuration.
pub struct Texts(Vec<Text>);

impl Texts {
    fn read(paths: &[PathBuf], kind: &str) -> Result<Texts, Failure> {
        let mut texts = Vec::new();
        let mut base = 0;
        for path in paths {
            let text = read_text(path, kind)?;
            let next = base + text.len() + 1;
            texts.push(Text { path: path.clone(), text, base });
            base = next;
        }
        Ok(Texts(texts))
    }

    /// Returns the file and the line of a position.
    pub fn locate(&self, at: usize) -> (&Path, usize) {
        let index = self.0.partition_point(|text| text.base <= at).saturating_sub(1);
        let Some(Text { path, text, base }) = self.0.get(index) else { return (Path::new(""), 1) };
        let before = text.as_bytes().iter().take(at.saturating_sub(*base));
        (path, before.filter(|byte| **byte == b'\n').count() + 1)
    }

    fn failure(&self, (at, message): Wrong) -> Failure {
        let (path, line) = self.locate(at.start);
        Failure::new(Exit::Usage, format!("{}:{line}: {message}", path.display()))
    }
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

/// A table of one file.
#[derive(Clone, Copy)]
struct Layer<'a> {
    table: &'a DeTable<'a>,
    /// Position of the first byte of its text among all texts.
    base: usize,
}

/// Returns a value as it is written, without quotes; a table as `KEY=VALUE,...`. None: it is no
/// single value, nor a table of such.
fn written(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Table(table) => {
            let pairs = table.iter().map(|(key, value)| match value.get_ref() {
                DeValue::Table(_) => None,
                value => Some(format!("{}={}", key.get_ref(), written(value)?)),
            });
            Some(pairs.collect::<Option<Vec<_>>>()?.join(","))
        }
        _ => None,
    }
}

/// A table of the files, with its name for messages. Of several files, the last one with a key
/// counts.
pub struct Section<'a> {
    /// Its head as written: `[volume.db]`.
    name: String,
    at: Range<usize>,
    layers: Vec<Layer<'a>>,
}

impl<'a> Section<'a> {
    /// Returns a key's value, and its position.
    fn get(&self, key: &str) -> Option<(&'a DeValue<'a>, Range<usize>)> {
        let found = self.layers.iter().rev().find_map(|layer| Some((layer.table.get(key)?, layer)));
        found.map(|(value, layer)| (value.get_ref(), shifted(value.span(), layer.base)))
    }

    /// Returns a key's value as it is written, without quotes, and its position. None: the key is
    /// missing, or is no single value.
    pub fn written(&self, key: &str) -> Option<(String, usize)> {
        let (value, at) = self.get(key)?;
        Some((written(value)?, at.start))
    }

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

    /// Returns a position in the last file that has this table.
    pub fn last_at(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.base)
    }

    /// Returns a mistake for each unknown key, with the nearest known key, or with all known keys.
    pub fn unknown_keys(&self, known: &[&str]) -> Vec<Wrong> {
        let keys = self.layers.iter().flat_map(|Layer { table, base }| {
            table.iter().map(|(key, _)| (key.get_ref() as &str, shifted(key.span(), *base)))
        });
        let unknown = keys.filter(|(name, _)| !known.contains(name));
        let wrong = unknown.map(|(name, at)| {
            (at, format!("unknown key {}; {}", self.place_of(name), nearest(name, known)))
        });
        wrong.collect()
    }

    /// Refuses unknown keys.
    ///
    /// # Errors
    /// The first of [`Section::unknown_keys`].
    pub fn check_keys(&self, known: &[&str]) -> Result<(), Wrong> {
        self.unknown_keys(known).into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns the position of a key's value.
    pub fn span(&self, key: &str) -> Range<usize> {
        self.get(key).map_or(self.at(), |(_, at)| at)
    }

    /// Returns a value that is written as text, parsed by `read`. A bare number is passed as it is
    /// written, and a table of such values as `KEY=VALUE,...`. None: the key is missing.
    ///
    /// # Errors
    /// It is neither; those of `read`.
    pub fn text<T>(
        &self,
        key: &str,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        let Some((value, at)) = self.get(key) else { return Ok(None) };
        let read = match value {
            DeValue::String(text) => read(text),
            DeValue::Integer(number) => read(number.as_str()),
            DeValue::Table(_) => written(value)
                .ok_or_else(|| "write each value of the table in quotes".to_owned())
                .and_then(|text| read(&text)),
            _ => Err("write the value in quotes".to_owned()),
        };
        read.map(Some).map_err(|why| (at, format!("{}: {why}", self.place_of(key))))
    }

    /// Returns true or false. None: the key is missing.
    ///
    /// # Errors
    /// It is neither.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Wrong> {
        let Some((value, at)) = self.get(key) else { return Ok(None) };
        match value {
            DeValue::Boolean(flag) => Ok(Some(*flag)),
            _ => Err((at, format!("{}: write true or false", self.place_of(key)))),
        }
    }

    /// Returns the tables below a key, by their names: `[key.NAME]`. None: the key is missing.
    ///
    /// # Errors
    /// The value is no table.
    pub fn named(&self, key: &str) -> Result<Option<Vec<(String, Section<'a>)>>, Wrong> {
        let mut all: BTreeMap<String, Section<'a>> = BTreeMap::new();
        let mut is_there = false;
        for Layer { table, base } in &self.layers {
            let Some(value) = table.get(key) else { continue };
            is_there = true;
            let DeValue::Table(tables) = value.get_ref() else {
                return Err((shifted(value.span(), *base), format!("{key}: write [{key}.NAME]")));
            };
            for (name, value) in tables {
                let (name, at) = (name.get_ref().to_string(), shifted(value.span(), *base));
                let head = format!("[{key}.{name}]");
                let DeValue::Table(table) = value.get_ref() else {
                    return Err((at, format!("{key}.{name}: write {head}")));
                };
                let layers = Vec::new();
                let section =
                    all.entry(name).or_insert(Section { name: head, at: at.clone(), layers });
                section.layers.push(Layer { table, base: *base });
            }
        }
        Ok(is_there.then(|| all.into_iter().collect()))
    }

    /// Returns the tables of a list, each headed `[[key]]`. Empty: the key is missing.
    ///
    /// # Errors
    /// The value is no list of tables.
    pub fn list(&self, key: &str) -> Result<Vec<Section<'a>>, Wrong> {
        let head = format!("[[{key}]]");
        let wrong = |at| (at, format!("{key}: write {head} once for each"));
        let mut tables = Vec::new();
        for Layer { table, base } in &self.layers {
            let Some(value) = table.get(key) else { continue };
            let DeValue::Array(all) = value.get_ref() else {
                return Err(wrong(shifted(value.span(), *base)));
            };
            for value in all {
                let at = shifted(value.span(), *base);
                let DeValue::Table(table) = value.get_ref() else { return Err(wrong(at)) };
                let layers = vec![Layer { table, base: *base }];
                tables.push(Section { name: head.clone(), at, layers });
            }
        }
        Ok(tables)
    }
}
