//! What a device or an image holds, by its first bytes: for the sentence that says what would be lost.

/// Marks of what often lies on a device: where, the bytes, and what that is.
const MARKS: [(usize, &[u8], &str); 9] = [
    (512, b"EFI PART", "a partition table (GPT)"),
    (1080, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0, b"LUKS\xba\xbe", "a LUKS container"),
    (536, b"LVM2 001", "a physical volume of LVM"),
    (3, b"NTFS    ", "an NTFS file system"),
    (0, b"OVERDRIVE POOL", "a member of a pool"),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
];

/// What begins with these bytes. None: nothing that is known here.
pub(crate) fn of(first_bytes: &[u8]) -> Option<&'static str> {
    let has =
        |at: usize, mark: &[u8]| first_bytes.get(at..).is_some_and(|rest| rest.starts_with(mark));
    MARKS.iter().find(|(at, mark, _)| has(*at, mark)).map(|(.., what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_named() {
        let mut bytes = vec![0; 4096];
        assert_eq!(of(&bytes), None);
        bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(of(&bytes), Some("a partition table or a boot sector"));
        bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
        assert_eq!(of(&bytes), Some("an ext2, ext3 or ext4 file system"));
        assert_eq!(of(&[]), None);
    }
}
