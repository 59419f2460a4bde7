//! Advice on small loads.

use super::*;
use simulator::{Accessed, Hits, Rate};
use std::fs;
use trace::{Access, Details, Direction, Event, Marks, Operation};

const MIB: u64 = 1 << 20;

fn premises(facts: &Facts, given_ns: Option<u64>) -> Premises {
    let latency = Latency::of(facts, given_ns);
    Premises { latency, machine: None, refaults: None, backing: "/dev/sdx".to_owned() }
}

fn event(time_ns: u64, operation: Operation, block: u64) -> Event {
    let sectors = if operation == Operation::Flush { 0 } else { 8 };
    let first = if sectors == 0 { 0 } else { block * 8 };
    Event { time_ns, took_ns: Some(500_000), operation, device: 0, first, sectors, failed: None }
}

fn gathered(events: &[Event]) -> Facts {
    let mut gather = Gather::new(&[256 * MIB, 512 * MIB], Rate::ALL, 1);
    events.iter().for_each(|event| gather.see(&access_of_event(event)));
    gather.end(&[])
}

#[test]
fn sizes_go_from_256_mib_to_half_of_the_memory() {
    let mib = |memory: u64| sizes(memory * MIB).iter().map(|size| size / MIB).collect::<Vec<_>>();
    assert_eq!(mib(2048), [256, 512, 1024]);
    assert_eq!(mib(3000), [256, 512, 1024, 1500]);
    assert_eq!(mib(300), [256]);
}

#[test]
fn a_load_that_reads_again_gets_the_smallest_size_that_is_enough() {
    // Ten blocks, read a hundred times each, within a second.
    let events: Vec<Event> =
        (0..1000).map(|number| event(number * 1_000_000, Operation::Read, number % 10)).collect();
    let facts = gathered(&events);
    assert_eq!((facts.reads, facts.writes, facts.flushes), (1000, 0, Some(0)));
    assert_eq!(facts.read_times.ns(), Some(500_000.0));
    let advice = advise(&facts, &premises(&facts, None));
    assert_eq!(advice.sizes[0].read_hit_ratio, Some(0.99));
    assert_eq!(advice.sizes[0].saved_ns, 990.0 * 490_000.0);
    assert_eq!(advice.chosen, Some(0));
    assert_eq!(advice.recommendation.as_deref(), Some("overdrive attach /dev/sdx --memory 256M"));
    assert!(advice.verdict.starts_with("yes: 256 MiB of memory would save "), "{}", advice.verdict);
    assert!(advice.verdict.ends_with("(extrapolated from 999.00 ms)"), "{}", advice.verdict);
    assert!(advice.unseen[0].starts_with("Only 999.00 ms were observed"), "{:?}", advice.unseen);
}

#[test]
fn a_load_that_reads_nothing_again_is_left_alone() {
    let events: Vec<Event> =
        (0..1000u64).map(|it| event(it * 1_000_000, Operation::Read, it * it * 3)).collect();
    let facts = gathered(&events);
    assert_eq!(facts.sequential_share, Some(0.0));
    let advice = advise(&facts, &premises(&facts, None));
    assert!(advice.leaves_it && advice.recommendation.is_none());
    assert!(advice.verdict.starts_with("leave it: it would save you 0"), "{}", advice.verdict);
}

#[test]
fn sequential_reads_may_gain_by_readahead() {
    let events: Vec<Event> =
        (0..1000).map(|number| event(number * 1_000_000, Operation::Read, number)).collect();
    let facts = gathered(&events);
    assert!(facts.sequential_share.expect("addresses") > 0.99);
    let advice = advise(&facts, &premises(&facts, None));
    assert!(!advice.leaves_it && advice.recommendation.is_none());
    assert!(advice.verdict.starts_with("perhaps: readahead would save at most "));
    let fast = advise(&facts, &premises(&facts, Some(5_000)));
    assert!(fast.leaves_it, "{}", fast.verdict);
}

