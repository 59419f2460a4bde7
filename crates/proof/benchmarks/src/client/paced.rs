//! A load with a fixed rate, independent of the answers.

use super::{Client, WINDOW_MAX, Waiting};
use crate::sides::wall_ns;
use anyhow::Result;

/// The result of a fixed load.
#[derive(Clone, Copy)]
pub(crate) struct Paced {
    /// Reads answered.
    pub(crate) requests: u64,
    /// Duration in nanoseconds.
    pub(crate) took_ns: u64,
}

impl Paced {
    /// Returns answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 * 1e9 / self.took_ns.max(1) as f64
    }
}

impl Client {
    /// Sends a read of a block every `1 / rate` seconds. The client spins, so that each request is
    /// sent on time. Requests that the server has not answered wait in a window of [`WINDOW_MAX`];
    /// if that is full, the load is not offered any more, and the measured rate is lower.
    ///
    /// # Errors
    /// If the server refuses a read, or the connection breaks.
    pub(crate) fn paced(
        &mut self,
        rate: u64,
        run_ms: u64,
        next: impl FnMut() -> u64,
    ) -> Result<Paced> {
        self.paced_recorded(rate, run_ms, next, |_| ())
    }

    /// Same as `paced`, and passes the latency of every read, from its sending on, to
    /// `record_latency`.
    ///
    /// # Errors
    /// Those of `paced`.
    pub(crate) fn paced_recorded(
        &mut self,
        rate: u64,
        run_ms: u64,
        mut next: impl FnMut() -> u64,
        mut record_latency: impl FnMut(u64),
    ) -> Result<Paced> {
        self.free.clear();
        self.free.extend((0..WINDOW_MAX as u16).rev());
        let start = wall_ns();
        let end = start + run_ms * 1_000_000;
        let gap_ns = 1e9 / rate as f64;
        let (mut asked, mut requests) = (0u64, 0u64);
        let now = loop {
            let now = wall_ns();
            if now >= end {
                break now;
            }
            let due = ((now - start) as f64 / gap_ns) as u64;
            while asked < due
                && let Some(place) = self.free.pop()
            {
                self.queue_read(place, next(), now);
                asked += 1;
            }
            if self.connection.unsent_bytes() > 0 {
                self.connection.send()?;
            }
            if self.connection.receive_now()? {
                let now = wall_ns();
                requests += self.process_received(now, &mut record_latency)? as u64;
            }
        };
        while self.free.len() < WINDOW_MAX {
            requests += self.receive_answers(Waiting::Spinning, &mut record_latency)?.1 as u64;
        }
        Ok(Paced { requests, took_ns: now - start })
    }
}
