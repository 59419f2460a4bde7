//! Any bytes as a list of hot blocks or a start-up list: see
//! crates/core/hotlist/tests/replay/parse.rs.
#![no_main]

#[path = "../../crates/core/hotlist/tests/replay/parse.rs"]
mod parse;

libfuzzer_sys::fuzz_target!(|input: &[u8]| parse::parse(input));
