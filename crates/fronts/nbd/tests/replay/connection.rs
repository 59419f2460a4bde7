//! Any bytes against a server: properties that must hold for all of them. The fuzzer and the replay
//! of its corpus call the same function.
//!
//! The first two bytes of an input are not the client's: the first configures the device and the
//! wire, the second is the world's seed.

use block::{Block, Extent, Limits, Memory, Part, Ram, Request, Result, Stack, Stretch};
use export::{Export, Load};
use lane::{Lane, Random, World};
use layers::{Top, TopShared};
use nbd::codec::*;
use nbd::{End, Exports, Options, Pipe, Wire, pipe, serve};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Sectors of the volume.
const SECTORS: u64 = 512;
const VOLUME_BYTES: usize = SECTORS as usize * 512;
/// Maximum bytes of payloads in flight.
const IN_FLIGHT_BYTES_MAX: usize = 512 << 10;
/// More steps than any connection takes.
const STEPS_MAX: u64 = 20_000_000;

/// The device answers all requests immediately.
pub(crate) const AT_ONCE: u8 = 1;
/// It answers half of the requests immediately.
pub(crate) const HALF_AT_ONCE: u8 = 2;
/// The wire has little capacity, so that all messages are transferred in pieces.
pub(crate) const NARROW: u8 = 4;
/// The bytes follow a handshake with chunks and block status.
pub(crate) const ENTERED: u8 = 8;
/// The device requires whole 4096-byte blocks.
pub(crate) const LARGE_BLOCKS: u8 = 16;
/// The device does not support FUA.
pub(crate) const WITHOUT_FUA: u8 = 32;
/// Requests may begin and end at any byte.
pub(crate) const BYTES: u8 = 64;

#[derive(Clone)]
struct Device {
    ram: Ram,
    limits: Limits,
    lane: Lane,
    random: Rc<RefCell<Random>>,
    knobs: u8,
    running_bytes: Rc<Cell<usize>>,
    running_bytes_max: Rc<Cell<usize>>,
}

impl Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        let half = self.knobs & HALF_AT_ONCE != 0 && self.random.borrow_mut().below(2) == 0;
        let answers = self.knobs & AT_ONCE != 0 || half;
        if answers { self.ram.try_now(request) } else { None }
    }

    async fn run(&self, request: Request) -> Result {
        let bytes = match &request {
            Request::Read { into: buf, .. } | Request::Write { from: buf, .. } => buf.bytes(),
            _ => 0,
        };
        self.running_bytes.set(self.running_bytes.get() + bytes);
        let most = self.running_bytes_max.get().max(self.running_bytes.get());
        self.running_bytes_max.set(most);
        let delay = self.random.borrow_mut().below(1000);
        self.lane.sleep_until(self.lane.now() + delay).await;
        let result = self.ram.try_now(&request).expect("memory always answers");
        self.running_bytes.set(self.running_bytes.get() - bytes);
        result
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.lane.turn().await;
        let mut random = self.random.borrow_mut();
        let stretches = (0..random.below(u64::from(at.count) + 2)).map(|_| Stretch {
            sectors: random.below(20),
            hole: random.one_in(2),
            zero: random.one_in(2),
        });
        Ok(stretches.collect())
    }
}

fn pattern() -> Vec<u8> {
    (0..VOLUME_BYTES).map(|index| (index / 512 % 251) as u8 | 1).collect()
}

/// The client's bytes before the input, if the input starts after the handshake.
fn prelude() -> Vec<u8> {
    let mut bytes = (NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES).to_be_bytes().to_vec();
    put_option(&mut bytes, NBD_OPT_STRUCTURED_REPLY, &[]);
    let contexts = MetaRequest::encode("disk", &[ALLOCATION_CONTEXT]);
    put_option(&mut bytes, NBD_OPT_SET_META_CONTEXT, &contexts);
    put_option(&mut bytes, NBD_OPT_GO, &InfoRequest::encode("disk", &[NBD_INFO_BLOCK_SIZE]));
    bytes
}

