//! The live loop of a lane.
//!
//! One round: read the clock, fire timers, poll a bounded batch of tasks, hand everything they have
//! queued to the kernel in one call, look at completions. With nothing ready the same call waits,
//! until a completion, the next deadline, or the bell.
#![allow(unsafe_code)]

use crate::bell::EventBell;
use crate::flight::{Flights, Hold};
use crate::idle::{Asker, Idle, Next};
use crate::polling::{Polled, Polling};
use crate::punctual::{Punctual, Until};
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
/// Entries of the completion queue. What does not fit is kept by the kernel (FEAT_NODROP).
const COMPLETIONS: u32 = 4096;
/// Polls before the loop looks at completions and the clock again.
const POLLS: usize = 64;
/// Completions taken from the queue at a time.
const TAKEN: usize = 64;
/// Files that can be registered with a ring.
const REGISTERED_MAX: u32 = 256;
/// How long a ring that is dropped waits for what it could not cancel.
const FAREWELL: Duration = Duration::from_secs(5);

/// The read of the bell. Flights are numbered by a 32-bit index, so these are never theirs.
const BELL: u64 = u64::MAX;
/// Operations of the ring itself, whose results are not awaited.
const QUIET: u64 = u64::MAX - 1;

pub(crate) struct Inner {
    lane: Lane,
    uring: RefCell<IoUring>,
    pub(crate) flights: RefCell<Flights>,
    bell: Arc<EventBell>,
    /// Where the bell's counter is read to.
    rung: Arc<Memory>,
    bell_armed: Cell<bool>,
    closing: Cell<bool>,
    /// Places taken in the table of registered files; None: there is no table yet.
    registered: Cell<Option<u32>>,
    pub(crate) idle: Idle,
    punctual: Punctual,
    /// What a task has queued is handed to the kernel before the next task goes on.
    prompt: Cell<bool>,
}

/// The io_uring of one lane. Cheap to clone; stays on its thread.
///
/// Tasks of the lane that hold a ring keep it, and through it the lane, alive: end them, or call
/// [`Lane::abandon`], before the last handle goes. A ring that is dropped cancels what is in flight
/// and waits up to five seconds for it; memory that the kernel still uses then is given up, not
/// freed.
#[derive(Clone)]
pub struct Ring(pub(crate) Rc<Inner>);

fn build() -> io::Result<IoUring> {
    let best = IoUring::builder()
        .setup_cqsize(COMPLETIONS)
        .setup_submit_all()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_defer_taskrun()
        .build(SUBMISSIONS);
    match best {
        // Kernels before 6.1 do not know all of these.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            IoUring::builder().setup_cqsize(COMPLETIONS).build(SUBMISSIONS)
        }
        other => other,
    }
}

impl Ring {
    /// A ring for `lane`, whose bell it becomes. Must be made and used on the lane's thread.
    ///
    /// # Errors
    /// What the system says where io_uring is missing, forbidden (`kernel.io_uring_disabled`, a
    /// seccomp filter) or older than Linux 5.11.
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

    /// The lane it drives.
    pub fn lane(&self) -> &Lane {
        &self.0.lane
    }

    /// Operations that are queued or in flight.
    pub fn in_flight(&self) -> usize {
        self.0.flights.borrow().count()
    }

    /// From now on the loop polls in this way before it sleeps in the kernel. Answers come sooner, at the
    /// price of a processor.
    ///
    /// What comes from outside begins the time of a fixed poll anew: a completion, a wake from another thread.
    /// A deadline does not, so a loop that only keeps its own time goes back to sleep at once.
    pub fn set_polling(&self, polling: Polling) {
        self.0.idle.set_polling(polling);
    }

    /// From now on the loop is awake `spin_ns` before each deadline and looks at the clock until then, and the kernel is
    /// asked to wake this thread without delay. For what must start on time, at the price of a processor.
    ///
    /// # Errors
    /// The system does not set the thread's timer slack.
    pub fn set_punctual(&self, spin_ns: u64) -> io::Result<()> {
        self.0.punctual.set(spin_ns)
    }

