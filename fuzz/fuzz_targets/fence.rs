//! Any words in the table of a fence: see crates/fronts/nbd/tests/replay/fence.rs.
#![no_main]

#[path = "../../crates/fronts/nbd/tests/replay/fence.rs"]
mod fence;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fence::fence(input));
