//! One use of a file or device: plain data, and its description.

use crate::backings::DEVICES;
use std::fmt;
use std::path::PathBuf;

/// The kind of use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Usage {
    /// It is mounted at this path.
    Mounted(String),
    /// These devices are on top of it (device mapper, RAID, ...).
    Held(String),
    /// It is swap space.
    Swap,
    /// The loop device of this name is on top of it.
    Loop(String),
    /// Another description has the image locks, in these processes if they are known.
    Locked(Vec<String>),
    /// Another program has it open exclusively.
    Claimed,
    /// This process has it open.
    Open(String),
    /// It is the backing of this device of Overdrive, which a daemon may serve or not.
    Backing(String),
    /// This process cannot examine it.
    Unknown,
}

impl Usage {
    /// Whether a program that was just killed may be the cause, whose last I/O ends soon.
    pub fn may_end_soon(&self) -> bool {
        matches!(self, Usage::Locked(_) | Usage::Claimed)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Usage::Mounted(place) => write!(f, "is mounted at {place}"),
            Usage::Held(names) => write!(f, "is used by {names}"),
            Usage::Swap => f.write_str("is used as swap"),
            Usage::Loop(name) => write!(f, "is attached to /dev/{name}"),
            Usage::Locked(processes) if processes.is_empty() => f.write_str(
                "is locked by another program (qemu, another Overdrive, or an od-holder that \
                 retains unwritten data)",
            ),
            Usage::Locked(processes) => write!(f, "is locked by {}", processes.join(", ")),
            Usage::Claimed => f.write_str("is open exclusively in another program"),
            Usage::Open(process) => write!(f, "is open in {process}"),
            Usage::Backing(device) => write!(f, "is the backing of {DEVICES}/{device}"),
            Usage::Unknown => f.write_str("cannot be examined"),
        }
    }
}

/// The part in use, relative to the examined file or device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Relation {
    /// The file or device itself.
    Itself,
    /// The partition with this name on it.
    Partition(String),
    /// A file or device below it: a loop device's file, a member, a partition's disk.
    Below(PathBuf),
    /// The disk that contains it as a partition.
    Disk(PathBuf),
    /// The same drive by another of its names, or a partition there that shares bytes with it.
    SameDrive {
        /// The other device.
        path: PathBuf,
        /// The identifier of the drive.
        id: String,
    },
}

/// One use of a file or device. Displayed as words that follow its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The part in use.
    pub relation: Relation,
    /// The kind of use.
    pub usage: Usage,
}

impl Finding {
    pub(super) fn of(relation: Relation, usage: Usage) -> Finding {
        Finding { relation, usage }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = &self.usage;
        match &self.relation {
            Relation::Itself => write!(f, "{usage}"),
            Relation::Partition(name) => write!(f, "has the partition {name}, which {usage}"),
            Relation::Below(path) => write!(f, "lies on {}, which {usage}", path.display()),
            Relation::Disk(path) => write!(f, "is part of {}, which {usage}", path.display()),
            Relation::SameDrive { path, id } => {
                write!(f, "is on the same drive as {} ({id}), which {usage}", path.display())
            }
        }
    }
}
