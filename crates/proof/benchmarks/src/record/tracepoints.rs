//! The requests of a block device, by the kernel's own tracepoints.
//!
//! ```text
//!   dd-10144      [000] .....  3162.501803: block_rq_issue: 7,0 RM 4096 () 50888 + 8 be,0,4 [dd]
//!   ksoftirqd/0-1 [000] ..s..  3162.502012: block_rq_complete: 7,0 RM () 50888 + 8 be,0,4 [0]
//! ```
//!
//! Sources: Documentation/trace/ftrace.rst and include/trace/events/block.h of Linux; the letters
//! of a request are those of blk_fill_rwbs in kernel/trace/blktrace.c.

use crate::mounted::well;
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use trace::{Event, Operation};

/// The usual mount point of the kernel's tracing.
const TRACING: &str = "/sys/kernel/tracing";
/// Buffer size of each processor.
const BUFFER_KIB: u32 = 64 << 10;
const EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];

/// Records the requests of a device until it is dropped.
pub(super) struct Tracing(PathBuf);

impl Tracing {
    /// Starts recording.
    ///
    /// # Errors
    /// The kernel does not allow this user to trace.
    pub(super) fn start(major: u32, minor: u32) -> Result<Tracing> {
        if !Path::new(TRACING).join("instances").exists() {
            well("mount", &["-t", "tracefs", "none", TRACING])?;
        }
        let place = Path::new(TRACING).join(format!("instances/overdrive-{}", std::process::id()));
        fs::create_dir(&place).with_context(|| format!("{}: tracing", place.display()))?;
        let tracing = Tracing(place);
        tracing.set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        tracing.set("trace_clock", "mono")?;
        for event in EVENTS {
            // The kernel's own form of a device number: 20 bits of it are the minor one.
            let filter = format!("dev == {}", u64::from(major) << 20 | u64::from(minor));
            tracing.set(&format!("events/block/{event}/filter"), &filter)?;
        }
        for event in EVENTS {
            tracing.set(&format!("events/block/{event}/enable"), "1")?;
        }
        Ok(tracing)
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value).with_context(|| format!("{}: {value}", path.display()))
    }

    /// Returns the requests so far.
    ///
    /// # Errors
    /// Some were lost, or one of them is not understood.
    pub(super) fn events(self) -> Result<Vec<Event>> {
        self.set("tracing_on", "0")?;
        events(&fs::read_to_string(self.0.join("trace"))?)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        for event in EVENTS {
            let _ = self.set(&format!("events/block/{event}/enable"), "0");
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// A line of the trace.
struct Line {
    time_ns: u64,
    is_issue: bool,
    operation: Operation,
    first: u64,
    sectors: u32,
}

fn operation(letters: &str) -> Result<Operation> {
    Ok(match letters.as_bytes() {
        [b'R', ..] => Operation::Read,
        [b'W', b'Z', ..] => Operation::Zero { fua: false, may_unmap: true },
        [b'W', rest @ ..] => Operation::Write { fua: rest.contains(&b'F') },
        [b'F', b'W', ..] => {
            bail!("'{letters}': a write with a flush in front, which no driver gets")
        }
        [b'F', ..] => Operation::Flush,
        [b'D', ..] => Operation::Discard,
        _ => bail!("'{letters}': no kind of request that is known"),
    })
}

/// Converts seconds with a decimal point to nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let micros: u64 = fraction.get(..6)?.parse().ok()?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + micros * 1000)
}

/// Parses a line. None: it is not about a request.
fn line(text: &str) -> Result<Option<Line>> {
    let split = EVENTS.iter().find_map(|event| text.split_once(&format!(": {event}: ")));
    let Some((front, request)) = split else { return Ok(None) };
    let strange = || format!("a line that is not understood: {text}");
    let is_issue = text.contains(EVENTS[0]);
    let time = front.split_whitespace().next_back().and_then(time_ns).with_context(strange)?;
    let letters = request.split(' ').nth(1).with_context(strange)?;
    let (_, extent) = request.split_once(") ").with_context(strange)?;
    let mut words = extent.split(' ');
    let mut number = |skipped: usize| words.nth(skipped).and_then(|word| word.parse::<u64>().ok());
    let (first, sectors) = (number(0).with_context(strange)?, number(1).with_context(strange)?);
    let operation = operation(letters).with_context(strange)?;
    Ok(Some(Line { time_ns: time, is_issue, operation, first, sectors: u32::try_from(sectors)? }))
}

/// Returns the requests of a trace's text, each with the time until its answer.
pub(super) fn events(text: &str) -> Result<Vec<Event>> {
    if let Some((_, counts)) = text.split_once("entries-in-buffer/entries-written: ") {
        let counts = counts.split_whitespace().next().and_then(|both| both.split_once('/'));
        ensure!(counts.is_some_and(|(kept, written)| kept == written), "requests were lost");
    }
    let (mut events, mut under_way) = (Vec::new(), VecDeque::<usize>::new());
    for text in text.lines() {
        let Some(line) = line(text)? else { continue };
        let is_flush = line.operation == Operation::Flush;
        let (first, sectors) = if is_flush { (0, 0) } else { (line.first, line.sectors) };
        if line.is_issue {
            under_way.push_back(events.len());
            let (time_ns, operation) = (line.time_ns, line.operation);
            events.push(Event {
                time_ns,
                took_ns: None,
                operation,
                device: 0,
                first,
                sectors,
                failed: None,
            });
            continue;
        }
        // A write that ended with a flush of its own has a second completion event, without a
        // length.
        if sectors == 0 && !is_flush {
            continue;
        }
        let is_it = |event: &Event| {
            (event.operation, event.first, event.sectors) == (line.operation, first, sectors)
        };
        let place = under_way.iter().position(|&number| is_it(&events[number]));
        // Requests sent before the trace began are not part of it.
        let Some(number) = place.and_then(|place| under_way.remove(place)) else { continue };
        events[number].took_ns = Some(line.time_ns - events[number].time_ns);
    }
    ensure!(under_way.is_empty(), "{} requests were not answered", under_way.len());
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# entries-in-buffer/entries-written: 8/8   #P:2
     ksoftirqd/0-14      [000] ..s..  3162.501000: block_rq_complete: 7,0 RM () 5 + 8 be,0,4 [0]
              dd-10144   [000] .....  3162.501803: block_rq_issue: 7,0 RM 4096 () 50888 + 8 be,0,4 [dd]
     a name: x-10144   [000] .....  3162.501903: block_rq_issue: 7,0 WFS 4096 () 50888 + 8 be,0,4 [a name: x]
     ksoftirqd/0-14      [000] ..s..  3162.502012: block_rq_complete: 7,0 RM () 50888 + 8 be,0,4 [0]
     ksoftirqd/0-14      [000] ..s..  3162.502013: block_rq_complete: 7,0 WFS () 50888 + 8 be,0,4 [0]
    kworker/1:1H-58      [001] .....  3162.607033: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]
     ksoftirqd/0-14      [000] ..s..  3162.607297: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]
     ksoftirqd/0-14      [000] d.s1.  3162.607299: block_rq_complete: 7,0 WSM () 1572928 + 0 be,0,3 [0]
