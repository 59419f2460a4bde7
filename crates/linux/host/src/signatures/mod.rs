//! Contents of a file or device, detected by the marks of formats: one table for all commands.

mod mark;
mod pages;
mod table;
#[cfg(test)]
mod tests;

use crate::image::ImageFormat;
use pages::Pages;
use table::SIGNATURES;

pub use mark::Mark;

/// The kind of contents of a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A partition table.
    Table,
    /// A file system of one host.
    FileSystem,
    /// A file system that several hosts may mount at the same time.
    Cluster,
    /// A member of a RAID, a volume group, a pool or similar.
    Member,
    /// An encrypted volume.
    Encrypted,
    /// Swap space.
    Swap,
    /// An image of a disk in this format.
    Image(ImageFormat),
}

/// The signature of a format.
#[derive(Debug)]
pub struct Signature {
    /// Names of the formats, as in libblkid.
    pub names: &'static [&'static str],
    /// The kind of contents.
    pub kind: Kind,
    /// The format in words, which follow "has".
    pub words: &'static str,
    /// Alternatives; all marks of an alternative must be present.
    pub any: &'static [&'static [Mark]],
}

/// Returns all signatures, strongest first.
pub fn signatures() -> &'static [Signature] {
    SIGNATURES
}

/// A signature that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The signature.
    pub signature: &'static Signature,
    /// The position of its first mark, in bytes.
    pub offset: u64,
}

/// Detects the image format from these first bytes: 512 are sufficient, with fewer some formats are
/// not detected.
pub fn detect(first_bytes: &[u8]) -> Option<ImageFormat> {
    let is_image = |kind| matches!(kind, Kind::Image(_));
    let read = |offset| match offset {
        0 => Ok::<_, std::convert::Infallible>(first_bytes.to_vec()),
        _ => Ok(Vec::new()),
    };
    let Ok(found) = find(first_bytes.len() as u64, is_image, read);
    found.iter().find_map(|found| match found.signature.kind {
        Kind::Image(format) => Some(format),
        _ => None,
    })
}

/// Returns the position of a mark.
fn position<E>(
    mark: &Mark,
    size: u64,
    pages: &mut Pages<impl FnMut(u64) -> Result<Vec<u8>, E>>,
) -> Result<Option<u64>, E> {
    for (offset, bytes) in mark.places(size) {
        if pages.has(offset, bytes)? {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// Returns the signatures of the wanted kinds in contents of this size, strongest first; of several
/// with the same first mark, only the first. `read` returns the page of 4096 bytes at an offset, or
/// its part up to the end.
///
/// # Errors
/// The errors of `read`.
pub(crate) fn find<E>(
    size: u64,
    is_wanted: impl Fn(Kind) -> bool,
    read: impl FnMut(u64) -> Result<Vec<u8>, E>,
) -> Result<Vec<Found>, E> {
    let mut pages = Pages::new(read);
    let mut found: Vec<Found> = Vec::new();
    for signature in SIGNATURES.iter().filter(|signature| is_wanted(signature.kind)) {
        for marks in signature.any {
            let mut offsets = Vec::new();
            for mark in *marks {
                match position(mark, size, &mut pages)? {
                    Some(offset) => offsets.push(offset),
                    None => break,
                }
            }
            if offsets.len() < marks.len() {
                continue;
            }
            let offset = offsets[0];
            if found.iter().all(|stronger| stronger.offset != offset) {
                found.push(Found { signature, offset });
            }
            break;
        }
    }
    Ok(found)
}
