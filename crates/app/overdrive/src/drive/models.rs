//! `overdrive drive models`: every preset in a list, one with its numbers, or a user's file.

use super::{age, show};
use crate::columns::{self, Cell, Column, Selected, Style};
use crate::terminal;
use clap::ValueEnum;
use drives::{Derived, Kind, Model};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Options {
    /// Print this preset: every number with its source or the word 'assumed', and the derived
    /// values.
    #[arg(conflicts_with = "check")]
    name: Option<String>,
    /// Check your own file: faults with their lines, or the values that follow from its numbers.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Write to the drive at random until it is steady: write amplification, simulated and in
    /// theory, and SMART. Takes up to some minutes, and 8 bytes of memory for each 4 KiB of the
    /// drive.
    #[arg(long)]
    age: bool,
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    output: Selected<Model, Heading>,
}

/// Rates are those of the specification, in MB/s and 4 KiB requests per second; OP is the flash
/// beyond the capacity that the host sees, SPARE the same without its SLC area and hidden losses,
/// both in percent.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Heading {
    Name,
    Title,
    Kind,
    Capacity,
    Interface,
    Nand,
    Dies,
    Raw,
    Op,
    Spare,
    Slc,
    SeqRead,
    SeqWrite,
    RandRead,
    RandWrite,
    Year,
    Version,
}

fn percent(share: Option<f64>) -> Cell {
    Cell::Number(share.map(|share| (share * 1000.0).round() / 10.0))
}

impl Column<Model> for Heading {
    const DEFAULT: &str = "name,capacity,nand,seq-read,seq-write,rand-read,rand-write,year";
    const LEFT_OUT: &[Heading] = &[
        Heading::Nand,
        Heading::Year,
        Heading::SeqWrite,
        Heading::SeqRead,
        Heading::Capacity,
        Heading::RandRead,
        Heading::RandWrite,
    ];

    fn cell(self, model: &Model) -> Cell {
        let flash = match &model.kind {
            Kind::Flash(flash) => Some(flash),
            Kind::Disk(_) => None,
        };
        let derived: Option<Derived> = flash.map(|flash| flash.derived());
        let published_value =
            |key| Cell::Number(model.published(key).map(|published| published.value));
        let text = |text: &str| Cell::Text(text.to_owned());
        match self {
            Heading::Name => text(&model.name),
            Heading::Title => text(&model.title),
            Heading::Kind => text(show::kind(model)),
            Heading::Capacity => Cell::Size(model.user_bytes()),
            Heading::Interface => text(&model.about.interface),
            Heading::Nand => text(&model.about.nand),
            Heading::Dies => Cell::Number(flash.map(|flash| f64::from(flash.dies))),
            Heading::Raw => Cell::Size(derived.map_or(0, |derived| derived.raw_bytes)),
            Heading::Op => percent(derived.map(|derived| derived.over_provisioning)),
            Heading::Spare => percent(derived.map(|derived| derived.spare)),
            Heading::Slc => Cell::Size(flash.map_or(0, |flash| flash.slc_static_bytes)),
            Heading::SeqRead => published_value("sequential_read_mb_s"),
            Heading::SeqWrite => published_value("sequential_write_mb_s"),
            Heading::RandRead => published_value("random_read_iops"),
            Heading::RandWrite => published_value("random_write_iops"),
            Heading::Version => text(&model.version()),
            Heading::Year => {
                Cell::Number(Some(f64::from(model.about.year)).filter(|year| *year > 0.0))
            }
        }
    }

    fn width_min(self) -> Option<usize> {
        match self {
            // Names are whole: they are arguments.
            Heading::Title | Heading::Interface | Heading::Nand => Some(8),
            _ => None,
        }
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let model = match (&options.name, &options.check) {
        (Some(name), _) => preset(name)?,
        (None, Some(file)) => read(file)?,
        (None, None) if options.age => {
            let message = "--age: name a model, or check a file; one drive is aged at a time";
            return Err(Failure::new(Exit::Usage, message));
        }
        (None, None) => return list(options),
    };
    let aged = options.age.then(|| age::run(&model)).transpose()?;
    if options.style.json {
        let mut object = show::as_json(&model);
        object["aged"] = aged.map_or(Value::Null, |aged| age::as_json(&aged));
        daemon::say!("{object}");
        return Ok(ExitCode::SUCCESS);
    }
    match aged {
        Some(aged) => terminal::print_text(&age::as_text(&aged, &model), age::INDENT, &[]),
        None => {
            let width = terminal::width();
            terminal::print(show::as_text(&model, options.check.is_some(), width));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(options: &Options) -> Result<ExitCode, Failure> {
    let models: Vec<Model> = Model::names().filter_map(Model::preset).collect();
    if options.style.json {
        let models: Vec<Value> = models.iter().map(show::summary).collect();
        daemon::say!("{}", json!({ "schema": "overdrive.drive.models/1", "models": models }));
    } else {
        columns::print(&models, &options.output.columns, &options.style)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a preset by its name; the failure lists similar ones.
fn preset(name: &str) -> Result<Model, Failure> {
    Model::preset(name).ok_or_else(|| {
        let similar = stack::similar(name, Model::names(), 4);
        let mend = match similar.as_slice() {
            _ if Path::new(name).exists() => format!("to check your own file, use --check {name}"),
            [] => "see 'overdrive drive models'".to_owned(),
            some => format!("did you mean {}?", some.join(" or ")),
        };
        Failure::new(Exit::Negative, format!("there is no modelled drive {name}; {mend}"))
    })
}

/// Size of the largest file that is read: a drive's description is a few kilobytes.
const MOST_BYTES: u64 = 1 << 20;

/// Reads a user's file, which may be invalid.
fn read(file: &Path) -> Result<Model, Failure> {
    let place = file.display();
    let failed = |error: std::io::Error| {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::Negative,
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Io,
        };
        Failure::new(exit, format!("{place}: cannot be read ({error}); name a drive's TOML file"))
    };
    let wrong = |what: &str| Failure::new(Exit::Negative, format!("{place}: {what}"));
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(wrong(
            "the file is larger than 1 MiB; a drive's description is a few kilobytes of TOML",
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| wrong("the file is not UTF-8; write it as plain text"))?;
    Model::parse(&place.to_string(), &text)
        .map_err(|error| Failure::new(Exit::Negative, error.to_string()))
}
