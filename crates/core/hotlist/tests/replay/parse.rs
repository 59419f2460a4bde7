//! Any bytes as a list: parsing never panics, and a list that is accepted names blocks of its
//! volume, each once in its class, and is written as it was read.

use hotlist::{BLOCKS_MAX, HotList};

/// Bytes before the checked part: magic, version and checksum.
const CHECKED: usize = 16;

/// Parses these bytes, and then the same bytes with a matching checksum: otherwise hardly any
/// input would get past it.
pub(crate) fn parse(bytes: &[u8]) {
    check(bytes);
    if let Some(body) = bytes.get(CHECKED..) {
        let mut sealed = b"ODHOTLST\x01\0\0\0".to_vec();
        sealed.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        sealed.extend_from_slice(body);
        check(&sealed);
    }
}

fn check(bytes: &[u8]) {
    let Ok(list) = HotList::parse(bytes) else { return };
    let (of, length) = (list.description().clone(), list.len());
    assert!(length <= BLOCKS_MAX as u64);
    assert!(list.clone().into_blocks().all(|block| block < of.volume_blocks));
    assert_eq!(list.clone().into_blocks().count() as u64, length);
    assert_eq!(HotList::parse(bytes), Ok(list));
}
