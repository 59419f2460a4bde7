//! Classes by the first bytes of a file.

use crate::class::Class;

/// Number of bytes that [`by_contents`] looks at.
pub const HEAD_BYTES: usize = 16;

/// Marks at the beginning of files.
const MARKS: [(&[u8], Class); 19] = [
    (b"\x7fELF", Class::Executables),
    (b"MZ", Class::Executables),
    (b"#!", Class::Executables),
    (b"\xca\xfe\xba\xbe", Class::Executables),
    (b"SQLite format 3\0", Class::Databases),
    (b"%PDF", Class::Documents),
    (b"\x89PNG", Class::Pictures),
    (b"\xff\xd8\xff", Class::Pictures),
    (b"\x1aE\xdf\xa3", Class::Media),
    (b"OggS", Class::Media),
    (b"ID3", Class::Media),
    (b"QFI\xfb", Class::Archives),
    (b"KDMV", Class::Archives),
    (b"vhdxfile", Class::Archives),
    (b"\x1f\x8b", Class::Archives),
    (b"\x28\xb5\x2f\xfd", Class::Archives),
    (b"\xfd7zXZ", Class::Archives),
    (b"7z\xbc\xaf", Class::Archives),
    (b"PK\x03\x04", Class::Archives),
];

/// Returns the class of a file with these first bytes. None: they are of no known kind.
pub fn by_contents(head: &[u8]) -> Option<Class> {
    let is_film = head.get(4..8) == Some(b"ftyp");
    let mark = MARKS.iter().find(|(mark, _)| head.starts_with(mark));
    if is_film { Some(Class::Media) } else { mark.map(|(_, class)| *class) }
}
