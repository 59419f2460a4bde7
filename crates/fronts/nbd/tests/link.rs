//! An export that is only read, over connections that end: the crate's client against the crate's
//! server and against servers that lie.

mod common;
#[path = "common/cut.rs"]
mod cut;

use block::{Buf, Extent, Kind, LinkDown, Memory, Ram, Request, Result, SECTOR, Stack, Stretch};
use common::{negotiate, send, serve_disk};
use cut::Cut;
use lane::{Lane, World};
use nbd::client::{Agreed, Dial, IN_FLIGHT_MAX, Link, LinkShared, RECONNECT_NS, Wish};
use nbd::codec::{
    ALLOCATION_CONTEXT, BlockSizes, ExportInfo, NBD_CMD_BLOCK_STATUS, NBD_ESHUTDOWN,
    NBD_FLAG_SEND_FLUSH, REQUEST_BYTES, RequestHeader, SimpleReply, error_chunk,
};
use nbd::{Pipe, Wire, pipe};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

const SECTORS: u64 = 512;

/// A server's conduct on one connection.
enum Server {
    /// It does not accept it.
    Absent,
    /// It serves, until this number of bytes has come from it.
    Until(usize),
    /// It agrees to an export of another size.
    Other,
    /// It sends these bytes after the first request, and ends the connection.
    Sends(Vec<u8>),
    /// It answers the first request with this error, and then ends the connection.
    Fails(u32),
    /// It answers each read with zeros, and notes its length.
    Zeros(Rc<RefCell<Vec<u32>>>),
    /// It receives and answers nothing. The number of requests that arrive is counted.
    Silent(Rc<Cell<usize>>),
}

async fn say(wire: &Pipe, bytes: &[u8]) {
    // The client may have ended the connection.
    let _ = send(wire, bytes).await;
}

/// Receives a request. None: the connection has ended.
async fn hear(wire: &Pipe) -> Option<RequestHeader> {
    let (memory, mut bytes) = (Arc::new(Memory::heap(REQUEST_BYTES)), [0; REQUEST_BYTES]);
    let mut done = 0;
    while done < REQUEST_BYTES {
        match wire.receive(&memory, done, REQUEST_BYTES - done).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => done += count,
        }
    }
    memory.read(0, &mut bytes);
    RequestHeader::parse(&bytes)
}

/// Connects to one server after the other, and to none after the last.
struct Dialler {
    lane: Lane,
    servers: RefCell<VecDeque<Server>>,
    disk: Stack,
    /// The result of handshakes with all servers but the crate's own.
    agreed: Agreed,
    dials: Rc<Cell<usize>>,
}

/// The result of handshakes with scripted servers.
fn plain() -> Agreed {
    Agreed {
        export: ExportInfo { bytes: SECTORS * SECTOR, flags: NBD_FLAG_SEND_FLUSH },
        sizes: Some(BlockSizes { min: 1, preferred: 4096, max: 1 << 20 }),
        structured: false,
        contexts: Vec::new(),
    }
}

impl Dialler {
    async fn act(wire: Pipe, server: Server) {
        match server {
            Server::Sends(bytes) => {
                let _ = hear(&wire).await;
                say(&wire, &bytes).await;
            }
            Server::Fails(error) => {
                let Some(request) = hear(&wire).await else { return };
                let cookie = request.cookie;
                match request.command {
                    NBD_CMD_BLOCK_STATUS => say(&wire, &error_chunk(cookie, error)).await,
                    _ => say(&wire, &SimpleReply { error, cookie }.encode()).await,
                }
            }
            Server::Zeros(lengths) => {
                while let Some(request) = hear(&wire).await {
                    lengths.borrow_mut().push(request.length);
                    say(&wire, &SimpleReply { error: 0, cookie: request.cookie }.encode()).await;
                    say(&wire, &vec![0; request.length as usize]).await;
                }
            }
            Server::Silent(requests) => {
                while hear(&wire).await.is_some() {
                    requests.set(requests.get() + 1);
                }
            }
            Server::Absent | Server::Until(_) | Server::Other => {}
        }
    }

