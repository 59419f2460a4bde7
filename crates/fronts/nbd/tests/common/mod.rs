//! The crate's server behind a pipe, and the handshake of its client.

mod send;

use block::{Memory, Stack};
use export::Export;
use lane::Lane;
use nbd::client::{Agreed, Negotiation, Wish};
use nbd::{Exports, Options, Pipe, Wire, pipe, serve};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use send::send;

/// Serves a disk without time limits. Returns the client's end of a pipe of this capacity.
pub(crate) fn serve_disk(lane: &Lane, disk: Stack, capacity: usize) -> Pipe {
    let (theirs, ours) = pipe(capacity);
    let exports = Rc::new(Exports::new([Export::new("disk", disk)]));
    let options = Options {
        handshake_ms: None,
        drain_ms: None,
        linger_ms: None,
        rest_ms: None,
        ..Options::default()
    };
    let serving = lane.clone();
    let task = async move {
        serve(serving, theirs, exports, options).await;
    };
    lane.spawn(task).expect("room");
    ours
}

/// A handshake over the pipe, byte by byte.
pub(crate) async fn negotiate(wire: &Pipe, wish: Wish) -> Agreed {
    let (mut negotiation, memory) = (Negotiation::new(wish), Arc::new(Memory::heap(1)));
    loop {
        let count = wire.receive(&memory, 0, 1).await.expect("the server goes on");
        assert_eq!(count, 1);
        let (mut byte, mut out) = ([0], Vec::new());
        memory.read(0, &mut byte);
        let agreed = negotiation.take(&mut &byte[..], &mut out).expect("the server is sound");
        if !out.is_empty() {
            assert!(send(wire, &out).await, "the server listens");
        }
        if let Some(agreed) = agreed {
            return agreed;
        }
    }
}
