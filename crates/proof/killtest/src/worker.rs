//! One client: it verifies the data that a restart must have preserved, then writes, reads and
//! flushes, with several commands in progress, until the connection ends or it is stopped.

use crate::ledger::{BLOCK_SECTORS, Change, Ledger, Promise};
use crate::stamp::SECTOR_BYTES;
use crate::time::{here, now, rest};
use lane::Random;
use nbd::client::{Connection, Event, Wish};
use nbd::codec::*;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Blocks that are verified by one read.
const CHUNK_BLOCKS: u64 = 16;
/// The largest change, in blocks: 256 KiB.
const LARGE_BLOCKS: u64 = 64;
/// Blocks that receive most requests of a client.
const HOT_BLOCKS: u64 = 48;
/// Longest time for the last replies on a connection that is being stopped.
const GOODBYE: Duration = Duration::from_secs(40);
/// Longest time without any reply of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Behaviour of clients in one life of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Commands in progress.
    pub depth: usize,
    /// One of this many requests is a flush.
    pub flush_in: u64,
    /// Pause after each request, in microseconds.
    pub pause_us: u64,
    /// Whether they first verify the data that a restart must have preserved; otherwise they start
    /// to write immediately.
    pub verifies: bool,
}

/// State that all clients share.
pub struct SharedState {
    /// The judge.
    pub ledger: Mutex<Ledger>,
    /// Clients end when this is set.
    pub stop: AtomicBool,
    /// Errors are expected: the backing fails, or the daemon ends.
    pub errors_expected: AtomicBool,
    /// Requests that were answered.
    pub requests: AtomicU64,
    /// Bytes of reads that were judged.
    pub judged_bytes: AtomicU64,
    /// Errors that clients received.
    pub errors: AtomicU64,
    /// Clients that are still verifying the data that a restart must have preserved.
    pub verifying: AtomicU64,
    /// Whether the daemon has declared that a flush was in progress when an earlier one was killed:
    /// the first flush of every client must fail.
    pub in_doubt: AtomicBool,
    /// Flushes that failed for that reason.
    pub doubted: AtomicU64,
    /// Start of the run.
    pub start: Instant,
}

/// End of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It was stopped; all its requests were answered.
    Stopped,
    /// The connection broke, or could not be made.
    Lost(String),
    /// The judge has found a violation.
    Violation,
}

/// A request in progress; for a read, with the data received so far.
enum Doing {
    Read(Promise, Vec<u8>),
    Change(Change),
    Flush {
        sent_at: u64,
        /// Whether it is the first flush of its client.
        is_first: bool,
    },
}

/// A client.
pub struct Worker {
    shared: Arc<SharedState>,
    /// Index of this client, and the number of clients.
    index: u64,
    count: u64,
    habits: Habits,
    random: Random,
    cookie: u64,
    under_way: BTreeMap<u64, Doing>,
    has_flushed: bool,
    /// The first block that may still have to be verified; None: all are.
    verify_from: Option<u64>,
    /// Whether verifying has ended and was subtracted from the shared count.
    counted: bool,
    blocks: u64,
    trims: bool,
}

fn poisoned<T>(_: T) -> io::Error {
    io::Error::other("another client has panicked")
}

impl Worker {
    /// Returns the client with this index among `count`.
    pub fn new(
        shared: Arc<SharedState>,
        index: u64,
        count: u64,
        habits: Habits,
        random: Random,
    ) -> Worker {
        Worker {
            shared,
            index,
            count,
            habits,
            random,
            cookie: 0,
            under_way: BTreeMap::new(),
            has_flushed: false,
            verify_from: habits.verifies.then_some(0),
            counted: false,
            blocks: 0,
            trims: false,
        }
    }

    /// Runs until the end.
    pub fn run(mut self, socket: &Path) -> End {
        self.shared.verifying.fetch_add(1, Ordering::Relaxed);
        let opened = Connection::open(socket, Wish::default());
        let worked = opened.and_then(|connection| self.work(connection));
        self.verified();
        match worked {
            Ok(true) => End::Stopped,
            Ok(false) => End::Violation,
            Err(error) => End::Lost(error.to_string()),
        }
    }

