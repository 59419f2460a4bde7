//! Kinds of directories.

use crate::class::Class;

/// The kind of a directory, by its path. Directories of a known kind pass it to those below them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The root of a file system.
    Root,
    /// `usr`, `usr/local`.
    Usr,
    /// `var`.
    Var,
    /// `var/lib`.
    VarLib,
    /// `var/spool`.
    Spool,
    /// `var/lib/libvirt`.
    Libvirt,
    /// `bin` and `sbin`, of the root and of `usr`.
    Programs,
    /// Directories of databases and mail stores.
    Databases,
    /// Directories of images of disks.
    Images,
    /// All others.
    Plain,
}

/// Directories of databases below `var/lib`.
const DATABASES: [&[u8]; 13] = [
    b"cassandra",
    b"clickhouse",
    b"couchdb",
    b"elasticsearch",
    b"etcd",
    b"influxdb",
    b"ldap",
    b"mariadb",
    b"mongodb",
    b"mysql",
    b"opensearch",
    b"postgresql",
    b"redis",
];

/// Directories of mail stores, in any directory.
const MAIL: [&[u8]; 5] = [b"Maildir", b".maildir", b".thunderbird", b"vmail", b"dovecot-mail"];

impl Place {
    /// The root of a file system.
    pub const ROOT: Place = Place::Root;

    /// Returns the kind of a directory with this name in a directory of this kind.
    pub fn below(self, name: &[u8]) -> Place {
        if MAIL.contains(&name) {
            return Place::Databases;
        }
        match (self, name) {
            (Place::Databases, _) => Place::Databases,
            (Place::Images, _) => Place::Images,
            (Place::Root, b"usr") | (Place::Usr, b"local") => Place::Usr,
            (Place::Root | Place::Usr, b"bin" | b"sbin") => Place::Programs,
            (Place::Root, b"var") => Place::Var,
            (Place::Var, b"lib") => Place::VarLib,
            (Place::Var, b"spool") => Place::Spool,
            (Place::Var | Place::Spool, b"mail") => Place::Databases,
            (Place::VarLib, b"libvirt") => Place::Libvirt,
            (Place::Libvirt, b"images") => Place::Images,
            (Place::VarLib, name) if DATABASES.contains(&name) => Place::Databases,
            _ => Place::Plain,
        }
    }

    /// Returns the class of all files in such a directory. None: it depends on the file.
    pub(super) fn class_of_all(self) -> Option<Class> {
        match self {
            Place::Databases => Some(Class::Databases),
            Place::Images => Some(Class::Archives),
            _ => None,
        }
    }
}
