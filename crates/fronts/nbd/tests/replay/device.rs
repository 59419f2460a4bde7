//! Any bytes of a server against an export that is used as a device: properties that must hold for
//! all of them. The fuzzer and the replay of its corpus call the same function.
//!
//! The inputs have the form of those in `client.rs`: the first byte holds the client's requests,
//! the second the number of bytes that arrive at a time, and the rest is sent by the server.

use block::{Buf, Extent, Memory, Part, Request, Result, SECTOR, Stack};
use lane::{Event, Lane, World};
use nbd::client::{Agreed, Dial, Link, LinkShared, Negotiation, Wish, refusal};
use nbd::codec::{ALLOCATION_CONTEXT, REQUEST_BYTES};
use nbd::{Pipe, Wire, pipe};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The client requests structured replies and block status.
const STRUCTURED: u8 = 1;
/// More steps than any input takes.
const STEPS_MAX: u64 = 20_000_000;
/// Sectors of each read.
const READ_SECTORS: u32 = 3;
const READS: u64 = 4;

/// Connects to a server that sends these bytes, this number at a time.
async fn connect(
    lane: &Lane,
    structured: bool,
    piece: usize,
    bytes: Vec<u8>,
) -> Option<(Pipe, Agreed)> {
    let (theirs, ours) = pipe(4096);
    let serving = lane.clone();
    let task = async move {
        for part in bytes.chunks(piece) {
            let memory = Arc::new(Memory::heap(part.len()));
            memory.write(0, part);
            let part = Part { memory, offset: 0, length: part.len() };
            if theirs.send(&[part]).await.is_err() {
                return;
            }
            serving.rest().await;
        }
    };
    lane.spawn(task).expect("room");
    negotiate(&ours, structured).await.map(|agreed| (ours, agreed))
}

/// Does the handshake byte by byte. The messages of the client are dropped.
async fn negotiate(wire: &Pipe, structured: bool) -> Option<Agreed> {
    let contexts = if structured { vec![ALLOCATION_CONTEXT.to_owned()] } else { Vec::new() };
    let wish = Wish { export: "disk".to_owned(), sizes: true, structured, contexts };
    let (mut negotiation, memory) = (Negotiation::new(wish), Arc::new(Memory::heap(1)));
    loop {
        if wire.receive(&memory, 0, 1).await.ok()? == 0 {
            return None;
        }
        let (mut byte, mut out) = ([0], Vec::new());
        memory.read(0, &mut byte);
        if let Some(agreed) = negotiation.take(&mut &byte[..], &mut out).ok()? {
            return Some(agreed);
        }
    }
}

/// Uses the export: reads in flight together, and a block status. Returns the number of reads that
/// succeeded.
async fn act(lane: Lane, structured: bool, piece: usize, sent: Vec<u8>) -> usize {
    let connected = connect(&lane, structured, piece, sent).await;
    let Some((pipe, agreed)) = connected else { return 0 };
    if refusal(&agreed).is_some() {
        return 0;
    }
    let shared = LinkShared::new(agreed.clone());
    let late = Late { pipe, sent: Cell::new(0), changed: Event::new() };
    let first = First { connection: RefCell::new(Some((late, agreed))) };
    let link = Stack::new(&lane, Link::attach(&lane, first, None, &shared));
    let (ended, succeeded) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for number in 0..READS {
        let (link, ended, succeeded) = (link.clone(), ended.clone(), succeeded.clone());
        let task = async move {
            let at = Extent::new(8 * number, READ_SECTORS);
            let request = Request::Read { at, into: Buf::new(READ_SECTORS, SECTOR as u32) };
            let is_valid = link.limits().check(&request).is_ok();
            let is_read = is_valid && link.run(request).await.is_ok();
            succeeded.set(succeeded.get() + usize::from(is_read));
            ended.set(ended.get() + 1);
        };
        lane.spawn(task).expect("room");
    }
    if let Ok(list) = link.status(Extent::new(0, 8)).await {
        assert!(!list.is_empty() && list.iter().all(|stretch| stretch.sectors > 0), "{list:?}");
    }
    while ended.get() < READS {
        lane.sleep_until(lane.now() + 1_000_000).await;
    }
    succeeded.get()
}

/// A wire on which no reply arrives before all reads were sent.
struct Late {
    pipe: Pipe,
    sent: Cell<usize>,
    changed: Event,
}

impl Wire for Late {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        loop {
            let seen = self.changed.seen();
            if self.sent.get() >= READS as usize * REQUEST_BYTES {
                return self.pipe.receive(memory, offset, length).await;
            }
            self.changed.after(seen).await;
        }
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.sent.set(self.sent.get() + parts.iter().map(|part| part.length).sum::<usize>());
        self.changed.notify();
        // The server's bytes are fixed, so it receives nothing.
        Ok(())
    }

    async fn finish(&self) {
        self.pipe.finish().await;
    }

    fn shutdown(&self) {
        self.sent.set(usize::MAX / 2);
        self.changed.notify();
        self.pipe.shutdown();
    }
}

/// The connection that was made; then none.
struct First {
    connection: RefCell<Option<(Late, Agreed)>>,
}

impl Dial for First {
    type Wire = Late;

    async fn dial(&self) -> Option<(Late, Agreed)> {
        self.connection.take()
    }
}

/// Each request ends, whatever the server sends. Returns the number of reads that succeeded.
pub(crate) fn device(input: &[u8]) -> usize {
    let [wishes, piece, sent @ ..] = input else { return 0 };
    let structured = wishes & STRUCTURED != 0;
    let mut world = World::chosen(u64::from(*piece));
    let lane = world.lane();
    let done = Rc::new(Cell::new(None));
    let (result, acting) = (done.clone(), lane.clone());
    let (piece, sent) = (usize::from(*piece).max(1), sent.to_vec());
    let task = async move {
        result.set(Some(act(acting, structured, piece, sent).await));
    };
    lane.spawn(task).expect("room");
    let succeeded = loop {
        if let Some(succeeded) = done.get() {
            break succeeded;
        }
        assert!(world.step(), "it hangs");
        assert!(world.steps() < STEPS_MAX, "it never ends");
    };
    world.abandon();
    succeeded
}
