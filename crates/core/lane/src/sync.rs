//! Locks and events of the engine.
//!
//! [`Lock`] is a plain mutex entered by a closure: nothing can be awaited inside. In a simulated
//! world it also enforces the rule that a task enters at most one section between two polls, so
//! that the world can produce every interleaving of sections that real threads could.

use crate::mailbox::TaskRef;
use crate::planted::{Race, planted};
use crate::primitives::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitives::{Mutex, MutexGuard};
use crate::waker;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

thread_local! {
    /// Number of sections that the polled task has entered since it could last have been
    /// interleaved. `None`: not in a simulated world, nothing is counted.
    static SECTIONS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Starts counting sections (at the start of a simulated poll), or stops (`None`). Returns the
/// previous value.
pub(crate) fn count_sections(from: Option<u32>) -> Option<u32> {
    SECTIONS.replace(from)
}

fn enter_section() {
    SECTIONS.with(|sections| {
        if let Some(entered) = sections.get() {
            assert!(entered == 0, "two lock sections without a turn between them");
            sections.set(Some(entered + 1));
        }
    });
}

/// Data that is accessed only inside a short section.
#[derive(Default, Debug)]
pub struct Lock<T>(Mutex<T>);

/// Access to the data inside a section.
pub type Guarded<'a, T> = MutexGuard<'a, T>;

impl<T> Lock<T> {
    /// Puts `data` under a lock.
    pub const fn new(data: T) -> Lock<T> {
        Lock(Mutex::new(data))
    }

    /// Runs one section: `decide` has exclusive access to the data, and returns the decision.
    ///
    /// # Panics
    /// In a simulated world, if the task has entered a section since its last await.
    #[inline]
    pub fn with<R>(&self, decide: impl FnOnce(&mut T) -> R) -> R {
        enter_section();
        // A section that panicked may have left the data inconsistent: no other task may use it.
        decide(&mut self.0.lock().expect("a section under this lock has panicked"))
    }

    /// Runs a section for statistics and checks: not counted as a step of the task.
    #[inline]
    pub fn peek<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.lock().expect("a section under this lock has panicked"))
    }

    /// Returns the data; the unique borrow proves that nothing else can access it.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("a section under this lock has panicked")
    }
}

/// Something that happens repeatedly, and that tasks of any lane wait for.
///
/// To avoid lost wake-ups: call `let seen = event.seen();`, then check the condition, then
/// `event.after(seen).await`. An event between the check and the await is not missed.
#[derive(Default, Debug)]
pub struct Event {
    count: AtomicU64,
    /// Whether a task is on the list: usually none is.
    awaited: AtomicBool,
    waiters: Mutex<Waiters>,
}

/// Number of waiting tasks that an event stores in itself; more of them need the heap.
const WAITERS: usize = 16;

/// Tasks that wait, in the order of their arrival. The first ones are stored without the heap: most
/// events have few, and a cache has hundreds of events.
#[derive(Debug)]
struct Waiters {
    /// Only the first `count` of them wait.
    first: [TaskRef; WAITERS],
    count: usize,
    more: Vec<TaskRef>,
}

impl Default for Waiters {
    fn default() -> Waiters {
        Waiters { first: [TaskRef::unpack(0); WAITERS], count: 0, more: Vec::new() }
    }
}

impl Waiters {
    fn contains(&self, task: TaskRef) -> bool {
        self.first[..self.count].contains(&task) || self.more.contains(&task)
    }

