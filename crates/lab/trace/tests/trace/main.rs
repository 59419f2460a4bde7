//! The formats: written data is read again, and invalid bytes are refused.

mod formats;
mod parse;
mod readers;

use parse::parse;
use proptest::prelude::*;
use trace::recording::{EVENTS_MAX, blocks, header};
use trace::{Event, Operation, Trace};

const READ: Event = Event {
    time_ns: 7,
    took_ns: Some(100),
    operation: Operation::Read,
    device: 0,
    first: 8,
    sectors: 8,
    failed: None,
};

fn recording(events: &[Event], dropped: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    header(&mut bytes);
    blocks(&mut bytes, events, dropped);
    bytes
}

fn refused(bytes: &[u8]) -> String {
    Trace::parse(bytes).expect_err("refused").to_string()
}

prop_compose! {
    fn any_event()(
        time_ns: u64, took_ns: Option<u64>, kind in 0..6, fua: bool, may_unmap: bool, device: u32,
        first in 0..u64::MAX / 2, sectors in 1..u32::MAX, failed: Option<i32>,
    ) -> Event {
        let operation = match kind {
            0 => Operation::Read,
            1 => Operation::Write { fua },
            2 => Operation::Flush,
            3 => Operation::Discard,
            4 => Operation::Advise,
            _ => Operation::Zero { fua, may_unmap },
        };
        let (first, sectors) = if operation == Operation::Flush { (0, 0) } else { (first, sectors) };
        let took_ns = took_ns.filter(|ns| *ns != u64::MAX);
        Event { time_ns, took_ns, operation, device, first, sectors, failed }
    }
}

proptest! {
    #[test]
    fn events_survive_the_trip(mut events in prop::collection::vec(any_event(), 1..50), dropped: u64) {
        let trace = Trace::parse(&recording(&events, dropped)).expect("a recording");
        events.sort_by_key(|event| event.time_ns);
        prop_assert_eq!(trace.events(), &events);
        prop_assert_eq!((trace.dropped(), trace.is_cut()), (dropped, false));
    }

    #[test]
    fn words_are_one_event_or_none(words: [u64; 5], kind in 0..8u64) {
        let words = [words[0], words[1], words[2], words[3], words[4] << 32 | kind | (words[4] >> 56 << 8)];
        if let Some(event) = Event::from_words(words) {
            prop_assert!(event.is_sound());
            prop_assert_eq!(event.to_words(), words);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, is_recording: bool) {
        let start = if is_recording { recording(&[], 0) } else { Vec::new() };
        parse(&[start, bytes].concat());
    }

    #[test]
    fn a_byte_that_is_changed_is_noticed(
        events in prop::collection::vec(any_event(), 1..20), place: prop::sample::Index, bits in 1..=255u8,
    ) {
        let mut bytes = recording(&events, 3);
        let place = place.index(bytes.len());
        let whole = Trace::parse(&bytes).expect("a recording");
        bytes[place] ^= bits;
        // A length that has grown looks like a recording that was cut off; no other damage is
        // accepted.
        if let Ok(trace) = Trace::parse(&bytes) {
            prop_assert!(trace.is_cut() && trace != whole);
        }
        parse(&bytes);
    }
}

#[test]
fn a_recording_that_was_cut_is_read_to_its_last_whole_block() {
    let one_block = [READ; EVENTS_MAX];
    let all = recording(&[READ; EVENTS_MAX + 10], 5);
    let first = recording(&one_block, 5).len();
    for length in [first, first + 1, first + 16, all.len() - 1] {
        let trace = Trace::parse(&all[..length]).expect("its first block is whole");
        assert_eq!((trace.events().len(), trace.dropped()), (EVENTS_MAX, 5));
        assert_eq!(trace.is_cut(), length > first);
    }
    let whole = Trace::parse(&all).expect("whole");
    assert_eq!((whole.events().len(), whole.is_cut()), (EVENTS_MAX + 10, false));
    assert!(refused(&all[..12]).contains("header"));
    assert!(refused(&all[..first - 1]).contains("no request"));
}

#[test]
fn what_is_wrong_is_named() {
    let good = recording(&[READ], 0);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        refused(&bytes)
    };
    assert!(with(8, 2).contains("version 2"), "{}", with(8, 2));
    assert!(with(12, 48).contains("48 bytes"));
    assert!(with(18, 255).contains("block 0 claims more events"));
    assert!(with(40, 1).contains("block 0 does not match its checksum"));
    assert!(refused(&[0xff, 0xfe]).contains("neither a recording nor text"));
    assert!(refused(&recording(&[], 9)).contains("no request"));
    // The checksum is right, but the content is not.
    let flush = Event { operation: Operation::Flush, ..READ };
    assert!(refused(&recording(&[flush], 0)).contains("block 0 contains an invalid event"));
}

#[test]
fn lines_that_are_none_are_named() {
    for bad in [
        "x",
        "1 2 3 4",
        "1 2 3 4 5",
        "1 2 3 0 1",
        "1 2 3 4 1 9",
        "1 2 3 99999999 1",
        "-1 2 3 4 1",
        "1 99999999999 3 4 1",
        "1 2 18446744073709551615 4 1",
    ] {
        let message = refused(format!("1 0 8 8 1\n{bad}\n").as_bytes());
        assert!(message.starts_with("line 2: "), "{message}");
    }
    assert!(refused(b"\n").contains("no request"));
}

#[test]
fn lines_are_put_in_order() {
    let text = "2000 7 1000 16 0\n1000 3 8 8 1\n\n3000 3 999999999999 32 0\n";
    let trace = Trace::parse(text.as_bytes()).expect("three requests");
    assert_eq!((trace.events().len(), trace.duration_ns()), (3, 2000));
    assert_eq!(trace.share_of_reads(), 1.0 / 3.0);
    let first = Event { time_ns: 1000, took_ns: None, device: 3, ..READ };
    assert_eq!(trace.events()[0], first);
    assert_eq!(trace.events()[1].operation, Operation::Write { fua: false });
}
