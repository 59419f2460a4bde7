//! Holes of a file, found with SEEK_DATA and SEEK_HOLE (lseek(2)).
//!
//! These calls move the position of the open description. Nothing else uses it, because all I/O
//! specifies its own offset.

use block::{Extent, SECTOR, Stretch};
use rustix::fs::{FsWord, SeekFrom};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Maximum number of stretches per call, which bounds the time that it blocks the lane.
const STRETCHES_MAX: usize = 512;

/// File systems that depend on a server, which may not answer: 9P, AFS, Ceph, CIFS (two numbers),
/// FUSE and NFS. Their files are reported as data. (include/uapi/linux/magic.h)
const REMOTE: [FsWord; 7] = [
    0x0102_1997,
    0x5346_414f,
    0x00c3_6400,
    0xff53_4d42_u32 as FsWord,
    0xfe53_4d42_u32 as FsWord,
    0x6573_5546,
    0x6969,
];

/// Whether the file depends on a server, which may not answer. An unknown file system counts as
/// one.
pub(crate) fn is_remote(file: impl AsFd, device: bool) -> bool {
    let system = rustix::fs::fstatfs(file).map(|found| found.f_type);
    !device && !system.is_ok_and(|system| !REMOTE.contains(&system))
}

/// Cuts `at` into stretches. `seek` finds the first byte of data (true) or of a hole (false) from a
/// position on; None: there is none. A sector that is partly a hole is data.
fn cut(
    at: Extent,
    seek: impl Fn(u64, bool) -> Result<Option<u64>, Errno>,
) -> Result<Vec<Stretch>, Errno> {
    let end = at.first + u64::from(at.count);
    let mut list = Vec::new();
    let mut sector = at.first;
    while sector < end && list.len() < STRETCHES_MAX {
        let Some(byte) = seek(sector * SECTOR, true)? else {
            Stretch::push(&mut list, Stretch { sectors: end - sector, hole: true, zero: true });
            break;
        };
        let data = (byte / SECTOR).clamp(sector, end);
        Stretch::push(&mut list, Stretch { sectors: data - sector, hole: true, zero: true });
        if data == end {
            break;
        }
        let hole = seek(byte, false)?.map_or(end, |byte| byte.div_ceil(SECTOR));
        sector = hole.clamp(data + 1, end);
        Stretch::push(&mut list, Stretch::data(sector - data));
    }
    Ok(list)
}

/// Returns the stretches of `at` in a file; a single stretch of data if they are unknown.
pub(crate) fn of(file: impl AsFd, at: Extent) -> Vec<Stretch> {
    let seek = |from, data| {
        let to = if data { SeekFrom::Data(from) } else { SeekFrom::Hole(from) };
        match rustix::fs::seek(file.as_fd(), to) {
            Ok(byte) => Ok(Some(byte)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(errno),
        }
    };
    cut(at, seek).unwrap_or_else(|_| vec![Stretch::data(at.count)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts a file of 100 sectors with data in these ranges of bytes.
    fn cut_lengths(data: &[(u64, u64)], at: Extent) -> Vec<(u64, bool)> {
        let is_data = |byte| data.iter().any(|&(from, to)| (from..to).contains(&byte));
        let seek = |from, wanted| Ok((from..51200).find(|byte| is_data(*byte) == wanted));
        let list = cut(at, seek).expect("nothing fails here");
        list.iter().map(|stretch| (stretch.sectors, stretch.zero)).collect()
    }

    #[test]
    fn holes_are_rounded_inward() {
        let all = Extent::new(0, 100);
        assert_eq!(cut_lengths(&[], all), [(100, true)]);
        assert_eq!(cut_lengths(&[(0, 51200)], all), [(100, false)]);
        assert_eq!(cut_lengths(&[(600, 601)], all), [(1, true), (1, false), (98, true)]);
        assert_eq!(cut_lengths(&[(511, 513)], all), [(2, false), (98, true)]);
        assert_eq!(
            cut_lengths(&[(0, 100), (400, 600), (1024, 1100)], all),
            [(3, false), (97, true)]
        );
        assert_eq!(cut_lengths(&[(600, 601)], Extent::new(1, 1)), [(1, false)]);
        assert_eq!(cut_lengths(&[(600, 601)], Extent::new(2, 7)), [(7, true)]);
        assert_eq!(cut_lengths(&[(5120, 6000)], Extent::new(8, 3)), [(2, true), (1, false)]);
    }

    #[test]
    fn the_list_is_bounded_and_errors_are_passed_on() {
        let seek = |from: u64, data| {
            let sector = from.div_ceil(SECTOR);
            Ok(Some(SECTOR * if (sector % 2 == 1) == data { sector } else { sector + 1 }))
        };
        assert_eq!(cut(Extent::new(0, 100_000), seek).expect("fine").len(), STRETCHES_MAX);
        assert_eq!(cut(Extent::new(0, 8), |_, _| Err(Errno::INVAL)), Err(Errno::INVAL));
    }
}
