//! Any bytes as a message: see crates/fronts/nbd/tests/replay/codec.rs.
#![no_main]

#[path = "../../crates/fronts/nbd/tests/replay/codec.rs"]
mod codec;

libfuzzer_sys::fuzz_target!(|input: &[u8]| codec::codec(input));
