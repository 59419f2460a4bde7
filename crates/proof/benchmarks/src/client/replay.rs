//! Sends a source's steps over a socket, each when it is due, independent of the answers.

use super::Client;
use crate::latencies::{Latencies, Spread};
use crate::sides::wall_ns;
use anyhow::{Result, ensure};
use block::SECTOR;
use lane::Random;
use load::{Source, Step};
use nbd::client::Event;
use nbd::codec::*;
use std::time::Duration;
use trace::Operation;

/// The result of a replay.
#[derive(Clone, Copy)]
pub(crate) struct Replayed {
    /// Time from the start until the last request was answered, in nanoseconds.
    pub(crate) answered_ns: u64,
    /// The same with the final flush.
    pub(crate) took_ns: u64,
    /// Latencies, from when a request was due until it was answered.
    pub(crate) latency: Spread,
}

/// Maximum of queued bytes.
const OUT_BYTES_MAX: usize = 4 << 20;
/// The final time before a request is due is spent in a busy wait.
const SPIN_NS: u64 = 200_000;

/// A step as a request of the protocol.
struct Asked {
    due_ns: u64,
    header: RequestHeader,
}

impl Asked {
    /// Returns the request of the step with this number; a step without a time is due immediately.
    fn new(number: usize, step: &Step) -> Asked {
        let fua = |is_set| if is_set { NBD_CMD_FLAG_FUA } else { 0 };
        let (command, flags) = match step.operation {
            Operation::Read => (NBD_CMD_READ, 0),
            Operation::Write { fua: is_set } => (NBD_CMD_WRITE, fua(is_set)),
            Operation::Flush => (NBD_CMD_FLUSH, 0),
            Operation::Discard => (NBD_CMD_TRIM, 0),
            Operation::Advise => (NBD_CMD_CACHE, 0),
            Operation::Zero { fua: is_set, may_unmap } => {
                let no_hole = if may_unmap { 0 } else { NBD_CMD_FLAG_NO_HOLE };
                (NBD_CMD_WRITE_ZEROES, fua(is_set) | no_hole)
            }
        };
        let (offset, length) = match step.operation {
            Operation::Flush => (0, 0),
            _ => (step.at.first * SECTOR, step.at.count * SECTOR as u32),
        };
        let header = RequestHeader { flags, command, cookie: number as u64, offset, length };
        Asked { due_ns: step.due_ns.unwrap_or(0), header }
    }
}

/// A running replay.
struct Replay<'a> {
    client: &'a mut Client,
    requests: Vec<Asked>,
    start_ns: u64,
    /// Index of the next request to be queued.
    next: usize,
    answered: usize,
    payload: Vec<u8>,
    latencies: Latencies,
}

impl Client {
    /// Sends every step when it is due, as far as the server accepts it, and flushes at the end.
    /// All steps are taken from the source before the first is sent.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn replay(&mut self, source: &mut dyn Source) -> Result<Replayed> {
        let steps = std::iter::from_fn(|| source.next()).enumerate();
        let requests: Vec<Asked> = steps.map(|(number, step)| Asked::new(number, &step)).collect();
        let written = requests.iter().filter(|asked| asked.header.command == NBD_CMD_WRITE);
        let longest = written.map(|asked| asked.header.length).max().unwrap_or(0);
        let mut random = Random::new(7);
        let mut payload = vec![0; longest as usize];
        payload.chunks_mut(8).for_each(|chunk| {
            let bytes = random.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        });
        let replay = Replay {
            client: self,
            requests,
            start_ns: wall_ns(),
            next: 0,
            answered: 0,
            payload,
            latencies: Latencies::default(),
        };
        replay.run()
    }
}

impl Replay<'_> {
    fn run(mut self) -> Result<Replayed> {
        while self.answered < self.requests.len() {
            self.queue(self.now());
            let moved = self.client.connection.send_now()? | self.receive()?;
            if !moved {
                self.wait()?;
            }
        }
        let answered_ns = self.now();
        self.client.flush()?;
        let took_ns = self.now();
        Ok(Replayed { answered_ns, took_ns, latency: self.latencies.spread() })
    }

    fn now(&self) -> u64 {
        wall_ns() - self.start_ns
    }

    fn queue(&mut self, now_ns: u64) {
        let connection = &mut self.client.connection;
        while let Some(request) = self.requests.get(self.next)
            && request.due_ns <= now_ns
            && connection.queued_bytes() < OUT_BYTES_MAX
        {
            let out = connection.ask(&request.header);
            if request.header.command == NBD_CMD_WRITE {
                out.extend_from_slice(&self.payload[..request.header.length as usize]);
            }
            self.next += 1;
        }
    }

    /// Receives available bytes. True: there were some.
    fn receive(&mut self) -> Result<bool> {
        if !self.client.connection.receive_now()? {
            return Ok(false);
        }
        let now_ns = self.now();
        while let Some(event) = self.client.connection.event()? {
            let Event::Done { cookie, error } = event else { continue };
            let request = &self.requests[cookie as usize];
            let RequestHeader { offset, length, .. } = &request.header;
            let name = error_name(error);
            ensure!(error == 0, "the server answers {length} bytes at {offset} with {name}");
            self.answered += 1;
            self.latencies.record(now_ns.saturating_sub(request.due_ns));
        }
        Ok(true)
    }

    /// Waits until there is data to receive, room to send, or a request almost due.
    fn wait(&self) -> Result<()> {
        let now_ns = self.now();
        let room = self.client.connection.queued_bytes() < OUT_BYTES_MAX;
        let due_ns = self.requests.get(self.next).filter(|_| room).map(|request| request.due_ns);
        let until_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.saturating_sub(now_ns));
        if until_ns < SPIN_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        // At most a second: then the clock is read again.
        let sleep_ns = (until_ns - SPIN_NS).min(999_999_999);
        self.client.connection.wait(Duration::from_nanos(sleep_ns))?;
        Ok(())
    }
}
