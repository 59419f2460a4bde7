//! Any bytes through any reader of traces: see crates/lab/trace/tests/trace/readers.rs. The first byte chooses the
//! format, the second the pieces.
#![no_main]

#[path = "../../crates/lab/trace/tests/trace/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let [format, piece, bytes @ ..] = input {
        let formats = trace::Format::ALL;
        readers::all(formats[usize::from(*format) % formats.len()], bytes, usize::from(*piece));
    }
});