";

    #[test]
    fn requests_are_paired_with_their_answers() {
        let events = events(TEXT).expect("understood");
        let found: Vec<_> = events
            .iter()
            .map(|event| (event.operation, event.first, event.sectors, event.took_ns))
            .collect();
        let wanted = [
            (Operation::Read, 50888, 8, Some(209_000)),
            (Operation::Write { fua: true }, 50888, 8, Some(110_000)),
            (Operation::Flush, 0, 0, Some(264_000)),
        ];
        assert_eq!(found, wanted);
        assert_eq!(events[0].time_ns, 3_162_501_803_000);
    }

    #[test]
    fn what_was_lost_or_is_open_or_is_strange_is_reported() {
        let lost = TEXT.replace("8/8", "8/9");
        assert!(super::events(&lost).expect_err("lost").to_string().contains("were lost"));
        let open =
            TEXT.replace("FF () 184", "FX () 184").replace(": block_rq_complete: 7,0 FX", ":");
        assert!(super::events(&open).expect_err("open").to_string().contains("1 requests"));
        for (from, to) in [("RM 4096", "?? 4096"), ("50888 + 8", "50888 + x"), ("3162.5", "3162,5")]
        {
            assert!(super::events(&TEXT.replace(from, to)).is_err(), "{to}");
        }
    }
}
