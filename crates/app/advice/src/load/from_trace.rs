//! Gathers facts about a trace in a file.

use super::facts::Facts;
use super::gather::{Gather, sample_of};
use simulator::{Error, Rate, TraceFile};
use std::io::Read;
use std::path::Path;
use trace::{Format, Window};

/// Maximum size of a file of which as many blocks as memory allows are simulated; of larger ones, a
/// sample is.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// The same of a compressed file.
const WHOLE_PACKED_BYTES_MAX: u64 = 1 << 20;
/// First bytes of files compressed by gzip, xz and zstd.
const PACKED: [&[u8]; 3] = [b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"];
/// The sample of larger traces.
const SAMPLE: f64 = 0.125;

/// Gathers facts about a trace in a file, which may be compressed.
///
/// # Errors
/// The file cannot be read, is not a trace, or has no reads and writes.
pub fn gather_trace(
    path: &Path,
    format: Option<Format>,
    sizes: &[u64],
    threads: usize,
) -> Result<(Facts, Format), Error> {
    let mut gather = Gather::new(sizes, rate(path, sizes), threads);
    let mut file = TraceFile::open(path, format)?;
    let is_recording = file.format == Format::Recording;
    let (mut accesses, mut sorted, mut window) = (Vec::new(), Vec::new(), Window::default());
    while file.next(&mut accesses)? {
        // Recordings of devices are in the order of the answers.
        if is_recording {
            accesses.drain(..).for_each(|access| window.put(access, &mut sorted));
            std::mem::swap(&mut accesses, &mut sorted);
        }
        accesses.iter().for_each(|access| gather.see(access));
        accesses.clear();
    }
    window.finish(&mut sorted);
    sorted.iter().for_each(|access| gather.see(access));
    let lost = file.notes.map_or(0, |notes| notes.dropped);
    let mut facts = Facts { lost, ..gather.end(file.processes().names()) };
    // A format may have a letter for flushes that its recorder has never used.
    if !is_recording && facts.flushes == Some(0) {
        (facts.flushes, facts.overwritten_blocks) = (None, None);
    }
    if facts.reads + facts.writes == 0 {
        let message = format!("{}: contains no read or write; use another trace", path.display());
        return Err(Error::Malformed(message));
    }
    Ok((facts, file.format))
}

/// Returns the share of the blocks that is simulated.
fn rate(path: &Path, sizes: &[u64]) -> Rate {
    let bytes = path.metadata().map_or(0, |data| data.len());
    let start = start_of(path);
    let whole_max = match PACKED.iter().any(|magic| start.starts_with(magic)) {
        true => WHOLE_PACKED_BYTES_MAX,
        false => WHOLE_BYTES_MAX,
    };
    let by_memory = sample_of(sizes);
    match bytes <= whole_max {
        true => by_memory,
        false => Rate::new(SAMPLE.min(by_memory.share())).unwrap_or(by_memory),
    }
}

/// Returns the first bytes of a file; none if it cannot be read.
fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    let file = std::fs::File::open(path);
    _ = file.and_then(|file| file.take(8).read_to_end(&mut start));
    start
}
