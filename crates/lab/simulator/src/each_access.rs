//! The requests of a trace one by one, for uses other than simulations.

use crate::error::Error;
use crate::trace_file::TraceFile;
use std::path::Path;
use trace::{Access, Format};

/// Reads a trace, which may be compressed by gzip, xz or zstd, and passes on each request in order.
/// `format`: None: detected from its content and name. Returns the format.
///
/// # Errors
/// The file cannot be read or is not a trace.
pub fn each_access(
    path: &Path,
    format: Option<Format>,
    mut take: impl FnMut(&Access),
) -> Result<Format, Error> {
    let mut file = TraceFile::open(path, format)?;
    let mut accesses = Vec::new();
    while file.next(&mut accesses)? {
        accesses.iter().for_each(&mut take);
    }
    Ok(file.format)
}
