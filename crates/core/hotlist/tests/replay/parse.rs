//! Any bytes as a file of each kind: parsing never panics, and a list that is accepted names
//! blocks of its volume, each once in its class, and is written as it was read.

use hotlist::{
    BLOCKS_MAX, HotList, START_BLOCKS_MAX, STARTS, SavedPolicy, StartList, encode_policy,
    encode_start,
};

/// Bytes before the checked part: magic, version and checksum.
const CHECKED: usize = 16;

/// Parses these bytes, and then the same bytes with a matching checksum: otherwise hardly any
/// input would get past it.
pub(crate) fn parse(bytes: &[u8]) {
    check(bytes);
    if let Some(body) = bytes.get(CHECKED..) {
        for magic in [b"ODHOTLST", b"ODSTARTL", b"ODPOLICY"] {
            let mut sealed = [&magic[..], &[1, 0, 0, 0]].concat();
            sealed.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
            sealed.extend_from_slice(body);
            check(&sealed);
        }
    }
}

fn check(bytes: &[u8]) {
    check_start(bytes);
    check_policy(bytes);
    let Ok(list) = HotList::parse(bytes) else { return };
    let (of, length) = (list.description().clone(), list.len());
    assert!(length <= BLOCKS_MAX as u64);
    assert!(list.clone().into_blocks().all(|block| block < of.volume_blocks));
    assert_eq!(list.clone().into_blocks().count() as u64, length);
    assert_eq!(HotList::parse(bytes), Ok(list));
}

fn check_start(bytes: &[u8]) {
    let Ok(list) = StartList::parse(bytes) else { return };
    let of = list.description().clone();
    let starts = list.into_starts();
    let all = || starts.iter().flatten();
    assert!(starts.len() <= STARTS && all().count() <= START_BLOCKS_MAX);
    assert!(all().all(|block| *block < of.volume_blocks));
    // Written again, it names the same blocks, each once.
    let again = StartList::parse(&encode_start(&of, starts.clone())).expect("a list");
    let mut written: Vec<u64> = again.into_starts().concat();
    let mut read = starts.concat();
    written.sort_unstable();
    read.sort_unstable();
    read.dedup();
    assert_eq!(written, read);
}

fn check_policy(bytes: &[u8]) {
    let Ok(saved) = SavedPolicy::parse(bytes) else { return };
    assert_eq!(encode_policy(saved.description(), saved.state()), bytes);
}