    fn work(&mut self, mut connection: Connection) -> io::Result<bool> {
        let agreed = connection.agreed();
        self.blocks = agreed.export.bytes / (BLOCK_SECTORS * SECTOR_BYTES as u64);
        self.trims = agreed.can(NBD_FLAG_SEND_TRIM);
        let mut last = now();
        loop {
            let stops = self.shared.stop.load(Ordering::Relaxed);
            if stops && self.under_way.is_empty() {
                return Ok(true);
            }
            while !stops && self.under_way.len() < self.habits.depth {
                self.next(&mut connection)?;
                if self.habits.pause_us > 0 {
                    rest(Duration::from_micros(self.random.below(self.habits.pause_us * 2)));
                    break;
                }
            }
            connection.pump(Duration::from_millis(20))?;
            while let Some(event) = connection.event()? {
                match event {
                    Event::Data { cookie, at, bytes } => self.keep(cookie, at, bytes),
                    Event::Done { cookie, error } => {
                        last = now();
                        if !complete(&self.shared, &mut self.under_way, cookie, error)? {
                            return Ok(false);
                        }
                    }
                    // Only structured replies have other parts.
                    Event::Zeros { .. } | Event::Status { .. } => {}
                }
            }
            let patience = here(if stops { GOODBYE } else { PATIENCE });
            if last.elapsed() > patience && !self.under_way.is_empty() {
                let mut ledger = self.shared.ledger.lock().map_err(poisoned)?;
                let open = self.under_way.len();
                ledger.accuse(format!("{open} requests were not answered for {patience:?}"));
                return Ok(false);
            }
        }
    }

