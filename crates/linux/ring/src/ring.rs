//! The live loop of a lane.
//!
//! One round: read the clock, fire timers, poll a bounded batch of tasks, submit all operations
//! that they have queued in one call, and handle completions. If no task is ready, the same call
//! waits for a completion, the next deadline, or the bell.
#![allow(unsafe_code)]

use crate::bell::EventBell;
use crate::flight::{Flights, Hold};
use crate::idle::{DirectReceiver, Idle, Next};
use crate::polling::{Polled, Polling};
use crate::punctual::{Punctual, Until};
use crate::restrictions;
use crate::sleep::SleepMeter;
use block::Memory;
use host::now_ns;
use io_uring::{IoUring, opcode, squeue, types};
use lane::{Lane, Ticket};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Entries of the submission queue; when it is full, it is submitted early.
const SUBMISSIONS: u32 = 256;
/// Entries of the completion queue. The kernel stores further completions (FEAT_NODROP).
const COMPLETIONS: u32 = 4096;
/// Polls before the loop checks completions and the clock again.
const POLLS: usize = 64;
/// Maximum number of completions that are taken from the queue at a time.
const REAPED_MAX: usize = 64;
/// Maximum number of files registered with a ring.
const REGISTERED_MAX: u32 = 256;
/// Time for which a dropped ring waits for operations that it could not cancel.
const FAREWELL: Duration = Duration::from_secs(5);

/// User data of the read of the bell. Flights have 32-bit numbers, which never equal this value or
/// the next.
const BELL: u64 = u64::MAX;
/// User data of operations of the ring itself, whose results are ignored.
const QUIET: u64 = u64::MAX - 1;

pub(crate) struct Inner {
    lane: Lane,
    uring: RefCell<IoUring>,
    pub(crate) flights: RefCell<Flights>,
    bell: Arc<EventBell>,
    /// Memory into which the bell's counter is read.
    rung: Arc<Memory>,
    bell_armed: Cell<bool>,
    closing: Cell<bool>,
    /// Number of entries in the table of registered files; None: there is no table yet.
    registered: Cell<Option<u32>>,
    pub(crate) idle: Idle,
    punctual: Punctual,
    /// Whether operations that a task has queued are submitted before the next task runs.
    prompt: Cell<bool>,
}

/// The io_uring of one lane. Cheap to clone; stays on its thread.
///
/// Tasks of the lane that hold a ring keep it, and through it the lane, alive: end them, or call
/// [`Lane::abandon`], before the last handle is dropped. A dropped ring cancels the operations in
/// flight and waits up to five seconds for them; memory that the kernel still uses after that is
/// leaked, not freed.
#[derive(Clone)]
pub struct Ring(pub(crate) Rc<Inner>);

/// Creates the best ring that the kernel offers, for the operations of lanes alone.
pub(crate) fn build() -> io::Result<IoUring> {
    let best = IoUring::builder()
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_defer_taskrun()
        .setup_r_disabled()
        .build(SUBMISSIONS);
    let uring = match best {
        // Kernels before 6.1 do not support all of these.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().setup_cqsize(COMPLETIONS).setup_r_disabled().build(SUBMISSIONS)?
        }
        other => other?,
    };
    restrictions::enable_for_lane(&uring)?;
    Ok(uring)
}