#[test]
fn a_fast_device_is_left_alone_however_many_hits_there_are() {
    let events: Vec<Event> =
        (0..1000).map(|number| event(number * 1_000_000, Operation::Read, number % 10)).collect();
    let facts = gathered(&events);
    assert!(advise(&facts, &premises(&facts, Some(9_000))).leaves_it);
    assert!(!advise(&facts, &premises(&facts, Some(90_000))).leaves_it);
}

#[test]
fn writes_save_what_is_overwritten_before_a_flush_and_ordered_saves_the_rest() {
    let write = Operation::Write { fua: false };
    let mut events = Vec::new();
    for round in 0..100u64 {
        let time = round * 10_000_000;
        events.extend((0..4).map(|number| event(time + number, write, number % 2)));
        events.push(event(time + 5, Operation::Flush, 0));
    }
    let facts = gathered(&events);
    assert_eq!((facts.flushes, facts.overwritten_blocks), (Some(100), Some(200)));
    let advice = advise(&facts, &premises(&facts, None));
    let saved: Vec<_> = advice.durabilities.iter().map(|it| (it.name, it.saved_ns)).collect();
    assert_eq!(saved, [("flush", 200.0 * 490_000.0), ("ordered", 500.0 * 490_000.0)]);
    assert_eq!(advice.sizes[0].saved_ns, 200.0 * 490_000.0);
    // Without a flush, writes go through, and nothing is gained.
    events.retain(|event| event.operation != Operation::Flush);
    let facts = gathered(&events);
    assert_eq!(facts.overwritten_blocks, Some(0));
    let advice = advise(&facts, &premises(&facts, None));
    assert!(advice.leaves_it && advice.durabilities[1].saved_ns == 0.0);
}

#[test]
fn memory_of_active_files_is_not_recommended() {
    let facts = Facts {
        reads: 1000,
        duration_ns: Some(3_600_000_000_000),
        accessed: Accessed { read_blocks: 1000, ..Accessed::default() },
        hits: [(256, 300), (512, 400), (1024, 900)]
            .map(|(mib, read_blocks)| Hits {
                memory_bytes: mib * MIB,
                read_blocks,
                ..Hits::default()
            })
            .to_vec(),
        ..Facts::default()
    };
    let all = premises(&facts, Some(8_000_000));
    let with = |spare: u64| {
        let active_file_bytes = 200 * MIB;
        let available_bytes = spare * MIB + active_file_bytes;
        let machine = Machine { available_bytes, active_file_bytes, ..Machine::default() };
        advise(&facts, &Premises { machine: Some(machine), ..all.clone() })
    };
    assert_eq!(advise(&facts, &all).chosen, Some(2));
    assert_eq!(with(600).chosen, Some(1));
    let sizes = with(600).sizes;
    assert_eq!(
        sizes.iter().map(|gain| gain.is_spare).collect::<Vec<_>>(),
        [Some(true), Some(true), Some(false)]
    );
    let displaced = |gain: &SizeGain| gain.displaced.map(|it| it.active_bytes / MIB);
    assert_eq!(sizes.iter().map(displaced).collect::<Vec<_>>(), [Some(0), Some(0), Some(200)]);
    assert!(with(100).leaves_it && with(100).verdict.contains("no memory to spare"));
}

#[test]
fn counters_alone_give_an_upper_bound() {
    let facts = Facts { reads: 10, duration_ns: Some(10_000_000_000), ..Facts::default() };
    let advice = advise(&facts, &premises(&facts, Some(10_000)));
    assert!(
        advice.leaves_it && advice.verdict.contains("at most 864.00 ms a day (extrapolated"),
        "{}",
        advice.verdict
    );
    let busy = Facts { reads: 10_000, ..facts };
    let advice = advise(&busy, &premises(&busy, Some(500_000)));
    assert!(!advice.leaves_it && advice.recommendation.is_none() && advice.sizes.is_empty());
    assert!(advice.verdict.starts_with("perhaps: "), "{}", advice.verdict);
    assert!(advice.unseen.iter().any(|it| it.contains("no addresses")), "{:?}", advice.unseen);
}

