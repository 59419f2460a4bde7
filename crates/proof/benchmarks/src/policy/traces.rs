//! The traces for the measurements of policies.

use crate::zipf::Zipf;
use anyhow::{Context, Result};
use lane::Random;
use simulator::{BLOCK_BYTES, each_access};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use trace::{Access, Direction, Format};

/// A trace in memory.
pub(crate) struct Trace {
    pub(crate) name: String,
    /// Its path and its format. None: it was generated here.
    pub(crate) file: Option<(PathBuf, Format)>,
    pub(crate) requests: Vec<Request>,
    /// The bytes of all its devices, one after the other.
    pub(crate) bytes: u64,
    /// Number of different blocks.
    pub(crate) footprint: u32,
}

/// A read or a write.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) is_write: bool,
    pub(crate) first_byte: u64,
    pub(crate) bytes: u64,
}

impl Request {
    /// Returns the blocks that it touches.
    pub(crate) fn blocks(&self) -> std::ops::Range<u64> {
        self.first_byte / BLOCK_BYTES..(self.first_byte + self.bytes).div_ceil(BLOCK_BYTES)
    }
}

impl Trace {
    /// Returns the blocks that its requests touch, each once per request.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().flat_map(Request::blocks)
    }

    /// Returns the collection it is from, by its format: traces of one collection resemble one
    /// another more than those of another do.
    pub(crate) fn family(&self) -> &'static str {
        match self.file.as_ref().map(|(_, format)| format) {
            Some(Format::Vscsi) => "CloudPhysics",
            Some(Format::Ssdsim | Format::Mqsim) => "SSDsim",
            Some(Format::Disksim) => "DiskSim",
            Some(Format::Arc) => "ARC",
            Some(_) => "others",
            None => "generated",
        }
    }

    /// Returns this percentage of the footprint, as slots.
    pub(crate) fn slots(&self, percent: u32) -> u32 {
        (u64::from(self.footprint) * u64::from(percent) / 100).max(1) as u32
    }

    fn of(name: String, file: Option<(PathBuf, Format)>, requests: Vec<Request>) -> Trace {
        let end = requests.iter().map(|request| request.blocks().end).max().unwrap_or(0);
        let mut blocks: Vec<u64> = requests.iter().flat_map(Request::blocks).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let footprint = blocks.len() as u32;
        Trace { name, file, requests, bytes: end * BLOCK_BYTES, footprint }
    }
}

/// Returns the traces of a directory in the order of their names; none if it is not there.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn paths(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.is_dir() {
        eprintln!("no traces: {} is not there", directory.display());
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in directory.read_dir().with_context(|| directory.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.sort();
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|end| end == "xz" || end == "zst");
    paths.retain(is_trace);
    Ok(paths)
}

/// Reads every trace of a directory, in the order of their names, and generates one of a zipf load.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn find(directory: &Path) -> Result<Vec<Trace>> {
    let mut traces = vec![zipf()];
    for path in paths(directory)? {
        traces.push(read(path)?);
    }
    Ok(traces)
}

fn each_access_of(path: &Path, format: Option<Format>) -> Result<(Format, Vec<Access>)> {
    let mut accesses = Vec::new();
    let format = each_access(path, format, |access| {
        if access.direction != Direction::Other && access.bytes > 0 {
            accesses.push(*access);
        }
    })?;
    Ok((format, accesses))
}

/// Reads a trace. Devices come one after the other, each as long as the largest.
pub(crate) fn read(path: PathBuf) -> Result<Trace> {
    // The number that marks a read cannot always be detected: here it is 1.
    let readings = [None, Some(Format::Ssdsim), Some(Format::Disksim)];
    let mut read = readings.into_iter().map(|format| each_access_of(&path, format));
    let (format, accesses) = match read.find(Result::is_ok) {
        Some(Ok(read)) => read,
        _ => each_access_of(&path, None)?,
    };
    let end = accesses.iter().map(|access| access.first_byte + access.bytes).max().unwrap_or(0);
    let length = end.next_multiple_of(BLOCK_BYTES << 10);
    let mut numbers = HashMap::new();
    let requests = accesses.iter().map(|access| {
        let count = numbers.len() as u64;
        let device = *numbers.entry(access.device).or_insert(count);
        Request {
            is_write: access.direction == Direction::Write,
            first_byte: device * length + access.first_byte,
            bytes: access.bytes,
        }
    });
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = name.split('.').next().unwrap_or(&name).to_owned();
    Ok(Trace::of(name, Some((path, format)), requests.collect()))
}

/// Generates six million requests of a block each, three of ten a write, over a million blocks.
fn zipf() -> Trace {
    let mut random = Random::new(5);
    let zipf = Zipf::new(1_000_000, 1.0, &mut random);
    let blocks = zipf.draw(6_000_000, &mut random);
    let requests = blocks.into_iter().map(|block| Request {
        is_write: random.below(10) < 3,
        first_byte: u64::from(block) * BLOCK_BYTES,
        bytes: BLOCK_BYTES,
    });
    Trace::of("zipf 1.0".to_owned(), None, requests.collect())
}
