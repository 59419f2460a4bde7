//! Work from other threads: a bounded queue that tasks of a lane take items from.
//!
//! A mailbox only wakes tasks. An inbox carries the items: requests of a thread without a lane
//! (such as a library that calls back), for the lane that serves them. All memory is allocated at
//! its creation: posting and taking allocate nothing.

use crate::planted::{Race, planted};
use crate::primitives::{Condvar, Mutex, MutexGuard};
use crate::sync::Event;
use std::collections::VecDeque;

/// The reason why an item was refused. Returns the item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused<T> {
    /// The inbox is full.
    Full(T),
    /// The inbox is closed, and accepts no more items.
    Closed(T),
}

#[derive(Debug)]
struct Waiting<T> {
    items: VecDeque<T>,
    is_closed: bool,
    /// Number of threads that wait for room. Waking one is a system call, and usually there are
    /// none.
    threads: usize,
}

/// A queue into a lane. Any thread posts; tasks of the lane take items in the order of the posts.
#[derive(Debug)]
pub struct Inbox<T> {
    most: usize,
    waiting: Mutex<Waiting<T>>,
    /// Wakes the lane.
    posted: Event,
    /// Wakes threads that wait for room.
    room: Condvar,
}

impl<T> Inbox<T> {
    /// Creates an inbox for up to `most` items, at least one.
    pub fn new(most: usize) -> Inbox<T> {
        let most = most.max(1);
        let waiting =
            Waiting { items: VecDeque::with_capacity(most), is_closed: false, threads: 0 };
        Inbox { most, waiting: Mutex::new(waiting), posted: Event::new(), room: Condvar::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<T>> {
        // Only queue operations run under this lock, and none of them panics.
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Posts an item without waiting, from any thread.
    ///
    /// # Errors
    /// The inbox is full or closed; the error contains the item.
    pub fn post(&self, item: T) -> Result<(), Refused<T>> {
        let mut waiting = self.waiting();
        if waiting.is_closed {
            return Err(Refused::Closed(item));
        }
        if waiting.items.len() == self.most {
            return Err(Refused::Full(item));
        }
        waiting.items.push_back(item);
        drop(waiting);
        self.posted.notify();
        Ok(())
    }

    /// Posts an item as soon as there is room. The calling thread blocks, so it must not be a
    /// lane's.
    ///
    /// # Errors
    /// The inbox is closed, or was closed during the wait; the error contains the item.
    pub fn post_waiting(&self, item: T) -> Result<(), T> {
        let is_full =
            |waiting: &mut Waiting<T>| waiting.items.len() == self.most && !waiting.is_closed;
        let mut waiting = self.waiting();
        waiting.threads += 1;
        let waited = self.room.wait_while(waiting, is_full);
        waiting = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        waiting.threads -= 1;
        if waiting.is_closed {
            return Err(item);
        }
        waiting.items.push_back(item);
        drop(waiting);
        self.posted.notify();
        Ok(())
    }

    /// Takes the next item, if there is one.
    pub fn take(&self) -> Option<T> {
        self.try_take().ok()
    }

    /// Takes the next item. Err: there is none; true if the inbox is also closed.
    fn try_take(&self) -> Result<T, bool> {
        let mut waiting = self.waiting();
        let item = waiting.items.pop_front().ok_or(waiting.is_closed)?;
        if waiting.threads > 0 {
            self.room.notify_one();
        }
        Ok(item)
    }

    /// Waits for the next item, on a lane. None: the inbox is closed, and all items were taken.
    pub async fn next(&self) -> Option<T> {
        loop {
            let seen = self.posted.seen();
            let taken = self.try_take();
            let seen = if planted(Race::LookBeforeSeen) { self.posted.seen() } else { seen };
            match taken {
                Ok(item) => return Some(item),
                Err(true) => return None,
                Err(false) => self.posted.after(seen).await,
            }
        }
    }

    /// Closes the inbox to new items; waiting items can still be taken. From any thread; a second
    /// call has no effect. A lane closes its inboxes before it ends, or threads would wait forever.
    pub fn close(&self) {
        self.waiting().is_closed = true;
        if !planted(Race::CloseQuietly) {
            self.room.notify_all();
        }
        self.posted.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bell, Lane, World};
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread::{self, Thread};

    /// Wakes the thread of a parked lane.
    struct Alarm {
        thread: Thread,
        rings: AtomicU64,
        is_parked: AtomicBool,
    }

    impl Alarm {
        /// Creates an alarm for the calling thread.
        fn new() -> Arc<Alarm> {
            let (rings, is_parked) = (AtomicU64::new(0), AtomicBool::new(false));
            Arc::new(Alarm { thread: thread::current(), rings, is_parked })
        }
    }

    impl Bell for Alarm {
        fn ring(&self) {
            self.rings.fetch_add(1, Ordering::SeqCst);
            self.thread.unpark();
        }
    }

    /// Drives a lane on this thread like the live loop, until it has no task left: it sleeps
    /// whenever there is nothing to do, and only its bell ends the sleep.
    fn drive(lane: &Lane, alarm: &Arc<Alarm>) {
        lane.set_bell(alarm.clone());
        while lane.tasks() > 0 {
            if lane.step() {
                continue;
            }
            if lane.park() {
                alarm.is_parked.store(true, Ordering::SeqCst);
                // May return early: then the lane checks once more than necessary.
                thread::park();
                alarm.is_parked.store(false, Ordering::SeqCst);
            }
            lane.unpark();
        }
    }

    /// Takes items until the inbox is closed.
    fn taker<T: 'static>(lane: &Lane, inbox: &Arc<Inbox<T>>) -> Rc<RefCell<Vec<T>>> {
        let (inbox, taken) = (inbox.clone(), Rc::new(RefCell::new(Vec::new())));
        let into = taken.clone();
        let taking = async move {
            while let Some(item) = inbox.next().await {
                into.borrow_mut().push(item);
            }
        };
        lane.spawn(taking).expect("a slot is free");
        taken
    }

    #[test]
    fn nothing_of_what_many_threads_post_is_lost_or_out_of_order() {
        const THREADS: u64 = 4;
        const EACH: u64 = 20_000;
        let inbox = Arc::new(Inbox::new(8));
        let lane = Lane::new();
        let taken = taker(&lane, &inbox);
        let posters: Vec<_> = (0..THREADS)
            .map(|number| {
                let inbox = inbox.clone();
                thread::spawn(move || {
                    for count in 0..EACH {
                        // Both ways to post; one of them is refused occasionally.
                        let item = (number, count);
                        let refused = match inbox.post(item) {
                            Err(Refused::Full(item)) => Some(item),
                            Ok(()) => None,
                            Err(Refused::Closed(_)) => panic!("it is open"),
                        };
                        if let Some(item) = refused {
                            inbox.post_waiting(item).expect("it is open");
                        }
                    }
                })
            })
            .collect();
        let closer = thread::spawn({
            let inbox = inbox.clone();
            move || {
                posters.into_iter().for_each(|poster| poster.join().expect("it posts"));
                inbox.close();
            }
        });
        drive(&lane, &Alarm::new());
        closer.join().expect("it closes");
        let mut next = [0; THREADS as usize];
        for (number, count) in taken.take() {
            assert_eq!(count, next[number as usize], "thread {number}");
            next[number as usize] += 1;
        }
        assert_eq!(next, [EACH; THREADS as usize]);
    }

    #[test]
    fn a_parked_lane_is_woken_by_each_post() {
        let (inbox, answers) = (Arc::new(Inbox::new(4)), Arc::new(Inbox::new(4)));
        let (ours, theirs) = (inbox.clone(), answers.clone());
        let alarm = Alarm::new();
        let waker = alarm.clone();
        let client = thread::spawn(move || {
            for number in 0..200 {
                while !waker.is_parked.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                ours.post(number).expect("the one before was taken");
                while theirs.take() != Some(number) {
                    thread::yield_now();
                }
            }
            ours.close();
        });
        let lane = Lane::new();
        let echo = async move {
            while let Some(number) = inbox.next().await {
                answers.post(number).expect("one at a time");
            }
        };
        lane.spawn(echo).expect("a slot is free");
        drive(&lane, &alarm);
        client.join().expect("every number comes back");
        assert!(alarm.rings.load(Ordering::SeqCst) > 0, "it never slept");
    }

    #[test]
    fn a_full_inbox_refuses_and_gives_back() {
        let inbox = Inbox::new(2);
        assert_eq!(inbox.post("one"), Ok(()));
        assert_eq!(inbox.post("two"), Ok(()));
        assert_eq!(inbox.post("three"), Err(Refused::Full("three")));
        assert_eq!(inbox.take(), Some("one"));
        assert_eq!(inbox.post("three"), Ok(()));
        inbox.close();
        assert_eq!(inbox.post("four"), Err(Refused::Closed("four")));
        assert_eq!(inbox.post_waiting("four"), Err("four"));
        assert_eq!((inbox.take(), inbox.take(), inbox.take()), (Some("two"), Some("three"), None));
    }

    #[test]
    fn who_waits_for_room_gets_it_or_hears_that_it_is_closed() {
        let inbox = Arc::new(Inbox::new(1));
        assert_eq!(inbox.post(0), Ok(()));
        let waits = |item| {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.post_waiting(item))
        };
        let first = waits(1);
        let taken = loop {
            // There is room for one item, and it is taken immediately or soon.
            match inbox.take() {
                Some(1) => break 1,
                _ => thread::yield_now(),
            }
        };
        assert_eq!((taken, first.join().expect("it ends")), (1, Ok(())));
        assert_eq!(inbox.post(2), Ok(()));
        let second = waits(3);
        thread::yield_now();
        inbox.close();
        assert_eq!(second.join().expect("it ends"), Err(3));
        assert_eq!((inbox.take(), inbox.take()), (Some(2), None));
    }

    #[test]
    fn in_a_simulated_world_nothing_is_lost_either() {
        for seed in 0..200 {
            let mut world = World::chosen(seed);
            let (home, other) = (world.lane(), world.lane());
            let inbox = Arc::new(Inbox::new(3));
            let taken = taker(&home, &inbox);
            let (posting, poster) = (inbox.clone(), other.clone());
            let posts = async move {
                let mut number = 0;
                while number < 20 {
                    number += i32::from(posting.post(number).is_ok());
                    poster.turn().await;
                    poster.rest().await;
                }
                posting.close();
            };
            other.spawn(posts).expect("a slot is free");
            while world.step() {}
            assert_eq!(home.tasks(), 0, "seed {seed}: the taker hangs");
            assert_eq!(taken.take(), (0..20).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
