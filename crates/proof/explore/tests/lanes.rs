//! Mailboxes, events and inboxes under all orders of threads, or under very many. Each planted race
//! must be detected.

use explore::{Clock, drive, explore, explore_all, is_found};
use lane::atomic::{AtomicBool, AtomicU32, Ordering};
use lane::planted::Race;
use lane::{Event, Inbox, Lane, Refused};
use shuttle::sync::mpsc;
use shuttle::thread;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Maximum number of orders of a small scene.
const MOST: usize = 3_000_000;

/// Makes a task of `lane` wait until `flag` is set, and sends its waker.
fn wait_for(lane: &Lane, flag: &Arc<AtomicBool>, wakers: mpsc::Sender<Waker>) {
    let flag = flag.clone();
    let waits = async move {
        poll_fn(|context| match flag.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => {
                // The receiver may be gone, if this poll is spurious.
                let _ = wakers.send(context.waker().clone());
                Poll::Pending
            }
        })
        .await;
    };
    lane.spawn(waits).expect("a slot is free");
}

/// A lane parks, and another thread wakes its task.
fn one_wake() {
    let lane = Lane::new();
    // Only the mailbox is explored: this flag is not visible to the explorer.
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let waker = Rc::new(RefCell::new(None));
    let (set, given) = (flag.clone(), waker.clone());
    let waits = poll_fn(move |context| match flag.load(Ordering::SeqCst) {
        true => Poll::Ready(()),
        false => {
            *given.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        }
    });
    lane.spawn(waits).expect("a slot is free");
    assert!(lane.step(), "it waits");
    let waker: Waker = waker.take().expect("it waits");
    let other = thread::spawn(move || {
        set.store(true, Ordering::SeqCst);
        waker.wake();
    });
    drive(&lane, &Clock::new(1), 0);
    other.join().expect("it wakes");
}

#[test]
fn a_lane_that_parks_is_woken_in_every_order() {
    explore_all(MOST, one_wake);
}

/// Two threads wake tasks of one lane, which parks repeatedly.
fn many_wakes() {
    let lane = Lane::new();
    let others: Vec<_> = (0..2)
        .map(|_| {
            let flags = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (wakers, woken) = mpsc::channel();
            // The second task waits only after the first has ended.
            let (first, second) = (flags[0].clone(), flags[1].clone());
            let waits = async move {
                for flag in [first, second] {
                    poll_fn(|context| match flag.load(Ordering::SeqCst) {
                        true => Poll::Ready(()),
                        false => {
                            let _ = wakers.send(context.waker().clone());
                            Poll::Pending
                        }
                    })
                    .await;
                }
            };
            lane.spawn(waits).expect("a slot is free");
            thread::spawn(move || {
                let waker: Waker = woken.recv().expect("the task waits");
                for flag in flags {
                    flag.store(true, Ordering::SeqCst);
                    waker.wake_by_ref();
                }
            })
        })
        .collect();
    drive(&lane, &Clock::new(1), 0);
    others.into_iter().for_each(|other| other.join().expect("it wakes"));
}

#[test]
fn no_wake_of_several_threads_is_lost() {
    explore(200, many_wakes);
}

