//! An NBD export as a node of a stack, on a ring and over real sockets.

mod server;

use allocations::of_this_thread;
use block::{Buf, Extent, Request, Stack};
use holder::Records;
use lane::Lane;
use ring::Ring;
use server::{Conduct, pattern, start};
use stack::{Exit, Failure, OpenFlags, Plan, Volume, target};
use std::path::Path;
use std::sync::atomic::Ordering;

const BYTES: u64 = 4 << 20;
const SECTORS: u32 = 8;

fn open(socket: &Path) -> Result<Volume, Failure> {
    open_with(socket, OpenFlags::default())
}

fn open_with(socket: &Path, flags: OpenFlags) -> Result<Volume, Failure> {
    let plan = Plan { read_only: true, ..Plan::default() };
    let spec = target(&format!("nbd+unix:///disk?socket={}", socket.display()), &plan)?;
    Volume::open(spec, flags, &mut |_| ())
}

/// Reads in turn, from all of the export. The futures are the lane's own, as those of a client.
async fn read(stack: Stack, into: Buf, from: u64, count: u64) {
    let places = BYTES / 4096;
    for number in from..from + count {
        let first = number * 7 % places * u64::from(SECTORS);
        let at = Extent::new(first, SECTORS);
        assert_eq!(stack.run(Request::Read { at, into: into.clone() }).await, Ok(()), "{number}");
        let mut is_right = true;
        let mut bytes = [0; 4096];
        into.read(&mut bytes);
        for (at, byte) in bytes.iter().enumerate() {
            is_right &= *byte == pattern(first * 512 + at as u64);
        }
        assert!(is_right, "{number}");
    }
}

#[test]
fn a_read_allocates_nothing_once_connections_are_made() {
    let place = tempfile::tempdir().expect("room");
    let socket = place.path().join("socket");
    let connections = start(&socket, Conduct { bytes: BYTES, ..Conduct::default() });
    let volume = open(&socket).expect("a sound server");
    let (lane, into) = (Lane::new(), Buf::new(SECTORS, 512));
    let ring = Ring::new(&lane).expect("io_uring");
    let stack = volume.attach(&ring).expect("room").stack;
    let work = async move {
        read(stack.clone(), into.clone(), 0, 1000).await;
        let before = of_this_thread();
        read(stack, into, 1000, 1000).await;
        of_this_thread() - before
    };
    assert_eq!(ring.block_on(work).expect("io_uring"), 0);
    // That of the opening is used; the second one showed that there can be more.
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    assert_eq!((volume.lanes_max(), volume.notes().len()), (None, 0));
    lane.abandon();
}

#[test]
fn a_server_of_one_connection_is_for_one_lane() {
    let place = tempfile::tempdir().expect("room");
    let socket = place.path().join("socket");
    start(&socket, Conduct { bytes: BYTES, is_single: true, ..Conduct::default() });
    let volume = open(&socket).expect("it is of use");
    assert_eq!(volume.lanes_max(), Some(1));
    assert!(volume.notes()[0].contains("so one thread serves"), "{:?}", volume.notes());
}

/// A process that only reads must not let the one after it forget the changes of the one before.
#[test]
fn a_reader_after_a_process_that_was_killed_ends_once_all_is_settled() {
    let place = tempfile::tempdir().expect("room");
    let socket = place.path().join("socket");
    start(&socket, Conduct { bytes: BYTES, ..Conduct::default() });
    let open = |socket: &Path| {
        let records = Some(Records::of(place.path()));
        open_with(socket, OpenFlags { records, ..OpenFlags::default() }).expect("a sound server")
    };
    let killed = open(&socket);
    assert_eq!(killed.settled_at(), None);
    killed.record().expect("room");
    drop(killed);
    // By another path to the same socket.
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&socket, &link).expect("room");
    let reader = open(&link);
    assert!(reader.settled_at().is_some());
    reader.end_record(false);
    assert_eq!(open(&socket).settled_at(), None);
}

#[test]
fn connections_that_end_within_replies_cost_no_read() {
    let place = tempfile::tempdir().expect("room");
    let socket = place.path().join("socket");
    let connections = start(&socket, Conduct { bytes: BYTES, reads: 30, ..Conduct::default() });
    let volume = open(&socket).expect("a sound server");
    let lane = Lane::new();
    let ring = Ring::new(&lane).expect("io_uring");
    let stack = volume.attach(&ring).expect("room").stack;
    ring.block_on(read(stack, Buf::new(SECTORS, 512), 0, 200)).expect("io_uring");
    assert_eq!(connections.load(Ordering::SeqCst), 1 + 200usize.div_ceil(29));
    assert_eq!(volume.damage(), None);
    lane.abandon();
}

#[test]
fn servers_that_say_nothing_or_nonsense_are_refused() {
    let place = tempfile::tempdir().expect("room");
    for (name, conduct, words) in [
        ("silent", Conduct { is_silent: true, ..Conduct::default() }, "timed out"),
        (
            "http",
            Conduct { nonsense: b"HTTP/1.1 400 Bad\r\n\r\n".to_vec(), ..Conduct::default() },
            "breaks the protocol",
        ),
        ("cut", Conduct { nonsense: b"\0\x03".to_vec(), ..Conduct::default() }, "the export"),
    ] {
        let socket = place.path().join(name);
        start(&socket, conduct);
        let failure = open(&socket).err().expect(name);
        assert_eq!(failure.exit, Exit::Io, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
    }
}

#[test]
fn a_write_to_it_is_refused_by_its_limits() {
    let place = tempfile::tempdir().expect("room");
    let socket = place.path().join("socket");
    start(&socket, Conduct { bytes: BYTES, ..Conduct::default() });
    let volume = open(&socket).expect("a sound server");
    assert!(volume.is_read_only() && volume.outlives_exec());
    let identity = volume.lasting_identity().expect("its list of hot blocks has a name");
    assert!(identity.starts_with("nbd-"), "{identity}");
}