impl Ring {
    /// Creates a ring for `lane`, and sets its bell. Must be created and used on the lane's thread.
    ///
    /// # Errors
    /// The system's errors if io_uring is missing, forbidden (`kernel.io_uring_disabled`, a seccomp
    /// filter) or older than Linux 5.11.
    pub fn new(lane: &Lane) -> io::Result<Ring> {
        let uring = build()?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring of this kernel cannot wait with a deadline; Linux 5.11 or later can",
            ));
        }
        let bell = Arc::new(EventBell::new()?);
        lane.set_bell(bell.clone());
        lane.set_now(now_ns());
        lane.set_stopwatch(now_ns);
        let ring = Ring(Rc::new(Inner {
            lane: lane.clone(),
            uring: RefCell::new(uring),
            flights: RefCell::default(),
            bell,
            rung: Arc::new(Memory::heap(8)),
            bell_armed: Cell::new(false),
            closing: Cell::new(false),
            registered: Cell::new(None),
            idle: Idle::default(),
            punctual: Punctual::default(),
            prompt: Cell::new(false),
        }));
        ring.0.arm_bell()?;
        Ok(ring)
    }

    /// Returns the lane that it drives.
    pub fn lane(&self) -> &Lane {
        &self.0.lane
    }

    /// Returns the number of operations that are queued or in flight.
    pub fn in_flight(&self) -> usize {
        self.0.flights.borrow().count()
    }

    /// Sets how the loop polls before it sleeps in the kernel. Polling makes answers faster, but
    /// occupies a processor.
    ///
    /// Events from outside restart the time of a fixed poll: a completion, or a wake-up from
    /// another thread. A deadline does not, so a loop that only serves its own timers sleeps again
    /// immediately.
    pub fn set_polling(&self, polling: Polling) {
        self.0.idle.set_polling(polling);
    }

    /// Makes the loop wake up `spin_ns` before each deadline and read the clock until then, and
    /// sets the thread's timer slack to the minimum. For work that must start exactly on time;
    /// occupies a processor.
    ///
    /// # Errors
    /// The system cannot set the thread's timer slack.
    pub fn set_punctual(&self, spin_ns: u64) -> io::Result<()> {
        self.0.punctual.set(spin_ns)
    }

    /// Submits the operations of each task before the next task runs, in a separate system call,
    /// instead of at the end of the loop's round. A device then works on the first request while
    /// the next is prepared. For loads that measure the time of a device.
    pub fn set_prompt(&self) {
        self.0.prompt.set(true);
    }

    /// Lets a receiver check its socket directly; see [`Idle::begin_direct`].
    pub(crate) fn begin_direct(&self) -> Option<DirectReceiver<'_>> {
        self.0.idle.begin_direct(&self.0.lane)
    }

    /// Returns the time that the loop has spent polling, readable by any thread.
    pub fn polled(&self) -> &Arc<Polled> {
        self.0.idle.polled()
    }

    /// Runs the live loop until `done` returns true, which is called once per round.
    ///
    /// The lane's clock is CLOCK_MONOTONIC in nanoseconds. A thread that changes the condition of
    /// `done` from outside must also wake a task of this lane, or the loop stays asleep.
    ///
    /// # Errors
    /// Errors of io_uring_enter that are not temporary.
    pub fn run(&self, mut done: impl FnMut() -> bool) -> io::Result<()> {
        let inner = &*self.0;
        // The caller may have queued work.
        inner.idle.note_news();
        loop {
            inner.lane.set_now(now_ns());
            inner.lane.fire_timers();
            let mut polls = 0;
            while polls < POLLS && inner.lane.step() {
                polls += 1;
                if inner.prompt.get() {
                    inner.submit_queued()?;
                }
            }
            if done() {
                return inner.submit();
            }
            if polls == POLLS {
                inner.submit()?;
                inner.reap()?;
            } else {
                inner.wait()?;
            }
        }
    }

    /// Runs the lane until `future`, as one of its tasks, has ended. Returns its result.
    ///
    /// # Errors
    /// As [`Ring::run`]; also if the lane has no free task slot.
    pub fn block_on<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> io::Result<T> {
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let spawned = self.0.lane.spawn(async move {
            let value = future.await;
            *place.borrow_mut() = Some(value);
        });
        if spawned.is_err() {
            return Err(io::Error::other("every task slot of the lane is taken"));
        }
        self.run(|| result.borrow().is_some())?;
        Ok(result.take().expect("the loop ended because it is there"))
    }

    /// Registers a file with the ring. The file stays open until the ring and all its operations in
    /// flight are gone.
    pub(crate) fn register_file(&self, file: &OwnedFd) -> io::Result<()> {
        let inner = &*self.0;
        let uring = inner.uring.borrow();
        let taken = match inner.registered.get() {
            Some(taken) => taken,
            None => {
                // All entries are created at once, empty: a ring has one table.
                uring.submitter().register_files(&[-1; REGISTERED_MAX as usize])?;
                0
            }
        };
        inner.registered.set(Some(taken));
        if taken == REGISTERED_MAX {
            return Err(io::Error::other("the ring holds as many fences as it can"));
        }
        uring.submitter().register_files_update(taken, &[file.as_raw_fd()])?;
        inner.registered.set(Some(taken + 1));
        Ok(())
    }

    /// Queues an operation. The ticket resolves to the kernel's result: a count, or a negative
    /// errno.
    ///
    /// # Safety
    /// All memory that `entry` points to must stay valid for the kernel as long as `hold` lives.
    pub(crate) unsafe fn launch(&self, entry: squeue::Entry, hold: Hold) -> Ticket {
        let inner = &*self.0;
        let ticket = inner.lane.ticket(None);
        let number = inner.flights.borrow_mut().add(ticket.number(), hold);
        // SAFETY: the flight table holds `hold` until the completion with this number arrives, and
        // a ring that is dropped with open flights leaks the table.
        if let Err(error) = unsafe { inner.push(entry.user_data(number)) } {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            inner.complete(number, -errno);
        }
        ticket
    }
}

