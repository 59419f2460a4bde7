//! Whole simulations of small generated traces, compared with the same caches driven by hand.

mod common;

use common::plan;
use flate2::write::GzEncoder;
use policy::{Kind, Simulation, shard_of};
use proptest::prelude::*;
use simulator::{BLOCK_BYTES, Choice, Error, Memory, Outcome, Plan, Watch, What, run};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A request: device, whether it reads, first byte, bytes.
type Request = (u64, bool, u64, u64);

/// Formats them as Alibaba does.
fn text(requests: &[Request]) -> String {
    let mut text = String::new();
    for (time, (device, reads, offset, bytes)) in requests.iter().enumerate() {
        let way = if *reads { 'R' } else { 'W' };
        writeln!(text, "{device},{way},{offset},{bytes},{time}").expect("memory");
    }
    text
}

/// Returns the blocks that these requests touch; devices are numbered in order of appearance.
fn blocks(requests: &[Request], counts: impl Fn(&Request) -> bool) -> Vec<u64> {
    let mut devices: Vec<u64> = Vec::new();
    let mut blocks = Vec::new();
    for request in requests {
        let (device, _, offset, bytes) = *request;
        let known = devices.iter().position(|known| *known == device);
        let place = known.unwrap_or_else(|| {
            devices.push(device);
            devices.len() - 1
        });
        if counts(request) {
            // Some bytes in each block, and the last one.
            let bytes_of =
                (offset..offset + bytes).step_by(512).chain((offset + bytes).checked_sub(1));
            let touched = bytes_of.filter(|byte| (offset..offset + bytes).contains(byte));
            let touched: BTreeSet<u64> = touched.map(|byte| byte / BLOCK_BYTES).collect();
            blocks.extend(touched.into_iter().map(|block| (place as u64) << 48 | block));
        }
    }
    blocks
}

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture { directory: tempfile::tempdir().expect("a directory") }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

fn slots(count: u64) -> Memory {
    Memory::Bytes(count * BLOCK_BYTES)
}

/// Returns the misses of each run, policy by policy.
fn misses(outcome: &Outcome) -> Vec<u64> {
    outcome.runs.iter().map(|run| run.block_misses).collect()
}

/// Simulates the same by hand: a cache for each shard over the shard's blocks, unless its shards
/// share state.
fn by_hand(kind: Kind, slots: u32, shards: u32, blocks: &[u64]) -> u64 {
    if kind == Kind::Adaptive {
        let mut cache = Simulation::with_shards(kind, slots / shards, shards);
        return blocks.iter().filter(|block| !cache.read(**block)).count() as u64;
    }
    let of = |shard| blocks.iter().copied().filter(move |block| shard_of(*block, shards) == shard);
    (0..shards).map(|shard| policy::misses(kind, slots / shards, of(shard))).sum()
}

/// Simulates the optimum by hand: when space is needed, evicts the block whose next use is the
/// latest.
fn optimum_by_hand(slots: usize, blocks: &[u64]) -> u64 {
    let (mut held, mut misses) = (Vec::new(), 0);
    for (number, block) in blocks.iter().enumerate() {
        if !held.contains(block) {
            misses += 1;
            held.push(*block);
            if held.len() > slots {
                let next = |block: &u64| {
                    let behind = blocks[number + 1..].iter().position(|other| other == block);
                    behind.unwrap_or(usize::MAX)
                };
                let last = (0..held.len()).max_by_key(|place| next(&held[*place]));
                held.remove(last.expect("some are held"));
            }
        }
    }
    misses
}

