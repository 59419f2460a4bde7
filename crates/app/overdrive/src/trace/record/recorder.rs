//! The loop of a recording: from its source to its file.

use super::output::Output;
use stack::Failure;
use std::time::Duration;
use traces::Matched;

/// Pause between two reads of the source.
const PAUSE: Duration = Duration::from_millis(50);
/// Age at which requests are written, although they do not fill a block.
const BLOCK_AGE_NS: u64 = 1_000_000_000;
/// Age at which a compressed part ends, although it is small.
const PART_AGE_NS: u64 = 10_000_000_000;

/// A source of requests.
pub(super) trait Source {
    /// Moves requests to the output. Returns whether there are more.
    ///
    /// # Errors
    /// The source has ended, or the output cannot be written.
    fn take(&mut self, output: &mut Output) -> Result<bool, Failure>;

    /// Checks, once per second, that the source still exists, and updates its counts.
    ///
    /// # Errors
    /// It has ended.
    fn check(&mut self) -> Result<(), Failure>;

    /// Ends the source, and moves its last requests to the output.
    ///
    /// # Errors
    /// As [`Source::take`].
    fn finish(&mut self, output: &mut Output) -> Result<(), Failure>;

    /// Returns the counts up to now.
    fn counts(&self) -> SourceCounts;
}

/// Counts of a source.
#[derive(Clone, Copy, Default)]
pub(super) struct SourceCounts {
    pub(super) matched: Matched,
    /// Events that were lost because a buffer was full.
    pub(super) dropped: u64,
    /// Entries of the kernel's buffers that could not be read.
    pub(super) unreadable: u64,
    /// Times without a recording, between two daemons.
    pub(super) gaps: u64,
    pub(super) gap_ns: u64,
}

/// Counts of a recording.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) requests: u64,
    pub(super) source: SourceCounts,
    pub(super) duration_ns: u64,
    pub(super) rotations: u64,
}

/// A recording in progress.
pub(super) struct Recorder<S> {
    source: S,
    output: Output,
    begin_ns: u64,
    /// Lost events that were written.
    dropped_written: u64,
}

impl<S: Source> Recorder<S> {
    pub(super) fn new(source: S, output: Output) -> Recorder<S> {
        Recorder { source, output, begin_ns: host::now_ns(), dropped_written: 0 }
    }

    /// Records until a signal, for at most `limit`, or until the source ends. Returns the counts,
    /// and the reason for an end that was not requested; requests up to there are in the file.
    pub(super) fn run(
        mut self,
        signals: &host::File,
        limit: Option<Duration>,
    ) -> (Recorded, Result<(), Failure>) {
        let ended = self.record(signals, limit);
        let duration_ns = host::now_ns() - self.begin_ns;
        // The first failure is the reason. After one of the output, nothing more is written.
        let ended = ended.and(self.source.finish(&mut self.output));
        let ended = ended.and(self.write_block());
        let source = self.source.counts();
        let Output { requests, rotations, .. } = self.output;
        let ended = ended.and(self.output.finish());
        (Recorded { requests, source, duration_ns, rotations }, ended)
    }

    fn record(&mut self, signals: &host::File, limit: Option<Duration>) -> Result<(), Failure> {
        let limit_ns = limit.map_or(u64::MAX, |limit| limit.as_nanos() as u64);
        let (mut block_ns, mut part_ns) = (self.begin_ns, self.begin_ns);
        loop {
            let is_more = self.source.take(&mut self.output)?;
            let now_ns = host::now_ns();
            if now_ns - block_ns >= BLOCK_AGE_NS {
                block_ns = now_ns;
                self.source.check()?;
                self.write_block()?;
            }
            if now_ns - part_ns >= PART_AGE_NS {
                part_ns = now_ns;
                self.output.end_part()?;
            }
            let left_ns = limit_ns.saturating_sub(now_ns - self.begin_ns);
            let pause = if is_more { Duration::ZERO } else { PAUSE };
            let pause = pause.min(Duration::from_nanos(left_ns));
            if host::is_stopped_within(signals, pause) || left_ns == 0 {
                return Ok(());
            }
        }
    }

    /// Writes the requests that were taken, with the number of those that were lost.
    fn write_block(&mut self) -> Result<(), Failure> {
        let dropped = self.source.counts().dropped;
        let written = std::mem::replace(&mut self.dropped_written, dropped);
        self.output.write_block(dropped.saturating_sub(written))
    }
}