    async fn serve_until(&self, bytes: usize) -> (Cut, Agreed) {
        let ours = serve_disk(&self.lane, self.disk.clone(), 4096);
        let contexts = vec![ALLOCATION_CONTEXT.to_owned()];
        let wish = Wish { sizes: true, structured: true, contexts, ..Wish::default() };
        let agreed = negotiate(&ours, wish).await;
        (Cut { pipe: ours, left: Cell::new(bytes) }, agreed)
    }
}

impl Dial for Dialler {
    type Wire = Cut;

    async fn dial(&self) -> Option<(Cut, Agreed)> {
        self.dials.set(self.dials.get() + 1);
        let next = self.servers.borrow_mut().pop_front();
        let server = match next? {
            Server::Absent => return None,
            Server::Until(bytes) => return Some(self.serve_until(bytes).await),
            server => server,
        };
        let (theirs, ours) = pipe(1 << 16);
        let mut agreed = self.agreed.clone();
        if matches!(server, Server::Other) {
            agreed.export.bytes *= 2;
        }
        self.lane.spawn(Dialler::act(theirs, server)).expect("room");
        Some((Cut { pipe: ours, left: Cell::new(usize::MAX) }, agreed))
    }
}

/// The state of an export, and the number of attempts to connect.
struct Scene {
    lane: Lane,
    link: Stack,
    shared: Arc<LinkShared>,
    dials: Rc<Cell<usize>>,
}

/// Returns the bytes of a sector of the disk.
fn sector(number: u64) -> Vec<u8> {
    (0..SECTOR).map(|index| (number * 7 + index / 64) as u8).collect()
}

/// Fills the first half of a disk.
async fn fill(disk: &Stack) {
    let count = (SECTORS / 2) as u32;
    let from = Buf::new(count, SECTOR as u32);
    from.write(&(0..SECTORS / 2).flat_map(sector).collect::<Vec<_>>());
    let write = Request::Write { at: Extent::new(0, count), from, fua: false };
    assert_eq!(disk.run(write).await, Ok(()));
}

/// Lets `act` use an export over these servers. `agreed`: None for the crate's own server.
fn play<F: Future<Output = ()> + 'static>(
    seed: u64,
    servers: Vec<Server>,
    agreed: Option<Agreed>,
    act: impl FnOnce(Scene) -> F + 'static,
) {
    let mut world = World::chosen(seed);
    let lane = world.lane();
    let done = Rc::new(Cell::new(false));
    let (flag, acting) = (done.clone(), lane.clone());
    let task = async move {
        let disk = Stack::new(&acting, Ram::new(SECTORS, SECTOR as u32));
        fill(&disk).await;
        let dials = Rc::new(Cell::new(0));
        let dialler = Dialler {
            lane: acting.clone(),
            servers: RefCell::default(),
            disk,
            agreed: agreed.clone().unwrap_or_else(plain),
            dials: dials.clone(),
        };
        let agreed = match agreed {
            Some(agreed) => agreed,
            None => dialler.serve_until(usize::MAX).await.1,
        };
        dialler.servers.borrow_mut().extend(servers);
        let shared = LinkShared::new(agreed);
        let link = Stack::new(&acting, Link::attach(&acting, dialler, None, &shared));
        act(Scene { lane: acting, link, shared, dials }).await;
        flag.set(true);
    };
    lane.spawn(task).expect("room");
    assert!(world.run_until(|| done.get()), "it hangs");
    world.abandon();
}

async fn read(link: &Stack, first: u64, count: u32) -> Result<Vec<u8>> {
    let into = Buf::new(count, SECTOR as u32);
    let at = Extent::new(first, count);
    link.run(Request::Read { at, into: into.clone() }).await.map(|()| into.to_vec())
}