    /// Stores received data of a read, until it is complete.
    fn keep(&mut self, cookie: u64, at: u32, bytes: &[u8]) {
        if let Some(Doing::Read(_, data)) = self.under_way.get_mut(&cookie) {
            data[at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn cookie(&mut self) -> u64 {
        self.cookie += 1;
        self.cookie
    }

    fn next(&mut self, connection: &mut Connection) -> io::Result<()> {
        if let Some(block) = self.next_to_verify()? {
            let count = CHUNK_BLOCKS.min(self.blocks - block);
            return self.read(connection, block * BLOCK_SECTORS, count * BLOCK_SECTORS);
        }
        match self.random.below(100) {
            _ if self.random.one_in(self.habits.flush_in) => self.flush(connection),
            0..55 => self.write(connection),
            55..65 => self.zero(connection),
            _ => {
                let (first, count) = self.draw_extent(false);
                self.read(connection, first, count)
            }
        }
    }

    /// Notes that all blocks of this client have been requested, or never will be.
    fn verified(&mut self) {
        self.verify_from = None;
        if !std::mem::replace(&mut self.counted, true) {
            self.shared.verifying.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the next chunk of this client with a block that a restart may have damaged.
    fn next_to_verify(&mut self) -> io::Result<Option<u64>> {
        let shared = self.shared.clone();
        let ledger = shared.ledger.lock().map_err(poisoned)?;
        while let Some(from) = self.verify_from {
            let found = ledger.unverified(from);
            let chunk = found.map(|block| block / CHUNK_BLOCKS);
            self.verify_from = chunk.map(|chunk| (chunk + 1) * CHUNK_BLOCKS);
            if let Some(chunk) = chunk.filter(|chunk| chunk % self.count == self.index) {
                return Ok(Some(chunk * CHUNK_BLOCKS));
            }
        }
        drop(ledger);
        self.verified();
        Ok(None)
    }

    /// Returns the sectors of a request: for a change, only sectors of this client.
    fn draw_extent(&mut self, change: bool) -> (u64, u64) {
        let region = self.blocks / (self.count + 1);
        let hot = self.random.below(10) < 7;
        let within = |random: &mut Random| random.below(if hot { HOT_BLOCKS } else { region });
        if self.random.one_in(3) {
            // The shared region: small requests, and each block has one writer.
            let start = self.count * region;
            let mut block = within(&mut self.random);
            if change {
                block = block / self.count * self.count + self.index;
            }
            if start + block >= self.blocks {
                block -= self.count;
            }
            return self.small(start + block);
        }
        let owner = if change { self.index } else { self.random.below(self.count) };
        let block = owner * region + within(&mut self.random);
        if self.random.below(8) > 0 {
            return self.small(block);
        }
        let end = (owner + 1) * region;
        let count = (1 + self.random.below(LARGE_BLOCKS)).min(end - block);
        let (mut first, mut sectors) = (block * BLOCK_SECTORS, count * BLOCK_SECTORS);
        if self.random.one_in(4) && sectors > 2 {
            first += 1;
            sectors -= 2;
        }
        (first, sectors)
    }

    /// Returns a block, or sectors of one.
    fn small(&mut self, block: u64) -> (u64, u64) {
        let first = block * BLOCK_SECTORS;
        if self.random.below(3) > 0 {
            return (first, BLOCK_SECTORS);
        }
        let start = self.random.below(BLOCK_SECTORS);
        (first + start, 1 + self.random.below(BLOCK_SECTORS - start))
    }

    fn send(
        &mut self,
        connection: &mut Connection,
        command: u16,
        flags: u16,
        at: (u64, u64),
    ) -> u64 {
        let cookie = self.cookie();
        let sector = SECTOR_BYTES as u64;
        connection.ask(&RequestHeader {
            flags,
            command,
            cookie,
            offset: at.0 * sector,
            length: (at.1 * sector) as u32,
        });
        cookie
    }

    fn read(&mut self, connection: &mut Connection, first: u64, count: u64) -> io::Result<()> {
        let promise = self.shared.ledger.lock().map_err(poisoned)?.send_read(first, count as u32);
        let cookie = self.send(connection, NBD_CMD_READ, 0, (first, count));
        let bytes = count as usize * SECTOR_BYTES;
        self.under_way.insert(cookie, Doing::Read(promise, vec![0; bytes]));
        Ok(())
    }

    /// Returns sectors for a change in which no other change is in progress; None: there were none
    /// at hand.
    fn draw_free_extent(&mut self) -> io::Result<Option<(u64, u64)>> {
        for _ in 0..8 {
            let (first, count) = self.draw_extent(true);
            if !self.shared.ledger.lock().map_err(poisoned)?.is_busy(first, count) {
                return Ok(Some((first, count)));
            }
        }
        Ok(None)
    }

    fn write(&mut self, connection: &mut Connection) -> io::Result<()> {
        let Some((first, count)) = self.draw_free_extent()? else { return self.flush(connection) };
        let fua = self.random.one_in(16);
        let flags = if fua { NBD_CMD_FLAG_FUA } else { 0 };
        let cookie = self.cookie();
        let sector = SECTOR_BYTES as u64;
        let out = connection.ask(&RequestHeader {
            flags,
            command: NBD_CMD_WRITE,
            cookie,
            offset: first * sector,
            length: (count * sector) as u32,
        });
        let mut ledger = self.shared.ledger.lock().map_err(poisoned)?;
        let stamps = Some((out, self.index as u32));
        let change = ledger.send_change(first, count as u32, fua, stamps);
        drop(ledger);
        self.under_way.insert(cookie, Doing::Change(change));
        Ok(())
    }

    /// Sends zeros, by write-zeroes or a trim.
    fn zero(&mut self, connection: &mut Connection) -> io::Result<()> {
        let Some((first, count)) = self.draw_free_extent()? else { return self.flush(connection) };
        let trim = self.trims && self.random.one_in(3);
        let fua = self.random.one_in(16);
        let mut flags = if fua { NBD_CMD_FLAG_FUA } else { 0 };
        if !trim && self.random.one_in(2) {
            flags |= NBD_CMD_FLAG_NO_HOLE;
        }
        let mut ledger = self.shared.ledger.lock().map_err(poisoned)?;
        let change = ledger.send_change(first, count as u32, fua, None);
        drop(ledger);
        let command = if trim { NBD_CMD_TRIM } else { NBD_CMD_WRITE_ZEROES };
        let cookie = self.send(connection, command, flags, (first, count));
        self.under_way.insert(cookie, Doing::Change(change));
        Ok(())
    }

    fn flush(&mut self, connection: &mut Connection) -> io::Result<()> {
        let sent_at = self.shared.ledger.lock().map_err(poisoned)?.send_flush();
        let cookie = self.send(connection, NBD_CMD_FLUSH, 0, (0, 0));
        let is_first = !std::mem::replace(&mut self.has_flushed, true);
        self.under_way.insert(cookie, Doing::Flush { sent_at, is_first });
        Ok(())
    }
}

/// Handles a reply. False: it violates a promise.
fn complete(
    shared: &SharedState,
    under_way: &mut BTreeMap<u64, Doing>,
    cookie: u64,
    error: u32,
) -> io::Result<bool> {
    let Some(doing) = under_way.remove(&cookie) else { return Ok(true) };
    let well = error == 0;
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let mut ledger = shared.ledger.lock().map_err(poisoned)?;
    ledger.pass_time(shared.start.elapsed());
    let is_doubtful = matches!(doing, Doing::Flush { is_first: true, .. })
        && shared.in_doubt.load(Ordering::SeqCst);
    if is_doubtful {
        if well {
            ledger.accuse("the first flush of a client was answered well in doubt".to_owned());
            return Ok(false);
        }
        shared.doubted.fetch_add(1, Ordering::Relaxed);
    } else if !well {
        shared.errors.fetch_add(1, Ordering::Relaxed);
        if !shared.errors_expected.load(Ordering::SeqCst) {
            ledger.accuse(format!("a request got {} for no reason", error_name(error)));
            return Ok(false);
        }
    }
    match doing {
        Doing::Read(promise, data) if well => {
            shared.judged_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            return Ok(ledger.answer_read(&promise, &data));
        }
        Doing::Change(change) => ledger.answer_change(&change, well),
        Doing::Flush { sent_at, .. } if well => ledger.answer_flush(sent_at),
        Doing::Read(..) | Doing::Flush { .. } => {}
    }
    Ok(true)
}
