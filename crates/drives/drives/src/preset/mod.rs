//! Drives as data files: the presets that are compiled in, and users' own of the same form.
//!
//! A file is TOML. Each number is a pair, `dies = [16, "AnandTech 7173 p2"]`: a value and its
//! source, or the word assumed and the reason. `like = "NAME"` inherits the values of another
//! model; the file's own values override them. The section `[published]` contains measured or
//! promised figures of the real drive; the model does not use them, but is compared with them.

mod catalogue;
mod derived;
mod disk;
mod flash;

pub use derived::{Derived, Predicted, predicted};
pub use flash::FlashModel;

use crate::disk::{Disk, DiskModel};
use crate::ftl::Ftl;
use crate::options::Options;
use crate::reader::{Fact, ModelError, Reader, line_at};
use crate::timed::{Op, Timed};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use toml::{Table, Value};

/// A drive's description.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// Its name on the command line: `samsung-840-evo-250`.
    pub name: String,
    /// Its name in full.
    pub title: String,
    /// Its common names.
    pub about: About,
    /// Its parts.
    pub kind: Kind,
    /// Every value with its source.
    pub facts: Vec<Fact>,
    /// Published figures of the real drive: key, value, source.
    pub published: Vec<Published>,
    /// The power that it takes. None: no source gives it.
    pub power: Option<Power>,
}

/// The power that a drive takes, in watts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Power {
    /// Without requests and background work.
    pub idle_w: f64,
    /// With them.
    pub active_w: f64,
}

impl Power {
    /// Returns the energy in joules of this time, of which the drive was active for a part.
    pub fn joules(&self, elapsed_ns: u64, active_ns: u64) -> f64 {
        let active_ns = active_ns.min(elapsed_ns);
        let idle_ns = elapsed_ns - active_ns;
        (self.idle_w * idle_ns as f64 + self.active_w * active_ns as f64) / 1e9
    }
}

/// Properties that identify a drive and do not affect the model; empty or 0 if the file does not
/// have them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// Its link: `SATA 6 Gb/s`.
    pub interface: String,
    /// Its flash: `19 nm TLC`.
    pub nand: String,
    /// The year in which it was first sold.
    pub year: u32,
    /// Its number of controllers, which the model treats as one; 1 if the file does not have it.
    pub controllers: u32,
}

/// The kinds of drives.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A flash drive.
    Flash(Box<FlashModel>),
    /// A hard disk.
    Disk(DiskModel),
}

/// A published figure of the real drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Published {
    /// One of [`PUBLISHED`].
    pub key: &'static str,
    /// The value in the unit of the key.
    pub value: f64,
    /// Its source.
    pub source: String,
}

/// The keys of `[published]`: specified rates in units of 10^6 bytes per second and 4 KiB requests
/// per second.
pub const PUBLISHED: [&str; 8] = [
    "sequential_read_mb_s",
    "sequential_write_mb_s",
    "random_read_iops",
    "random_write_iops",
    "random_read_qd1_iops",
    "random_write_qd1_iops",
    "steady_write_low_iops",
    "steady_write_high_iops",
];

/// Number of the mechanisms that turn a model's values into a drive. A change that makes a drive of
/// the same values answer at other times raises it.
const MECHANISMS: u32 = 5;

/// Maximum number of models in a chain of `like`.
const DEPTH: u32 = 8;

