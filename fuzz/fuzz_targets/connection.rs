//! Any bytes as what a client says: see crates/fronts/nbd/tests/replay/connection.rs.
#![no_main]

#[path = "../../crates/fronts/nbd/tests/replay/connection.rs"]
mod connection;

libfuzzer_sys::fuzz_target!(|input: &[u8]| connection::connection(input));
