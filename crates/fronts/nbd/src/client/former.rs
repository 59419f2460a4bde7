//! The connections that a killed process has left: its answers are read to the end, and a flush
//! shows whether the server is still the same.
//!
//! Both connections have simple replies only, which are of one length. The killed process may have
//! received a part of the first one, so the first bytes are skipped up to the start of a reply.

use super::Writing;
use super::checks::{Checks, send_all};
use super::remote::TAG_SHIFT;
use crate::codec::*;
use lane::Lane;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

/// Longest time without an answer after which the rest is given up: the last request may be
/// incomplete, and is then never answered.
const SILENT_NS: u64 = 1_000_000_000;
/// Longest time for reading answers.
const ANSWERS_NS: u64 = 5_000_000_000;
/// Longest time for a flush.
const FLUSH_NS: u64 = 10_000_000_000;
/// The cookie of the flush. No request of a serving process has it; an earlier flush of a process
/// that was killed here covers the same changes.
const COOKIE: u64 = u64::MAX;

/// Simple replies in a stream that may begin inside one.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    is_aligned: bool,
}

impl Stream {
    /// Returns the next reply. None: more bytes are needed.
    ///
    /// # Errors
    /// The stream contains other bytes.
    fn next(&mut self) -> Result<Option<SimpleReply>, ErrorKind> {
        let mut skipped = 0;
        loop {
            let Some(head) = self.bytes.first_chunk::<SIMPLE_REPLY_BYTES>() else {
                return Ok(None);
            };
            if let Some(reply) = SimpleReply::parse(head) {
                self.bytes.drain(..SIMPLE_REPLY_BYTES);
                self.is_aligned = true;
                return Ok(Some(reply));
            }
            skipped += 1;
            if self.is_aligned || skipped == SIMPLE_REPLY_BYTES {
                return Err(ErrorKind::InvalidData);
            }
            self.bytes.remove(0);
        }
    }

    /// Receives more bytes, until the deadline.
    async fn receive(&mut self, lane: &Lane, socket: &OwnedFd, until_ns: u64) -> io::Result<()> {
        let (mut checks, mut buffer) = (Checks::new(lane, until_ns), [0; 4096]);
        loop {
            match recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => {
                    self.bytes.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Err(Errno::AGAIN | Errno::INTR) => checks.next().await?,
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Reads the answers to the changes of an earlier process, for some seconds at most. Changes that
/// stay unanswered are left in the fence.
pub async fn read_answers(lane: &Lane, socket: &OwnedFd, writing: &Writing) {
    let (mut stream, end_ns) = (Stream::default(), lane.now() + ANSWERS_NS);
    while writing.fence(|fence| fence.sent()) > 0 {
        match stream.next() {
            Ok(Some(reply)) => {
                let slot = (reply.cookie >> TAG_SHIFT) as usize;
                writing.fence(|fence| fence.answered_earlier(slot));
            }
            Ok(None) => {
                let until_ns = end_ns.min(lane.now() + SILENT_NS);
                if stream.receive(lane, socket, until_ns).await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Flushes on the anchor of an earlier process, within some seconds. If that succeeds, the server
/// has lost nothing, and all answered changes are durable. Answers to flushes of the earlier
/// process may still come, so the connection must not be used any more.
pub async fn flush_again(lane: &Lane, socket: &OwnedFd, writing: &Writing) {
    let mark = writing.fence(|fence| fence.mark(lane.now()));
    if is_flushed(lane, socket).await.unwrap_or(false) {
        // A loss that was noted before stays noted.
        let _ = writing.fence(|fence| fence.flush_ends(mark, true));
    }
}

async fn is_flushed(lane: &Lane, socket: &OwnedFd) -> io::Result<bool> {
    let until_ns = lane.now() + FLUSH_NS;
    let command = NBD_CMD_FLUSH;
    let header = RequestHeader { flags: 0, command, cookie: COOKIE, offset: 0, length: 0 };
    send_all(socket, &header.encode(), &mut Checks::new(lane, until_ns)).await?;
    let mut stream = Stream::default();
    loop {
        match stream.next()? {
            Some(reply) if reply.cookie == COOKIE => {
                return Ok(reply.error == 0);
            }
            // The answer to a flush of the earlier process.
            Some(_) => {}
            None => stream.receive(lane, socket, until_ns).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_found_from_any_position_of_the_first_one() {
        let replies: Vec<u8> =
            [3, 4].iter().flat_map(|&cookie| SimpleReply { error: 0, cookie }.encode()).collect();
        for start in 0..=SIMPLE_REPLY_BYTES {
            let mut stream = Stream { bytes: replies[start..].to_vec(), is_aligned: false };
            let mut found = Vec::new();
            while let Some(reply) = stream.next().expect("it is sound") {
                found.push(reply.cookie);
            }
            let expected: &[u64] = if start == 0 { &[3, 4] } else { &[4] };
            assert_eq!(found, expected, "from byte {start}");
        }
    }

    #[test]
    fn other_bytes_are_no_replies() {
        let mut stream = Stream { bytes: vec![7; 64], is_aligned: false };
        assert!(stream.next().is_err());
        let mut bytes = SimpleReply { error: 0, cookie: 1 }.encode().to_vec();
        bytes.extend([0; 16]);
        let mut stream = Stream { bytes, is_aligned: false };
        assert!(stream.next().is_ok_and(|reply| reply.is_some()));
        assert!(stream.next().is_err(), "after the first one each byte counts");
    }
}
