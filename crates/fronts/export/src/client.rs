//! A client of an export: its requests in flight, and how they are served.

use crate::budget::Budget;
use crate::counting::counting;
use crate::export::Export;
use crate::operation::Operation;
use crate::pool::{Buffer, Pool, occupied};
use crate::session::Session;
use crate::stop::Stop;
use block::{Extent, Kind, Limits, Padding, Request, Result, Stack, Stretch};
use lane::{Lane, TASKS_MAX};
use layers::{ArrivalOrder, InOrder};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Limits on a client's requests in flight.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Number of requests in flight, at least one. A request that is answered immediately is never
    /// in flight.
    pub in_flight_max: usize,
    /// Memory for payloads, in bytes. One request is always admitted.
    pub in_flight_bytes_max: usize,
    /// Limits on all clients whose bounds are clones of these.
    pub budget: Arc<Budget>,
}

/// One client, on the lane of its export's stack.
pub struct Client {
    lane: Lane,
    simulated: bool,
    stack: Stack,
    /// The same stack with counting, for requests that become tasks.
    counting: Stack,
    /// Orders the client's changes that run as tasks.
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
    /// Starts the session of a new client of this export, through a front with these limits (see
    /// [`Export::limits`]). `stop` is the front's own and is used if the export has none. The
    /// session ends with the client.
    pub fn new(export: &Export, limits: Limits, stop: &Arc<Stop>, bounds: Bounds) -> Client {
        let (stack, lane) = (export.stack.clone(), export.stack.lane().clone());
        Client {
            simulated: lane.is_simulated(),
            lane,
            counting: counting(&stack, &bounds.budget, export.busy.as_ref()),
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

    /// The lane of the client's requests.
    #[inline]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Limits of the requests that the client may send.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The stop that ends the client.
    #[inline]
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Number of requests that were admitted and not yet [`Client::answered`] or withdrawn.
    pub fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Precedes every step that enters the stack: in a simulated world it awaits, so that other
    /// steps may come first; live, it is one branch.
    #[inline]
    pub async fn turn(&self) {
        if self.simulated {
            self.lane.turn().await;
        }
    }

    /// Prefetches the memory that [`Client::ask`] for these requests will access.
    #[inline]
    pub fn prefetch(&self, requests: &[Request]) {
        self.stack.prefetch(requests);
    }

    /// Tries to get an answer from the stack immediately, after a [`Client::turn`]. All requests
    /// that carry a buffer enter here. For an operation, use [`Operation::plain`]. None: nothing
    /// was done, and the request goes to [`Client::run`] before any other request of this client.
    #[inline]
    pub fn ask(&self, request: &Request) -> Option<Result> {
        match self.limits.check(request) {
            Ok(()) if self.order.must_wait(request) => None,
            Ok(()) => self.stack.try_now(request),
            Err(error) => Some(Err(error)),
        }
    }

    /// Returns a request with padding as it is served for this client: a change with `fua` is
    /// durable when it is answered.
    #[inline]
    pub fn operation(&self, request: Request, padding: Padding, fua: bool) -> Operation {
        Operation::new(request, padding, fua, &self.limits)
    }

    /// Reports to the session if this operation proves that the client flushes (C11). Must precede
    /// [`Client::ask`] and [`Client::run`].
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

    /// Serves an admitted operation. Ends with an error when the backing has stalled. Changes that
    /// overlap take effect in the order of these calls (C10).
    ///
    /// # Errors
    /// The stack's errors.
    pub fn run(&self, operation: Operation) -> Running {
        let is_flush = matches!(operation.request, Request::Flush);
        let doubt = if is_flush { self.session.take_doubt() } else { Ok(()) };
        Running::new(&self.counting, &self.order, operation, doubt)
    }

    /// Returns the known state of the contents, for an admitted request.
    ///
    /// # Errors
    /// The stack's errors, or an error because the backing has stalled.
    pub async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.counting.status_unless_stalled(at).await
    }

    /// Starts a task for a request. On a lane without a free task slot the caller runs it instead,
    /// by awaiting the result.
    pub fn launch(&self, task: impl Future<Output = ()> + 'static) -> impl Future<Output = ()> {
        // The task moves into the lane's memory here, so the caller's future does not include its
        // size.
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

    /// Whether a request was not served because its server stops. Such a request is withdrawn
    /// without an answer, and the client sends it to the next server.
    pub fn is_for_next(&self, result: Result) -> bool {
        self.stop.is_asked() && result.is_err_and(|error| error.kind == Kind::Stopping)
    }

    fn fits(&self, bytes: usize) -> bool {
        let taken = self.in_flight_bytes.get();
        let bytes_fit = taken == 0 || taken + bytes <= self.bounds.in_flight_bytes_max;
        self.in_flight.get() < self.bounds.in_flight_max && bytes_fit
    }

    /// Reserves room for a request in the bounds of the client and in the budget of the server.
    fn reserve(&self, bytes: usize) -> bool {
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

    /// Admits a request with a buffer of `bytes` bytes (0: none) as soon as there is room. If there
    /// is none, calls `make_room`, in which the front can make room (by sending answers that are
    /// ready), and then waits. Each admitted request ends in [`Client::answered`] or
    /// [`Client::withdraw`].
    ///
    /// # Errors
    /// The backing has stalled, and the requests that wait for it have reached the limit.
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
            if self.reserve(occupied) {
                break;
            }
            make_room().await;
            if self.reserve(occupied) {
                break;
            }
            budget.freed().after(freed).await;
        }
        Ok((bytes > 0).then(|| self.pool.borrow_mut().take(bytes)))
    }

    /// Ends an admitted request without an answer.
    pub fn withdraw(&self, buffer: Option<Buffer>) {
        self.give(1, 0);
        self.give_back(buffer);
    }

    /// Releases the buffer of a request. The request itself stays admitted.
    pub fn give_back(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.give(0, buffer.bytes());
            self.pool.borrow_mut().give(buffer);
        }
    }

    /// Records that `requests` admitted requests were answered, and takes their buffers out of the
    /// list. Call it when the client has received the answers: requests of a client that does not
    /// receive them then stay in flight.
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
    /// Releases the load of a client whose world has died.
    fn drop(&mut self) {
        self.bounds.budget.give(self.in_flight.get(), self.in_flight_bytes.get());
    }
}

/// Future that resolves to the stack's answer to an operation and to the flush after it. It is
/// small, and its request is in the lane's memory already, because it is moved into a task.
pub struct Running {
    asked: InOrder,
    /// Set if a flush follows.
    then_flush: Option<(Stack, ArrivalOrder)>,
    /// Error that is answered instead of success.
    doubt: Result,
}

impl Running {
    /// Orders changes by the order of these calls. `doubt`: see [`crate::Session::take_doubt`].
    pub(crate) fn new(
        stack: &Stack,
        order: &ArrivalOrder,
        operation: Operation,
        doubt: Result,
    ) -> Running {
        let Operation { request, padding, then_flush, .. } = operation;
        let asked = order.run(stack, request, padding);
        Running { asked, then_flush: then_flush.then(|| (stack.clone(), order.clone())), doubt }
    }
}

impl Future for Running {
    type Output = Result;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result> {
        loop {
            let result = ready!(Pin::new(&mut self.asked).poll(context));
            match self.then_flush.take() {
                Some((stack, order)) if result.is_ok() => {
                    self.asked = order.run(&stack, Request::Flush, Padding::NONE);
                }
                _ => return Poll::Ready(result.and(self.doubt)),
            }
        }
    }
}