impl Inner {
    /// # Safety
    /// All memory that `entry` points to must stay valid until its completion arrives.
    unsafe fn push(&self, entry: squeue::Entry) -> io::Result<()> {
        loop {
            {
                let mut uring = self.uring.borrow_mut();
                // SAFETY: by this function's contract.
                if unsafe { uring.submission().push(&entry) }.is_ok() {
                    return Ok(());
                }
            }
            self.enter(0, None)?;
            // If the kernel accepted no entry, completions must be taken first.
            if self.uring.borrow_mut().submission().is_full() {
                self.reap()?;
            }
        }
    }

    fn arm_bell(&self) -> io::Result<()> {
        let at = self.rung.address(0, 8).as_ptr();
        let read = opcode::Read::new(types::Fd(self.bell.raw()), at, 8).build();
        self.bell_armed.set(true);
        // SAFETY: the memory and the eventfd belong to `self`, which waits for this read when it is
        // dropped, and leaks the memory if that fails.
        unsafe { self.push(read.user_data(BELL)) }
    }

    /// Submits the queued operations; waits for `want` completions, until the deadline.
    fn enter(&self, want: usize, deadline_ns: Option<u64>) -> io::Result<()> {
        let uring = self.uring.borrow();
        let result = match deadline_ns {
            None => uring.submit_and_wait(want),
            Some(deadline) => {
                let left = Duration::from_nanos(deadline.saturating_sub(now_ns()));
                let timeout = types::Timespec::from(left);
                let arguments = types::SubmitArgs::new().timespec(&timeout);
                uring.submitter().submit_with_args(want, &arguments)
            }
        };
        match result.map_err(|error| error.raw_os_error()) {
            Ok(_) | Err(Some(libc::ETIME | libc::EINTR)) => Ok(()),
            // The kernel's queues are full: the caller handles completions and tries again.
            Err(Some(libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EIO))),
        }
    }

    /// Submits the queued operations and lets the kernel finish deferred work; without a system
    /// call if there is neither.
    fn submit(&self) -> io::Result<()> {
        let idle = {
            let mut uring = self.uring.borrow_mut();
            let queue = uring.submission();
            queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
        };
        if idle { Ok(()) } else { self.enter(0, None) }
    }

    /// Submits the queued operations, if there are any; deferred work of the kernel stays deferred.
    fn submit_queued(&self) -> io::Result<()> {
        let nothing = self.uring.borrow_mut().submission().is_empty();
        if nothing { Ok(()) } else { self.enter(0, None) }
    }

    /// Waits until there is something to do; returns immediately if there is already.
    fn wait(&self) -> io::Result<()> {
        if self.reap()? > 0 {
            return self.submit();
        }
        if self.poll()? {
            return Ok(());
        }
        let deadline = match self.punctual.until(self.lane.next_deadline(), now_ns) {
            Until::Poll(deadline) => return self.poll_until(deadline),
            Until::Sleep(deadline) => deadline,
        };
        if !self.lane.park() {
            return self.submit();
        }
        self.idle.note_sleep(&self.lane);
        let sleep = self.lane.is_sleep_watched().then(SleepMeter::start);
        let entered = self.enter(1, deadline);
        if let Some(sleep) = sleep {
            self.lane.note_slept(sleep.slept_ns());
        }
        self.lane.unpark();
        entered?;
        self.reap().map(|_| ())
    }

    /// Waits by polling, until a deadline or until something has arrived.
    fn poll_until(&self, deadline_ns: u64) -> io::Result<()> {
        self.submit()?;
        while now_ns() < deadline_ns && !self.has_news() {
            std::hint::spin_loop();
        }
        self.submit()?;
        self.reap().map(|_| ())
    }

    /// Waits by polling, if that is enabled, but not beyond the next deadline. Returns true if
    /// there is something to do: do not sleep then.
    fn poll(&self) -> io::Result<bool> {
        let period = match self.idle.next(&self.lane) {
            Next::Sleep => return Ok(false),
            Next::Continue => return Ok(true),
            Next::Poll(period) => period,
        };
        self.submit()?;
        if self.idle.has_direct_receivers() {
            self.reap()?;
            if self.lane.is_ready() {
                self.idle.note_news();
            }
            self.idle.begin_round(&period);
            return Ok(true);
        }
        let found = self.idle.poll(&period, || self.has_news());
        if found {
            self.submit()?;
            self.reap()?;
        }
        Ok(found)
    }

    /// Checks, without a system call, whether there is something to do. The kernel announces
    /// deferred work (mainly completions of sockets, which it posts only to a thread that enters
    /// it) by a flag in the queue's memory.
    fn has_news(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        let is_announced = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        is_announced || !uring.completion().is_empty() || self.lane.is_ready()
    }

    /// Handles all available completions. Returns their number.
    fn reap(&self) -> io::Result<usize> {
        let mut total = 0;
        loop {
            let mut taken = [(0u64, 0i32); REAPED_MAX];
            let mut count = 0;
            for (place, entry) in taken.iter_mut().zip(self.uring.borrow_mut().completion()) {
                *place = (entry.user_data(), entry.result());
                count += 1;
            }
            for &(number, result) in &taken[..count] {
                self.complete(number, result);
            }
            total += count;
            if count < REAPED_MAX {
                break;
            }
        }
        if total > 0 {
            self.idle.note_news();
        }
        if !self.bell_armed.get() && !self.closing.get() {
            self.arm_bell()?;
        }
        Ok(total)
    }

    fn complete(&self, number: u64, result: i32) {
        match number {
            BELL => self.bell_armed.set(false),
            QUIET => (),
            _ => {
                let (ticket, hold) = self.flights.borrow_mut().end(number);
                // Outside the borrow: this may drop the last reference to something large.
                hold.release();
                if let Some(ticket) = ticket {
                    self.lane.complete(ticket, i64::from(result));
                }
            }
        }
    }

    fn has_outstanding(&self) -> bool {
        self.bell_armed.get() || self.flights.borrow().cancellable() > 0
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing.set(true);
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        // SAFETY: a cancellation points to no memory.
        let mut broken = unsafe { self.push(cancel.user_data(QUIET)) }.is_err();
        let end = now_ns() + FAREWELL.as_nanos() as u64;
        while self.has_outstanding() && !broken && now_ns() < end {
            let soon = now_ns() + 100_000_000;
            broken = self.enter(1, Some(soon)).is_err() || self.reap().is_err();
        }
        if self.has_outstanding() || self.flights.borrow().count() > 0 {
            // The kernel may still write there: a leak is better than reuse.
            std::mem::forget(std::mem::take(&mut *self.flights.borrow_mut()));
            std::mem::forget(self.rung.clone());
        }
    }
}
