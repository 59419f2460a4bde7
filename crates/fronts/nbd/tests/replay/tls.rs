//! Any bytes against a TLS wire: properties that must hold for all of them. The fuzzer and the
//! replay of its corpus call the same function.
//!
//! The first byte of an input chooses the attack, the second the number of bytes that arrive at a
//! time; the third is the world's seed. Certificates and random numbers differ between runs, so a
//! finding may need several attempts.

use ::tls::{ClientTls, ServerTls, TlsWire};
use authority::{Authority, Side, VALID};
use block::{Memory, Part, Result, Wire};
use lane::{Lane, World};
use nbd::{Pipe, pipe};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// The bytes are all that a server receives.
pub(crate) const HANDSHAKE: u8 = 0;
/// They follow a handshake.
pub(crate) const AFTER: u8 = 1;
/// They change the bytes that the client sends: pairs of an offset (2 bytes) and a mask.
pub(crate) const CHANGES: u8 = 2;
/// More steps than any input takes.
const STEPS_MAX: u64 = 1_000_000;
/// The data that the client sends.
pub(crate) const DATA_BYTES: usize = 40_000;

/// Certificates of both sides.
struct Trust {
    server: ServerTls,
    client: ClientTls,
}

fn trust() -> &'static Trust {
    static TRUST: OnceLock<Trust> = OnceLock::new();
    TRUST.get_or_init(|| {
        let (authority, directory) = (Authority::new("A"), tempfile::tempdir().expect("room"));
        authority.trust(directory.path());
        authority.issue(directory.path(), Side::Server, &["localhost"], VALID, 1);
        let server = ServerTls::open(directory.path(), true, false).expect("valid");
        let client = ClientTls::open(directory.path(), "localhost").expect("valid");
        Trust { server, client }
    })
}

/// A wire whose sent bytes are changed on the way.
struct Changed {
    pipe: Pipe,
    sent: Cell<usize>,
    changes: Vec<(usize, u8)>,
}

impl Wire for Changed {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.pipe.receive(memory, offset, length).await
    }

    async fn send(&self, parts: &[Part]) -> Result {
        for part in parts {
            let mut bytes = vec![0; part.length];
            part.memory.read(part.offset, &mut bytes);
            let first = self.sent.replace(self.sent.get() + part.length);
            for (at, mask) in &self.changes {
                if let Some(byte) = at.checked_sub(first).and_then(|at| bytes.get_mut(at)) {
                    *byte ^= mask;
                }
            }
            send(&self.pipe, &bytes).await?;
        }
        Ok(())
    }

    async fn finish(&self) {
        self.pipe.finish().await;
    }

    fn shutdown(&self) {
        self.pipe.shutdown();
    }
}

async fn send(wire: &impl Wire, bytes: &[u8]) -> Result {
    let memory = Arc::new(Memory::heap(bytes.len().max(1)));
    memory.write(0, bytes);
    wire.send(&[Part { memory, offset: 0, length: bytes.len() }]).await
}

fn data() -> Vec<u8> {
    (0..DATA_BYTES).map(|at| (at / 3) as u8).collect()
}

/// Acts as the client of the attack.
async fn attack(lane: Lane, pipe: Pipe, kind: u8, piece: usize, bytes: Vec<u8>) {
    let changes = match kind {
        CHANGES => bytes
            .chunks_exact(3)
            .map(|change| (usize::from(u16::from_le_bytes([change[0], change[1]])), change[2]))
            .collect(),
        _ => Vec::new(),
    };
    let below = Rc::new(Changed { pipe, sent: Cell::new(0), changes });
    if kind == AFTER || kind == CHANGES {
        let wire = TlsWire::new(Shared(below.clone()), trust().client.session());
        if wire.handshake().await.is_err() || send(&wire, &data()).await.is_err() {
            return below.shutdown();
        }
    }
    if kind == HANDSHAKE || kind == AFTER {
        for piece in bytes.chunks(piece) {
            if send(&below.pipe, piece).await.is_err() {
                return;
            }
            lane.rest().await;
        }
    }
    below.finish().await;
}

/// A wire that the attack uses below TLS, and without it.
struct Shared(Rc<Changed>);

impl Wire for Shared {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        self.0.receive(memory, offset, length).await
    }

    async fn send(&self, parts: &[Part]) -> Result {
        self.0.send(parts).await
    }

    async fn finish(&self) {
        self.0.finish().await;
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

/// Receives until the end, as a server does.
async fn receive(wire: TlsWire<Pipe>, received: Rc<RefCell<Vec<u8>>>) {
    if wire.handshake().await.is_err() {
        return;
    }
    let memory = Arc::new(Memory::heap(7000));
    while let Ok(count @ 1..) = wire.receive(&memory, 0, 7000).await {
        let mut bytes = vec![0; count];
        memory.read(0, &mut bytes);
        received.borrow_mut().extend(bytes);
    }
}

/// The server ends, and has received nothing but the beginning of what the client has encrypted.
/// Returns the number of bytes that it has received.
pub(crate) fn tls(input: &[u8]) -> usize {
    let [kind, piece, seed, bytes @ ..] = input else { return 0 };
    let mut world = World::chosen(u64::from(*seed));
    let lane = world.lane();
    let (theirs, ours) = pipe(1 << 16);
    let (has_ended, received) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(Vec::new())));
    let (flag, into) = (has_ended.clone(), received.clone());
    let wire = TlsWire::new(theirs, trust().server.session());
    let serving = async move {
        receive(wire, into).await;
        flag.set(true);
    };
    lane.spawn(serving).expect("room");
    let piece = usize::from(*piece).max(1);
    lane.spawn(attack(lane.clone(), ours, kind % 3, piece, bytes.to_vec())).expect("room");
    while !has_ended.get() {
        assert!(world.step(), "it hangs");
        assert!(world.steps() < STEPS_MAX, "it never ends");
    }
    world.abandon();
    let received = received.take();
    assert!(data().starts_with(&received), "bytes that the client has not sent");
    received.len()
}