#[test]
fn a_trace_without_times_says_so() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("trace.csv");
    let lines: Vec<String> =
        (0..1000).map(|number| format!("R,{},4096\n", number % 10 * 4096)).collect();
    fs::write(&path, lines.concat()).expect("written");
    let (facts, format) = gather_trace(&path, None, &[256 * MIB], 1).expect("a trace");
    assert_eq!((facts.duration_ns, facts.flushes, format.name()), (None, None, "csv"));
    let advice = advise(&facts, &premises(&facts, None));
    assert_eq!(advice.sizes[0].saved_ns_per_day, None);
    assert!(advice.verdict.ends_with("in the observed time"), "{}", advice.verdict);
    assert!(advice.reason.contains("assumed"), "{}", advice.reason);
    assert!(advice.unseen[0].starts_with("The trace has no times"), "{:?}", advice.unseen);
    fs::write(&path, "R,0,0\n").expect("written");
    let mut gather = Gather::new(&[256 * MIB], Rate::ALL, 1);
    let other = Direction::Other;
    gather.see(&Access {
        time_ns: 0,
        device: 0,
        direction: other,
        first_byte: 0,
        bytes: 0,
        details: Details::default(),
    });
    assert_eq!(gather.end(&[]).others, 1);
    assert!(gather_trace(&home.path().join("none"), None, &[256 * MIB], 1).is_err());
}

#[test]
fn a_recording_has_times_and_flushes() {
    let home = tempfile::tempdir().expect("a directory");
    let (path, mut bytes) = (home.path().join("trace"), Vec::new());
    trace::recording::header(&mut bytes);
    let events = [event(0, Operation::Read, 1), event(9, Operation::Flush, 0)];
    trace::recording::blocks(&mut bytes, &events, 0);
    fs::write(&path, &bytes).expect("written");
    let (facts, format) = gather_trace(&path, None, &[256 * MIB], 1).expect("a trace");
    assert_eq!((facts.flushes, facts.reads, format.name()), (Some(1), 1, "recording"));
    assert_eq!((facts.read_times.count, facts.flush_times.count), (1, 1));
    assert!(facts.processes.is_empty());
}

/// Returns an access of a process, with the kernel's marks.
fn by(process: u32, event: &Event, marks: u32) -> Access {
    let access = access_of_event(event);
    let details = Details { process: Some(process), marks: Marks(marks), ..access.details };
    Access { details, ..access }
}

#[test]
fn processes_are_judged_apart_and_share_the_cache() {
    let mut gather = Gather::new(&[256 * MIB], Rate::ALL, 1);
    let read = |time, block| event(time, Operation::Read, block);
    for round in 0..100u64 {
        // The database reads what the scanner has just read.
        gather.see_of(&by(0, &read(round * 2_000_000, round), Marks::SYNC), false);
        gather.see_of(&by(1, &read(round * 2_000_000 + 1_000_000, round), Marks::SYNC), true);
    }
    let facts = gather.end(&["scanner".to_owned(), "database".to_owned()]);
    assert_eq!(
        (facts.reads, facts.accessed.read_blocks, facts.hits[0].read_blocks),
        (100, 100, 100)
    );
    let names: Vec<_> = facts.processes.iter().map(|it| (it.name.as_str(), it.counts)).collect();
    assert_eq!(names, [("database", true), ("scanner", false)]);
    let advice = advise(&facts, &premises(&facts, None));
    assert_eq!(advice.sizes[0].saved_ns, 100.0 * 490_000.0);
    let ratios: Vec<_> = advice.processes.iter().map(|sizes| sizes[0].read_hit_ratio).collect();
    assert_eq!(ratios, [1.0, 0.0]);
    assert_eq!(advice.processes[0][0].read_saved_ns, 100.0 * 490_000.0);
    assert!(advice.unseen.iter().any(|it| it.contains("kworker")), "{:?}", advice.unseen);
}

