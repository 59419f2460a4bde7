//! Classes of blocks.

/// Number of classes.
pub const CLASSES: usize = 12;

/// The class of a block, by the file or structure that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// No reader has found out what the block contains.
    Unknown,
    /// Free space of a file system.
    Free,
    /// Structures of a file system or a partition table.
    Metadata,
    /// The journal of a file system.
    Journal,
    /// Contents of directories.
    Directories,
    /// Programs, libraries, scripts.
    Executables,
    /// Databases and mail stores.
    Databases,
    /// Documents and text.
    Documents,
    /// Pictures.
    Pictures,
    /// Films and sound.
    Media,
    /// Archives, packages, images of disks.
    Archives,
    /// Other files.
    Other,
}

impl Class {
    /// All classes, by their number.
    pub const ALL: [Class; CLASSES] = [
        Class::Unknown,
        Class::Free,
        Class::Metadata,
        Class::Journal,
        Class::Directories,
        Class::Executables,
        Class::Databases,
        Class::Documents,
        Class::Pictures,
        Class::Media,
        Class::Archives,
        Class::Other,
    ];

    /// Returns the class with this number. None: there is no such class.
    pub fn from_number(number: u8) -> Option<Class> {
        Class::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number of the class in a map.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the name of the class, as in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Unknown => "unknown",
            Class::Free => "free-space",
            Class::Metadata => "metadata",
            Class::Journal => "journal",
            Class::Directories => "directories",
            Class::Executables => "executables",
            Class::Databases => "databases",
            Class::Documents => "documents",
            Class::Pictures => "pictures",
            Class::Media => "media",
            Class::Archives => "archives",
            Class::Other => "other",
        }
    }
}
