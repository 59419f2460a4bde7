//! A server, as one of several that are compared.

use crate::client::{Client, Paced, Window};
use crate::program::Program;
use anyhow::Result;
use lane::Random;

/// A server with a client that stays connected.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// None: a thread of this process, whose time is not measured.
    pub(crate) program: Option<Program>,
    pub(crate) client: Client,
    pub(crate) random: Random,
}

impl Contestant {
    /// Connects to a server.
    ///
    /// # Errors
    /// If it does not serve.
    pub(crate) fn new(name: &'static str, program: Program) -> Result<Contestant> {
        let client = program.connect()?;
        Ok(Contestant { name, program: Some(program), client, random: Random::new(1) })
    }

    /// Returns the processor time that it has used, in nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn used_ns(&self) -> Result<u64> {
        self.program.as_ref().map_or(Ok(0), Program::used_ns)
    }

    /// Runs a fixed load. Returns the result, and the server's nanoseconds per request.
    ///
    /// # Errors
    /// If it refuses, or has ended.
    pub(crate) fn paced(&mut self, rate: u64, run_ms: u64) -> Result<(Paced, f64)> {
        let before = self.used_ns()?;
        let (blocks, random) = (self.client.blocks(), &mut self.random);
        let paced = self.client.paced(rate, run_ms, || random.below(blocks))?;
        let used = self.used_ns()? - before;
        Ok((paced, used as f64 / paced.requests.max(1) as f64))
    }

    /// Runs a full window. Returns the nanoseconds between answers, and the server's nanoseconds
    /// per request.
    ///
    /// # Errors
    /// If it refuses, or has ended.
    pub(crate) fn reads(&mut self, window: Window) -> Result<(f64, f64)> {
        let before = self.used_ns()?;
        let (blocks, random) = (self.client.blocks(), &mut self.random);
        let run = self.client.reads(window, || random.below(blocks), |_| ())?;
        let used = self.used_ns()? - before;
        Ok((run.period_ns(), used as f64 / run.requests.max(1) as f64))
    }

    /// Writes to the first `blocks` blocks, one at a time. Returns the nanoseconds between answers,
    /// and the server's nanoseconds per request.
    ///
    /// # Errors
    /// If it refuses, or has ended.
    pub(crate) fn writes(&mut self, run_ms: u64, blocks: u64) -> Result<(f64, f64)> {
        let before = self.used_ns()?;
        let random = &mut self.random;
        let run = self.client.writes(run_ms, || random.below(blocks))?;
        let used = self.used_ns()? - before;
        Ok((run.period_ns(), used as f64 / run.requests.max(1) as f64))
    }
}
