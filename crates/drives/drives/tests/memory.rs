//! The memory of a drive. The only test in its file: other tests in the same process would use
//! some, too.

use drives::{Fast, Model, Options};

/// Returns the resident bytes of this process.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * 4096
}

#[test]
fn a_drive_takes_memory_as_it_is_written() {
    let model = Model::preset("samsung-840-evo-1000").expect("a preset");
    let before = resident_bytes();
    let ftl = model.ftl(&Options::default()).expect("a sound drive").expect("a flash drive");
    let new = resident_bytes() - before;
    assert!(new < 20_000_000, "a new drive of 1 TB takes {new} bytes");
    let mut fast = Fast::new(ftl);
    fast.write_sequential(0, 10_000_000);
    let written = resident_bytes() - before;
    // 8 bytes for each slot of 4 KiB.
    assert!((80_000_000..110_000_000).contains(&written), "a tenth of it: {written} bytes");
}