/// Reads the filled half in pieces that are in flight together. All bytes must be right.
async fn read_all(scene: &Scene) {
    let ended = Rc::new(Cell::new(0));
    for first in (0..SECTORS / 2).step_by(16) {
        let (link, ended) = (scene.link.clone(), ended.clone());
        let task = async move {
            let bytes = read(&link, first, 16).await.expect("there is a server left");
            assert!(bytes == (first..first + 16).flat_map(sector).collect::<Vec<_>>(), "{first}");
            ended.set(ended.get() + 1);
        };
        scene.lane.spawn(task).expect("room");
    }
    while ended.get() < SECTORS / 32 {
        scene.lane.rest().await;
    }
}

#[test]
fn reads_survive_connections_that_end_anywhere() {
    for seed in 0..20 {
        let cuts = (0..5).map(|round| Server::Until((seed as usize * 131 + round * 977) % 30_000));
        let absent = [Server::Absent, Server::Until(0), Server::Absent];
        let servers = cuts.chain(absent).chain([Server::Until(usize::MAX)]).collect();
        play(seed, servers, None, |scene| async move {
            read_all(&scene).await;
            assert_eq!(scene.shared.damage(), None);
        });
    }
}

#[test]
fn a_status_is_passed_on_and_survives_as_reads_do() {
    let servers = vec![Server::Until(100), Server::Until(usize::MAX)];
    play(3, servers, None, |scene| async move {
        assert!(read(&scene.link, 0, 8).await.is_ok());
        let list = scene.link.status(Extent::new(0, SECTORS as u32)).await.expect("a server");
        assert!(list.iter().all(|stretch| stretch.sectors > 0), "{list:?}");
        assert_eq!(list[0], Stretch::data(list[0].sectors), "the first half is data");
    });
    // A server without block status reports data.
    play(4, vec![Server::Until(usize::MAX)], Some(plain()), |scene| async move {
        // The server differs from what was agreed.
        let refused = scene.link.status(Extent::new(0, 8)).await.expect_err("another export");
        assert!(refused.to_string().contains("another one"), "{refused}");
    });
}

#[test]
fn a_server_that_refuses_a_status_has_data_there() {
    // As the crate's own server agrees, which comes last.
    let agreed =
        Agreed { structured: true, contexts: vec![(1, ALLOCATION_CONTEXT.to_owned())], ..plain() };
    for errno in [5, 22, 95] {
        play(6, vec![Server::Fails(errno)], Some(agreed.clone()), |scene| async move {
            let list = scene.link.status(Extent::new(8, 64)).await;
            assert_eq!(list, Ok(vec![Stretch::data(64u32)]));
        });
    }
    // A server that ends has not refused.
    let servers =
        vec![Server::Fails(NBD_ESHUTDOWN), Server::Fails(NBD_ESHUTDOWN), Server::Fails(5)];
    play(7, servers, Some(agreed), |scene| async move {
        assert!(scene.link.status(Extent::new(0, 8)).await.is_ok());
        assert_eq!(scene.dials.get(), 3);
    });
}

#[test]
fn without_a_server_a_read_waits_for_its_time_and_fails() {
    play(5, vec![Server::Absent], Some(plain()), |scene| async move {
        let before = scene.lane.now();
        let error = read(&scene.link, 0, 8).await.expect_err("no server");
        assert_eq!((error.kind, error.doing), (Kind::Io, "reach the NBD server"));
        let took = scene.lane.now() - before;
        assert!((RECONNECT_NS..2 * RECONNECT_NS).contains(&took), "{took} ns");
        let dials = scene.dials.get();
        assert!((10..30).contains(&dials), "{dials} attempts in ten seconds");
        // The export is not damaged: a server may come back.
        assert_eq!(scene.shared.damage(), None);
    });
}

#[test]
fn with_wait_a_read_waits_for_the_link_and_the_time_is_counted() {
    let absent = std::iter::repeat_with(|| Server::Absent).take(40);
    let servers = absent.chain([Server::Until(usize::MAX)]).collect();
    play(13, servers, None, |scene| async move {
        let state = scene.link.link().expect("a link").clone();
        state.set_policy(LinkDown::Wait);
        let before = scene.lane.now();
        assert_eq!(read(&scene.link, 3, 1).await, Ok(sector(3)));
        let took = scene.lane.now() - before;
        assert!(took > RECONNECT_NS, "{took} ns");
        let report = state.report(scene.lane.now());
        assert_eq!((report.down_since_ns, report.downs), (0, 1));
        assert!(report.down_ns > RECONNECT_NS && report.down_ns <= took, "{report:?}");
    });
}

