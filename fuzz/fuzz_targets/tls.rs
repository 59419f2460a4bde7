//! Any bytes against a TLS wire: see crates/fronts/nbd/tests/replay/tls.rs.
#![no_main]

#[path = "../../crates/fronts/nbd/tests/replay/tls.rs"]
mod tls;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    tls::tls(input);
});
