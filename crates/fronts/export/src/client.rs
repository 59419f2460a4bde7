//! A client of an export: what it has under way, and how its requests are carried out.

use crate::budget::Budget;
use crate::counting::counting;
use crate::export::Export;
use crate::operation::Operation;
use crate::pool::{Buffer, Pool, occupied};
use crate::running::Running;
use crate::session::Session;
use crate::stop::Stop;
use block::{Extent, Kind, Limits, Padding, Request, Result, Stack, Stretch};
use lane::{Lane, TASKS_MAX};
use layers::ArrivalOrder;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::Arc;

/// What a client may have under way.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Its requests at a time, at least one. What is answered at once is never under way.
    pub in_flight_max: usize,
    /// Memory for their payloads, in bytes. One request is always let in.
    pub in_flight_bytes_max: usize,
    /// What all clients with clones of these bounds may have under way together.
    pub budget: Arc<Budget>,
}

/// One client, on the lane of its export's stack.
pub struct Client {
    lane: Lane,
    simulated: bool,
    stack: Stack,
    /// The same stack, for requests that become tasks.
    counting: Stack,
    /// Its changes that are tasks.
    order: ArrivalOrder,
    limits: Limits,
    stop: Arc<Stop>,
    session: Box<dyn Session>,
    bounds: Bounds,
    pool: RefCell<Pool>,
    in_flight: Cell<usize>,
    in_flight_bytes: Cell<usize>,
}

impl Client {
    /// A new client of this export, through a front with these limits (see [`Export::limits`]). `stop` is
    /// the front's own, where the export has none. The session begins here, and ends with the client.
    pub fn new(export: &Export, limits: Limits, stop: &Arc<Stop>, bounds: Bounds) -> Client {
        let (stack, lane) = (export.stack.clone(), export.stack.lane().clone());
        Client {
            simulated: lane.is_simulated(),
            lane,
            counting: counting(&stack, &bounds.budget),
            stack,
            order: ArrivalOrder::new(bounds.in_flight_max),
            limits,
            stop: export.stop.as_ref().unwrap_or(stop).clone(),
            session: (export.session)(),
            pool: RefCell::new(Pool::new(bounds.in_flight_bytes_max / 4)),
            bounds,
            in_flight: Cell::new(0),
            in_flight_bytes: Cell::new(0),
        }
    }

    /// The lane of its requests.
    #[inline]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// What it may ask for.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What ends it.
    #[inline]
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// How many of its requests were let in, and are neither [`Client::answered`] nor withdrawn.
    pub fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Every step that enters the stack is preceded by this: in a simulated world two steps are
    /// joined by an await, live it is one branch.
    #[inline]
    pub async fn turn(&self) {
        if self.simulated {
            self.lane.turn().await;
        }
    }

    /// Brings nearer what [`Client::ask`] for these requests will touch.
    #[inline]
    pub fn prefetch(&self, requests: &[Request]) {
        self.stack.prefetch(requests);
    }

    /// Asks the stack for an answer here and now, after a [`Client::turn`]. The one gate for
    /// requests that carry a buffer. Of an operation, [`Operation::plain`] may be asked for. None:
    /// nothing was done, and the request comes by [`Client::run`], before any other of this client.
    #[inline]
    pub fn ask(&self, request: &Request) -> Option<Result> {
        match self.limits.check(request) {
            Ok(()) if self.order.must_wait(request) => None,
            Ok(()) => self.stack.try_now(request),
            Err(error) => Some(Err(error)),
        }
    }

    /// A request of which the padding is not meant, as it is carried out for this client: durable when it
    /// is answered, if it is a change with `fua`.
    #[inline]
    pub fn operation(&self, request: Request, padding: Padding, fua: bool) -> Operation {
        Operation::new(request, padding, fua, &self.limits)
    }

    /// Tells the session if this proves that the client flushes (C11). Comes before it is asked for or run.
    #[inline]
    pub async fn note(&self, operation: &Operation) {
        if operation.is_proof {
            self.note_flush().await;
        }
    }

    async fn note_flush(&self) {
        self.turn().await;
        self.session.flushed();
    }

    /// Carries out an operation that was let in. Ends, with an error, once the backing has stalled.
    /// Changes that overlap take effect in the order of these calls (C10).
    ///
    /// # Errors
    /// What the stack answers.
    pub fn run(&self, operation: Operation) -> Running {
        let is_flush = matches!(operation.request, Request::Flush);
        let doubt = if is_flush { self.session.take_doubt() } else { Ok(()) };
        Running::new(&self.counting, &self.order, operation, doubt)
    }

