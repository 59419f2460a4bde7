//! Drops files from the page cache, and checks that they are gone.

use super::look::{Look, failed};
use host::resident_bytes;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use suites::Halt;

/// Largest share of bytes in the page cache at which the files count as cold.
const COLD_SHARE_MAX: f64 = 0.01;

/// Bytes of a file between two calls of the watch: they take some hundredths of a second.
const PIECE_BYTES: usize = 1 << 30;

/// The part of the files that stayed in the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Coldness {
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of files for which the kernel does not show this user whether they are cached.
    pub unknown_bytes: u64,
    /// Of the other bytes, those still in the page cache: mapped, or on a file system that is in
    /// memory.
    pub resident_bytes: u64,
}

impl Coldness {
    /// Whether at most a hundredth is in the page cache. None: it cannot be determined.
    pub fn is_cold(&self) -> Option<bool> {
        let most = COLD_SHARE_MAX * self.bytes as f64;
        if self.resident_bytes as f64 > most {
            return Some(false);
        }
        (self.unknown_bytes as f64 <= most).then_some(true)
    }

    /// Describes it in words.
    pub fn text(&self) -> String {
        let share = |bytes: u64| 100.0 * bytes as f64 / self.bytes.max(1) as f64;
        let stayed = format!("{:.1} % stayed in the page cache", share(self.resident_bytes));
        match self.unknown_bytes {
            0 => stayed,
            some => format!("{stayed}, unknown for {:.1} %", share(some)),
        }
    }

    fn skip(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.unknown_bytes += bytes;
    }

    /// Counts a file, after dropping it from the page cache if `drops` is set. Dirty and mapped
    /// pages stay.
    fn add(
        &mut self,
        file: &File,
        bytes: u64,
        drops: bool,
        mut goes_on: impl FnMut() -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        for from in (0..bytes).step_by(PIECE_BYTES) {
            goes_on()?;
            let piece = from..bytes.min(from + PIECE_BYTES as u64);
            if drops {
                // The last piece extends to the end of the file, which may have grown.
                let count = NonZeroU64::new(PIECE_BYTES as u64).filter(|_| piece.end < bytes);
                let dropped = fadvise(file, from, count, Advice::DontNeed);
                let failed = failed("drop a file from the page cache");
                dropped.map_err(|errno| failed(errno.into()))?;
            }
            let count = piece.end - from;
            self.bytes += count;
            match resident_bytes(file, piece) {
                Ok(Some(resident)) => self.resident_bytes += resident.min(count),
                Ok(None) | Err(_) => self.unknown_bytes += count,
            }
        }
        Ok(())
    }
}

/// Counts the cached bytes of these files, after dropping them if `drops` is set.
pub(super) fn look_at<F>(
    files: &[(F, u64)],
    open: impl Fn(&F) -> io::Result<File>,
    drops: bool,
    look: &mut Look<'_>,
) -> Result<Coldness, Halt> {
    let stage =
        if drops { "dropping files from the page cache" } else { "examining the page cache" };
    let mut coldness = Coldness::default();
    for (number, (file, bytes)) in files.iter().enumerate() {
        let mut goes_on = || look.goes_on(stage, number as u64, files.len() as u64);
        goes_on()?;
        match open(file) {
            Ok(file) => coldness.add(&file, *bytes, drops, goes_on)?,
            // It may have been removed since it was found, or this user may not read it.
            Err(_) => coldness.skip(*bytes),
        }
    }
    Ok(coldness)
}

#[cfg(test)]
mod tests {
    use super::super::look::Impatient;
    use super::*;

    #[test]
    fn it_is_cold_only_where_that_is_known() {
        let of =
            |resident_bytes, unknown_bytes| Coldness { bytes: 1000, unknown_bytes, resident_bytes };
        assert_eq!(of(0, 0).is_cold(), Some(true));
        assert_eq!(of(10, 10).is_cold(), Some(true));
        assert_eq!(of(11, 0).is_cold(), Some(false));
        assert_eq!(of(0, 500).is_cold(), None);
        assert_eq!(of(250, 500).text(), "25.0 % stayed in the page cache, unknown for 50.0 %");
    }

    #[test]
    fn it_is_interrupted_within_a_file() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1 << 40).expect("it grows");
        let open = |_: &()| file.reopen();
        let looked = look_at(&[((), 1 << 40)], open, true, &mut Look::new(&mut Impatient(0)));
        assert_eq!(looked, Err(Halt::Interrupted));
    }
}
