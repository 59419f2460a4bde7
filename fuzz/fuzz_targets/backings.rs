//! Any text as a backing: see crates/app/stack/tests/backings/any.rs.
#![no_main]

#[path = "../../crates/app/stack/tests/backings/any.rs"]
mod any;

libfuzzer_sys::fuzz_target!(|text: &str| any::check(text));
