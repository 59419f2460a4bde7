//! Parses any bytes as a trace; also called by the fuzzer.

use trace::recording::{blocks, header};
use trace::{Event, Trace};

/// Checks that the bytes are refused with a sentence, or that their events survive being written
/// again.
pub(crate) fn parse(bytes: &[u8]) {
    let trace = match Trace::parse(bytes) {
        Ok(trace) => trace,
        Err(malformed) => {
            assert!(!malformed.to_string().is_empty());
            return;
        }
    };
    assert!(trace.events().iter().all(Event::is_sound));
    assert!((0.0..=1.0).contains(&trace.share_of_reads()));
    let mut again = Vec::new();
    header(&mut again);
    blocks(&mut again, trace.events(), trace.dropped());
    let read = Trace::parse(&again).expect("it was just written");
    assert_eq!((read.events(), read.dropped()), (trace.events(), trace.dropped()));
    assert!(trace.duration_ns() == read.duration_ns());
}
