//! The parts of a map.

use crate::class::Class;

/// The file or directory that a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// None: free space, metadata.
    None,
    /// The file with this number.
    File(u32),
    /// The directory with this number: its own blocks.
    Directory(u32),
}

/// Sectors of one class and one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First sector in the volume.
    pub first: u64,
    /// Number of sectors, at least 1.
    pub sectors: u64,
    /// Class of all of them.
    pub class: Class,
    /// The file or directory that they belong to.
    pub owner: Owner,
}

impl Extent {
    /// Returns the sector after the last one.
    pub fn end(&self) -> u64 {
        self.first + self.sectors
    }
}

/// A file in a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileEntry<'a> {
    /// Its class.
    pub class: Class,
    /// Number of its directory.
    pub directory: u32,
    /// Its size in blocks of 4 KiB, rounded up. It may have fewer blocks on the volume.
    pub blocks: u64,
    /// Its name: bytes of any encoding.
    pub name: &'a [u8],
}

/// A directory in a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Directory<'a> {
    /// Number of the directory that contains it. None: it is the root.
    pub parent: Option<u32>,
    /// Its name: bytes of any encoding. A partition is a directory of the root, named `p` and its
    /// number.
    pub name: &'a [u8],
}

/// Contents of a volume or a partition, by their first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Contents that are not recognised.
    Unknown,
    /// ext2, ext3 or ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// NTFS.
    Ntfs,
    /// FAT12, FAT16 or FAT32.
    Fat,
    /// exFAT.
    ExFat,
    /// Btrfs.
    Btrfs,
    /// Swap space.
    Swap,
    /// A LUKS container.
    Luks,
    /// A physical volume of LVM.
    Lvm,
    /// A member of a Linux RAID.
    Raid,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Unknown,
        Kind::Ext4,
        Kind::Xfs,
        Kind::Ntfs,
        Kind::Fat,
        Kind::ExFat,
        Kind::Btrfs,
        Kind::Swap,
        Kind::Luks,
        Kind::Lvm,
        Kind::Raid,
    ];

    pub(super) fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }

    pub(super) fn number(self) -> u8 {
        self as u8
    }

    /// Whether the readers find the files of such contents.
    pub fn is_read(self) -> bool {
        matches!(self, Kind::Ext4 | Kind::Xfs)
    }

    /// Returns its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unknown => "unknown",
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Ntfs => "unknown (NTFS)",
            Kind::Fat => "unknown (FAT)",
            Kind::ExFat => "unknown (exFAT)",
            Kind::Btrfs => "unknown (Btrfs)",
            Kind::Swap => "unknown (swap)",
            Kind::Luks => "unknown (LUKS)",
            Kind::Lvm => "unknown (LVM)",
            Kind::Raid => "unknown (Linux RAID)",
        }
    }
}

/// A file system, or other contents, of a volume or a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct System {
    /// First sector in the volume.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Its kind.
    pub kind: Kind,
    /// Number of the directory in the map that its root is.
    pub directory: u32,
    /// Whether a bound has ended the reader.
    pub is_incomplete: bool,
    /// Whether its superblock or its root could not be used.
    pub is_damaged: bool,
    /// Number of objects (inodes, directory blocks, trees) that could not be read or made no sense.
    pub unreadable: u32,
}
