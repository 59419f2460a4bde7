//! Detects the format of a file, from its first bytes and its name.

use crate::access::{Access, Direction};
use crate::fields::between_blanks;
use crate::format::Format;
use crate::formats::{oracle_general, vscsi};
use crate::malformed::Malformed;
use crate::reader::{BYTE_ORDER_MARK, Reader};
use crate::recording;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Number of first bytes of a file, decompressed, that are enough to detect the format.
pub const SAMPLE_BYTES: usize = 1 << 20;

/// Reason why the format of a file is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Undetected {
    /// It may be one of several, and only the user can choose.
    Ambiguous(Malformed),
    /// It is no known format.
    Unknown(Malformed),
}

impl Undetected {
    fn unknown(what: String) -> Undetected {
        Undetected::Unknown(Malformed::new(what))
    }
}

impl fmt::Display for Undetected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Undetected::Ambiguous(message) | Undetected::Unknown(message)) = self;
        fmt::Display::fmt(message, f)
    }
}

impl core::error::Error for Undetected {}

/// The line formats that are tried; no line is valid in two of them.
const OF_LINES: [Format; 7] = [
    Format::Msr,
    Format::Alibaba,
    Format::Spc,
    Format::Tencent,
    Format::Blkparse,
    Format::Arc,
    Format::Csv,
];

impl Format {
    /// Detects the format of a file by its name (of which the last component counts) and its first
    /// bytes, decompressed; [`SAMPLE_BYTES`] are enough. `is_whole`: the sample is the whole file.
    ///
    /// # Errors
    /// It is no known format, or one of several between which only the user can choose: five
    /// columns of numbers, the last of which is 1 for a read in some dialects and 0 in others.
    pub fn detect(name: &str, sample: &[u8], is_whole: bool) -> Result<Format, Undetected> {
        let name = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        if sample.starts_with(&recording::MAGIC) {
            return Ok(Format::Recording);
        }
        if sample.is_empty() {
            return Err(Undetected::unknown("the file is empty".into()));
        }
        if is_text(sample) {
            of_lines(whole_lines(sample, is_whole))
        } else {
            of_records(&name, sample)
        }
    }
}

/// Whether the first line is text, without a zero byte nearby: binary numbers contain many.
fn is_text(sample: &[u8]) -> bool {
    let sample = sample.strip_prefix(BYTE_ORDER_MARK).unwrap_or(sample);
    let plain = |byte: &u8| (b' '..0x7f).contains(byte) || b"\t\r".contains(byte);
    let first = sample.split(|byte| *byte == b'\n').next().unwrap_or_default();
    first.iter().take(4096).all(plain) && !sample.iter().take(64).any(|byte| *byte == 0)
}

/// Returns the complete lines.
fn whole_lines(sample: &[u8], is_whole: bool) -> &[u8] {
    let last = sample.iter().rposition(|byte| *byte == b'\n');
    match last {
        Some(last) if !is_whole => &sample[..=last],
        _ => sample,
    }
}

fn of_lines(sample: &[u8]) -> Result<Format, Undetected> {
    if let Some(refused) = five_columns(sample) {
        return Err(Undetected::Ambiguous(refused));
    }
    let tries = OF_LINES.map(|format| (readable(format, sample), format));
    let best =
        tries.into_iter().max_by_key(|(accesses, format)| (*accesses, *format == Format::Csv));
    match best {
        Some((1.., Format::Blkparse)) => Ok(Format::Blkparse),
        Some((1.., format)) => Ok(format),
        // No request was queued: the file may still contain requests that were sent.
        _ if readable(Format::BlkparseSent, sample) > 0 => Ok(Format::BlkparseSent),
        _ => Err(unknown(sample)),
    }
}

/// Returns the number of accesses that can be read before the first wrong line.
fn readable(format: Format, sample: &[u8]) -> usize {
    let (mut reader, mut into) = (Reader::new(format), Vec::new());
    let fed = reader.feed(sample, &mut into);
    // Accesses before the wrong line may still be in the window.
    let mut waiting = Vec::new();
    if fed.is_ok() || format == Format::Blkparse || format == Format::BlkparseSent {
        let _ = reader.finish(&mut waiting);
    }
    into.len() + waiting.len()
}

fn unknown(sample: &[u8]) -> Undetected {
    let first = sample.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let shown: String = first.escape_ascii().take(80).map(char::from).collect();
    Undetected::unknown(format!(
        "line 1: the format is unknown; name it with --format ({}): {shown}",
        Format::ALL.map(Format::name).join(", ")
    ))
}

/// Returns the refusal of five columns of numbers, with both readings.
fn five_columns(sample: &[u8]) -> Option<Malformed> {
    let lines = sample.split(|byte| *byte == b'\n').take(1000);
    let mut times = lines.filter_map(|line| between_blanks(line).next());
    let is_milliseconds = times.any(|time| time.contains(&b'.'));
    let (one, zero) = match is_milliseconds {
        true => (Format::Disksim, Format::DisksimZeroReads),
        false => (Format::Ssdsim, Format::SsdsimZeroReads),
    };
    let (mut reader, mut accesses) = (Reader::new(one), Vec::new());
    // A wrong line is reported when the file is read.
    let _ = reader.feed(sample, &mut accesses).and_then(|()| reader.finish(&mut accesses));
    let count = accesses.len();
    if count == 0 {
        return None;
    }
    let is_read = |access: &&Access| access.direction == Direction::Read;
    let reads = accesses.iter().filter(is_read).count() as f64 / count as f64 * 100.0;
    let others = if is_milliseconds { "" } else { ", or mqsim" };
    Some(Malformed::new(format!(
        "the last column is ambiguous: {reads:.1} % of the first {count} requests are reads if 1 \
         is a read (--format {}{others}), {:.1} % if 0 is one (--format {}); name one of these \
         formats",
        one.name(),
        100.0 - reads,
        zero.name(),
    )))
}

fn of_records(name: &str, sample: &[u8]) -> Result<Format, Undetected> {
    if sample.first_chunk().and_then(vscsi::Version::of).is_some()
        && readable(Format::Vscsi, sample) > 0
    {
        return Ok(Format::Vscsi);
    }
    if is_oracle_general(sample) {
        return Ok(Format::OracleGeneral);
    }
    let says = |word: &str| name.contains(word);
    if says("vscsi") {
        return Ok(Format::Vscsi);
    }
    if says("oraclegeneral") {
        return Ok(Format::OracleGeneral);
    }
    Err(Undetected::unknown(format!(
        "byte 0: the file is neither text nor in a known binary format; name its format with \
         --format ({})",
        [Format::Recording, Format::Vscsi, Format::OracleGeneral].map(Format::name).join(", ")
    )))
}

/// Whether the times ascend, the objects have bytes, and the next uses are in the future.
fn is_oracle_general(sample: &[u8]) -> bool {
    let (records, rest) = sample.as_chunks::<{ oracle_general::BYTES }>();
    let is_cut_right = rest.is_empty() || sample.len() >= SAMPLE_BYTES;
    let parts = |record: &[u8; oracle_general::BYTES]| {
        let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|byte| record[at + byte]));
        let next = i64::from_le_bytes(core::array::from_fn(|byte| record[16 + byte]));
        (word(0), word(12), next)
    };
    let mut before = 0;
    let mut ascends = |time: u32| core::mem::replace(&mut before, time) <= time;
    !records.is_empty()
        && is_cut_right
        && records
            .iter()
            .take(1000)
            .map(parts)
            .all(|(time, bytes, next)| ascends(time) && bytes > 0 && bytes <= 1 << 30 && next >= -2)
}