/// Feeds the bytes to a connection. It must end, make only changes that the bytes request, and
/// release everything.
pub(crate) fn connection(input: &[u8]) {
    let [knobs, seed, said @ ..] = input else { return };
    let mut bytes = if knobs & ENTERED != 0 { prelude() } else { Vec::new() };
    bytes.extend_from_slice(said);
    let memory = Arc::new(Memory::heap(VOLUME_BYTES));
    memory.write(0, &pattern());
    let (end, replies) = play(*knobs, *seed, bytes, &memory);
    assert!(!matches!(end, End::Busy | End::TimedOut | End::Stopped), "{end:?}");
    let mut contents = vec![0; VOLUME_BYTES];
    memory.read(0, &mut contents);
    let unit = if knobs & BYTES != 0 { 1 } else { 512 };
    check_contents(&contents, said, unit);
    if knobs & ENTERED != 0 {
        check_replies(&replies, unit);
    }
}

fn play(knobs: u8, seed: u8, bytes: Vec<u8>, memory: &Arc<Memory>) -> (End, Vec<u8>) {
    let mut world = World::chosen(u64::from(seed));
    let lane = world.lane();
    let ram = Ram::from_memory(memory.clone(), SECTORS, 512);
    let mut limits = ram.limits().clone();
    limits.block_logical_bytes = if knobs & LARGE_BLOCKS != 0 { 4096 } else { 512 };
    if knobs & WITHOUT_FUA != 0 {
        (limits.flush_needed, limits.fua) = (true, block::Fua::None);
    }
    let device = Device {
        ram,
        limits,
        lane: lane.clone(),
        random: Rc::new(RefCell::new(Random::new(u64::from(seed)))),
        knobs,
        running_bytes: Rc::default(),
        running_bytes_max: Rc::default(),
    };
    let peak = device.running_bytes_max.clone();
    let (server, client) = pipe(if knobs & NARROW != 0 { 333 } else { 1 << 20 });
    let options = Options {
        handshake_ms: None,
        drain_ms: None,
        linger_ms: None,
        rest_ms: None,
        in_flight_max: 16,
        in_flight_bytes_max: IN_FLIGHT_BYTES_MAX,
        buffer_bytes: 128 << 10,
        ..Options::default()
    };
    let budget = options.budget.clone();
    let ended = Rc::new(Cell::new(None));
    let replies = Rc::new(RefCell::new(Vec::new()));
    let (end, serving_lane) = (ended.clone(), lane.clone());
    lane.spawn(async move {
        end.set(Some(serve(serving_lane, server, exports(device), options).await));
    })
    .expect("a slot is free");
    let replies_too = replies.clone();
    lane.spawn(async move { talk(&client, &bytes, &replies_too).await }).expect("a slot is free");
    while world.step() {
        assert!(world.steps() < STEPS_MAX, "the connection never ends");
    }
    let end = ended.get().expect("the connection hangs");
    assert_eq!(lane.tasks(), 0, "a task was left behind");
    assert_eq!(budget.used(), Load::default(), "something was not given back");
    // A single request is always admitted; none is larger than the volume.
    assert!(peak.get() <= IN_FLIGHT_BYTES_MAX.max(VOLUME_BYTES), "{} bytes", peak.get());
    (end, replies.take())
}

fn exports(device: Device) -> Rc<Exports> {
    let lane = device.lane.clone();
    let bytes = device.knobs & BYTES != 0;
    let mut stack = Stack::new(&lane, device);
    if bytes {
        let shared = TopShared::new(stack.limits());
        stack = Stack::new(&lane, Top::attach(&shared, None, stack));
    }
    let mut locked = Export::new("locked", stack.clone());
    locked.read_only = true;
    locked.description = "the same, but no client may change it".to_owned();
    Rc::new(Exports::new([Export::new("disk", stack), locked]))
}

