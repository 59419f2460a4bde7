//! The lane: ready queue, fixed task slots, timers, and tickets.

use crate::mailbox::{self, Bell, Mailbox, TaskRef};
use crate::pool::{Pool, Pooled};
use crate::price::{Cost, Prices};
use crate::random::Random;
use crate::sync;
use crate::tickets::{Keep, Ticket, Tickets};
use crate::timers::Timers;
use crate::waker;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Maximum number of tasks of a lane.
pub const TASKS_MAX: usize = 4096;

/// All task slots of the lane are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

#[derive(Default)]
struct Slot {
    future: Option<Pooled<()>>,
    /// Whether the task is already in the ready queue.
    queued: bool,
    /// Whether the slot is taken. The future may be out of its slot while it is polled.
    taken: bool,
}

struct Inner {
    number: usize,
    mailbox: &'static Mailbox,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u16>>,
    ready: RefCell<VecDeque<u16>>,
    timers: RefCell<Timers>,
    tickets: Rc<RefCell<Tickets>>,
    pool: Rc<Pool>,
    clock_ns: Cell<u64>,
    /// Set in a timed world.
    prices: Cell<Option<Prices>>,
    charged_ns: Cell<u64>,
    stopwatch: Cell<Option<fn() -> u64>>,
    /// Set in a chosen world.
    chooser: RefCell<Option<Random>>,
    simulated: Cell<bool>,
    polls: Cell<u64>,
    lockstep_ns: Cell<Option<u64>>,
    /// Total time for which the lane has slept, as far as that is measured.
    slept_ns: Cell<u64>,
    /// Number of those that need that time.
    sleep_watches: Cell<u32>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        mailbox::release(self.number);
    }
}

/// A measurement of the time for which a lane sleeps.
pub struct SleepWatch {
    lane: Lane,
    begun_ns: u64,
}

impl SleepWatch {
    /// Returns the time slept since the measurement began, in nanoseconds.
    pub fn slept_ns(&self) -> u64 {
        self.lane.0.slept_ns.get() - self.begun_ns
    }
}

impl Drop for SleepWatch {
    fn drop(&mut self) {
        let watches = &self.lane.0.sleep_watches;
        watches.set(watches.get() - 1);
    }
}

/// One thread's executor. Cheap to clone; stays on its thread.
///
/// Time is in nanoseconds since an arbitrary start; only the loop that drives the lane advances it.
#[derive(Clone)]
pub struct Lane(Rc<Inner>);

impl Default for Lane {
    fn default() -> Lane {
        Lane::new()
    }
}

impl Lane {
    /// Creates a lane without tasks.
    ///
    /// # Panics
    /// If the process already has 256 lanes.
    pub fn new() -> Lane {
        let number = mailbox::claim();
        Lane(Rc::new(Inner {
            number,
            mailbox: mailbox::mailbox(number),
            slots: RefCell::new(Vec::with_capacity(64)),
            free: RefCell::new(Vec::with_capacity(64)),
            ready: RefCell::new(VecDeque::with_capacity(64)),
            timers: RefCell::new(Timers::new()),
            tickets: Rc::default(),
            pool: Pool::new(),
            clock_ns: Cell::new(0),
            prices: Cell::new(None),
            charged_ns: Cell::new(0),
            stopwatch: Cell::new(None),
            chooser: RefCell::new(None),
            simulated: Cell::new(false),
            polls: Cell::new(0),
            lockstep_ns: Cell::new(None),
            slept_ns: Cell::new(0),
            sleep_watches: Cell::new(0),
        }))
    }

    /// Number of the lane: unique among the existing lanes of this process.
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Nanoseconds on the lane's clock. Live, this is the time at which the loop last read the
    /// clock.
    pub fn now(&self) -> u64 {
        self.0.clock_ns.get()
    }

