//! Numbers in bytes that may be too short: bytes outside count as zero.

macro_rules! number {
    ($name:ident, $type:ty, $from:ident) => {
        pub(crate) fn $name(bytes: &[u8], at: usize) -> $type {
            let rest = bytes.get(at..).unwrap_or_default();
            rest.first_chunk().map_or(0, |chunk| <$type>::$from(*chunk))
        }
    };
}

number!(le16, u16, from_le_bytes);
number!(le32, u32, from_le_bytes);
number!(le64, u64, from_le_bytes);
number!(be16, u16, from_be_bytes);
number!(be32, u32, from_be_bytes);
number!(be64, u64, from_be_bytes);

/// Returns the byte at this position.
pub(crate) fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Returns the bytes from `at` on, at most `length` of them.
pub(crate) fn part(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    let rest = bytes.get(at..).unwrap_or_default();
    &rest[..rest.len().min(length)]
}
