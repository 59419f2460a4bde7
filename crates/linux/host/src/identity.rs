//! Identity of a backing, independent of its path: the same file or device has the same identity
//! under every name.

use block::stable_hash;
use rustix::fs::{FileType, Stat};

/// Identifies a file by its file system and its number there, and a device by its own number,
/// whatever its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Identity {
    /// A file: number of its file system (`st_dev`) and its own (`st_ino`).
    File { system: u64, number: u64 },
    /// A block device (`st_rdev`).
    Device { number: u64 },
}

impl Identity {
    pub(crate) fn of(found: &Stat) -> Identity {
        match FileType::from_raw_mode(found.st_mode) {
            FileType::BlockDevice => Identity::Device { number: found.st_rdev },
            _ => Identity::File { system: found.st_dev, number: found.st_ino },
        }
    }

    /// Returns a hash that is the same in every build of this program.
    pub(crate) fn hash(self) -> u64 {
        let (kind, words) = match self {
            Identity::File { system, number } => (0, [system, number]),
            Identity::Device { number } => (1, [number, 0]),
        };
        let bytes = words.into_iter().flat_map(u64::to_le_bytes);
        stable_hash(std::iter::once(kind).chain(bytes))
    }

    /// Parses an identity from its [`Identity::key`].
    pub(crate) fn from_key(key: &str) -> Option<Identity> {
        let (kind, numbers) = key.split_once('-')?;
        let (one, two) = numbers.split_once('-')?;
        match kind {
            "file" => Some(Identity::File { system: one.parse().ok()?, number: two.parse().ok()? }),
            "device" => {
                let number = rustix::fs::makedev(one.parse().ok()?, two.parse().ok()?);
                Some(Identity::Device { number })
            }
            _ => None,
        }
    }

    /// Returns the identity as a file name.
    pub(crate) fn key(self) -> String {
        match self {
            Identity::File { system, number } => format!("file-{system}-{number}"),
            Identity::Device { number } => {
                format!("device-{}-{}", rustix::fs::major(number), rustix::fs::minor(number))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_never_change_and_kinds_are_kept_apart() {
        let file = Identity::File { system: 64768, number: 12 };
        let device = Identity::Device { number: rustix::fs::makedev(259, 3) };
        // Fixed values: a newer daemon must find the records of an older one.
        assert_eq!(file.hash(), 0x7ed8_686a_24a5_d23c);
        assert_eq!(file.key(), "file-64768-12");
        assert_eq!(device.key(), "device-259-3");
        for identity in [file, device] {
            assert_eq!(Identity::from_key(&identity.key()), Some(identity));
        }
        assert_eq!(Identity::from_key("mount-12"), None);
        let alike = Identity::File { system: rustix::fs::makedev(259, 3), number: 0 };
        assert_ne!(device.hash(), alike.hash());
    }
}
