//! Hashes that other programs and later versions compare.

/// Returns a hash of bytes that is the same in every program and version. It does not resist
/// chosen collisions. Source: FNV-1a, 64 bits (Fowler, Noll, Vo;
/// draft-eastlake-fnv).
pub fn stable_hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_source() {
        let hashes = ["", "a", "foobar"].map(|text| stable_hash(text.bytes()));
        assert_eq!(hashes, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
    }
}
