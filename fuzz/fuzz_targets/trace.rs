//! Any bytes as a trace: see crates/lab/trace/tests/trace/parse.rs.
#![no_main]

#[path = "../../crates/lab/trace/tests/trace/parse.rs"]
mod parse;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parse::parse(input));
