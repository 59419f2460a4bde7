//! A server that breaks the protocol in one way each: no read gets data that is not its own, and
//! every read ends.

#[path = "common/send.rs"]
mod send;

use block::{Block, Buf, Extent, Memory, Request, Result, SECTOR};
use lane::World;
use nbd::client::{Agreed, Remote};
use nbd::codec::*;
use nbd::{Pipe, Wire, pipe};
use send::send;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Number of reads that are in flight before the server sends anything.
const READS: usize = 3;
const READ_SECTORS: u32 = 2;
const READ_BYTES: usize = (READ_SECTORS as u64 * SECTOR) as usize;

/// The result of each read.
type Results = [Result<Vec<u8>>; READS];

/// Receives the requests of all reads, in the order of their offsets.
async fn requests(wire: &Pipe) -> Vec<RequestHeader> {
    let memory = Arc::new(Memory::heap(READS * REQUEST_BYTES));
    let (mut done, mut bytes) = (0, [0; READS * REQUEST_BYTES]);
    while done < bytes.len() {
        done += wire.receive(&memory, done, bytes.len() - done).await.expect("it is open");
    }
    memory.read(0, &mut bytes);
    let header = |bytes: &[u8]| bytes.first_chunk().and_then(RequestHeader::parse);
    let headers = bytes.chunks(REQUEST_BYTES).map(header).map(Option::unwrap);
    let mut headers: Vec<RequestHeader> = headers.collect();
    headers.sort_by_key(|header| header.offset);
    headers
}

/// Returns the data of a read.
fn data(header: &RequestHeader) -> Vec<u8> {
    vec![(header.offset / SECTOR) as u8 + 1; READ_BYTES]
}

/// Returns a correct reply.
fn simple(header: &RequestHeader) -> Vec<u8> {
    [&SimpleReply { error: 0, cookie: header.cookie }.encode()[..], &data(header)].concat()
}

/// Returns a chunk of data at an offset; `is_last`: the last one of the reply.
fn chunk(header: &RequestHeader, offset: u64, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut head = data_chunk(header.cookie, offset, bytes.len() as u32);
    head[5] = u8::from(is_last);
    [&head[..], bytes].concat()
}

/// Reads three extents of an export whose server answers with these bytes, and ends the connection.
fn play(
    is_structured: bool,
    script: impl FnOnce(&[RequestHeader]) -> Vec<u8> + 'static,
) -> Results {
    let mut world = World::chosen(1);
    let lane = world.lane();
    let (server, client) = pipe(1 << 20);
    let export = ExportInfo { bytes: 1 << 20, flags: NBD_FLAG_READ_ONLY };
    let agreed = Agreed { export, sizes: None, structured: is_structured, contexts: Vec::new() };
    let remote = Rc::new(Remote::from_wire(&lane, client, &agreed));
    let results = Rc::new(RefCell::new(vec![None; READS]));
    for index in 0..READS {
        let (remote, results) = (remote.clone(), results.clone());
        let task = async move {
            let at = Extent::new(8 * index as u64, READ_SECTORS);
            let into = Buf::new(READ_SECTORS, SECTOR as u32);
            let result = remote.run(Request::Read { at, into: into.clone() }).await;
            results.borrow_mut()[index] = Some(result.map(|()| into.to_vec()));
        };
        lane.spawn(task).expect("room");
    }
    let task = async move {
        let bytes = script(&requests(&server).await);
        assert!(send(&server, &bytes).await);
        server.finish().await;
    };
    lane.spawn(task).expect("room");
    assert!(world.run_until(|| results.borrow().iter().all(Option::is_some)), "a read never ends");
    world.abandon();
    let results = results.take().into_iter().map(|result| result.expect("it has ended"));
    results.collect::<Vec<_>>().try_into().expect("three reads")
}

