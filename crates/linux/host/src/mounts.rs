//! The list of mounts: file systems and their mount points. All reads of /proc/PID/mountinfo
//! (proc_pid_mountinfo(5)) are here.

use crate::sysfs::number_in;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount, with its escapes undone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Number of the mount in this list.
    pub id: u64,
    /// Device number of its file system; file systems without a device have one too.
    pub device: u64,
    /// The part of the file system that is mounted.
    pub root: PathBuf,
    /// The directory on which it is mounted.
    pub point: PathBuf,
    /// Options of the mount.
    pub options: String,
    /// Type of the file system.
    pub kind: String,
    /// Source of the file system, as the file system names it.
    pub source: PathBuf,
    /// Options of the file system.
    pub system_options: String,
}

/// Returns the list of mounts of this process, in order; empty if it is not readable.
pub fn mounts() -> Vec<Mount> {
    mounts_in(Path::new("/proc/self"))
}

/// Returns the list of mounts of the process with this directory in /proc; empty if it is not
/// readable.
pub fn mounts_in(process: &Path) -> Vec<Mount> {
    parse(&fs::read(process.join("mountinfo")).unwrap_or_default())
}

/// Returns the mount that contains a path without links: the one with the longest mount point, and
/// the last of several.
pub fn mount_around<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    around.max_by_key(|mount| mount.point.components().count())
}

fn parse(list: &[u8]) -> Vec<Mount> {
    list.split(|byte| *byte == b'\n').filter_map(mount_of).collect()
}

/// Parses a line. None: it is malformed.
fn mount_of(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let word = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let id = word(fields.next()?).parse().ok()?;
    let device = number_in(&word(fields.nth(1)?))?;
    let (root, point) = (path(fields.next()?), path(fields.next()?));
    let options = word(fields.next()?);
    // Optional fields end with a dash.
    fields.find(|field| *field == b"-")?;
    let kind = word(fields.next()?);
    let source = path(fields.next()?);
    let system_options = word(fields.next().unwrap_or_default());
    Some(Mount { id, device, root, point, options, kind, source, system_options })
}

/// Undoes the octal escapes of /proc (`\040` for a space).
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    plain
}

/// Returns the mount points of a device, by its number or, for file systems with their own numbers
/// (btrfs), by their source.
pub(crate) fn points_of(mounts: &[Mount], device: u64, node: Option<&Path>) -> Vec<String> {
    let is_source = |source: &Path| {
        let is_node = |node| fs::canonicalize(source).is_ok_and(|source| source == node);
        source.starts_with("/dev/") && node.is_some_and(is_node)
    };
    let found = mounts.iter().filter(|it| it.device == device || is_source(&it.source));
    found.map(|mount| mount.point.to_string_lossy().into_owned()).collect()
}

/// Whether a path is in a FUSE file system other than the one with this number. A request to such a
/// file system waits for its server, which may be a killed daemon whose device is about to be taken
/// over.
pub(crate) fn is_on_other_server(mounts: &[Mount], path: &Path, device: Option<u64>) -> bool {
    mount_around(mounts, path)
        .is_some_and(|mount| mount.kind.starts_with("fuse") && device != Some(mount.device))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::makedev;

    /// Parses a list written in a test.
    pub(crate) fn list(text: &str) -> Vec<Mount> {
        parse(text.as_bytes())
    }

    #[test]
    fn a_line_is_read_with_its_escapes_undone() {
        let mounts = list(
            "36 35 98:0 /a\\040b /mnt1\\011x rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=x\n\
             malformed\n36 35 98:0 / / rw ext3 without a dash\n37 x 8:1 / / ro - xfs",
        );
        let [mount] = mounts.as_slice() else { panic!("{mounts:?}") };
        assert_eq!((mount.id, mount.device), (36, makedev(98, 0)));
        assert_eq!((mount.root.to_str(), mount.point.to_str()), (Some("/a b"), Some("/mnt1\tx")));
        assert_eq!((&*mount.options, &*mount.kind), ("rw,noatime", "ext3"));
        assert_eq!(mount.source, Path::new("/dev/root"));
        assert_eq!(mount.system_options, "rw,errors=x");
    }

    /// A list with one such name was once treated as empty.
    #[test]
    fn a_name_that_is_no_text_hides_no_other_mount() {
        let mounts = parse(
            b"22 1 8:1 / /caf\xe9 rw - ext4 /dev/sda1 rw\n23 1 8:2 / /b rw - xfs /dev/sdb rw",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!(points_of(&mounts, makedev(8, 2), None), ["/b"]);
    }

    #[test]
    fn mounts_are_found_by_number_and_by_source() {
        let mounts = list(
            "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw\n\
             37 35 0:44 / /data rw shared:2 - btrfs /dev/null rw",
        );
        assert_eq!(points_of(&mounts, makedev(98, 0), None), ["/mnt 2"]);
        let null = Path::new("/dev/null");
        assert_eq!(points_of(&mounts, makedev(1, 3), Some(null)), ["/data"]);
        assert_eq!(points_of(&mounts, makedev(98, 1), None), [""; 0]);
    }

    #[test]
    fn a_path_lies_in_the_innermost_mount() {
        let mounts = list(
            "22 1 0:20 / / rw - btrfs /dev/sda1 rw\n\
             36 22 0:31 / /mnt\\0402 rw - btrfs /dev/sdb rw\n\
             37 22 0:44 / /data rw - tmpfs none rw",
        );
        let source =
            |path| mount_around(&mounts, Path::new(path)).expect("in the root").source.clone();
        assert_eq!(source("/home/x"), Path::new("/dev/sda1"));
        assert_eq!(source("/mnt 2/x"), Path::new("/dev/sdb"));
        assert_eq!(source("/data/x"), Path::new("none"));
        assert_eq!(source("/database"), Path::new("/dev/sda1"));
    }

    #[test]
    fn no_request_is_sent_to_another_server() {
        let mounts = list(
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
             36 22 0:31 / /run/files rw - fuse.overdrive overdrive rw",
        );
        let ours = makedev(0, 31);
        let is_other =
            |path: &str, device| is_on_other_server(&mounts, Path::new(path), Some(device));
        assert!(is_other("/run/files/disk", makedev(8, 1)));
        assert!(!is_other("/run/files/disk", ours), "an image there is looked for there");
        assert!(!is_other("/run/disk.img", ours) && !is_other("/run/filesystem", ours));
    }

    #[test]
    fn escapes_of_proc_are_undone_and_others_left() {
        assert_eq!(unescape(b"a\\040b\\134c\\9\\04"), b"a b\\c\\9\\04");
    }
}