    /// Nanoseconds on a clock that also advances within a step, to measure work with. Only
    /// differences are meaningful. If the loop that drives the lane has set no clock, as in a world
    /// of virtual time, differences within a step are 0.
    pub fn stopwatch_ns(&self) -> u64 {
        self.0.stopwatch.get().map_or_else(|| self.now(), |look| look())
    }

    /// Sets the clock that [`Lane::stopwatch_ns`] reads. For the loop that drives the lane.
    pub fn set_stopwatch(&self, look: fn() -> u64) {
        self.0.stopwatch.set(Some(look));
    }

    /// Advances the clock, and never moves it back. For the loop that drives the lane.
    pub fn set_now(&self, now_ns: u64) {
        self.0.clock_ns.set(self.0.clock_ns.get().max(now_ns));
    }

    /// Begins to measure the time in which the lane has nothing to do and its thread sleeps.
    pub fn watch_sleep(&self) -> SleepWatch {
        self.0.sleep_watches.set(self.0.sleep_watches.get() + 1);
        SleepWatch { lane: self.clone(), begun_ns: self.0.slept_ns.get() }
    }

    /// Whether sleeps must be measured. For the loop that drives the lane.
    pub fn is_sleep_watched(&self) -> bool {
        self.0.sleep_watches.get() > 0
    }

    /// Records a sleep. For the loop that drives the lane.
    pub fn note_slept(&self, ns: u64) {
        self.0.slept_ns.set(self.0.slept_ns.get() + ns);
    }

    /// Number of polls that the lane has made.
    pub fn polls(&self) -> u64 {
        self.0.polls.get()
    }

    /// Records a front's last observation: whether its client had sent one request, while no other
    /// was in flight, and has now been answered. The next request is then expected only after the
    /// answer, and only then the live loop may poll. Call it with true when the answer is sent, and
    /// with false when the wait for the client begins without an answer.
    #[inline]
    pub fn set_lockstep(&self, is_lockstep: bool) {
        self.0.lockstep_ns.set(is_lockstep.then(|| self.now()));
    }

    /// Time of the last [`Lane::set_lockstep`] with true. None: the last call was with false.
    #[inline]
    pub fn lockstep_since_ns(&self) -> Option<u64> {
        self.0.lockstep_ns.get()
    }

    /// Charges work to the lane's own clock. No effect live.
    #[inline]
    pub fn charge(&self, cost: Cost, times: u32) {
        if let Some(prices) = self.0.prices.get() {
            self.charge_ns(prices.of(cost, times));
        }
    }

    /// Charges work that has no price in the list, in nanoseconds. No effect live.
    #[inline]
    pub fn charge_ns(&self, ns: u64) {
        if self.0.prices.get().is_some() {
            self.0.charged_ns.set(self.0.charged_ns.get() + ns);
            self.set_now(self.now() + ns);
        }
    }

    /// Total of all charges, in nanoseconds: the busy time of the lane. 0 live.
    pub fn charged(&self) -> u64 {
        self.0.charged_ns.get()
    }

    /// Sets the prices at which work is charged (timed worlds only).
    pub fn set_prices(&self, prices: Option<Prices>) {
        self.0.prices.set(prices);
    }

    /// Makes all further choices of this lane follow from `random`: the mode of the laboratory.
    pub fn set_chooser(&self, random: Option<Random>) {
        self.0.simulated.set(random.is_some());
        *self.0.chooser.borrow_mut() = random;
    }

    /// Whether a seed makes the lane's choices.
    #[inline]
    pub fn is_simulated(&self) -> bool {
        self.0.simulated.get()
    }

    fn coin(&self) -> bool {
        self.0.chooser.borrow_mut().as_mut().is_some_and(|random| random.one_in(2))
    }