/// Sends all bytes and ends the sending direction, then receives until the server disconnects.
async fn talk(client: &Pipe, bytes: &[u8], replies: &RefCell<Vec<u8>>) {
    let saying = async {
        let memory = Arc::new(Memory::heap(bytes.len()));
        memory.write(0, bytes);
        let part = Part { memory, offset: 0, length: bytes.len() };
        // A server that has disconnected is detected later, by the missing reply.
        let _ = client.send(&[part]).await;
        client.finish().await;
    };
    let replies_too = async {
        let memory = Arc::new(Memory::heap(8192));
        while let Ok(count @ 1..) = client.receive(&memory, 0, 8192).await {
            let mut piece = vec![0; count];
            memory.read(0, &mut piece);
            replies.borrow_mut().extend(piece);
        }
    };
    let (mut saying, mut replies_too) = (pin!(saying), pin!(replies_too));
    let (mut said, mut ended) = (false, false);
    std::future::poll_fn(|context| {
        said = said || saying.as_mut().poll(context).is_ready();
        ended = ended || replies_too.as_mut().poll(context).is_ready();
        if said && ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Returns all changes that the bytes could contain, at any offset: more than a server may find.
fn changes(said: &[u8]) -> Vec<(RequestHeader, &[u8])> {
    let starts = 0..said.len().saturating_sub(REQUEST_BYTES - 1);
    let headers = starts.filter_map(|start| {
        let header = RequestHeader::parse(said[start..].first_chunk()?)?;
        Some((header, &said[start + REQUEST_BYTES..]))
    });
    let is_change =
        |command| [NBD_CMD_WRITE, NBD_CMD_WRITE_ZEROES, NBD_CMD_TRIM].contains(&command);
    headers.filter(|(header, _)| is_change(header.command)).collect()
}

/// Checks that each sector (or byte, if that is the unit) has its old contents, or those of a
/// change.
fn check_contents(contents: &[u8], said: &[u8], unit: usize) {
    let changes = changes(said);
    for ((index, now), before) in contents.chunks(unit).enumerate().zip(pattern().chunks(unit)) {
        if now == before {
            continue;
        }
        let at = (index * unit) as u64;
        let brought = changes.iter().any(|(header, payload)| {
            let Some(inside) = at.checked_sub(header.offset) else { return false };
            if inside + unit as u64 > u64::from(header.length) {
                return false;
            }
            let from = inside as usize;
            match header.command {
                NBD_CMD_WRITE => payload.get(from..from + unit) == Some(now),
                _ => now.iter().all(|&byte| byte == 0),
            }
        });
        assert!(brought, "byte {at} holds what was not brought there");
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at_checked(count).expect("a reply that was cut off");
    *rest = left;
    taken
}

/// With chunks, a server's messages can be parsed without the requests.
fn check_replies(replies: &[u8], unit: usize) {
    let mut rest = replies;
    take(&mut rest, GREETING_BYTES);
    loop {
        let bytes = take(&mut rest, OPTION_REPLY_HEADER_BYTES).first_chunk();
        let header = bytes.and_then(OptionReplyHeader::parse).expect("its magic number");
        take(&mut rest, header.length as usize);
        if (header.option, header.kind) == (NBD_OPT_GO, NBD_REP_ACK) {
            break;
        }
    }
    while !rest.is_empty() {
        let simple = rest.first_chunk().and_then(SimpleReply::parse);
        if simple.is_some() {
            take(&mut rest, SIMPLE_REPLY_BYTES);
            continue;
        }
        let bytes = take(&mut rest, CHUNK_HEADER_BYTES).first_chunk();
        let chunk = bytes.and_then(Chunk::parse).expect("its magic number");
        assert_eq!(chunk.flags, NBD_REPLY_FLAG_DONE);
        let body = take(&mut rest, chunk.length as usize);
        match chunk.kind {
            NBD_REPLY_TYPE_OFFSET_DATA => {
                assert!(body.len() > 8 && (body.len() - 8).is_multiple_of(unit));
            }
            NBD_REPLY_TYPE_BLOCK_STATUS => {
                let (context, list) = parse_status(body).expect("descriptors");
                assert!(context == 1 && list.len() <= 4096);
                let fits = |length: u32| length > 0 && (length as usize).is_multiple_of(unit);
                assert!(list.iter().all(|next| fits(next.length) && next.flags < 4));
            }
            NBD_REPLY_TYPE_ERROR => assert!(body.len() == 6 && body[..4] != [0; 4]),
            kind => panic!("a chunk of type {kind}"),
        }
    }
}
