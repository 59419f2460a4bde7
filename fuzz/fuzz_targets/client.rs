//! Any bytes as what a server says: see crates/fronts/nbd/tests/replay/client.rs.
#![no_main]

#[path = "../../crates/fronts/nbd/tests/replay/client.rs"]
mod client;

libfuzzer_sys::fuzz_target!(|input: &[u8]| client::client(input));
