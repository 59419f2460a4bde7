//! Replays stored and drawn inputs of the fuzz target `hotlist`.

mod parse;

use hotlist::{
    Description, Entry, HotList, SavedPolicy, StartList, encode, encode_policy, encode_start,
};
use proptest::prelude::*;

fn of() -> Description {
    Description { identity: "8-1-77".to_owned(), volume_blocks: 1 << 20, saved_s: 1 }
}

fn sample() -> Vec<u8> {
    encode(&of(), (0..200).map(|at| Entry::new(at * at, at as u32 / 25)).collect())
}

fn start_sample() -> Vec<u8> {
    let starts = [100, 0, 40].map(|length| (0..length).map(|at| at * 7919 % 5000).collect());
    encode_start(&of(), starts.to_vec())
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        parse::parse(&bytes);
    }

    #[test]
    fn a_list_with_changed_bytes(changes in proptest::collection::vec((0..4096usize, any::<u8>()), 1..6)) {
        for mut bytes in [sample(), start_sample(), encode_policy(&of(), &[7; 300])] {
            for (at, byte) in &changes {
                let at = at % bytes.len();
                bytes[at] = *byte;
            }
            parse::parse(&bytes);
        }
    }

    #[test]
    fn a_list_that_is_cut_or_extended(length in 0..2048usize) {
        let mut bytes = sample();
        bytes.resize(length, 0);
        parse::parse(&bytes);
        prop_assert!(length == sample().len() || HotList::parse(&bytes).is_err());
    }

    #[test]
    fn a_saved_policy_that_is_cut_or_extended(length in 0..600usize) {
        let good = encode_policy(&of(), &[7; 300]);
        let mut bytes = good.clone();
        bytes.resize(length, 0);
        parse::parse(&bytes);
        prop_assert!(length == good.len() || SavedPolicy::parse(&bytes).is_err());
    }

    #[test]
    fn a_start_up_list_that_is_cut_or_extended(length in 0..1024usize) {
        let mut bytes = start_sample();
        bytes.resize(length, 0);
        parse::parse(&bytes);
        prop_assert!(length == start_sample().len() || StartList::parse(&bytes).is_err());
    }
}
