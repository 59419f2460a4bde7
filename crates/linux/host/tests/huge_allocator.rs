//! Large allocations in huge pages. Alone in this file, because it changes the allocator of the
//! process.

use host::{HugeAllocator, want_huge_allocations};

#[global_allocator]
static ALLOCATOR: HugeAllocator = HugeAllocator;

/// Whether the kernel was advised on the mapping of an address, according to /proc/self/smaps.
fn is_advised(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux");
    let mut inside = false;
    for line in maps.lines() {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let ends = range.map(|(from, to)| [from, to].map(|end| usize::from_str_radix(end, 16)));
        if let Some([Ok(from), Ok(to)]) = ends {
            inside = (from..to).contains(&address);
        } else if inside && line.starts_with("VmFlags:") {
            return line.split_whitespace().any(|flag| flag == "hg");
        }
    }
    false
}

#[test]
fn large_allocations_are_advised_once_that_is_wanted_and_no_others() {
    const LARGE: usize = 40 << 20;
    let middle = |memory: &[u8]| memory.as_ptr() as usize + memory.len() / 2;
    let before = vec![0u8; LARGE];
    assert!(!is_advised(middle(&before)), "nobody has asked for that yet");
    want_huge_allocations();
    let zeroed = vec![0u8; LARGE];
    let mut grown: Vec<u8> = Vec::with_capacity(LARGE);
    grown.resize(LARGE, 7);
    grown.reserve_exact(LARGE);
    let small = vec![1u8; 1 << 20];
    assert!(!is_advised(middle(&small)), "a mebibyte is not large");
    assert!(zeroed.iter().all(|byte| *byte == 0) && grown.iter().all(|byte| *byte == 7));
    // A kernel without transparent huge pages refuses the advice.
    if std::path::Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists() {
        assert!(is_advised(middle(&zeroed)), "zeroed memory");
        assert!(is_advised(grown.as_ptr() as usize + LARGE), "memory that has grown");
    }
    drop((before, zeroed, grown, small));
}