/// A lane ends, another lane gets its mailbox, and a wake-up for a task of the first comes late.
fn late_wake() {
    let (late, woken_late) = mpsc::channel();
    let (wakers, woken) = mpsc::channel();
    let flag = Arc::new(AtomicBool::new(false));
    let first = Lane::new();
    let polled = Rc::new(Cell::new(false));
    let once = polled.clone();
    // The task ends without a wake-up, but its waker still exists.
    let ends = poll_fn(move |context| match once.replace(true) {
        true => Poll::Ready(()),
        false => {
            let _ = late.send(context.waker().clone());
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    first.spawn(ends).expect("a slot is free");
    let stranger = thread::spawn(move || {
        let waker: Waker = woken_late.recv().expect("it is sent");
        waker.wake();
    });
    drive(&first, &Clock::new(1), 0);
    let number = first.number();
    drop(first);
    let set = flag.clone();
    let other = thread::spawn(move || {
        let waker: Waker = woken.recv().expect("the task waits");
        set.store(true, Ordering::SeqCst);
        waker.wake();
    });
    let second = Lane::new();
    assert_eq!(second.number(), number, "the mailbox is free again");
    wait_for(&second, &flag, wakers);
    drive(&second, &Clock::new(1), 0);
    stranger.join().expect("it wakes");
    other.join().expect("it wakes");
}

#[test]
fn a_wake_that_comes_late_takes_none_from_the_next_lane() {
    explore(200, late_wake);
}

fn claims() {
    let other = thread::spawn(|| {
        let lane = Lane::new();
        let number = lane.number();
        thread::yield_now();
        (number, lane.tasks())
    });
    let lane = Lane::new();
    lane.spawn(async {}).expect("a slot is free");
    drive(&lane, &Clock::new(1), 0);
    assert!(lane.number() < 2 && lane.tasks() == 0);
    drop(lane);
    let (number, tasks) = other.join().expect("it ends");
    assert!(number < 2 && tasks == 0);
    assert_eq!(Lane::new().number(), 0, "both have let go of theirs");
}

#[test]
fn two_lanes_never_have_one_mailbox() {
    explore(100, claims);
}

/// A task waits for an event that another thread triggers.
fn one_event() {
    let event = Arc::new(Event::new());
    let flag = Arc::new(AtomicBool::new(false));
    let (happens, set) = (event.clone(), flag.clone());
    let other = thread::spawn(move || {
        set.store(true, Ordering::SeqCst);
        happens.notify();
    });
    let lane = Lane::new();
    let waits = async move {
        loop {
            let seen = event.seen();
            if flag.load(Ordering::SeqCst) {
                return;
            }
            event.after(seen).await;
        }
    };
    lane.spawn(waits).expect("a slot is free");
    drive(&lane, &Clock::new(1), 0);
    other.join().expect("it notifies");
}

#[test]
fn what_waits_for_an_event_is_woken() {
    explore(500, one_event);
}

/// Work that any lane may do, like the tasks of writeback workers: one waiting lane is woken per
/// piece. A piece ends only when both pieces have been started.
#[derive(Default)]
struct Work {
    left: AtomicU32,
    event: Event,
    begun: AtomicU32,
    all_begun: Event,
}

impl Work {
    /// Takes one piece, if there is one.
    fn take(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    async fn carry(&self) {
        loop {
            let seen = self.event.seen();
            if self.take() {
                break;
            }
            self.event.after(seen).await;
        }
        if self.left.load(Ordering::SeqCst) > 0 {
            self.event.notify_one();
        }
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.all_begun.notify();
        loop {
            let seen = self.all_begun.seen();
            if self.begun.load(Ordering::SeqCst) == PIECES {
                return;
            }
            self.all_begun.after(seen).await;
        }
    }
}

const PIECES: u32 = 2;

fn one_of_several() {
    let work = Arc::new(Work::default());
    let threads: Vec<_> = (0..PIECES)
        .map(|_| {
            let work = work.clone();
            thread::spawn(move || {
                let lane = Lane::new();
                lane.spawn(async move { work.carry().await }).expect("a slot is free");
                drive(&lane, &Clock::new(1), 0);
            })
        })
        .collect();
    // Seen only by tasks that are about to wait. Tasks that wait already are woken for both pieces.
    work.left.fetch_add(1, Ordering::SeqCst);
    work.event.note();
    work.left.fetch_add(1, Ordering::SeqCst);
    work.event.notify_one();
    threads.into_iter().for_each(|thread| thread.join().expect("a worker ends"));
}

#[test]
fn a_wake_for_one_reaches_one_that_looks() {
    explore(400, one_of_several);
}

/// Threads post to a lane, which receives; one of them closes the inbox at the end.
fn inbox() {
    const EACH: u32 = 2;
    let inbox = Arc::new(Inbox::new(1));
    let posters: Vec<_> = (0..2)
        .map(|number| {
            let inbox = inbox.clone();
            thread::spawn(move || {
                for count in 0..EACH {
                    let refused = match inbox.post((number, count)) {
                        Ok(()) => None,
                        Err(Refused::Full(item)) => Some(item),
                        Err(Refused::Closed(_)) => panic!("it is open"),
                    };
                    if let Some(item) = refused {
                        inbox.post_waiting(item).expect("it is open");
                    }
                }
            })
        })
        .collect();
    let closes = inbox.clone();
    let closer = thread::spawn(move || {
        posters.into_iter().for_each(|poster| poster.join().expect("it posts"));
        closes.close();
    });
    let lane = Lane::new();
    let taken = Rc::new(RefCell::new(Vec::new()));
    let into = taken.clone();
    let takes = async move {
        while let Some(item) = inbox.next().await {
            into.borrow_mut().push(item);
        }
    };
    lane.spawn(takes).expect("a slot is free");
    drive(&lane, &Clock::new(1), 0);
    closer.join().expect("it closes");
    let taken = taken.take();
    for number in 0..2 {
        let of_one: Vec<_> = taken.iter().filter(|item| item.0 == number).collect();
        assert_eq!(
            of_one,
            (0..EACH).map(|count| (number, count)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
    assert_eq!(taken.len() as u32, 2 * EACH);
}

#[test]
fn an_inbox_loses_nothing_and_keeps_the_order_of_each_thread() {
    explore(200, inbox);
}

/// Threads wait for room in an inbox whose lane receives nothing more, and the inbox is closed.
fn closing() {
    let inbox = Arc::new(Inbox::new(1));
    assert_eq!(inbox.post(0), Ok(()));
    let waiting: Vec<_> = (1..3)
        .map(|item| {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.post_waiting(item))
        })
        .collect();
    inbox.close();
    for (number, thread) in waiting.into_iter().enumerate() {
        assert_eq!(thread.join().expect("it hears of it"), Err(number + 1));
    }
    assert_eq!((inbox.take(), inbox.take()), (Some(0), None));
}

#[test]
fn closing_an_inbox_wakes_what_waits_for_room() {
    explore_all(MOST, closing);
}

#[test]
fn each_planted_race_is_noticed() {
    assert!(is_found(Race::ParkBlindly, || explore_all(MOST, one_wake)));
    assert!(is_found(Race::LookBeforeCount, || explore(500, one_event)));
    assert!(is_found(Race::WaitBlindly, || explore(500, one_event)));
    assert!(is_found(Race::StayListed, || explore(4000, one_of_several)));
    assert!(is_found(Race::LookBeforeSeen, || explore(200, inbox)));
    assert!(is_found(Race::CloseQuietly, || explore_all(MOST, closing)));
}