prop_compose! {
    fn any_request()(
        device in 5..8u64, reads: bool, offset in 0..200_000u64, bytes in 0..20_000u64,
    ) -> Request {
        // The third device has blocks far away, in regions of their own.
        let offset = if device == 7 { offset * 1000 } else { offset };
        (device, reads, offset, bytes)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_policy_and_size_misses_as_by_hand(
        requests in prop::collection::vec(any_request(), 1..120),
        reads_only: bool,
        shards in prop::sample::select(vec![1u32, 2, 8]),
        threads in 1..5usize,
    ) {
        let blocks = blocks(&requests, |request| request.1 || !reads_only);
        prop_assume!(!blocks.is_empty());
        let place = Fixture::new();
        let path = place.file("trace.csv", text(&requests).as_bytes());
        let names: Vec<&str> = Choice::all().map(|choice| choice.name).collect();
        let sizes = [8u32, 16, 64];
        let memories = sizes.map(|size| slots(size.into()));
        let plan = Plan { reads_only, shards, threads, ..plan(&path, &memories, &names) };
        let outcome = run(&plan, &mut ()).expect("a good trace");
        prop_assert_eq!(outcome.counts.block_accesses, blocks.len() as u64);
        let different: HashSet<u64> = blocks.iter().copied().collect();
        prop_assert_eq!(outcome.footprint.blocks, different.len() as u64);
        let reads = requests.iter().filter(|request| request.1).count() as u64;
        prop_assert_eq!(outcome.counts.reads, reads);
        let counted = if reads_only { reads } else { requests.len() as u64 };
        prop_assert_eq!(outcome.counts.requests, counted);
        let mut expected = Vec::new();
        for choice in Choice::all() {
            expected.extend(sizes.map(|size| match choice.what {
                What::Kind(kind) => by_hand(kind, size, shards, &blocks),
                What::Optimum => (0..shards).map(|shard| {
                    let mine = blocks.iter().copied();
                    let mine: Vec<u64> = mine.filter(|block| shard_of(*block, shards) == shard).collect();
                    optimum_by_hand((size / shards) as usize, &mine)
                }).sum(),
            }));
        }
        prop_assert_eq!(misses(&outcome), expected);
    }
}

/// Returns more than one chunk and one piece of the file: 25,000 lines, some of which cover many
/// blocks.
fn long() -> Vec<Request> {
    let mut number = 3u64;
    let mut random = move |below: u64| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (number >> 33) % below
    };
    (0..25_000)
        .map(|_| {
            let offset = random(3000) * random(3000) * 512;
            (1, random(2) == 0, offset, 512 + random(20) * random(20) * 512)
        })
        .collect()
}

#[test]
fn compression_makes_no_difference_and_damage_is_reported() {
    let (place, requests) = (Fixture::new(), long());
    let text = text(&requests);
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = ruzstd::encoding::compress_to_vec(
        text.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).expect("memory");
    xz.write_all(text.as_bytes()).expect("memory");
    let xz = xz.finish().expect("memory");
    let memories = [slots(1000), Memory::Percent(10.0)];
    let simulated = |path: &Path| run(&plan(path, &memories, &["lru", "sieve", "opt"]), &mut ());
    let plain = simulated(&place.file("plain", text.as_bytes())).expect("a good trace");
    let all = blocks(&requests, |_| true);
    assert_eq!(plain.runs[0].block_misses, policy::misses(Kind::Lru, 1000, all.iter().copied()));
    let share = (plain.footprint.blocks as f64 / 10.0).round() as u64;
    assert_eq!(plain.runs[1].slots, share);
    for packed in [gzip, zstd, xz] {
        // The name has no extension: the bytes decide.
        assert_eq!(simulated(&place.file("packed", &packed)).as_ref(), Ok(&plain));
        let cut = simulated(&place.file("packed", &packed[..packed.len() * 2 / 3]));
        let Err(Error::Malformed(message)) = cut else { panic!("{cut:?}") };
        assert!(message.contains("data is damaged before byte"), "{message}");
    }
}

#[test]
fn threads_and_company_make_no_difference() {
    let (place, requests) = (Fixture::new(), long());
    let path = place.file("trace", text(&requests).as_bytes());
    let sizes: Vec<Memory> = (1..300).map(|size| slots(size * 40)).collect();
    let many = plan(&path, &sizes, &["lru", "lru"]);
    let outcome = run(&many, &mut ()).expect("a good trace");
    assert_eq!(misses(&outcome)[..299], misses(&outcome)[299..]);
    assert!(misses(&outcome)[..299].is_sorted_by(|small, large| small >= large));
    for number in [0, 127, 128, 298] {
        let alone = Plan { threads: 1, ..plan(&path, &sizes[number..=number], &["lru"]) };
        let alone = run(&alone, &mut ()).expect("a good trace");
        assert_eq!(misses(&alone), [misses(&outcome)[number]]);
    }
}

