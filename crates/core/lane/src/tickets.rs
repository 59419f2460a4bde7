//! Tickets: work that something outside the lane will complete.
//!
//! A ticket keeps a reference to the memory that the work uses until the completion arrives, even
//! if the waiting task is dropped: dropping a future never frees memory that an operation in flight
//! uses.

use crate::mailbox::TaskRef;
use crate::waker;
use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Memory that must outlive the work.
pub type Keep = Option<Arc<dyn Any + Send + Sync>>;

enum State {
    Free,
    Waiting(Option<TaskRef>),
    Done(i64),
    /// No task waits any more; the completion will free the entry.
    Orphan,
}

struct Entry {
    generation: u32,
    state: State,
    keep: Keep,
}

/// The tickets of a lane.
#[derive(Default)]
pub(crate) struct Tickets {
    entries: Vec<Entry>,
    free: Vec<u32>,
    pub(crate) open: usize,
}

fn pack(index: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

impl Tickets {
    fn take(&mut self, keep: Keep) -> u64 {
        self.open += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, state: State::Free, keep: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.state = State::Waiting(None);
        entry.keep = keep;
        pack(index, entry.generation)
    }

    fn entry(&mut self, number: u64) -> &mut Entry {
        let entry = &mut self.entries[number as u32 as usize];
        assert_eq!(entry.generation, (number >> 32) as u32, "a ticket completed twice");
        entry
    }

    fn release(&mut self, number: u64) {
        let entry = self.entry(number);
        entry.state = State::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(number as u32);
    }

    /// Records the result. Returns the task to wake.
    pub(crate) fn complete(&mut self, number: u64, result: i64) -> Option<TaskRef> {
        self.open -= 1;
        let entry = self.entry(number);
        entry.keep = None;
        match std::mem::replace(&mut entry.state, State::Done(result)) {
            State::Waiting(task) => task,
            State::Orphan => {
                self.release(number);
                None
            }
            State::Free | State::Done(_) => panic!("ticket {number:#x} completed twice"),
        }
    }
}

/// Resolves to the result of its [`Lane::complete`](crate::Lane::complete).
pub struct Ticket {
    tickets: Rc<RefCell<Tickets>>,
    number: u64,
    taken: bool,
}

impl Ticket {
    pub(crate) fn new(tickets: &Rc<RefCell<Tickets>>, keep: Keep) -> Ticket {
        let number = tickets.borrow_mut().take(keep);
        Ticket { tickets: tickets.clone(), number, taken: false }
    }

    /// The number for the completion (such as an io_uring `user_data`).
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Future for Ticket {
    type Output = i64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<i64> {
        let number = self.number;
        let done = {
            let mut tickets = self.tickets.borrow_mut();
            match &mut tickets.entry(number).state {
                State::Done(result) => Some(*result),
                State::Waiting(task) => {
                    *task = waker::task_of(context.waker());
                    None
                }
                State::Free | State::Orphan => unreachable!("a ticket is polled by its owner"),
            }
        };
        let Some(result) = done else {
            return Poll::Pending;
        };
        self.tickets.borrow_mut().release(number);
        self.taken = true;
        Poll::Ready(result)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut tickets = self.tickets.borrow_mut();
        if matches!(tickets.entry(self.number).state, State::Done(_)) {
            tickets.release(self.number);
        } else {
            tickets.entry(self.number).state = State::Orphan;
        }
    }
}
