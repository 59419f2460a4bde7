//! A wire in memory: two ends on one lane, for simulated worlds.

use block::Part;
use block::Wire;
use block::{Error, Kind, Memory, Result};
use lane::Event;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

struct Flow {
    bytes: RefCell<VecDeque<u8>>,
    capacity: usize,
    ended: Cell<bool>,
    changed: Event,
}

impl Flow {
    fn new(capacity: usize) -> Rc<Flow> {
        Rc::new(Flow {
            bytes: RefCell::default(),
            capacity: capacity.max(1),
            ended: Cell::new(false),
            changed: Event::new(),
        })
    }

    fn end(&self) {
        self.ended.set(true);
        self.changed.notify();
    }

    /// Takes as many of the bytes as there is room for. None: the other end does not read any more.
    fn push(&self, from: &[u8]) -> Option<usize> {
        if self.ended.get() {
            return None;
        }
        let mut bytes = self.bytes.borrow_mut();
        let count = from.len().min(self.capacity - bytes.len());
        bytes.extend(&from[..count]);
        Some(count)
    }

    fn pull(&self, memory: &Memory, offset: usize, length: usize) -> usize {
        let mut bytes = self.bytes.borrow_mut();
        let count = length.min(bytes.len());
        let taken: Vec<u8> = bytes.drain(..count).collect();
        memory.write(offset, &taken);
        count
    }
}

/// One end of a wire in memory. Dropping it ends the connection for the other end.
pub struct Pipe {
    incoming: Rc<Flow>,
    outgoing: Rc<Flow>,
}

/// Returns two connected ends. Each direction holds up to `capacity` bytes that were sent and not
/// yet received. With a small capacity all messages arrive in pieces.
pub fn pipe(capacity: usize) -> (Pipe, Pipe) {
    let (one, two) = (Flow::new(capacity), Flow::new(capacity));
    let first = Pipe { incoming: one.clone(), outgoing: two.clone() };
    let second = Pipe { incoming: two, outgoing: one };
    (first, second)
}

impl Wire for Pipe {
    async fn receive(&self, memory: &Arc<Memory>, offset: usize, length: usize) -> Result<usize> {
        loop {
            let seen = self.incoming.changed.seen();
            let count = self.incoming.pull(memory, offset, length);
            if count > 0 {
                self.incoming.changed.notify();
                return Ok(count);
            }
            if self.incoming.ended.get() {
                return Ok(0);
            }
            self.incoming.changed.after(seen).await;
        }
    }

    async fn send(&self, parts: &[Part]) -> Result {
        for part in parts {
            let mut bytes = vec![0; part.length];
            part.memory.read(part.offset, &mut bytes);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let seen = self.outgoing.changed.seen();
                let gone = Error::new(Kind::Io, "send on a closed connection");
                let count = self.outgoing.push(rest).ok_or(gone)?;
                rest = &rest[count..];
                if count > 0 {
                    self.outgoing.changed.notify();
                } else {
                    self.outgoing.changed.after(seen).await;
                }
            }
        }
        Ok(())
    }

    async fn finish(&self) {
        self.outgoing.end();
    }

    fn shutdown(&self) {
        // As on a socket: unread received data is lost, sent data still arrives.
        self.incoming.bytes.borrow_mut().clear();
        self.incoming.end();
        self.outgoing.end();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.shutdown();
    }
}
