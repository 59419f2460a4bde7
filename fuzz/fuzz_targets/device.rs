//! Any bytes as what a server sends to a device: see crates/fronts/nbd/tests/replay/device.rs.
#![no_main]

#[path = "../../crates/fronts/nbd/tests/replay/device.rs"]
mod device;

libfuzzer_sys::fuzz_target!(|input: &[u8]| _ = device::device(input));
