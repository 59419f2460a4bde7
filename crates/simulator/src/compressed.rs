//! A file's bytes without its compression: gzip, xz, zstd or none, told by the first bytes.
//!
//! What comes out is bounded by the asking: nothing is unpacked ahead. What a decoder keeps is bounded, too: gzip
//! needs 32 KiB, xz and zstd as much as the file says; what would need more than 256 MiB is refused.

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{BufRead, Error, ErrorKind, Read, Result, copy, sink};

/// The most memory that a decoder may take: 256 MiB. `xz -9` needs 65, `zstd --ultra -22` 128.
const MEMORY_MAX: u64 = 256 << 20;

/// The compressions that are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

impl Compression {
    /// The compression of a file that begins so.
    pub(crate) fn of(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            // A frame to be skipped, with which some tools begin (RFC 8878, 3.1.2).
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

    /// The bytes without it.
    pub(crate) fn unpacked<'a>(self, packed: impl BufRead + 'a) -> Box<dyn Read + 'a> {
        match self {
            Compression::None => Box::new(packed),
            Compression::Gzip => Box::new(MultiGzDecoder::new(packed)),
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
    /// Goes into the next frame. Returns whether there is one.
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
            false => Err(Error::new(ErrorKind::InvalidData, "a frame does not have its checksum")),
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
        Compression::of(packed).unpacked(packed).read_to_end(&mut all)?;
        Ok(all)
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
        let told = unpacked(&frame).expect_err("too large").to_string();
        assert!(told.to_lowercase().contains("window"), "{told}");
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