/// Asserts that the first reads get their data, and that the others get errors with this text.
fn check(case: &str, results: &Results, succeeding: usize, text: &str) {
    for (index, result) in results.iter().enumerate() {
        match result {
            Ok(bytes) => {
                assert!(index < succeeding, "{case}: read {index} succeeds");
                assert_eq!(*bytes, vec![8 * index as u8 + 1; READ_BYTES], "{case}: read {index}");
            }
            Err(error) => {
                assert!(index >= succeeding, "{case}: read {index}: {error}");
                assert!(error.to_string().contains(text), "{case}: {error}");
            }
        }
    }
}

const NONSENSE: &str = "breaks the protocol";

#[test]
fn answers_in_any_order_are_right() {
    let reversed = |of: fn(&RequestHeader) -> Vec<u8>| {
        move |headers: &[RequestHeader]| headers.iter().rev().flat_map(of).collect()
    };
    check("simple", &play(false, reversed(simple)), READS, "");
    let whole = |header: &RequestHeader| chunk(header, header.offset, &data(header), true);
    check("chunks", &play(true, reversed(whole)), READS, "");
    // The halves of all reads, in turns.
    let interleaved = |headers: &[RequestHeader]| {
        let half = READ_BYTES / 2;
        let second = |header: &RequestHeader| {
            chunk(header, header.offset + half as u64, &data(header)[half..], false)
        };
        let first =
            |header: &RequestHeader| chunk(header, header.offset, &data(header)[..half], true);
        headers.iter().map(second).chain(headers.iter().map(first)).flatten().collect()
    };
    check("halves", &play(true, interleaved), READS, "");
}

#[test]
fn simple_replies_that_lie_end_the_connection() {
    type Script = fn(&[RequestHeader]) -> Vec<u8>;
    let cases: [(&str, Script, &str); 6] = [
        ("twice", |all| simple(&all[0]).repeat(2), NONSENSE),
        (
            "of no request",
            |all| {
                let cookie = !all[0].cookie;
                [simple(&all[0]), simple(&RequestHeader { cookie, ..all[1] })].concat()
            },
            NONSENSE,
        ),
        ("too much", |all| [simple(&all[0]), vec![7; READ_BYTES]].concat(), NONSENSE),
        (
            "structured, which was not negotiated",
            |all| [simple(&all[0]), chunk(&all[1], all[1].offset, &data(&all[1]), true)].concat(),
            NONSENSE,
        ),
        (
            "too little",
            |all| {
                let short = &simple(&all[1])[..SIMPLE_REPLY_BYTES + READ_BYTES / 2];
                [&simple(&all[0])[..], short].concat()
            },
            "connection has ended",
        ),
        ("never", |all| simple(&all[0]), "connection has ended"),
    ];
    for (case, script, text) in cases {
        check(case, &play(false, script), 1, text);
    }
}

#[test]
fn chunks_that_lie_end_the_connection() {
    type Script = fn(&RequestHeader) -> Vec<u8>;
    let cases: [(&str, Script); 8] = [
        ("more than the request", |one| chunk(one, one.offset, &[7; READ_BYTES + 1], true)),
        ("before the request", |one| chunk(one, one.offset - 1, &data(one), true)),
        ("behind the request", |one| chunk(one, one.offset + 512, &data(one), true)),
        ("an offset that overflows", |one| chunk(one, u64::MAX, &data(one), true)),
        ("a part only", |one| chunk(one, one.offset, &[7; 512], true)),
        ("a part twice", |one| chunk(one, one.offset, &[7; 512], false).repeat(2)),
        ("no data", |one| chunk(one, one.offset, &[], true)),
        ("a simple reply", |one| simple(one)),
    ];
    for (case, lie) in cases {
        let script = move |all: &[RequestHeader]| {
            [chunk(&all[0], all[0].offset, &data(&all[0]), true), lie(&all[1])].concat()
        };
        check(case, &play(true, script), 1, NONSENSE);
    }
}
