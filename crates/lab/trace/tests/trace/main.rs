//! The formats: written data is read again, and invalid bytes are refused.

mod formats;
mod parse;
mod readers;

use parse::parse;
use proptest::prelude::*;
use trace::recording::{EVENTS_MAX, Entry, Name, Named, blocks, entries_with, header, header_at};
use trace::text::{CSV_HEAD, FioLog, FioVersion, csv_line};
use trace::{Event, Marks, Operation, Reader, Trace};

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
    assert!(with(8, 3).contains("version 3"), "{}", with(8, 3));
    assert!(with(12, 48).contains("48 bytes"));
    assert!(with(17, 1).contains("its header does not match its checksum"));
    assert!(with(30, 255).contains("block 0 claims more events"));
    assert!(with(46, 255).contains("block 0 claims more names"));
    assert!(with(60, 1).contains("block 0 does not match its checksum"));
    assert!(refused(&[0xff, 0xfe]).contains("neither a recording nor text"));
    assert!(refused(&recording(&[], 9)).contains("no request"));
    // The checksum is right, but the content is not.
    let flush = Event { operation: Operation::Flush, ..READ };
    assert!(refused(&recording(&[flush], 0)).contains("block 0 contains an invalid event"));
}

/// Returns a recording of version 1 with one block of these events.
fn of_version_one(events: &[Event]) -> Vec<u8> {
    let mut bytes = b"ODTRACE\n\x01\0\0\0\x28\0\0\0".to_vec();
    let mut block = (events.len() as u32).to_le_bytes().to_vec();
    block.extend_from_slice(&9u64.to_le_bytes());
    for word in events.iter().flat_map(Event::to_words) {
        block.extend_from_slice(&word.to_le_bytes());
    }
    let sum = crc32fast::hash(&block);
    bytes.extend_from_slice(&block[..4]);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(&block[4..]);
    bytes
}

#[test]
fn recordings_of_version_1_are_read() {
    let old = of_version_one(&[READ, READ]);
    let trace = Trace::parse(&old).expect("version 1");
    assert_eq!((trace.events(), trace.dropped()), (&[READ, READ][..], 9));
    let (accesses, names, notes) = readers::read(trace::Format::Recording, old.chunks(7));
    assert_eq!((accesses.len(), names), (2, vec!["0".to_owned()]));
    assert_eq!(notes.expect("whole").dropped, 9);
}

#[test]
fn names_and_origins_are_read_again() {
    let entry = Entry {
        sent_ns: Some(40),
        process: Some(700),
        marks: Marks(Marks::SYNC | Marks::META),
        ..Entry::from(READ)
    };
    let name = |named, number, letters| Name { named, number, letters };
    let names = [
        name(Named::Device, 0, b"sda"),
        name(Named::Process, 700, b"kworker/0:1"),
        name(Named::Process, 9, b""),
    ];
    let mut bytes = Vec::new();
    header_at(&mut bytes, 1_700_000_000_000_000_000);
    entries_with(&mut bytes, &[entry], &names, 0);
    let mut reader = Reader::new(trace::Format::Recording);
    let mut accesses = Vec::new();
    for piece in bytes.chunks(11) {
        reader.feed(piece, &mut accesses).expect("sound");
    }
    reader.finish(&mut accesses).expect("whole");
    assert_eq!(reader.devices().names(), ["sda"]);
    assert_eq!(reader.processes().names(), ["kworker/0:1", ""]);
    assert_eq!(reader.begin_ns(), Some(1_700_000_000_000_000_000));
    let details = accesses[0].details;
    assert_eq!((details.sent_ns, details.process, details.took_ns), (Some(40), Some(0), Some(100)));
    assert_eq!(details.marks, entry.marks);
    // Names beyond what a block may hold go into several.
    let many: Vec<String> = (0..2000).map(|number| format!("{number:0>60}")).collect();
    let many: Vec<Name<'_>> = many
        .iter()
        .zip(0..)
        .map(|(letters, number)| name(Named::Process, number, letters.as_bytes()))
        .collect();
    let mut bytes = recording(&[], 0);
    entries_with(&mut bytes, &[entry], &many, 0);
    let (accesses, _, ended) = readers::read(trace::Format::Recording, bytes.chunks(50_000));
    ended.expect("whole");
    assert_eq!(accesses[0].details.process, Some(700));
}

#[test]
fn text_is_written_as_it_is_read() {
    let text = format!(
        "{CSV_HEAD}R,0,4096,1500,80200,sda,a b\nWF,8192,512,2500,,sda,\nF,0,0,9000000,7,sdb,x,y\nZ,0,4096,9000000,,sdb,\n"
    );
    let mut reader = Reader::new(trace::Format::detect("x", text.as_bytes(), true).expect("csv"));
    let mut accesses = Vec::new();
    reader.feed(text.as_bytes(), &mut accesses).expect("sound");
    let mut again = CSV_HEAD.to_owned();
    let mut logs = [String::new(), String::new()];
    let [two, three] = &mut logs;
    let mut logs_of =
        [FioLog::begin(FioVersion::Two, two), FioLog::begin(FioVersion::Three, three)];
    for access in &accesses {
        let device = &reader.devices().names()[access.device as usize];
        let process =
            access.details.process.map(|index| &*reader.processes().names()[index as usize]);
        assert!(csv_line(&mut again, access, device, process, access.time_ns));
        let is_data = access.operation() != Some(Operation::Zero { fua: false, may_unmap: false });
        assert_eq!(logs_of[0].request(two, access, device, access.time_ns), is_data);
        assert_eq!(logs_of[1].request(three, access, device, access.time_ns), is_data);
    }
    logs_of[0].end(two);
    logs_of[1].end(three);
    assert_eq!(again, text);
    assert_eq!(
        logs[0],
        "fio version 2 iolog\nsda add\nsda open\nsda read 0 4096\nsda write 8192 512\nsdb add\n\
         sdb open\nsdb wait 8 0\nsdb sync 0 0\nsda close\nsdb close\n"
    );
    assert_eq!(
        logs[1],
        "fio version 3 iolog\n0 sda add\n0 sda open\n0 sda read 0 4096\n1 sda write 8192 512\n\
         1 sdb add\n1 sdb open\n8998 sdb sync 0 0\n8998 sda close\n8998 sdb close\n"
    );
    for bad in ["R,0,4096,x,,sda,", "R,0,4096,1,-,sda,", "R,0,4096,1,,,", "Q,0,4096,1,,sda,"] {
        let (_, _, ended) = readers::read(trace::Format::Csv, core::iter::once(bad.as_bytes()));
        assert!(ended.expect_err("refused").starts_with("line 1: "), "{bad}");
    }
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
