//! Decompresses a file: gzip, xz, zstd or none, recognised by its first bytes.
//!
//! Output is bounded by the caller's buffer: nothing is unpacked ahead. The memory of a decoder is
//! bounded, too: gzip needs 32 KiB, xz and zstd as much as the file requires; a file that requires
//! more than 256 MiB is refused.

use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, Error, ErrorKind, Read, Result, copy, sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum memory of a decoder: 256 MiB. `xz -9` needs 65, `zstd --ultra -22` 128.
const MEMORY_MAX: u64 = 256 << 20;

/// The supported compressions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    /// Returns the compression of a file with these first bytes.
    pub(crate) fn of(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            // A skippable frame, which some tools put at the start (RFC 8878, 3.1.2).
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::None => "uncompressed",
            Compression::Gzip => "gzip",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
        }
    }

    /// Returns the program that decompresses it on a command line.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self {
            Compression::None => None,
            _ => Some(self.name()),
        }
    }

    /// Returns the decompressed bytes. `padding` counts zeros after the end of the compressed data.
    pub(crate) fn unpacked<'a>(
        self,
        packed: impl BufRead + Send + 'a,
        padding: Arc<AtomicU64>,
    ) -> Box<dyn Read + Send + 'a> {
        match self {
            Compression::None => Box::new(packed),
            Compression::Gzip => Box::new(Members { state: Member::Between(packed), padding }),
            Compression::Xz => {
                let kibibytes = (MEMORY_MAX >> 10) as u32;
                Box::new(XzReader::new_mem_limit(packed, true, kibibytes))
            }
            Compression::Zstd => {
                Box::new(Frames { packed, decoder: FrameDecoder::new(), is_inside: false })
            }
        }
    }
}

/// The members of a gzip file, one after the other. Tapes and block devices leave zeros after the
/// last one.
struct Members<R> {
    state: Member<R>,
    padding: Arc<AtomicU64>,
}

enum Member<R> {
    Between(R),
    Inside(GzDecoder<R>),
    /// An error has been returned.
    Failed,
}

impl<R: BufRead> Members<R> {
    /// Skips zeros. Returns whether a member follows.
    fn enter(&mut self, packed: &mut R) -> Result<bool> {
        loop {
            let bytes = packed.fill_buf()?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            match (zeros, bytes.len()) {
                (_, 0) => return Ok(false),
                (0, _) => return Ok(true),
                _ => {}
            }
            packed.consume(zeros);
            self.padding.fetch_add(zeros as u64, Ordering::Relaxed);
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, Member::Failed) {
                Member::Between(mut packed) => {
                    let follows = self.enter(&mut packed);
                    // A read that fails may be repeated.
                    self.state = match follows {
                        Ok(true) => Member::Inside(GzDecoder::new(packed)),
                        _ => Member::Between(packed),
                    };
                    if !follows? {
                        return Ok(0);
                    }
                }
                Member::Inside(mut decoder) => match decoder.read(into) {
                    Ok(0) if !into.is_empty() => self.state = Member::Between(decoder.into_inner()),
                    other => {
                        self.state = Member::Inside(decoder);
                        return other;
                    }
                },
                Member::Failed => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }
}

/// The frames of a zstd file, one after the other.
struct Frames<R> {
    packed: R,
    decoder: FrameDecoder,
    is_inside: bool,
}

fn damaged(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

impl<R: BufRead> Frames<R> {
    /// Enters the next frame. Returns whether there is one.
    fn enter(&mut self) -> Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            self.decoder.set_max_window_size(MEMORY_MAX / 2);
            match self.decoder.init(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = copy(&mut (&mut self.packed).take(length.into()), &mut sink())?;
                    if skipped < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(damaged(error)),
            }
        }
        Ok(false)
    }

    fn leave(&mut self) -> Result<()> {
        self.is_inside = false;
        let stored = self.decoder.get_checksum_from_data();
        match stored.is_none() || stored == self.decoder.get_calculated_checksum() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidData, "a frame does not match its checksum")),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            if !self.is_inside {
                self.is_inside = self.enter()?;
                if !self.is_inside {
                    return Ok(0);
                }
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(into);
            }
            if self.decoder.is_finished() {
                self.leave()?;
                continue;
            }
            let one = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder.decode_blocks(&mut self.packed, one).map_err(damaged)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use lzma_rust2::{XzOptions, XzWriter};
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;

    fn packed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        match compression {
            Compression::None => bytes.to_vec(),
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).expect("memory");
                encoder.finish().expect("memory")
            }
            Compression::Xz => {
                let options = XzOptions::with_preset(1);
                let mut encoder = XzWriter::new(Vec::new(), options).expect("memory");
                encoder.write_all(bytes).expect("memory");
                encoder.finish().expect("memory")
            }
            Compression::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
        }
    }

    fn unpacked(packed: &[u8]) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        let padding = Arc::new(AtomicU64::new(0));
        Compression::of(packed).unpacked(packed, padding).read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn zeros_behind_gzip_data_are_counted_and_other_bytes_refused() {
        let member = packed(Compression::Gzip, b"R,0,1\n");
        for zeros in [1, 511, 100_000] {
            let padding = Arc::new(AtomicU64::new(0));
            let file = [&member[..], &vec![0; zeros], &member, &vec![0; zeros]].concat();
            let mut all = Vec::new();
            let mut unpacked = Compression::Gzip.unpacked(&file[..], padding.clone());
            unpacked.read_to_end(&mut all).expect("padded");
            assert_eq!((all.len(), padding.load(Ordering::Relaxed)), (12, 2 * zeros as u64));
        }
        assert!(unpacked(&[&member[..], b"\0\0tail"].concat()).is_err());
        assert!(unpacked(&[&member[..], b"\x1f\x8b"].concat()).is_err(), "cut off");
    }

    const ALL: [Compression; 3] = [Compression::Gzip, Compression::Xz, Compression::Zstd];

    #[test]
    fn each_is_known_by_its_start_and_parts_one_after_the_other_are_one() {
        let text: Vec<u8> = (0..300_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for compression in ALL {
            let once = packed(compression, &text);
            assert!(once.len() < text.len() && Compression::of(&once) == compression);
            assert!(unpacked(&once).expect("whole") == text);
            let twice = [&once[..], &once].concat();
            assert!(unpacked(&twice).expect("whole") == [&text[..], &text].concat());
            for length in [once.len() - 1, once.len() / 2, 7] {
                assert!(unpacked(&once[..length]).is_err(), "{compression:?} cut at {length}");
            }
        }
        assert_eq!(unpacked(b"0,1").expect("as it is"), b"0,1");
        let skipped =
            [&[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..], &packed(Compression::Zstd, b"x")];
        assert_eq!(unpacked(&skipped.concat()).expect("whole"), b"x");
        assert!(unpacked(&skipped[0][..9]).is_err());
    }

    #[test]
    fn a_window_beyond_the_bound_is_refused() {
        // A frame header with a window of 1 GiB: exponent 20, mantissa 0 (RFC 8878, 3.1.1.1.2).
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3, 1, 0, 0];
        let message = unpacked(&frame).expect_err("too large").to_string();
        assert!(message.to_lowercase().contains("window"), "{message}");
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_other_bytes_and_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 1..400),
            place: prop::sample::Index,
            bits in 1..=255u8,
        ) {
            for compression in ALL {
                let mut file = packed(compression, &bytes);
                let place = place.index(file.len());
                file[place] ^= bits;
                let _ = unpacked(&file);
                let start = packed(compression, &[]);
                let _ = unpacked(&[&start[..start.len().min(6)], &bytes].concat());
            }
        }
    }
}
