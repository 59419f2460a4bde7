//! Replays stored and drawn inputs of the fuzz target `hotlist`.

mod parse;

use hotlist::{Description, Entry, HotList, encode};
use proptest::prelude::*;

fn sample() -> Vec<u8> {
    let of = Description { identity: "8-1-77".to_owned(), volume_blocks: 1 << 20, saved_s: 1 };
    encode(&of, (0..200).map(|at| Entry::new(at * at, at as u32 / 25)).collect())
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse::parse(&bytes);
    }

    #[test]
    fn a_list_with_changed_bytes(changes in proptest::collection::vec((0..4096usize, any::<u8>()), 1..6)) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        parse::parse(&bytes);
    }

    #[test]
    fn a_list_that_is_cut_or_extended(length in 0..2048usize) {
        let mut bytes = sample();
        bytes.resize(length, 0);
        parse::parse(&bytes);
        prop_assert!(length == sample().len() || HotList::parse(&bytes).is_err());
    }
}