impl Model {
    /// Returns the names of the presets, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        catalogue::ALL.iter().map(|(name, _)| *name)
    }

    /// Returns the preset of this name, ignoring case; None if there is no such preset.
    ///
    /// # Panics
    /// If a preset is wrong, which a test excludes.
    pub fn preset(name: &str) -> Option<Model> {
        let (name, text) =
            catalogue::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        match Model::parse(name, text) {
            Ok(model) => Some(model),
            Err(error) => panic!("a preset is wrong: {error}"),
        }
    }

    /// Parses a drive's file. `name` becomes the drive's name, and occurs in errors.
    ///
    /// Errors: the wrong key, the problem, and the remedy.
    pub fn parse(name: &str, text: &str) -> Result<Model, ModelError> {
        Model::read(name, text).map_err(|error| error.located(text))
    }

    fn read(name: &str, text: &str) -> Result<Model, ModelError> {
        let table = resolve(name, text, DEPTH)?;
        let mut reader = Reader::new(name, &table);
        let title = reader.word("title")?.to_owned();
        let kind = match reader.word("kind")? {
            "flash" => Kind::Flash(Box::new(FlashModel::read(&mut reader)?)),
            "disk" => Kind::Disk(DiskModel::read(&mut reader)?),
            _ => return Err(reader.wrong("kind", "unknown; write \"flash\" or \"disk\"")),
        };
        let about = About {
            interface: reader.text("about.interface")?,
            nand: reader.text("about.nand")?,
            year: reader.number_or("about.year", 1956.0..=2100.0, 0.0)? as u32,
            controllers: reader.number_or("about.controllers", 1.0..=256.0, 1.0)? as u32,
        };
        let power = power(&mut reader)?;
        let facts = core::mem::take(&mut reader.facts);
        let mut published = Vec::new();
        for key in PUBLISHED {
            if let Some(value) = reader.number_if(&format!("published.{key}"), 0.0..=1e9)? {
                let source = reader.facts.last().map(|fact| fact.source.clone());
                published.push(Published { key, value, source: source.unwrap_or_default() });
            }
        }
        reader.end()?;
        let model = Model { name: name.to_owned(), title, about, kind, facts, published, power };
        model.check(name)?;
        Ok(model)
    }

    /// Checks that a drive can be built, without its memory.
    fn check(&self, file: &str) -> Result<(), ModelError> {
        if let Kind::Flash(flash) = &self.kind {
            let options = Options::default();
            let shape = flash.shape(&options);
            let fault = Ftl::check(&shape, &flash.settings(&shape, &options));
            fault.map_err(|fault| ModelError::new(file, "nand", fault))?;
        }
        Ok(())
    }

    /// Checks that a drive of this model can be built with these options, without its memory.
    ///
    /// Errors: the options do not fit the model.
    pub fn fits(&self, options: &Options) -> Result<(), ModelError> {
        let Kind::Flash(flash) = &self.kind else { return Ok(()) };
        let shape = flash.shape(options);
        Ftl::check(&shape, &flash.settings(&shape, options)).map_err(|fault| self.wrong(fault))
    }

    /// Returns the visible size in bytes.
    pub fn user_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Flash(flash) => flash.user_bytes,
            Kind::Disk(disk) => disk.user_bytes,
        }
    }

    /// Returns the version of its values: eight hexadecimal digits. Drives of two versions are not
    /// the same drive, whatever their name.
    ///
    /// Every value that the model uses counts, and [`MECHANISMS`]; titles, sources and published
    /// figures do not.
    pub fn version(&self) -> String {
        let used = self.facts.iter().filter(|fact| !fact.key.starts_with("about."));
        let mut lines: Vec<_> = used.map(|fact| format!("{}={}", fact.key, fact.value)).collect();
        lines.sort_unstable();
        let text = format!("{MECHANISMS}\n{}", lines.join("\n"));
        // FNV-1a, 64 bits, folded.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{:08x}", (hash >> 32) as u32 ^ hash as u32)
    }

    /// Returns a published figure.
    pub fn published(&self, key: &str) -> Option<&Published> {
        self.published.iter().find(|published| published.key == key)
    }

    /// Returns a flash drive's translation layer, for ageing without times; None for a hard disk.
    ///
    /// Errors: the options do not fit the model.
    pub fn ftl(&self, options: &Options) -> Result<Option<Ftl>, ModelError> {
        match &self.kind {
            Kind::Flash(flash) => flash.ftl(options).map(Some).map_err(|fault| self.wrong(fault)),
            Kind::Disk(_) => Ok(None),
        }
    }

    /// Returns a new drive of this model.
    ///
    /// Errors: the options do not fit the model.
    pub fn drive(&self, options: &Options) -> Result<Drive, ModelError> {
        Ok(match &self.kind {
            Kind::Flash(flash) => {
                let drive = flash.drive(options).map_err(|fault| self.wrong(fault))?;
                Drive::Flash(Box::new(drive))
            }
            Kind::Disk(disk) => {
                Drive::Disk(Disk::new(disk, options.user_bytes.unwrap_or(disk.user_bytes)))
            }
        })
    }

    /// Returns the error for options with which the model cannot be built.
    fn wrong(&self, fault: &str) -> ModelError {
        ModelError::new(&self.name, "", fault)
    }
}

