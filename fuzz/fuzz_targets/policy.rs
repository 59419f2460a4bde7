//! Any bytes as the saved state of a sampler: see crates/core/policy/tests/saved/parse.rs.
#![no_main]

#[path = "../../crates/core/policy/tests/saved/parse.rs"]
mod parse;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parse::parse(input));