#[test]
fn a_line_that_was_used_is_connected_again_without_a_request() {
    let answer = [&SimpleReply { error: 0, cookie: 0 }.encode()[..], &[0; 512]].concat();
    let lengths = Rc::new(RefCell::default());
    // The first server answers one read, and ends the connection.
    let servers = vec![Server::Sends(answer), Server::Absent, Server::Zeros(lengths)];
    play(14, servers, Some(plain()), |scene| async move {
        let state = scene.link.link().expect("a link").clone();
        assert_eq!(read(&scene.link, 0, 1).await, Ok(vec![0; 512]));
        let mut was_lost = false;
        while scene.dials.get() < 3 || state.lost_ns().is_some() {
            let seen = state.changed().seen();
            was_lost |= state.lost_ns().is_some();
            state.changed().after(seen).await;
        }
        assert!(was_lost, "its end was noticed");
        assert_eq!(read(&scene.link, 0, 1).await, Ok(vec![0; 512]));
        assert_eq!(scene.dials.get(), 3);
    });
}

/// A server that accepts fewer connections than there are lanes.
#[test]
fn a_line_that_cannot_connect_takes_the_link_down_only_if_no_other_one_is_connected() {
    let answer = [&SimpleReply { error: 0, cookie: 0 }.encode()[..], &[0; 512]].concat();
    for (seed, (bytes, is_down)) in (15..).zip([(None, false), (Some(answer), true)]) {
        let server = match bytes {
            None => Server::Zeros(Rc::default()),
            // The connection ends after the first read.
            Some(bytes) => Server::Sends(bytes),
        };
        play(seed, vec![server], Some(plain()), move |scene| async move {
            let state = scene.link.link().expect("a link").clone();
            state.set_policy(LinkDown::ServeClean);
            assert_eq!(read(&scene.link, 0, 1).await, Ok(vec![0; 512]));
            let lane = scene.lane.clone();
            let refused = Dialler {
                lane: lane.clone(),
                servers: RefCell::default(),
                disk: Stack::new(&lane, Ram::new(SECTORS, SECTOR as u32)),
                agreed: plain(),
                dials: Rc::default(),
            };
            let dials = refused.dials.clone();
            let other = Stack::new(&lane, Link::attach(&lane, refused, None, &scene.shared));
            assert!(read(&other, 0, 1).await.is_err(), "its lane has no connection");
            assert!(dials.get() > 10, "it is tried again");
            assert_eq!(state.report(lane.now()).is_down(), is_down);
            assert_eq!(read(&scene.link, 0, 1).await.is_err(), is_down);
        });
    }
}

#[test]
fn another_export_at_the_same_address_is_never_read() {
    let servers = vec![Server::Other, Server::Until(usize::MAX)];
    play(6, servers, Some(plain()), |scene| async move {
        for _ in 0..2 {
            let error = read(&scene.link, 0, 8).await.expect_err("another export");
            assert!(error.to_string().contains("another one"), "{error}");
        }
        assert_eq!(scene.dials.get(), 1, "nothing is tried again");
        let damage = scene.shared.damage().expect("it is noted").to_string();
        assert!(damage.contains("524288 bytes, which had 262144"), "{damage}");
    });
}

#[test]
fn a_server_that_breaks_the_protocol_is_not_asked_again() {
    let servers = vec![Server::Sends(b"HTTP/1.1 400 Bad Request".to_vec()), Server::Other];
    play(7, servers, Some(plain()), |scene| async move {
        for _ in 0..2 {
            let error = read(&scene.link, 0, 8).await.expect_err("no protocol");
            assert!(error.to_string().contains("breaks the protocol"), "{error}");
        }
        assert_eq!(scene.dials.get(), 1);
        assert!(scene.shared.damage().is_some());
    });
}

