//! What other hosts may use at the same time: file systems of clusters on a disk, and locks that this machine keeps to itself.
//!
//! Sources: fs/ocfs2/ocfs2_fs.h, include/uapi/linux/gfs2_ondisk.h, proc_pid_mountinfo(5), nfs(5), mount.cifs(8). VMFS's mark
//! is that of its volume header at 1 MiB, as libblkid and vmfs-tools look for it.

use std::fmt;

/// A file system that several hosts mount at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterFileSystem {
    /// Oracle's.
    Ocfs2,
    /// Red Hat's, unless it was made for one host (`lock_nolock`).
    Gfs2,
    /// VMware's.
    Vmfs,
}

impl fmt::Display for ClusterFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClusterFileSystem::Ocfs2 => "OCFS2",
            ClusterFileSystem::Gfs2 => "GFS2",
            ClusterFileSystem::Vmfs => "VMFS",
        })
    }
}

/// Where marks are, in bytes from the start: pages of 4096 of which each holds some.
pub(crate) const PAGES: [u64; 5] = [0, 0x1000, 0x2000, 0x1_0000, 0x10_0000];

/// OCFS2's superblock is its third block, of 512 to 4096 bytes.
const OCFS2: [u64; 4] = [0x400, 0x800, 0x1000, 0x2000];
const GFS2: u64 = 0x1_0000;
const VMFS: u64 = 0x10_0000;
/// Bytes from the start of a superblock of GFS2 to the name of its lock protocol.
const GFS2_PROTOCOL: u64 = 96;

/// The file system whose marks are in these pages, each with its place.
pub(crate) fn in_pages(pages: &[(u64, Vec<u8>)]) -> Option<ClusterFileSystem> {
    let at = |offset: u64, mark: &[u8]| {
        pages.iter().any(|(page, bytes)| {
            let rest =
                offset.checked_sub(*page).and_then(|skip| bytes.get(usize::try_from(skip).ok()?..));
            rest.is_some_and(|rest| rest.starts_with(mark))
        })
    };
    if OCFS2.iter().any(|offset| at(*offset, b"OCFSV2")) {
        return Some(ClusterFileSystem::Ocfs2);
    }
    // The mark, and the type of a superblock, both with the highest byte first.
    if at(GFS2, &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]) && !at(GFS2 + GFS2_PROTOCOL, b"lock_nolock")
    {
        return Some(ClusterFileSystem::Gfs2);
    }
    at(VMFS, &[0x0d, 0xd0, 0x01, 0xc0]).then_some(ClusterFileSystem::Vmfs)
}

/// Options of network file systems by which locks are not told to the server.
const LOCAL_LOCKS: [(&str, &[&str]); 3] = [
    ("nfs", &["nolock", "local_lock=all", "local_lock=posix"]),
    ("nfs4", &["local_lock=all", "local_lock=posix"]),
    ("cifs", &["nobrl"]),
];

/// The option by which the file system of a number (`0:42`) keeps locks to this machine, by the text of
/// /proc/self/mountinfo.
pub(crate) fn local_locks<'a>(mounts: &'a str, number: &str) -> Option<(&'a str, &'static str)> {
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    let (_, rest) = mount.split_once(" - ")?;
    let mut words = rest.split(' ');
    let (kind, options) = (words.next()?, words.nth(1)?);
    let (_, local) = LOCAL_LOCKS.iter().find(|(name, _)| *name == kind)?;
    let found = local.iter().find(|local| options.split(',').any(|option| option == **local))?;
    Some((kind, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(offset: u64, at: usize, marks: &[(usize, &[u8])]) -> Vec<(u64, Vec<u8>)> {
        let mut bytes = vec![0; 4096];
        for (more, mark) in marks {
            bytes[at + more..][..mark.len()].copy_from_slice(mark);
        }
        vec![(0, vec![0; 4096]), (offset, bytes)]
    }

    #[test]
    fn file_systems_of_clusters_are_known_by_their_superblocks() {
        for (offset, at) in [(0, 0x400), (0, 0x800), (0x1000, 0), (0x2000, 0)] {
            let found = in_pages(&page(offset, at, &[(0, b"OCFSV2")]));
            assert_eq!(found, Some(ClusterFileSystem::Ocfs2), "{offset:x} {at:x}");
        }
        let mark: &[u8] = &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1];
        let found = |protocol| in_pages(&page(GFS2, 0, &[(0, mark), (96, protocol)]));
        assert_eq!(found(b"lock_dlm"), Some(ClusterFileSystem::Gfs2));
        assert_eq!(found(b"lock_nolock"), None);
        let vmfs = in_pages(&page(VMFS, 0, &[(0, &0xc001_d00d_u32.to_le_bytes())]));
        assert_eq!(vmfs, Some(ClusterFileSystem::Vmfs));
    }

    #[test]
    fn others_and_short_pages_are_none() {
        assert_eq!(in_pages(&page(0, 0x438, &[(0, &[0x53, 0xef])])), None);
        assert_eq!(in_pages(&[(0, b"OCF".to_vec()), (GFS2, vec![1, 0x16])]), None);
        assert_eq!(in_pages(&[]), None);
    }

    #[test]
    fn locks_that_stay_on_this_machine_are_told_from_those_of_the_server() {
        let mounts = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:41 / /a rw shared:2 - nfs host:/a rw,vers=3,nolock,local_lock=all\n\
            41 22 0:42 / /b rw - nfs4 host:/b rw,vers=4.2,local_lock=none\n\
            42 22 0:43 / /c rw - cifs //host/c rw,nobrl\n\
            broken\n";
        assert_eq!(local_locks(mounts, "0:41"), Some(("nfs", "nolock")));
        assert_eq!(local_locks(mounts, "0:42"), None);
        assert_eq!(local_locks(mounts, "0:43"), Some(("cifs", "nobrl")));
        assert_eq!(local_locks(mounts, "8:1"), None);
        assert_eq!(local_locks("", "8:1"), None);
    }
}
