//! The compressed sizes of blocks: of a ratio, or of the blocks of a file.

use crate::block_sizes::{BlockSizes, STORED_BYTES_MAX};
use crate::blocks::BLOCK_BYTES;
use crate::error::Error;
use packing::{Codec, Encoder};
use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Result as IoResult, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Maximum number of blocks that are read of a file.
const SAMPLED_BLOCKS: u64 = 4096;

/// The prefix of a file's name.
const AUTO_OF: &str = "auto-of:";

/// The origin of the compressed sizes.
#[derive(Clone, Debug)]
pub enum Compress {
    /// The sizes of a mean ratio.
    Ratio(BlockSizes),
    /// The blocks of this file or device.
    Of(PathBuf),
}

impl FromStr for Compress {
    type Err = String;

    /// Parses a ratio, or `auto-of:` and the name of a file.
    fn from_str(text: &str) -> Result<Compress, String> {
        if let Some(path) = text.strip_prefix(AUTO_OF).filter(|path| !path.is_empty()) {
            return Ok(Compress::Of(path.into()));
        }
        let sizes = text.parse().ok().and_then(BlockSizes::of_ratio).map(Compress::Ratio);
        sizes.ok_or_else(|| {
            format!("it is not a ratio; write a number from 1 to 512, like 2.5, or {AUTO_OF}FILE")
        })
    }
}

impl Compress {
    /// Returns the sizes; reads some blocks of the file.
    ///
    /// # Errors
    /// The file cannot be read, or has no data.
    pub fn sizes(&self) -> Result<BlockSizes, Error> {
        match self {
            Compress::Ratio(sizes) => Ok(sizes.clone()),
            Compress::Of(path) => sampled(path).map_err(|error| failure(path, &error)),
        }
    }
}

fn failure(path: &Path, error: &IoError) -> Error {
    let message = format!("--compress {AUTO_OF}{}: {error}", path.display());
    match error.kind() {
        ErrorKind::NotFound => Error::NotFound(message),
        ErrorKind::PermissionDenied => Error::Permission(message),
        ErrorKind::InvalidInput => Error::Usage(message),
        _ => Error::Io(message),
    }
}

/// Compresses blocks spread evenly over a file or device, as the engine does. Blocks of zeros do
/// not count: most of them are unused, and no trace accesses them.
///
/// # Errors
/// The file cannot be read, or has no data.
pub fn sampled(path: &Path) -> IoResult<BlockSizes> {
    let mut file = File::open(path)?;
    let blocks = file.seek(SeekFrom::End(0))? / BLOCK_BYTES;
    let block_bytes = BLOCK_BYTES as usize;
    let mut encoder = Encoder::new(block_bytes, STORED_BYTES_MAX as usize);
    let mut block = vec![0; block_bytes];
    let mut sizes = Vec::new();
    let samples = blocks.min(SAMPLED_BLOCKS);
    for sample in 0..samples {
        let number = u128::from(sample) * u128::from(blocks) / u128::from(samples);
        file.read_exact_at(&mut block, number as u64 * BLOCK_BYTES)?;
        if block.iter().any(|byte| *byte != 0) {
            let encoded = encoder.encode(Codec::Lz4, &block);
            sizes.push(encoded.map_or(block_bytes, |(_, bytes)| bytes.len()) as u32);
        }
    }
    if sizes.is_empty() {
        let message = "it has no block of 4 KiB with data; give a ratio instead";
        return Err(IoError::new(ErrorKind::InvalidInput, message));
    }
    Ok(BlockSizes::new(format!("{AUTO_OF}{}", path.display()), sizes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_or_a_file_is_named() {
        let parse = |text: &str| text.parse::<Compress>();
        assert!(matches!(parse("2.5"), Ok(Compress::Ratio(sizes)) if sizes.name() == "2.5"));
        assert!(
            matches!(parse("auto-of:/dev/sda"), Ok(Compress::Of(path)) if path == Path::new("/dev/sda"))
        );
        for bad in ["", "0.5", "x", "auto-of:", "513", "NaN"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_has_the_sizes_of_its_blocks_without_zeros() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("image");
        let mut random = lane::Random::new(1);
        let noise: Vec<u8> = (0..512).flat_map(|_| random.below(u64::MAX).to_le_bytes()).collect();
        let text = b"a word and another. ".repeat(205)[..4096].to_vec();
        let zeros = vec![0; 4096];
        std::fs::write(&path, [&noise[..], &text, &zeros, &text, &text].concat()).expect("written");
        let sizes = Compress::Of(path.clone()).sizes().unwrap_or_else(|_| panic!("it is readable"));
        assert_eq!(sizes.stored_share(), 0.75, "three of four");
        assert!((3.0..4.0).contains(&sizes.ratio()), "{}", sizes.ratio());
        std::fs::write(&path, zeros).expect("written");
        assert!(Compress::Of(path).sizes().is_err(), "no data");
        assert!(Compress::Of(home.path().join("absent")).sizes().is_err());
    }
}