    /// From now on what a task has queued is handed to the kernel before the next task goes on, in a system call of its
    /// own, and not at the end of the loop's round. A device then works on the first request while the next is
    /// made. For loads that are to tell how long a device takes.
    pub fn set_prompt(&self) {
        self.0.prompt.set(true);
    }

    /// Lets a receiver ask its socket itself; see [`Idle::ask`].
    pub(crate) fn ask(&self) -> Option<Asker<'_>> {
        self.0.idle.ask(&self.0.lane)
    }

    /// What the loop spends in polling instead of sleeping, for any thread to look at.
    pub fn polled(&self) -> &Arc<Polled> {
        self.0.idle.polled()
    }

    /// The live loop: runs the lane until `done`, which is asked once a round.
    ///
    /// The lane's clock is CLOCK_MONOTONIC in nanoseconds. A thread that changes what `done` looks at
    /// from outside must also wake a task of this lane, or the loop sleeps on.
    ///
    /// # Errors
    /// What io_uring_enter says, where that is no passing condition.
    pub fn run(&self, mut done: impl FnMut() -> bool) -> io::Result<()> {
        let inner = &*self.0;
        // The caller has something to be done.
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

    /// Runs the lane until `future`, as a task of it, has ended; returns what it returned.
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

    /// Enters a file in the ring's table of registered files, where it stays open until the ring has
    /// gone and with it all that was in flight.
    pub(crate) fn register_file(&self, file: &OwnedFd) -> io::Result<()> {
        let inner = &*self.0;
        let uring = inner.uring.borrow();
        let taken = match inner.registered.get() {
            Some(taken) => taken,
            None => {
                // All places are made at once, empty: a ring has one table.
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

    /// Queues an operation. The ticket resolves to the kernel's result: a count, or minus an errno.
    ///
    /// # Safety
    /// Everything that `entry` points to stays valid for the kernel as long as `hold` lives.
    pub(crate) unsafe fn launch(&self, entry: squeue::Entry, hold: Hold) -> Ticket {
        let inner = &*self.0;
        let ticket = inner.lane.ticket(None);
        let number = inner.flights.borrow_mut().add(ticket.number(), hold);
        // SAFETY: the flight table holds `hold` until the completion with this number has come,
        // and a ring that goes away with flights open leaks the table.
        if let Err(error) = unsafe { inner.push(entry.user_data(number)) } {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            inner.land(number, -errno);
        }
        ticket
    }
}

impl Inner {
    /// # Safety
    /// What `entry` points to stays valid until its completion has come.
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
            // If the kernel took nothing, that is because completions must be taken first.
            if self.uring.borrow_mut().submission().is_full() {
                self.reap()?;
            }
        }
    }

    fn arm_bell(&self) -> io::Result<()> {
        let at = self.rung.address(0, 8).as_ptr();
        let read = opcode::Read::new(types::Fd(self.bell.raw()), at, 8).build();
        self.bell_armed.set(true);
        // SAFETY: the memory and the eventfd live in `self`, which waits for this read when it is
        // dropped, and leaks the memory where that fails.
        unsafe { self.push(read.user_data(BELL)) }
    }

    /// Submits what is queued; with `want` completions to wait for, until the deadline.
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
            // The kernel's queues are full: the caller takes completions and comes back.
            Err(Some(libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(errno) => Err(io::Error::from_raw_os_error(errno.unwrap_or(libc::EIO))),
        }
    }

    /// Submits what is queued and lets the kernel finish what it has put off; without a system
    /// call where there is neither.
    fn submit(&self) -> io::Result<()> {
        let idle = {
            let mut uring = self.uring.borrow_mut();
            let queue = uring.submission();
            queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
        };
        if idle { Ok(()) } else { self.enter(0, None) }
    }

    /// Submits what is queued, if anything is; what the kernel has put off stays put off.
    fn submit_queued(&self) -> io::Result<()> {
        let nothing = self.uring.borrow_mut().submission().is_empty();
        if nothing { Ok(()) } else { self.enter(0, None) }
    }

    /// Waits until there is something to do, unless there is already.
    fn wait(&self) -> io::Result<()> {
        if self.reap()? > 0 {
            return self.submit();
        }
        if self.poll()? {
            return Ok(());
        }
        let deadline = match self.punctual.until(self.lane.next_deadline(), now_ns) {
            Until::Look(deadline) => return self.look_until(deadline),
            Until::Sleep(deadline) => deadline,
        };
        if !self.lane.park() {
            return self.submit();
        }
        self.idle.note_sleep();
        let entered = self.enter(1, deadline);
        self.lane.unpark();
        entered?;
        self.reap().map(|_| ())
    }

    /// Waits by looking, until a deadline or until something has come.
    fn look_until(&self, deadline_ns: u64) -> io::Result<()> {
        self.submit()?;
        while now_ns() < deadline_ns && !self.has_news() {
            std::hint::spin_loop();
        }
        self.submit()?;
        self.reap().map(|_| ())
    }

    /// Waits by looking, where that is asked for, but not beyond the next deadline. True: there is
    /// something to do, do not sleep.
    fn poll(&self) -> io::Result<bool> {
        let look = match self.idle.next(&self.lane) {
            Next::Sleep => return Ok(false),
            Next::GoOn => return Ok(true),
            Next::Look(look) => look,
        };
        self.submit()?;
        if self.idle.has_askers() {
            self.reap()?;
            if self.lane.is_ready() {
                self.idle.note_news();
            }
            self.idle.begin_round(&look);
            return Ok(true);
        }
        let found = self.idle.look(&look, || self.has_news());
        if found {
            self.submit()?;
            self.reap()?;
        }
        Ok(found)
    }

    /// Looks, without entering the kernel, whether there is something to do. What the kernel has put
    /// off (above all completions of sockets, which it posts only to a thread that enters) it
    /// announces by a flag in the queue's memory.
    fn has_news(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let queue = uring.submission();
        let is_announced = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        is_announced || !uring.completion().is_empty() || self.lane.is_ready()
    }

    /// Takes every completion that is there; returns how many.
    fn reap(&self) -> io::Result<usize> {
        let mut total = 0;
        loop {
            let mut taken = [(0u64, 0i32); TAKEN];
            let mut count = 0;
            for (place, entry) in taken.iter_mut().zip(self.uring.borrow_mut().completion()) {
                *place = (entry.user_data(), entry.result());
                count += 1;
            }
            for &(number, result) in &taken[..count] {
                self.land(number, result);
            }
            total += count;
            if count < TAKEN {
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

    fn land(&self, number: u64, result: i32) {
        match number {
            BELL => self.bell_armed.set(false),
            QUIET => (),
            _ => {
                let (ticket, hold) = self.flights.borrow_mut().end(number);
                // Outside the borrow: what is dropped here may be the last of something large.
                hold.release();
                if let Some(ticket) = ticket {
                    self.lane.complete(ticket, i64::from(result));
                }
            }
        }
    }

    fn outstanding(&self) -> bool {
        self.bell_armed.get() || self.flights.borrow().passing() > 0
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing.set(true);
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        // SAFETY: a cancellation points to nothing.
        let mut broken = unsafe { self.push(cancel.user_data(QUIET)) }.is_err();
        let end = now_ns() + FAREWELL.as_nanos() as u64;
        while self.outstanding() && !broken && now_ns() < end {
            let soon = now_ns() + 100_000_000;
            broken = self.enter(1, Some(soon)).is_err() || self.reap().is_err();
        }
        if self.outstanding() || self.flights.borrow().count() > 0 {
            // The kernel may still write there: better lost than used twice.
            std::mem::forget(std::mem::take(&mut *self.flights.borrow_mut()));
            std::mem::forget(self.rung.clone());
        }
    }
}