fn power(reader: &mut Reader<'_>) -> Result<Option<Power>, ModelError> {
    let idle_w = reader.number_if("power.idle_w", 0.0..=1000.0)?;
    let active_w = reader.number_if("power.active_w", 0.0..=1000.0)?;
    match (idle_w, active_w) {
        (Some(idle_w), Some(active_w)) if active_w >= idle_w => {
            Ok(Some(Power { idle_w, active_w }))
        }
        (Some(_), Some(_)) => {
            Err(reader.wrong("power.active_w", "is below power.idle_w; swap them"))
        }
        (None, None) => Ok(None),
        _ => Err(reader.wrong("power", "incomplete; give both idle_w and active_w")),
    }
}

/// A drive in time, of either kind.
pub enum Drive {
    /// A flash drive.
    Flash(Box<Timed>),
    /// A hard disk.
    Disk(Disk),
}

impl Drive {
    /// Submits a request at `now_ns`, which never decreases from call to call; returns the time of
    /// its completion.
    ///
    /// # Panics
    /// If it reaches beyond the drive's end.
    pub fn submit(&mut self, now_ns: u64, op: Op) -> u64 {
        match self {
            Drive::Flash(flash) => flash.submit(now_ns, op),
            Drive::Disk(disk) => disk.submit(now_ns, op),
        }
    }

    /// Returns the time in which the drive had requests, or worked in the background. None: it is
    /// not counted for a hard disk, whose power no preset has.
    pub fn active_ns(&self) -> Option<u64> {
        match self {
            Drive::Flash(flash) => Some(flash.active_ns()),
            Drive::Disk(_) => None,
        }
    }

    /// Lets time pass; see [`Timed::idle`].
    pub fn idle(&mut self, until_ns: u64) {
        match self {
            Drive::Flash(flash) => flash.idle(until_ns),
            Drive::Disk(disk) => disk.idle(until_ns),
        }
    }
}

/// Merges the file's tables over those of the model in `like`.
fn resolve(name: &str, text: &str, depth: u32) -> Result<Table, ModelError> {
    let own: Table = toml::from_str(text).map_err(|error| {
        let what = format!("{}; correct the TOML", error.message().replace('\n', ", "));
        let line = error.span().map(|span| line_at(text, span.start));
        ModelError { line, ..ModelError::new(name, "", &what) }
    })?;
    let Some(like) = own.get("like") else {
        return Ok(own);
    };
    let wrong = |what: &str| ModelError::new(name, "like", what);
    let like = like.as_str().ok_or_else(|| wrong("give a preset's name in quotes"))?;
    let base = catalogue::text(like).ok_or_else(|| {
        wrong(&format!("there is no preset {like}; see `overdrive drive models`"))
    })?;
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| wrong("the chain of 'like' is too long; name a model nearer to its end"))?;
    let mut merged = resolve(like, base, depth)?;
    // Published figures and the power of another drive do not apply to this one.
    merged.remove("published");
    merged.remove("power");
    for (key, value) in own {
        match (merged.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => below.extend(above),
            (_, value) => _ = merged.insert(key, value),
        }
    }
    Ok(merged)
}