    /// What is known of the contents, for a request that was let in.
    ///
    /// # Errors
    /// What the stack answers, or that the backing has stalled.
    pub async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.counting.status_unless_stalled(at).await
    }

    /// Starts a task for one of its requests. On a lane without a free task slot the caller does it itself,
    /// by awaiting what is returned.
    pub fn launch(&self, task: impl Future<Output = ()> + 'static) -> impl Future<Output = ()> {
        // The task moves into the lane's memory at once: the caller's future does not carry its size.
        let own = if self.lane.tasks() < TASKS_MAX {
            self.lane.spawn(task).expect("a task slot was free");
            None
        } else {
            Some(self.lane.pin(task))
        };
        async move {
            if let Some(task) = own {
                task.await;
            }
        }
    }

    /// Whether a request was not done because its server stops. Then it is not answered, but withdrawn:
    /// the client asks the next server.
    pub fn is_for_next(&self, result: Result) -> bool {
        self.stop.is_asked() && result.is_err_and(|error| error.kind == Kind::Stopping)
    }

    fn fits(&self, bytes: usize) -> bool {
        let taken = self.in_flight_bytes.get();
        let bytes_fit = taken == 0 || taken + bytes <= self.bounds.in_flight_bytes_max;
        self.in_flight.get() < self.bounds.in_flight_max && bytes_fit
    }

    /// Takes room for a request in what the client and the server may have under way.
    fn takes(&self, bytes: usize) -> bool {
        let alone = self.in_flight.get() == 0;
        if !self.fits(bytes) || !self.bounds.budget.take(bytes, alone) {
            return false;
        }
        self.in_flight.set(self.in_flight.get() + 1);
        self.in_flight_bytes.set(self.in_flight_bytes.get() + bytes);
        true
    }

    fn give(&self, requests: usize, bytes: usize) {
        self.in_flight.set(self.in_flight.get() - requests);
        self.in_flight_bytes.set(self.in_flight_bytes.get() - bytes);
        self.bounds.budget.give(requests, bytes);
    }

    /// Lets a request in, with a buffer of so many bytes (0: none), as soon as there is room. Where there
    /// is none, `make_room` does what the front can do about it (to send answers that are ready), and then
    /// this waits. What is let in is [`Client::answered`], or leaves by [`Client::withdraw`].
    ///
    /// # Errors
    /// The backing has stalled, and as much as may wait for it does so already.
    pub async fn admit(&self, bytes: usize, make_room: impl AsyncFn()) -> Result<Option<Buffer>> {
        let (occupied, budget) = (occupied(bytes), &self.bounds.budget);
        loop {
            let freed = budget.freed().seen();
            let stall = self.stack.stall().filter(|stall| stall.is_on());
            if let Some(stall) = stall
                && budget.is_overrun(occupied)
            {
                return Err(stall.error());
            }
            if self.takes(occupied) {
                break;
            }
            make_room().await;
            if self.takes(occupied) {
                break;
            }
            budget.freed().after(freed).await;
        }
        Ok((bytes > 0).then(|| self.pool.borrow_mut().take(bytes)))
    }

    /// A request that was let in ends without an answer.
    pub fn withdraw(&self, buffer: Option<Buffer>) {
        self.give(1, 0);
        self.give_back(buffer);
    }

    /// The buffer of a request is not needed any more. The request itself stays let in.
    pub fn give_back(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.give(0, buffer.bytes());
            self.pool.borrow_mut().give(buffer);
        }
    }

    /// So many requests that were let in have been answered, and these buffers are free; they are taken
    /// from the list. To be called when the client has got the answers: one that takes none keeps its own
    /// requests in flight.
    #[inline]
    pub fn answered(&self, requests: usize, buffers: &mut Vec<Buffer>) {
        if requests == 0 {
            debug_assert!(buffers.is_empty(), "a buffer belongs to a request");
            return;
        }
        let bytes = buffers.iter().map(Buffer::bytes).sum();
        self.give(requests, bytes);
        let mut pool = self.pool.borrow_mut();
        while let Some(buffer) = buffers.pop() {
            pool.give(buffer);
        }
    }
}

impl Drop for Client {
    /// A client whose world has died gives back what it had under way.
    fn drop(&mut self) {
        self.bounds.budget.give(self.in_flight.get(), self.in_flight_bytes.get());
    }
}
