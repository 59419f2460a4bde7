//! Classes of files by their names, their directories and their first bytes.
//!
//! A class is a hint for the cache: one that is wrong costs speed, never correctness.

mod contents;
mod extensions;
mod place;

pub use contents::{HEAD_BYTES, by_contents};
pub use extensions::by_name;
pub use place::Place;

use crate::class::Class;

/// Size from which the first bytes of a file without a known name are read, in bytes.
const LARGE: u64 = 16 << 20;

/// The class of a file, as far as it is known without its contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guess {
    /// The class is known.
    Known(Class),
    /// The first bytes of the file may show another class than this one.
    Contents(Class),
}

/// Returns the class of a file with this name, in a directory of this kind. `is_executable`: its
/// mode allows to execute it.
pub fn classify(place: Place, name: &[u8], is_executable: bool, bytes: u64) -> Guess {
    if let Some(class) = place.class_of_all() {
        return Guess::Known(class);
    }
    if let Some(class) = by_name(name) {
        return Guess::Known(class);
    }
    if place == Place::Programs {
        return Guess::Known(Class::Executables);
    }
    if bytes > 0 && (is_executable || bytes >= LARGE) {
        return Guess::Contents(Class::Other);
    }
    Guess::Known(Class::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(path: &str, is_executable: bool, bytes: u64) -> Guess {
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parts = directories.split('/').filter(|part| !part.is_empty());
        let place = parts.fold(Place::ROOT, |place, part| place.below(part.as_bytes()));
        classify(place, name.as_bytes(), is_executable, bytes)
    }

    #[test]
    fn names_and_directories_give_classes() {
        for (path, expected) in [
            ("usr/lib/x86_64-linux-gnu/libc.so.6", Class::Executables),
            ("usr/bin/ls", Class::Executables),
            ("lib/modules/6.1/kernel/fs/xfs/xfs.ko.xz", Class::Executables),
            ("var/lib/postgresql/16/main/base/5/1259", Class::Databases),
            ("var/lib/mysql/app/orders.ibd", Class::Databases),
            ("home/a/Maildir/cur/1700000000.M1P2.host:2,S", Class::Databases),
            ("home/a/.thunderbird/x.default/Mail/Inbox", Class::Databases),
            ("home/a/places.SQLITE", Class::Databases),
            ("home/a/mail.mbox", Class::Databases),
            ("home/a/report.PDF", Class::Documents),
            ("home/a/photo.jpeg", Class::Pictures),
            ("home/a/Film.MKV", Class::Media),
            ("home/a/backup.tar.zst", Class::Archives),
            ("var/lib/libvirt/images/guest", Class::Archives),
            ("srv/guest.qcow2", Class::Archives),
            ("home/a/data", Class::Other),
            ("home/a/.hidden", Class::Other),
            ("home/bin", Class::Other),
            ("tmp/name.", Class::Other),
        ] {
            assert_eq!(class(path, false, 5000), Guess::Known(expected), "{path}");
        }
    }

    #[test]
    fn contents_are_read_of_programs_and_large_files_without_a_known_name() {
        assert_eq!(class("opt/tool/run", true, 5000), Guess::Contents(Class::Other));
        assert_eq!(class("srv/disk", false, 1 << 30), Guess::Contents(Class::Other));
        assert_eq!(class("opt/tool/run", true, 0), Guess::Known(Class::Other));
        assert_eq!(class("srv/film.mp4", true, 1 << 30), Guess::Known(Class::Media));
    }

    #[test]
    fn extensions_are_sorted_and_short_enough() {
        assert!(extensions::is_sorted());
    }
}