#[test]
fn a_server_that_shuts_down_is_left_for_the_next_one() {
    let servers =
        vec![Server::Fails(NBD_ESHUTDOWN), Server::Fails(NBD_ESHUTDOWN), Server::Fails(5)];
    play(8, servers, Some(plain()), |scene| async move {
        let error = read(&scene.link, 0, 8).await.expect_err("the third server's error");
        assert_eq!((error.kind, error.errno), (Kind::Io, 5));
        assert_eq!(scene.dials.get(), 3);
    });
}

#[test]
fn changes_are_refused_and_reach_no_server() {
    play(9, vec![Server::Absent], Some(plain()), |scene| async move {
        assert!(scene.link.limits().read_only);
        let (at, from) = (Extent::new(0, 8), Buf::new(8, SECTOR as u32));
        for change in [
            Request::Write { at, from, fua: false },
            Request::Discard { at },
            Request::Zero { at, fua: false, may_unmap: true },
        ] {
            let refused = scene.link.run(change).await.expect_err("a change");
            assert_eq!(refused.kind, Kind::ReadOnly);
        }
        assert_eq!(scene.link.run(Request::Flush).await, Ok(()));
        assert_eq!(scene.dials.get(), 0);
    });
}

#[test]
fn a_read_is_cut_for_a_server_with_small_requests() {
    let lengths = Rc::new(RefCell::default());
    let servers = vec![Server::Zeros(lengths.clone())];
    let sizes = Some(BlockSizes { min: 512, preferred: 4096, max: 8 << 10 });
    play(11, servers, Some(Agreed { sizes, ..plain() }), move |scene| async move {
        assert_eq!(scene.link.limits().io_max_bytes, 32 << 20);
        assert_eq!(read(&scene.link, 8, 40).await, Ok(vec![0; 40 * 512]));
        assert_eq!(*lengths.borrow(), [8 << 10, 8 << 10, 4 << 10]);
    });
}

#[test]
fn only_so_many_requests_are_in_flight() {
    let requests = Rc::new(Cell::new(0));
    let servers = vec![Server::Silent(requests.clone())];
    play(10, servers, Some(plain()), move |scene| async move {
        let ended = Rc::new(Cell::new(0));
        for number in 0..3 * IN_FLIGHT_MAX as u64 {
            let (link, ended) = (scene.link.clone(), ended.clone());
            let task = async move {
                let error = read(&link, number, 1).await.expect_err("nothing answers");
                assert_eq!(error.kind, Kind::Io);
                ended.set(ended.get() + 1);
            };
            scene.lane.spawn(task).expect("room");
        }
        for _ in 0..100 * IN_FLIGHT_MAX {
            scene.lane.rest().await;
        }
        assert_eq!((requests.get(), ended.get()), (IN_FLIGHT_MAX, 0));
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Any bytes as replies: no panic, and each read ends.
    #[test]
    fn each_read_ends_whatever_the_server_sends(
        seed: u64,
        heads in prop::collection::vec((any::<bool>(), 0u64..6, 0u32..3, 0usize..9000), 0..6),
        rest: Vec<u8>,
    ) {
        let mut bytes = Vec::new();
        for (is_sound, cookie, error, length) in heads {
            let mut head = SimpleReply { error, cookie }.encode();
            head[0] ^= u8::from(!is_sound && length % 50 == 0);
            bytes.extend_from_slice(&head);
            bytes.resize(bytes.len() + length / 512 * 512, 0xaa);
        }
        bytes.extend_from_slice(&rest);
        let servers = vec![Server::Sends(bytes.clone()), Server::Sends(bytes), Server::Fails(5)];
        play(seed, servers, Some(plain()), |scene| async move {
            for first in 0..4 {
                match read(&scene.link, first * 8, 8).await {
                    Ok(_) => assert!(scene.dials.get() < 3, "that server has no data"),
                    Err(error) => assert_eq!(error.kind, Kind::Io),
                }
            }
        });
    }
}