#[test]
fn devices_are_selected_by_name() {
    let requests =
        [(5, true, 0, 4096), (9, true, 0, 4096), (5, false, 0, 4096), (9, true, 0, 8192)];
    let place = Fixture::new();
    let path = place.file("trace", text(&requests).as_bytes());
    let of = |names: &[&str]| {
        let devices = names.iter().map(|name| (*name).to_owned()).collect();
        run(&Plan { devices, ..plan(&path, &[slots(9)], &["lru"]) }, &mut ())
    };
    let counts_of =
        |names| of(names).map(|it| (it.counts.requests, it.counts.block_accesses, misses(&it)));
    assert_eq!(counts_of(&[]), Ok((4, 5, vec![3])));
    assert_eq!(counts_of(&["9"]), Ok((2, 3, vec![2])));
    assert_eq!(counts_of(&["5", "9"]), Ok((4, 5, vec![3])));
    let Err(Error::Usage(message)) = of(&["9", "7"]) else { panic!("there is no 7") };
    assert!(message.contains("--device 7") && message.ends_with("it has 5, 9"), "{message}");
}

/// Interrupts after this number of looks.
struct Impatient(u32);

impl Watch for Impatient {
    fn look(&mut self, _: &'static str, share: f64) -> bool {
        assert!((0.0..=1.0).contains(&share));
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

#[test]
fn what_is_interrupted_reports_what_it_has() {
    let (place, requests) = (Fixture::new(), long());
    let path = place.file("trace", text(&requests).as_bytes());
    let whole = run(&plan(&path, &[slots(1000)], &["lru"]), &mut ()).expect("a good trace");
    let part = run(&plan(&path, &[slots(1000)], &["lru"]), &mut Impatient(4)).expect("a part");
    assert!(whole.is_complete && !part.is_complete);
    let seen = part.counts.block_accesses as usize;
    assert!(seen > 0 && part.counts.block_accesses < whole.counts.block_accesses);
    let all = blocks(&requests, |_| true);
    let expected = policy::misses(Kind::Lru, 1000, all[..seen].iter().copied());
    assert_eq!(misses(&part), [expected]);
    for policy in ["opt", "lru"] {
        let shares = plan(&path, &[Memory::Percent(1.0)], &[policy]);
        assert_eq!(run(&shares, &mut Impatient(3)), Err(Error::Interrupted));
    }
}

#[test]
fn what_cannot_be_is_reported() {
    let place = Fixture::new();
    let good = place.file("good", text(&[(1, true, 0, 4096)]).as_bytes());
    let error_of = |path: &Path, memory, shards| {
        let plan = Plan { shards, ..plan(path, &[memory], &["lru"]) };
        run(&plan, &mut ()).expect_err("wrong")
    };
    assert!(matches!(error_of(&good, slots(1), 3), Error::Usage(it) if it.contains("--shards 3")));
    assert!(
        matches!(error_of(&good, slots(1), 2), Error::Usage(it) if it.contains("too few for 2 shards"))
    );
    let missing = place.directory.path().join("missing");
    assert!(
        matches!(error_of(&missing, slots(1), 1), Error::NotFound(it) if it.contains("missing"))
    );
    assert!(
        matches!(error_of(place.directory.path(), slots(1), 1), Error::Usage(it) if it.contains("directory"))
    );
    let writes = place.file("writes", text(&[(1, false, 0, 4096)]).as_bytes());
    let reads = Plan { reads_only: true, ..plan(&writes, &[slots(1)], &["lru"]) };
    assert!(
        matches!(run(&reads, &mut ()), Err(Error::Malformed(it)) if it.contains("contains no read"))
    );
    let either = place.file("either", b"1 0 8 8 1\n");
    assert!(
        matches!(error_of(&either, slots(1), 1), Error::Usage(it) if it.contains("--format ssdsim"))
    );
    let wrong = place.file("wrong", b"1,R,0,4096,1\n1,R,0,x,2\n");
    assert_eq!(
        error_of(&wrong, slots(1), 1),
        Error::Malformed(format!(
            "{}: read as alibaba: line 2: not 'device,R|W,offset,bytes,us': 1,R,0,x,2",
            wrong.display()
        ))
    );
}