    fn push(&mut self, task: TaskRef) {
        if self.count == WAITERS {
            return self.more.push(task);
        }
        self.first[self.count] = task;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<TaskRef> {
        self.more.pop().or_else(|| {
            self.count = self.count.checked_sub(1)?;
            Some(self.first[self.count])
        })
    }

    fn remove(&mut self, task: TaskRef) {
        let Some(index) = self.first[..self.count].iter().position(|it| *it == task) else {
            return self.more.retain(|waiting| *waiting != task);
        };
        self.first.copy_within(index + 1..self.count, index);
        self.count -= 1;
        if !self.more.is_empty() {
            let next = self.more.remove(0);
            self.push(next);
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn wake_all(&mut self) {
        self.first[..self.count].iter().for_each(|task| task.wake());
        self.more.drain(..).for_each(TaskRef::wake);
        self.count = 0;
    }
}

impl Event {
    /// An event that has not happened yet.
    pub fn new() -> Event {
        Event::default()
    }

    /// Number of times that it has happened. Call this before checking the condition.
    pub fn seen(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Records that it has happened, and wakes all waiting tasks.
    pub fn notify(&self) {
        if planted(Race::LookBeforeCount) && !self.awaited.load(Ordering::SeqCst) {
            return self.note();
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        // Either a waiter's second check sees the new count, or this load sees that the waiter is
        // on the list.
        if !self.awaited.load(Ordering::SeqCst) {
            return;
        }
        let mut waiters = self.waiters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        waiters.wake_all();
        self.awaited.store(false, Ordering::SeqCst);
    }

    /// Records that it has happened, and wakes one waiting task. For events where any of the tasks
    /// can do the work and wakes the next one if there is more. These tasks must wait for nothing
    /// else at the same time and must not stop waiting early, or the woken task may be one that
    /// does not check.
    pub fn notify_one(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if !self.awaited.load(Ordering::SeqCst) {
            return;
        }
        let mut waiters = self.waiters.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(task) = waiters.pop() {
            task.wake();
        }
        self.awaited.store(!waiters.is_empty(), Ordering::SeqCst);
    }

    /// Records that it has happened, without waking a task: only a task that has called `seen`
    /// before and does not wait yet notices it.
    pub fn note(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until the event has happened since `seen` was read.
    pub fn after(&self, seen: u64) -> Wait<'_> {
        Wait { event: self, seen }
    }
}

/// A wait for an [`Event`].
#[derive(Debug)]
pub struct Wait<'a> {
    event: &'a Event,
    seen: u64,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.event.count.load(Ordering::SeqCst) != self.seen {
            return Poll::Ready(());
        }
        let task = waker::task_of(context.waker()).expect("events are awaited on a lane");
        {
            let waiters = self.event.waiters.lock();
            let mut waiters = waiters.unwrap_or_else(|poisoned| poisoned.into_inner());
            if !waiters.contains(task) {
                waiters.push(task);
            }
            self.event.awaited.store(true, Ordering::SeqCst);
        }
        // A notification before this task was on the list has increased the count.
        let looks = !planted(Race::WaitBlindly);
        if looks && self.event.count.load(Ordering::SeqCst) != self.seen {
            if planted(Race::StayListed) {
                return Poll::Ready(());
            }
            // Removed from the list: a single wake-up must reach a task that waits.
            let waiters = self.event.waiters.lock();
            let mut waiters = waiters.unwrap_or_else(|poisoned| poisoned.into_inner());
            waiters.remove(task);
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// Waits for the first of two waits that may be dropped at any time (events, sleeps).
pub async fn first(one: impl Future<Output = ()>, two: impl Future<Output = ()>) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    std::future::poll_fn(|context| {
        match one.as_mut().poll(context).is_ready() || two.as_mut().poll(context).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn waiters_are_a_list_whether_they_have_a_place_or_not() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let (mut waiters, mut list) = (Waiters::default(), Vec::new());
            for _ in 0..100 {
                let task = TaskRef::unpack(random.below(3 * WAITERS as u64) as usize);
                match random.below(5) {
                    0 => assert_eq!(waiters.pop(), list.pop()),
                    1 => {
                        waiters.remove(task);
                        list.retain(|waiting| *waiting != task);
                    }
                    _ if list.contains(&task) => assert!(waiters.contains(task)),
                    _ => {
                        assert!(!waiters.contains(task));
                        waiters.push(task);
                        list.push(task);
                    }
                }
                assert_eq!(waiters.is_empty(), list.is_empty());
            }
            while let Some(task) = list.pop() {
                assert_eq!(waiters.pop(), Some(task));
            }
            assert_eq!(waiters.pop(), None);
        }
    }
}
