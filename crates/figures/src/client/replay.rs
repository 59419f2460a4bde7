//! A load whose every request is due at a moment of its own, whatever the answers do.

use super::Client;
use crate::latencies::{Latencies, Spread};
use crate::sides::wall_ns;
use anyhow::{Context, Result, ensure};
use lane::Random;
use nbd::codec::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// A request and when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timed {
    /// From the start of the load, in nanoseconds.
    pub(crate) due_ns: u64,
    /// Where, in bytes.
    pub(crate) offset: u64,
    /// How much, in bytes.
    pub(crate) length: u32,
    /// A read, or else a write.
    pub(crate) is_read: bool,
}

/// What a replay came to.
#[derive(Clone, Copy)]
pub(crate) struct Replayed {
    /// From the start until the last request was answered, in nanoseconds.
    pub(crate) answered_ns: u64,
    /// The same with the flush behind it.
    pub(crate) took_ns: u64,
    /// From when a request was due until it was answered.
    pub(crate) latency: Spread,
}

/// No more than this is kept ready to be sent.
const OUT_BYTES_MAX: usize = 4 << 20;
/// The last moments before a request is due are not slept through.
const SPIN_NS: u64 = 200_000;

/// A replay that is under way.
struct Replay<'a> {
    client: &'a mut Client,
    requests: &'a [Timed],
    start_ns: u64,
    /// The next request to be queued.
    next: usize,
    /// How much of what is queued is sent.
    sent: usize,
    answered: usize,
    is_answered: Vec<bool>,
    payload: Vec<u8>,
    latencies: Latencies,
}

impl Client {
    /// Sends every request when it is due, as far as the server takes it, and flushes in the end.
    ///
    /// # Errors
    /// If the server refuses one, or the connection breaks.
    pub(crate) fn replay(&mut self, requests: &[Timed]) -> Result<Replayed> {
        let longest = requests.iter().map(|request| request.length).max().unwrap_or(0);
        let mut random = Random::new(7);
        let mut payload = vec![0; longest as usize];
        payload.chunks_mut(8).for_each(|chunk| {
            let bytes = random.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        });
        (self.partial, self.skip) = (0, 0);
        let replay = Replay {
            client: self,
            requests,
            start_ns: wall_ns(),
            next: 0,
            sent: 0,
            answered: 0,
            is_answered: vec![false; requests.len()],
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
            let moved = self.send()? | self.receive()?;
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
        if self.sent == self.client.outgoing.len() {
            self.client.outgoing.clear();
            self.sent = 0;
        }
        while let Some(request) = self.requests.get(self.next)
            && request.due_ns <= now_ns
            && self.client.outgoing.len() < OUT_BYTES_MAX
        {
            let command = if request.is_read { NBD_CMD_READ } else { NBD_CMD_WRITE };
            let cookie = self.next as u64;
            let (offset, length) = (request.offset, request.length);
            let header = RequestHeader { flags: 0, command, cookie, offset, length };
            self.client.outgoing.extend_from_slice(&header.encode());
            if !request.is_read {
                self.client.outgoing.extend_from_slice(&self.payload[..length as usize]);
            }
            self.next += 1;
        }
    }

    /// Sends what goes out now. True: something did.
    fn send(&mut self) -> Result<bool> {
        let rest = &self.client.outgoing[self.sent..];
        if rest.is_empty() {
            return Ok(false);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.client.stream, rest, flags) {
            Ok(count) => self.sent += count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        Ok(true)
    }

    /// Receives what has come. True: something has.
    fn receive(&mut self) -> Result<bool> {
        let Some(count) = self.client.receive(RecvFlags::DONTWAIT)? else { return Ok(false) };
        let now_ns = self.now();
        let end = self.client.partial + count;
        let mut at = 0;
        loop {
            let skipped = self.client.skip.min(end - at);
            at += skipped;
            self.client.skip -= skipped;
            if self.client.skip > 0 {
                break;
            }
            let Some(header) = self.client.buffer[at..end].first_chunk() else { break };
            let reply = SimpleReply::parse(header).context("a reply that is none")?;
            at += SIMPLE_REPLY_BYTES;
            self.client.skip = self.note(&reply, now_ns)?;
        }
        self.client.partial = end - at;
        self.client.buffer.copy_within(at..end, 0);
        Ok(true)
    }

    /// Notes an answer; returns how much data follows it.
    fn note(&mut self, reply: &SimpleReply, now_ns: u64) -> Result<usize> {
        let number = usize::try_from(reply.cookie).unwrap_or(usize::MAX);
        let is_new = number < self.next && !self.is_answered[number];
        ensure!(is_new, "a reply to what was never asked");
        let request = &self.requests[number];
        let Timed { offset, length, .. } = request;
        let error = reply.error;
        ensure!(error == 0, "the server answers {length} bytes at {offset} with error {error}");
        self.is_answered[number] = true;
        self.answered += 1;
        self.latencies.note(now_ns.saturating_sub(request.due_ns));
        Ok(if request.is_read { request.length as usize } else { 0 })
    }

    /// Waits until there is something to receive, room to send, or a request nearly due.
    fn wait(&self) -> Result<()> {
        let now_ns = self.now();
        let room = self.client.outgoing.len() < OUT_BYTES_MAX;
        let due_ns = self.requests.get(self.next).filter(|_| room).map(|request| request.due_ns);
        let until_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.saturating_sub(now_ns));
        if until_ns < SPIN_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        let mut flags = PollFlags::IN;
        if self.sent < self.client.outgoing.len() {
            flags |= PollFlags::OUT;
        }
        // A second at most: the clock is looked at again then.
        let sleep_ns = (until_ns - SPIN_NS).min(999_999_999);
        let timeout = Timespec { tv_sec: 0, tv_nsec: sleep_ns as i64 };
        match poll(&mut [PollFd::new(&self.client.stream, flags)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}