    /// Starts a task.
    ///
    /// # Errors
    /// [`Full`]: the lane has [`TASKS_MAX`] tasks; the future is dropped without a poll.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Result<(), Full> {
        let index = match self.0.free.borrow_mut().pop() {
            Some(index) => index,
            None => {
                let mut slots = self.0.slots.borrow_mut();
                if slots.len() == TASKS_MAX {
                    return Err(Full);
                }
                slots.push(Slot::default());
                slots.len() as u16 - 1
            }
        };
        let mut slots = self.0.slots.borrow_mut();
        let slot = &mut slots[index as usize];
        slot.future = Some(self.0.pool.pin(future));
        slot.taken = true;
        if !slot.queued {
            slot.queued = true;
            self.0.ready.borrow_mut().push_back(index);
        }
        Ok(())
    }

    /// Wakes all tasks, for changes that may affect any of them.
    pub fn wake_all(&self) {
        let mut ready = self.0.ready.borrow_mut();
        for (index, slot) in self.0.slots.borrow_mut().iter_mut().enumerate() {
            if slot.taken && !std::mem::replace(&mut slot.queued, true) {
                ready.push_back(index as u16);
            }
        }
    }

    /// Number of tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.0.slots.borrow().len() - self.0.free.borrow().len()
    }

    /// Returns a ticket for work that something outside will [`Lane::complete`]. `keep` is held
    /// until then.
    pub fn ticket(&self, keep: Keep) -> Ticket {
        Ticket::new(&self.0.tickets, keep)
    }

    /// Number of tickets that wait for their completion.
    pub fn tickets_open(&self) -> usize {
        self.0.tickets.borrow().open
    }

    /// Completes the ticket with this number.
    ///
    /// # Panics
    /// If it was completed before.
    pub fn complete(&self, number: u64, result: i64) {
        let task = self.0.tickets.borrow_mut().complete(number, result);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Moves a future of any type into the lane's memory pool.
    pub fn pin<F: Future + 'static>(&self, future: F) -> Pooled<F::Output> {
        self.0.pool.pin(future)
    }

    /// Sleeps until the lane's clock has reached `deadline_ns`; for ever, if that is `u64::MAX`.
    pub fn sleep_until(&self, deadline_ns: u64) -> impl Future<Output = ()> + use<> {
        self.sleep(deadline_ns, false)
    }

    /// Sleeps until the lane's clock has reached `deadline_ns` and the lane has something else to
    /// do: a sleeping lane is not woken for this. The Linux kernel has such timers under the same
    /// name (include/linux/timer.h, `TIMER_DEFERRABLE`). A simulated world does not advance the
    /// clock for it.
    pub fn sleep_deferrable_until(&self, deadline_ns: u64) -> impl Future<Output = ()> + use<> {
        self.sleep(deadline_ns, true)
    }

    fn sleep(&self, deadline_ns: u64, is_deferrable: bool) -> impl Future<Output = ()> + use<> {
        let lane = self.clone();
        let mut set = None;
        std::future::poll_fn(move |context| {
            if lane.now() >= deadline_ns {
                return Poll::Ready(());
            }
            let task = waker::task_of(context.waker()).expect("sleeps are awaited on a lane");
            // The first poll, or the future was moved into another task.
            // The end of all time is no event: a simulated world would let time pass until then.
            if set.replace(task) != Some(task) && deadline_ns != u64::MAX {
                lane.0.timers.borrow_mut().add(deadline_ns, is_deferrable, task);
            }
            Poll::Pending
        })
    }

    /// Separates two lock sections. Live it does nothing; in the laboratory the seed decides
    /// whether all other ready tasks may run first.
    #[inline]
    pub fn turn(&self) -> Turn<'_> {
        Turn { lane: self, decided: false }
    }

    /// Lets all other ready tasks run first: ends a slice of long work, in every world.
    pub fn rest(&self) -> impl Future<Output = ()> + use<> {
        let mut rested = false;
        std::future::poll_fn(move |context| {
            if rested {
                return Poll::Ready(());
            }
            rested = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// Polls one ready task. Returns false if none is ready.
    pub fn step(&self) -> bool {
        self.collect();
        let Some(index) = self.choose() else {
            return false;
        };
        self.poll(index);
        true
    }

    /// Whether a task is ready to be polled.
    pub fn is_ready(&self) -> bool {
        !self.0.ready.borrow().is_empty() || self.0.mailbox.has_mail()
    }

    /// The earliest deadline of a sleeping task, without deferrable ones.
    pub fn next_deadline(&self) -> Option<u64> {
        self.0.timers.borrow().next()
    }

    /// Wakes the tasks whose deadline has passed.
    pub fn fire_timers(&self) {
        self.0.timers.borrow_mut().fire(self.now());
    }

    /// Announces that the thread will now wait for its bell. Returns false if there is work: do not
    /// wait then.
    pub fn park(&self) -> bool {
        self.0.ready.borrow().is_empty() && self.0.mailbox.park()
    }

    /// Records that the thread has returned from its wait.
    pub fn unpark(&self) {
        self.0.mailbox.unpark();
    }

    /// Sets the bell that rings when another thread wakes this lane while it is parked.
    pub fn set_bell(&self, bell: Arc<dyn Bell>) {
        self.0.mailbox.set_bell(Some(bell));
    }

    /// Drops all tasks: the world dies. Tickets still keep the memory of operations in flight.
    pub fn abandon(&self) {
        // One at a time and outside the borrow: dropping a future may wake or complete something,
        // or read the slots.
        let count = self.0.slots.borrow().len();
        for index in 0..count {
            let future = self.0.slots.borrow_mut()[index].future.take();
            drop(future);
        }
        self.0.ready.borrow_mut().clear();
        self.0.mailbox.drain(|_| ());
        self.0.timers.borrow_mut().clear();
        let mut slots = self.0.slots.borrow_mut();
        slots.iter_mut().for_each(|slot| (slot.queued, slot.taken) = (false, false));
        let mut free = self.0.free.borrow_mut();
        free.clear();
        free.extend(0..count as u16);
    }

    fn collect(&self) {
        if !self.0.mailbox.has_mail() {
            return;
        }
        let mut slots = self.0.slots.borrow_mut();
        let mut ready = self.0.ready.borrow_mut();
        self.0.mailbox.drain(|task| {
            if let Some(slot) = slots.get_mut(task)
                && slot.taken
                && !slot.queued
            {
                slot.queued = true;
                ready.push_back(task as u16);
            }
        });
    }

    fn choose(&self) -> Option<u16> {
        let mut ready = self.0.ready.borrow_mut();
        if self.is_simulated()
            && ready.len() > 1
            && let Some(random) = self.0.chooser.borrow_mut().as_mut()
        {
            let chosen = random.below(ready.len() as u64) as usize;
            return ready.swap_remove_back(chosen);
        }
        ready.pop_front()
    }

    fn poll(&self, index: u16) {
        let future = {
            let mut slots = self.0.slots.borrow_mut();
            let slot = &mut slots[index as usize];
            slot.queued = false;
            slot.future.take()
        };
        let Some(mut future) = future else { return };
        self.0.polls.set(self.0.polls.get() + 1);
        let waker = waker::waker(TaskRef::new(self.0.number, index as usize));
        let mut context = Context::from_waker(&waker);
        let before = sync::count_sections(self.is_simulated().then_some(0));
        let result = Pin::new(&mut future).poll(&mut context);
        sync::count_sections(before);
        if result.is_pending() {
            self.0.slots.borrow_mut()[index as usize].future = Some(future);
            return;
        }
        drop(future);
        self.0.slots.borrow_mut()[index as usize].taken = false;
        self.0.free.borrow_mut().push(index);
    }
}

/// See [`Lane::turn`].
pub struct Turn<'a> {
    lane: &'a Lane,
    /// Whether the seed has decided.
    decided: bool,
}

impl Future for Turn<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.lane.is_simulated() {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.decided, true) && self.lane.coin() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        sync::count_sections(Some(0));
        Poll::Ready(())
    }
}
