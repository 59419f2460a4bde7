//! Recordings that suites replay without a file system: the requests, and a description of their
//! origin.
//!
//! ```text
//!   a file, compressed by zstd:
//!     magic "ODREPLAY"
//!     bytes of the description u32
//!     the description, a JSON object
//!     a recording of crate `trace`
//! ```
//!
//! Numbers are little-endian. `cargo xtask bench record` makes these files. Reading never panics,
//! whatever the bytes are.

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use std::io::Read;
use trace::Trace;

const MAGIC: [u8; 8] = *b"ODREPLAY";
const LENGTH_BYTES: usize = 4;
/// Maximum size of a file, decompressed.
const BYTES_MAX: u64 = 64 << 20;

/// The description of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// The action, in words: "copy of the file set MP3".
    pub what: String,
    /// The environment: the file system, the kernel, the device under it.
    pub on: String,
    /// Files that were copied or read.
    pub files: u64,
    /// Number of files in the whole set.
    pub files_whole: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the whole set.
    pub bytes_whole: u64,
    /// Bytes of the device that the file system was on.
    pub device_bytes: u64,
}

impl About {
    fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "on": self.on,
            "files": self.files,
            "files_whole": self.files_whole,
            "bytes": self.bytes,
            "bytes_whole": self.bytes_whole,
            "device_bytes": self.device_bytes,
        })
    }

    fn from_json(value: &Value) -> Option<About> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let number = |name: &str| value[name].as_u64();
        Some(About {
            what: text("what")?,
            on: text("on")?,
            files: number("files")?,
            files_whole: number("files_whole")?,
            bytes: number("bytes")?,
            bytes_whole: number("bytes_whole")?,
            device_bytes: number("device_bytes")?,
        })
    }

    /// Describes how it is smaller than the whole set. None: it is not.
    pub fn scale(&self) -> Option<String> {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let is_whole = (self.files, self.bytes) == (self.files_whole, self.bytes_whole);
        (!is_whole).then(|| {
            let (files, whole) = (self.files, self.files_whole);
            format!(
                "{files} of {whole} files, {:.0} of {:.0} MB",
                mb(self.bytes),
                mb(self.bytes_whole)
            )
        })
    }
}

/// A recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    /// Its description.
    pub about: About,
    /// The requests.
    pub trace: Trace,
}

impl Recording {
    /// Returns a file with this description and a recording of the crate `trace`.
    pub fn pack(about: &About, trace: &[u8]) -> Vec<u8> {
        let about = about.to_json().to_string();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(about.len() as u32).to_le_bytes());
        bytes.extend_from_slice(about.as_bytes());
        bytes.extend_from_slice(trace);
        compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest)
    }

    /// Reads a file of [`Recording::pack`].
    ///
    /// # Errors
    /// The defect of the file.
    pub fn unpack(packed: &[u8]) -> Result<Recording, String> {
        let damaged = |error: &dyn std::fmt::Display| format!("the recording is damaged: {error}");
        let mut bytes = Vec::new();
        let decoder = StreamingDecoder::new(packed).map_err(|error| damaged(&error))?;
        let unpacked = decoder.take(BYTES_MAX).read_to_end(&mut bytes);
        unpacked.map_err(|error| damaged(&error))?;
        let rest = bytes
            .strip_prefix(&MAGIC)
            .ok_or_else(|| damaged(&"it does not begin as a recording does"))?;
        let (length, rest) = rest
            .split_first_chunk::<LENGTH_BYTES>()
            .ok_or_else(|| damaged(&"it ends inside its header"))?;
        let (about, trace) = rest
            .split_at_checked(u32::from_le_bytes(*length) as usize)
            .ok_or_else(|| damaged(&"it ends inside its description"))?;
        let about: Value = serde_json::from_slice(about).map_err(|error| damaged(&error))?;
        let about =
            About::from_json(&about).ok_or_else(|| damaged(&"its description is incomplete"))?;
        let trace = Trace::parse(trace).map_err(|error| damaged(&error))?;
        Ok(Recording { about, trace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Event, Operation, recording};

    fn about() -> About {
        About {
            what: "copy of the file set X".to_owned(),
            on: "ext4".to_owned(),
            files: 3,
            files_whole: 30,
            bytes: 4_000_000,
            bytes_whole: 40_000_000,
            device_bytes: 1 << 30,
        }
    }

    fn packed() -> Vec<u8> {
        let event = |number: u64| Event {
            time_ns: number * 1000,
            took_ns: Some(500),
            operation: Operation::Read,
            device: 0,
            first: number * 8,
            sectors: 8,
            failed: None,
        };
        let events: Vec<Event> = (0..1000).map(event).collect();
        let mut trace = Vec::new();
        recording::header(&mut trace);
        recording::blocks(&mut trace, &events, 0);
        Recording::pack(&about(), &trace)
    }

    #[test]
    fn what_is_packed_is_read_again() {
        let packed = packed();
        let read = Recording::unpack(&packed).expect("sound");
        assert_eq!((read.about.clone(), read.trace.events().len()), (about(), 1000));
        assert!(packed.len() < 20_000, "{} bytes of 40,000", packed.len());
        assert_eq!(read.about.scale().as_deref(), Some("3 of 30 files, 4 of 40 MB"));
        let whole = About { files: 30, bytes: 40_000_000, ..about() };
        assert_eq!(whole.scale(), None);
    }

    #[test]
    fn damage_is_reported_and_never_panics() {
        let good = packed();
        for length in (0..good.len()).step_by(37) {
            // A truncated recording has its complete blocks; its description must be there.
            if let Ok(read) = Recording::unpack(&good[..length]) {
                assert_eq!(read.about, about());
            }
        }
        for at in (0..good.len()).step_by(11) {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            let _ = Recording::unpack(&bad);
        }
        let raw = |bytes: &[u8]| {
            let packed = compress_to_vec(bytes, CompressionLevel::Fastest);
            Recording::unpack(&packed).expect_err("none of ours")
        };
        assert!(raw(b"").contains("does not begin as a recording"));
        assert!(raw(b"ODREPLAY\x01").contains("ends inside its header"));
        assert!(raw(b"ODREPLAY\xff\xff\xff\xff{}").contains("ends inside its description"));
        assert!(raw(b"ODREPLAY\x02\0\0\0{}").contains("is incomplete"));
        assert!(raw(b"ODREPLAY\x02\0\0\0{\"").contains("damaged"));
    }
}