#[test]
fn writes_that_no_program_waits_for_save_nothing() {
    let write = Operation::Write { fua: false };
    let facts = |marks: u32| {
        let mut gather = Gather::new(&[256 * MIB], Rate::ALL, 1);
        for time in 0..100u64 {
            gather.see(&by(0, &event(time * 1_000_000, write, 7), marks));
        }
        gather.see(&by(0, &event(100_000_000, Operation::Flush, 0), Marks::SYNC));
        gather.end(&["kworker".to_owned()])
    };
    let (waited, background) = (facts(Marks::SYNC), facts(0));
    assert_eq!((waited.overwritten_blocks, waited.background_writes), (Some(99), 0));
    assert_eq!((background.overwritten_blocks, background.background_writes), (Some(0), 100));
    let advice = advise(&background, &premises(&background, None));
    assert_eq!(advice.durabilities[1].saved_ns, 490_000.0);
    assert!(advice.leaves_it, "{}", advice.verdict);
}

#[test]
fn reads_of_different_lengths_save_their_own_times() {
    // Short reads of one block again and again, long reads of new blocks.
    let mut gather = Gather::new(&[256 * MIB], Rate::ALL, 1);
    for round in 0..100u64 {
        let short = event(round * 2_000_000, Operation::Read, 5);
        let long = event(round * 2_000_000 + 1_000_000, Operation::Read, 1000 + round * 31);
        gather.see(&access_of_event(&Event { took_ns: Some(60_000), ..short }));
        gather.see(&access_of_event(&Event { took_ns: Some(9_000_000), ..long }));
    }
    let facts = gather.end(&[]);
    let advice = advise(&facts, &premises(&facts, None));
    assert_eq!(advice.sizes[0].saved_ns, 99.0 * 50_000.0);
}

#[test]
fn a_page_cache_without_enough_memory_is_part_of_the_answer() {
    let events: Vec<Event> =
        (0..1000).map(|number| event(number * 1_000_000, Operation::Read, number % 10)).collect();
    let facts = gathered(&events);
    let with = |refaults| {
        advise(&facts, &Premises { refaults: Some(refaults), ..premises(&facts, None) }).reason
    };
    assert!(with(500).contains("read pages again that it had evicted"), "{}", with(500));
    assert!(with(500).contains("50 %"), "{}", with(500));
    assert!(!with(50).contains("evicted"), "{}", with(50));
}

#[test]
fn a_load_without_requests_is_left_alone() {
    let facts = Facts {
        duration_ns: Some(10_000_000_000),
        flushes: Some(0),
        ..Gather::new(&[256 * MIB], Rate::ALL, 1).end(&[])
    };
    let advice = advise(&facts, &premises(&facts, None));
    assert!(advice.leaves_it && advice.recommendation.is_none());
    assert!(advice.verdict.contains("extrapolated from 10.00 s"), "{}", advice.verdict);
    assert!(advice.reason.starts_with("No read or write reached a device"), "{}", advice.reason);
    assert!(advice.unseen[0].contains("Observe at least a usual day"), "{:?}", advice.unseen);
}

#[test]
fn flushed_writes_that_only_ordered_would_spare_are_named() {
    let write = Operation::Write { fua: false };
    let mut events = Vec::new();
    for round in 0..1000u64 {
        events.push(event(round * 1_000_000, write, round * round));
        events.push(event(round * 1_000_000 + 500, Operation::Flush, 0));
    }
    let facts = gathered(&events);
    let advice = advise(&facts, &premises(&facts, None));
    assert!(advice.leaves_it && advice.recommendation.is_none(), "{}", advice.verdict);
    assert!(advice.reason.contains("With --durability ordered"), "{}", advice.reason);
}
