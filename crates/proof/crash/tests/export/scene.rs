//! A server with a volatile cache, and the connections to it, as far as a fence sees them.

use lane::Random;
use nbd::fence::SETTLE_NS;

/// Number of blocks of the export.
pub(crate) const BLOCKS: usize = 6;

/// A request on its way to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    /// Writes a value to `count` blocks.
    Change {
        slot: usize,
        first: usize,
        count: usize,
        value: u64,
        fua: bool,
    },
    Flush,
}

/// An answer of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Change { slot: usize },
    Flush,
}

/// A connection. Requests are executed in any order.
#[derive(Default, Debug)]
pub(crate) struct Connection {
    pub(crate) requests: Vec<Request>,
    pub(crate) answers: Vec<Answer>,
    /// The life of the server that has accepted it.
    pub(crate) life: u64,
}

/// The server.
pub(crate) struct Server {
    pub(crate) volatile: [u64; BLOCKS],
    pub(crate) durable: [u64; BLOCKS],
    pub(crate) life: u64,
    /// Requests of ended connections that are executed later, at the given time at the latest.
    late: Vec<(u64, Request)>,
}

impl Server {
    pub(crate) fn new() -> Server {
        Server { volatile: [0; BLOCKS], durable: [0; BLOCKS], life: 1, late: Vec::new() }
    }

    fn execute(&mut self, request: Request) -> Answer {
        match request {
            Request::Flush => {
                self.durable = self.volatile;
                Answer::Flush
            }
            Request::Change { slot, first, count, value, fua } => {
                self.volatile[first..first + count].fill(value);
                if fua {
                    self.durable[first..first + count].fill(value);
                }
                Answer::Change { slot }
            }
        }
    }

    /// Executes one request of a connection. False: there is none.
    pub(crate) fn serve(&mut self, connection: &mut Connection, random: &mut Random) -> bool {
        if connection.life != self.life || connection.requests.is_empty() {
            return false;
        }
        let index = random.below(connection.requests.len() as u64) as usize;
        let answer = self.execute(connection.requests.swap_remove(index));
        connection.answers.push(answer);
        true
    }

    /// Writes a block of the volatile cache to the disk.
    pub(crate) fn destage(&mut self, random: &mut Random) {
        let block = random.below(BLOCKS as u64) as usize;
        self.durable[block] = self.volatile[block];
    }

    /// Ends a connection: some of its requests are executed within the settle time.
    pub(crate) fn end(&mut self, connection: Connection, now_ns: u64, random: &mut Random) {
        if connection.life == self.life {
            let late = connection.requests.into_iter().filter(|_| !random.one_in(3));
            let late: Vec<Request> = late.collect();
            let mut time = || now_ns + random.below(SETTLE_NS);
            self.late.extend(late.into_iter().map(|request| (time(), request)));
        }
    }

    /// Executes late requests: those that are due, and one of the others from time to time.
    pub(crate) fn pass(&mut self, now_ns: u64, random: &mut Random) {
        let is_early = random.one_in(6);
        while let Some(index) = self.late.iter().position(|late| late.0 <= now_ns) {
            let (_, request) = self.late.swap_remove(index);
            self.execute(request);
        }
        if is_early && !self.late.is_empty() {
            let index = random.below(self.late.len() as u64) as usize;
            let (_, request) = self.late.swap_remove(index);
            self.execute(request);
        }
    }

    /// Ends the server and starts it again: its volatile cache and its requests are lost.
    pub(crate) fn restart(&mut self) {
        self.volatile = self.durable;
        self.late.clear();
        self.life += 1;
    }
}
