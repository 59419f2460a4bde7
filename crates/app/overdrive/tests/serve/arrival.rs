//! Order of arrival on one connection (C10): of two concurrent changes of one block, the one that
//! was sent later wins.

use crate::common::{Server, image, place};
use nbd::client::{Connection, Event, Wish};
use nbd::codec::*;

/// Pairs of each kind.
const PAIRS: u64 = 800;
/// Concurrent pairs.
const TOGETHER: u64 = 16;
const BLOCK: usize = 4096;
const IMAGE_MIB: u64 = 32;

/// A change of one block: its command, its flags, and the byte that it leaves.
#[derive(Clone, Copy, Debug)]
struct Change {
    command: u16,
    flags: u16,
    byte: u8,
}

const BEFORE: Change = write(0x11);
const TRIM: Change = Change { command: NBD_CMD_TRIM, flags: 0, byte: 0 };
const ZERO: Change = Change { command: NBD_CMD_WRITE_ZEROES, flags: 0, byte: 0 };

const fn write(byte: u8) -> Change {
    Change { command: NBD_CMD_WRITE, flags: 0, byte }
}

const fn durable(change: Change) -> Change {
    Change { flags: NBD_CMD_FLAG_FUA, ..change }
}

const KINDS: [[Change; 2]; 7] = [
    [TRIM, write(0x33)],
    [ZERO, write(0x33)],
    [write(0x22), TRIM],
    [write(0x22), ZERO],
    [write(0x22), write(0x33)],
    [durable(write(0x22)), write(0x33)],
    [durable(TRIM), durable(write(0x33))],
];

fn queue(client: &mut Connection, cookie: u64, change: Change, block: u64) {
    let Change { command, flags, byte } = change;
    let (offset, length) = (block * BLOCK as u64, BLOCK as u32);
    let out = client.ask(&RequestHeader { flags, command, cookie, offset, length });
    if command == NBD_CMD_WRITE {
        out.extend_from_slice(&[byte; BLOCK]);
    }
}

/// Sends the queued requests, and waits for all answers.
fn finish(client: &mut Connection) {
    client.send().expect("the server takes requests");
    while client.under_way() > 0 {
        match client.event().expect("the protocol") {
            None => client.receive().expect("the server answers"),
            Some(Event::Done { error: 0, .. }) => {}
            Some(event) => panic!("{event:?}"),
        }
    }
}

/// Sends pairs of this kind. Returns the number of blocks that do not show the later change.
fn wrong_pairs(client: &mut Connection, kind: [Change; 2]) -> u64 {
    let mut wrong = 0;
    for first in (0..PAIRS).step_by(TOGETHER as usize) {
        let blocks = first..first + TOGETHER;
        // Blocks are not adjacent, because neighbours would share requests to the backing.
        let place = |block| block * 5;
        blocks.clone().for_each(|block| queue(client, block, BEFORE, place(block)));
        finish(client);
        for block in blocks.clone() {
            queue(client, 2 * block, kind[0], place(block));
            queue(client, 2 * block + 1, kind[1], place(block));
        }
        finish(client);
        for block in blocks {
            let mut found = [0; BLOCK];
            client.read(place(block) * BLOCK as u64, &mut found).expect("a read");
            wrong += u64::from(found != [kind[1].byte; BLOCK]);
        }
    }
    wrong
}

fn later_wins(options: &[&str]) {
    let place = place();
    let image = image(&place, IMAGE_MIB);
    for threads in ["1", "2"] {
        let server = Server::start(&image, &[options, &["--threads", threads]].concat());
        let mut client = Connection::open(&server.socket, Wish::default()).expect("it serves");
        // A client that flushes: otherwise writes are not absorbed (C11).
        client.flush().expect("a flush");
        let wrong: Vec<_> = KINDS.iter().map(|&kind| wrong_pairs(&mut client, kind)).collect();
        assert!(wrong.iter().all(|&pairs| pairs == 0), "{options:?}, {threads} threads: {wrong:?}");
        client.goodbye();
        server.end().well();
    }
}

#[test]
fn the_later_of_two_changes_wins_where_writes_are_absorbed() {
    later_wins(&["--memory", "32M", "--write", "back"]);
    later_wins(&["--memory", "32M", "--write", "back-now", "--durability", "ordered"]);
}

#[test]
fn the_later_of_two_changes_wins_in_a_buffer_that_is_full() {
    later_wins(&["--memory", "32M", "--write", "back-now", "--dirty-bytes", "64K"]);
}

#[test]
fn the_later_of_two_changes_wins_where_writes_go_through() {
    later_wins(&["--memory", "32M", "--write", "through"]);
    later_wins(&["--memory", "32M", "--write", "none"]);
}

#[test]
fn the_later_of_two_changes_wins_without_a_cache() {
    later_wins(&["--memory", "0"]);
}
