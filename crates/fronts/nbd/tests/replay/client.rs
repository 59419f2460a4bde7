//! Any bytes against a client: properties that must hold for any server. The fuzzer and the replay
//! of its corpus call the same function.
//!
//! The first two bytes of an input are not the server's: the first holds the client's requests, the
//! second the number of bytes that arrive at a time.

use nbd::client::{Event, Negotiation, Replies, UnderWay, Wish};
use nbd::codec::*;

/// The client requests structured replies and block status.
pub(crate) const STRUCTURED: u8 = 1;
/// The length of its reads.
pub(crate) const READ_BYTES: u32 = 1536;
/// Number of times that it repeats the same requests.
const ROUNDS: u64 = 3;
const COMMANDS: [u16; 3] = [NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_BLOCK_STATUS];

/// The replies to one request.
struct ReplyRecord {
    came: Vec<bool>,
    done: bool,
}

/// Feeds the bytes to a client in pieces. All accepted replies must be valid.
pub(crate) fn client(input: &[u8]) {
    let [wishes, piece, said @ ..] = input else { return };
    let structured = wishes & STRUCTURED != 0;
    let contexts = if structured { vec![ALLOCATION_CONTEXT.to_owned()] } else { Vec::new() };
    let wish = Wish { export: "disk".to_owned(), sizes: true, structured, contexts };
    let mut negotiation = Negotiation::new(wish);
    let mut pieces = said.chunks(usize::from(*piece).max(1));
    let mut out = Vec::new();
    while let Some(mut rest) = pieces.next() {
        match negotiation.take(&mut rest, &mut out) {
            Err(_) => return,
            Ok(None) => assert!(rest.is_empty(), "bytes are left and more is waited for"),
            Ok(Some(agreed)) => {
                assert!(agreed.contexts.len() <= 1 && (structured || !agreed.structured));
                let contexts = agreed.contexts.iter().map(|context| context.0).collect();
                let mut replies = Replies::new(agreed.structured, contexts);
                return receive(&mut replies, std::iter::once(rest).chain(pieces));
            }
        }
        assert!(out.len() < 1000, "an answer without end");
    }
}

fn receive<'a>(replies: &mut Replies, pieces: impl Iterator<Item = &'a [u8]>) {
    let mut under_way = UnderWay::default();
    let mut records = Vec::new();
    for cookie in 0..COMMANDS.len() as u64 * ROUNDS {
        let command = COMMANDS[cookie as usize % COMMANDS.len()];
        let (offset, length) = (4096 * cookie, READ_BYTES);
        let header = RequestHeader { flags: 0, command, cookie, offset, length };
        under_way.ask(&header, &mut Vec::new());
        records.push(ReplyRecord { came: vec![false; READ_BYTES as usize], done: false });
    }
    for mut rest in pieces {
        loop {
            let before = (replies.needs(), rest.len());
            match replies.take(&mut rest, &mut under_way) {
                Err(fault) => {
                    let again = replies.take(&mut rest, &mut under_way);
                    assert!(again.is_err(), "it goes on after {fault}");
                    return;
                }
                Ok(None) => {
                    assert!(rest.is_empty() && replies.needs() > 0);
                    break;
                }
                Ok(Some(event)) => {
                    assert!(before.1 - rest.len() >= before.0.min(before.1), "less than it needs");
                    note(&mut records, event);
                }
            }
        }
    }
    let open = records.iter().filter(|records| !records.done).count();
    assert_eq!(under_way.count(), open);
}

fn note(records: &mut [ReplyRecord], event: Event<'_>) {
    match event {
        Event::Data { cookie, at, bytes } => {
            assert!(!bytes.is_empty());
            come(records, cookie, at, bytes.len());
        }
        Event::Zeros { cookie, at, length } => come(records, cookie, at, length as usize),
        Event::Status { cookie, extents, .. } => {
            let inner = extents.iter().rev().skip(1).map(|next| u64::from(next.length));
            assert!(inner.sum::<u64>() < u64::from(READ_BYTES) && !extents.is_empty());
            assert!(!records[cookie as usize].done && cookie % 3 == 2);
        }
        Event::Done { cookie, error } => {
            let records = &mut records[cookie as usize];
            assert!(!std::mem::replace(&mut records.done, true), "answered twice");
            let whole = records.came.iter().all(|&came| came);
            assert!(error != 0 || cookie % 3 != 0 || whole, "a read without all of its bytes");
        }
    }
}

fn come(records: &mut [ReplyRecord], cookie: u64, at: u32, length: usize) {
    let records = &mut records[cookie as usize];
    assert!(!records.done && cookie.is_multiple_of(3));
    for came in &mut records.came[at as usize..][..length] {
        assert!(!std::mem::replace(came, true), "a byte came twice");
    }
}
