//! Caches with a map over a trace, compared with the same caches driven by hand.

mod common;

use policy::{ClassMap, HintedSimulation, Hints, Kind, Treatments};
use simulator::{
    BLOCK_BYTES, Choice, Error, FilmLoad, Memory, Plan, Rate, Sample, What, class_name, read_hints,
    run,
};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace::Format;

const SLOTS: u32 = 1024;
/// Time, device, first sector, sectors, and 1 for a read.
const FORMAT: Option<Format> = Some(Format::Mqsim);

fn trace(directory: &Path, devices: u32, blocks: &[u64]) -> PathBuf {
    let mut text = String::new();
    for (number, block) in blocks.iter().enumerate() {
        let device = number as u32 % devices;
        writeln!(text, "{number} {device} {} 8 1", block * 8).expect("memory");
    }
    let path = directory.join(format!("trace-{devices}"));
    std::fs::write(&path, text).expect("written");
    path
}

/// Writes a map as text.
fn map_file(directory: &Path, map: &ClassMap) -> PathBuf {
    let mut text = String::from("# first blocks class\n");
    for extent in map.extents() {
        let class = class_name(extent.class.into());
        writeln!(text, "{} {} {class}", extent.first, extent.blocks).expect("memory");
    }
    let path = directory.join("map");
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn policies_that_are_served_have_a_run_with_the_map_beside_the_one_without() {
    let home = tempfile::tempdir().expect("a directory");
    let load = FilmLoad::new(SLOTS, 3);
    let blocks: Vec<u64> = load.generate().into_iter().map(|(_, block)| block).collect();
    let path = trace(home.path(), 1, &blocks);
    let read = read_hints(&map_file(home.path(), &load.map())).expect("a good map");
    assert!(read.map.extents().eq(load.map().extents()));
    let names: Vec<&str> = Choice::all().map(|choice| choice.name).collect();
    let sizes = [Memory::Bytes(u64::from(SLOTS) * BLOCK_BYTES)];
    let plain = Plan { format: FORMAT, ..common::plan(&path, &sizes, &names) };
    let without = run(&plain, &mut ()).expect("a good trace").runs;
    let plan = Plan { hints: Some(Arc::new(read)), ..plain };
    let with = run(&plan, &mut ()).expect("a good trace").runs;
    let hints = Arc::new(Hints { map: load.map(), treatments: Treatments::default() });
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.block_misses, without.block_misses, "{}", with.policy);
        let kind = match Choice::by_name(&with.policy).expect("a policy").what {
            What::Kind(kind) if kind.is_served() => kind,
            _ => {
                assert_eq!(with.hinted, None);
                continue;
            }
        };
        let hinted = with.hinted.expect("it can be served");
        let mut cache = HintedSimulation::new(kind, SLOTS, 1, &hints);
        let misses = blocks.iter().filter(|block| !cache.read(**block)).count() as u64;
        assert_eq!(hinted.block_misses, misses, "{}", with.policy);
        assert_eq!(hinted.are_followed, cache.follows_hints());
        let accesses: u64 = hinted.classes.iter().map(|class| class.accesses).sum();
        assert_eq!(accesses, blocks.len() as u64);
        assert!(kind != Kind::Adaptive || misses < without.block_misses, "{misses}");
    }
}

#[test]
fn several_devices_and_samples_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let path = trace(home.path(), 2, &(0..1000).collect::<Vec<_>>());
    let sizes = [Memory::Bytes(100 * BLOCK_BYTES)];
    let hints = Some(Arc::new(Hints::default()));
    let plan = Plan { hints, format: FORMAT, ..common::plan(&path, &sizes, &["default"]) };
    let refusal = |plan: &Plan| match run(plan, &mut ()) {
        Err(Error::Usage(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(refusal(&plan).contains("choose one with --device"), "{}", refusal(&plan));
    let one = Plan { devices: vec!["1".to_owned()], ..plan.clone() };
    assert!(run(&one, &mut ()).is_ok());
    let sample = Sample::Fixed(Rate::new(0.5).expect("a rate"));
    assert!(refusal(&Plan { sample, ..plan }).contains("--sample"));
}
