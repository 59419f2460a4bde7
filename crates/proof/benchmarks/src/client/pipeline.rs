//! A window of reads that is kept full.

use super::{BLOCK, Client, WINDOW_MAX, Waiting};
use crate::sides::wall_ns;
use anyhow::Result;

/// The parameters of such a load.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Number of reads under way: the queue depth.
    pub(crate) reads: usize,
    /// How the client waits.
    pub(crate) waiting: Waiting,
    /// Duration in milliseconds.
    pub(crate) run_ms: u64,
}

impl Window {
    /// Returns a window of one read at a time.
    pub(crate) fn one(waiting: Waiting, run_ms: u64) -> Window {
        Window { reads: 1, waiting, run_ms }
    }
}

/// The result of a run.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Reads answered in that time.
    pub(crate) requests: u64,
    /// Duration in nanoseconds.
    pub(crate) took_ns: u64,
}

impl Run {
    /// Returns the nanoseconds between two answers.
    pub(crate) fn period_ns(&self) -> f64 {
        self.took_ns as f64 / self.requests.max(1) as f64
    }

    /// Returns answers per second.
    pub(crate) fn rate(&self) -> f64 {
        1e9 / self.period_ns()
    }
}

impl Client {
    /// Keeps a window of reads under way, of the blocks that `next` returns; `record_latency`
    /// receives the latency of each in nanoseconds.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn reads(
        &mut self,
        window: Window,
        mut next: impl FnMut() -> u64,
        mut record_latency: impl FnMut(u64),
    ) -> Result<Run> {
        let reads = window.reads.clamp(1, WINDOW_MAX);
        self.free.clear();
        let start = wall_ns();
        for place in 0..reads as u16 {
            self.queue_read(place, next(), start);
        }
        self.connection.send()?;
        let end = start + window.run_ms * 1_000_000;
        let mut requests = 0;
        let now = loop {
            let (now, answered) = self.receive_answers(window.waiting, &mut record_latency)?;
            requests += answered as u64;
            if now >= end {
                break now;
            }
            while let Some(place) = self.free.pop() {
                self.queue_read(place, next(), now);
            }
            if self.connection.unsent_bytes() > 0 {
                self.connection.send()?;
            }
        };
        while self.free.len() < reads {
            self.receive_answers(window.waiting, &mut |_| ())?;
        }
        Ok(Run { requests, took_ns: now - start })
    }

    /// Writes blocks that `next` returns, one at a time, for `run_ms` milliseconds.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn writes(&mut self, run_ms: u64, mut next: impl FnMut() -> u64) -> Result<Run> {
        let (data, start) = ([0x5a; BLOCK], wall_ns());
        let end = start + run_ms * 1_000_000;
        let mut requests = 0;
        loop {
            self.write(next() * BLOCK as u64, &data)?;
            requests += 1;
            let now = wall_ns();
            if now >= end {
                return Ok(Run { requests, took_ns: now - start });
            }
        }
    }
}
