//! Recordings for targets without a file system, and the rows of a replay.

use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::Plan;
use crate::recording::{About, Recording};
use crate::test_rig::TestRig;
use block::{SECTOR, Size};
use load::{End, Record};
use trace::Operation;

/// The recordings by name; `cargo xtask bench record` makes them.
const RECORDED: [(&str, &[u8]); 6] = [
    ("Movie", include_bytes!("../../recordings/filebench-movie.odreplay")),
    ("RAW", include_bytes!("../../recordings/filebench-raw.odreplay")),
    ("MP3", include_bytes!("../../recordings/filebench-mp3.odreplay")),
    ("TR", include_bytes!("../../recordings/filebench-tr.odreplay")),
    ("Mozilla", include_bytes!("../../recordings/filebench-mozilla.odreplay")),
    ("loadtime", include_bytes!("../../recordings/loadtime.odreplay")),
];

/// Bytes of the device that all of them were made on.
pub(super) const DEVICE_BYTES: u64 = 1 << 30;

/// Returns the recording of this name, if it fits on the target.
///
/// # Panics
/// If there is none of this name, or the program's own is damaged.
pub(super) fn recording(name: &str, plan: &Plan) -> Result<Recording, Halt> {
    let (_, packed) = RECORDED.iter().find(|(known, _)| *known == name).expect("one of ours");
    let recording = Recording::unpack(packed).expect("the program's own recordings are sound");
    let needed = recording.about.device_bytes;
    if plan.span() < needed {
        let (span, what) = (Size(plan.span()), &recording.about.what);
        let message =
            format!("the recording ({what}) needs {}, but only {span} can be used", Size(needed));
        return Err(Halt::Plan(message));
    }
    Ok(recording)
}

/// Describes a replay, for every row of it.
fn replay_text(about: &About) -> String {
    let scale = about.scale().map_or(String::new(), |scale| format!(", {scale}"));
    format!("a replay of a recording, {}{scale}", about.what)
}

/// Returns a row of a replay: its figure, with the latencies of its requests.
pub(super) fn row(
    test: &str,
    unit: &'static str,
    value: f64,
    about: &About,
    record: &Record,
) -> Row {
    Row {
        latency: Some(record.all()),
        shortened: Some(replay_text(about)),
        partial: !matches!(record.end, End::Limit | End::Timeless),
        ..Row::plain(test, unit, value)
    }
}

/// Adds a row, with the preparation of the device before.
pub(super) fn add(outcome: &mut Outcome, rig: &TestRig, row: Row) {
    if !outcome.plan.selects(&row.test) {
        return;
    }
    outcome.push(rig, row);
}

/// Adds the method of any replay.
pub(super) fn say(outcome: &mut Outcome, about: &About) {
    outcome.say(format!(
        "The target has no file system, so a recording from {} is replayed. A request starts as \
         soon as all requests are answered that had been answered before it in the recording: \
         reads wait for reads, other requests for all. The host's own work is left out.",
        about.on
    ));
}

/// Returns the bytes of the recording's files per second, in MB, over the whole replay. An
/// interrupted one counts the files in proportion to the bytes that were read and written.
pub(super) fn mb_per_second(recording: &Recording, record: &Record) -> f64 {
    let moved = recording
        .trace
        .events()
        .iter()
        .filter(|event| matches!(event.operation, Operation::Read | Operation::Write { .. }));
    let all: u64 = moved.map(|event| u64::from(event.sectors) * SECTOR).sum();
    let share = record.bytes as f64 / all.max(1) as f64;
    recording.about.bytes as f64 * share * 1e3 / record.elapsed_ns().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_is_sound_and_is_what_it_says() {
        for (name, packed) in RECORDED {
            assert!(packed.len() < 200_000, "{name}: {} bytes", packed.len());
            let recording = Recording::unpack(packed).expect(name);
            let (about, events) = (&recording.about, recording.trace.events());
            assert_eq!(about.device_bytes, DEVICE_BYTES, "{name}");
            assert!(!recording.trace.is_cut() && recording.trace.dropped() == 0, "{name}");
            let bytes = |wanted: fn(&Operation) -> bool| {
                let events = events.iter().filter(|event| wanted(&event.operation));
                events.map(|event| u64::from(event.sectors) * 512).sum::<u64>()
            };
            let read = bytes(|operation| *operation == Operation::Read);
            let written = bytes(|operation| matches!(operation, Operation::Write { .. }));
            // All files and their metadata are read; a copy writes the same amount.
            let near = |found: u64| (about.bytes..about.bytes * 6 / 5 + (8 << 20)).contains(&found);
            assert!(near(read), "{name}: {read} of {}", about.bytes);
            match name {
                "loadtime" => assert_eq!(written, 0, "it only reads"),
                _ => {
                    assert!(near(written), "{name}: {written} of {}", about.bytes);
                    let flush = events.iter().rposition(|it| it.operation == Operation::Flush);
                    let write = events.iter().rposition(|it| it.operation != Operation::Read);
                    assert!(flush >= write.map(|at| at.saturating_sub(8)), "{name}: flushed");
                }
            }
            assert!(events.iter().all(|event| event.took_ns.is_some() && event.failed.is_none()));
            assert!(about.scale().is_some() && about.what.contains("set"), "{name}");
        }
    }
}
