//! Reasons why a pool is not created or not opened.

use block::Error;
use core::fmt;

/// The reason, formatted as a phrase that follows the name of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Reading or writing it failed.
    Device(Error),
    /// It is empty.
    Blank,
    /// It contains other data.
    Foreign,
    /// It contains data, and was to become a member.
    NotBlank,
    /// Its superblock is damaged.
    Damaged,
    /// It has another format version.
    Version(u16),
    /// It is smaller than before.
    Shrunk,
    /// It is a member at another position, counted from 1.
    WrongPlace(usize),
    /// It belongs to another pool.
    OtherPool,
    /// Its pool has more or fewer members.
    WrongCount(usize),
    /// It and another member were each used without the other.
    Split,
    /// Its blocks are larger than 4 KiB, or its sectors differ from those of the others.
    Blocks,
    /// No member has a valid journal.
    NoJournal,
    /// No member has a good copy of this page of the map.
    LostPage(u32),
    /// The map contradicts itself.
    BadMap,
    /// The sizes are unsuitable.
    Sizes(&'static str),
    /// All members are missing.
    NoMembers,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Device(error) => write!(f, "{error}"),
            Reason::Blank => write!(
                f,
                "is not a member of a pool: it is blank; 'overdrive pool create' makes one"
            ),
            Reason::Foreign => write!(f, "is not a member of a pool, and holds other data"),
            Reason::NotBlank => write!(
                f,
                "is not blank at its start or end; --overwrite makes it a member and destroys its \
                 contents"
            ),
            Reason::Damaged => write!(f, "its superblock is damaged"),
            Reason::Version(version) => {
                write!(f, "was made by another version (format {version}, this one reads 1)")
            }
            Reason::Shrunk => write!(f, "is smaller than when the pool was made"),
            Reason::WrongPlace(number) => {
                write!(f, "is member {number} of its pool; name the members in their order")
            }
            Reason::OtherPool => write!(f, "belongs to another pool than the first member"),
            Reason::WrongCount(count) => {
                write!(f, "its pool has {count} members; name all, 'missing' for one that is gone")
            }
            Reason::Split => write!(
                f,
                "was used without the others, and they without it: they cannot be joined again; \
                 open the side to keep, with 'missing' for each other member"
            ),
            Reason::Blocks => write!(f, "its blocks are larger than 4 KiB, or unlike the others'"),
            Reason::NoJournal => write!(f, "no member has a journal that can be followed"),
            Reason::LostPage(page) => write!(f, "page {page} of the map is damaged on all members"),
            Reason::BadMap => write!(f, "the map contradicts itself"),
            Reason::Sizes(sentence) => write!(f, "{sentence}"),
            Reason::NoMembers => write!(f, "no member is present"),
        }
    }
}

/// A refusal to create or open a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The member that it concerns, counted from 0; None: the whole pool.
    pub member: Option<usize>,
    /// The reason.
    pub reason: Reason,
}

impl Refusal {
    pub(crate) fn of(member: usize, reason: Reason) -> Refusal {
        Refusal { member: Some(member), reason }
    }

    pub(crate) fn whole(reason: Reason) -> Refusal {
        Refusal { member: None, reason }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            Some(member) => write!(f, "member {} of the pool: {}", member + 1, self.reason),
            None => write!(f, "the pool: {}", self.reason),
        }
    }
}
