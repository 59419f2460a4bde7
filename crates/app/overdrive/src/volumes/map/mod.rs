//! `overdrive volume map`: the files of a volume, and how much of each is in the cache.

mod amounts;
mod during;
#[cfg(test)]
mod examples;
mod json;
mod page;
mod parts;
mod tables;
mod totals;

use super::{Target, find};
use crate::page_file::PageFile;
use crate::progress::Stages;
use amounts::Amounts;
use block::Rules;
use daemon::control::statistics::{FileClass, FileHints};
use daemon::control::words::Ask;
use daemon::{MapSummary, VolumeReader};
pub(crate) use during::MapDuring;
use files::{Bounds, Extent, Map, ReadAt, ReadFailed, map_volume};
use hints::{FileRules, class_list};
use hotlist::ClassList;
use serde_json::Value;
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Show which files a volume has in its cache, by class, by directory and by file.
///
/// The file systems of the volume are read through its daemon, so unflushed data counts; this
/// leaves no trace in the cache. ext4 and XFS are read, also in partitions; other contents are
/// unknown. Hits and saved time are known for volumes with --files auto. Examples:
///   overdrive volume map db
///   overdrive volume map db --json | jq '.classes[]'
///   overdrive volume map db --report db.html
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// The volume; may be omitted if only one is served.
    name: Option<String>,
    /// Print one JSON object, with all directories and files that have cached blocks.
    #[arg(long)]
    json: bool,
    /// Also write a page with a treemap, which only this user can read: it has names of files.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// The map of a volume with its amounts.
struct Report {
    volume: String,
    summary: MapSummary,
    amounts: Amounts,
    memory_bytes: u64,
    /// Figures of the classes, if the daemon has a map of its own.
    hints: Option<FileHints>,
}

/// A volume with the progress of its reading, of which the amount is not known before.
struct Watched<'a> {
    reader: VolumeReader<'a>,
    stages: Stages,
    read_bytes: u64,
}

impl ReadAt for Watched<'_> {
    fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        self.read_bytes += into.len() as u64;
        let position = offset as f64 / self.bytes().max(1) as f64;
        let read = block::Size(self.read_bytes >> 20 << 20);
        self.stages.set(&format!("reading file systems: {read}, at"), position);
        self.reader.read_at(offset, into)
    }
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let mut target = find(control, options.name.as_deref())?;
    // Checked before the volume is read.
    let backing = PathBuf::from(stack::below_limits(&target.row.backing));
    let page = options.report.as_deref();
    let page = page.map(|path| PageFile::open_private(path, &[backing])).transpose()?;
    let report = Report::make(&mut target)?;
    if options.json {
        daemon::say!("{}", report.json());
    } else {
        report.print();
    }
    if let Some(page) = page {
        page.write(&report.page())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn make(target: &mut Target) -> Result<Report, Failure> {
        let (volume, size_bytes) = (target.row.name.clone(), target.row.size_bytes);
        let memory_bytes = target.row.memory_bytes;
        let held = match memory_bytes {
            0 => ClassList::default(),
            _ => target.daemon.held(&volume)?,
        };
        let shown = target.daemon.ask(&Ask::Show { volume: volume.clone() })?;
        let rules = rules_of(&volume, &shown["stack"]["cache"]["rules"]);
        let map = map_of(&mut target.daemon, &volume, size_bytes);
        let classes = class_list(&map, &rules, memory_bytes);
        let class_of = |extent: &Extent| hints::class_of(&map, extent, &rules, memory_bytes);
        let blocks = size_bytes.div_ceil(4096);
        Ok(Report {
            summary: MapSummary::of(&map),
            amounts: Amounts::of(&map, &classes, &held, blocks, class_of),
            memory_bytes,
            hints: target.daemon.statistics(&volume)?.files,
            volume,
        })
    }

    fn figures(&self, class: &str) -> Option<&FileClass> {
        let classes = self.hints.iter().flat_map(|hints| &hints.classes);
        classes.into_iter().find(|one| one.class == class)
    }
}

/// Returns the rules of a volume, as its daemon shows them. An older daemon has none. Rules that
/// this program does not have are reported, and the map is shown without any.
fn rules_of(volume: &str, shown: &Value) -> FileRules {
    if shown.is_null() {
        return FileRules::default();
    }
    let rules = serde_json::from_value::<Rules>(shown.clone()).map_err(|error| error.to_string());
    rules.and_then(|rules| FileRules::new(&rules)).unwrap_or_else(|why| {
        daemon::complain!(
            "overdrive: {volume}: its daemon follows rules that this program does not have \
             ({why}): the classes are shown without rules; use the program of the daemon"
        );
        FileRules::default()
    })
}

/// Maps the files of a volume.
fn map_of(daemon: &mut daemon::control::Daemon, volume: &str, size_bytes: u64) -> Map {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let reader = VolumeReader::new(daemon, volume, size_bytes);
    let mut watched = Watched { reader, stages: Stages::new(), read_bytes: 0 };
    let map = map_volume(&mut watched, &Bounds::default(), seconds);
    watched.stages.finish();
    map
}
