//! Any sectors as a volume, with partition tables and all file systems: see
//! crates/core/files/tests/hostile/judge.rs.
#![allow(dead_code, reason = "shared with the tests and the other fuzzers")]
#![no_main]

#[path = "../../crates/core/files/tests/hostile/judge.rs"]
mod judge;
#[path = "../../crates/core/files/tests/hostile/sparse.rs"]
mod sparse;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    judge::judge_input(input, b"\x55\xaa", 510);
});
