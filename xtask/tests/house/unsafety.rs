//! `unsafe` is permitted only in listed places.

use crate::source::{Source, all};

/// Places where `unsafe` is permitted: a file, or a directory if it ends in a slash. Each with its
/// reason.
const PLACES: [(&str, &str); 8] = [
    ("crates/core/lane/src/pool.rs", "futures in memory of their own"),
    ("crates/core/lane/src/waker.rs", "a waker that is a number"),
    ("crates/core/block/src/memory.rs", "pinned memory, copied in and out"),
    ("crates/linux/ring/src/", "the kernel"),
    ("crates/linux/host/src/", "the kernel"),
    ("crates/app/overdrive/tests/drive_guest/simulated.rs", "memory shared with the kernel"),
    ("crates/proof/allocations/src/lib.rs", "an allocator that counts"),
    ("crates/proof/benchmarks/src/metadata.rs", "an allocator that counts"),
];

fn is_unsafe(source: &Source) -> Option<usize> {
    let words = source.names();
    let found = words.iter().find(|name| name.segments == ["unsafe"]);
    found.map(|name| name.line)
}

#[test]
fn unsafe_stands_in_the_named_places_only() {
    let mut wrong = Vec::new();
    for source in all() {
        let is_named = PLACES.iter().any(|(place, _)| source.path.starts_with(place));
        if let Some(line) = is_unsafe(&source)
            && !is_named
        {
            wrong.push(format!("{}:{line}", source.path));
        }
    }
    assert_eq!(wrong, [""; 0], "unsafe outside the named places");
}

#[test]
fn every_named_place_still_needs_its_name() {
    let sources = all();
    for (place, reason) in PLACES {
        let mut there = sources.iter().filter(|source| source.path.starts_with(place));
        let used = there.any(|source| is_unsafe(source).is_some());
        assert!(used, "{place} ({reason}) holds no unsafe any more: take it off the list");
    }
}
