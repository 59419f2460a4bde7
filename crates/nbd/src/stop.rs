//! What ends waiting: the wish that a server stops, and deadlines.

use crate::server::End;
use crate::wire::Wire;
use lane::{Event, Lane};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// Asks connections to end. Shared by all of them; may be asked from any thread.
#[derive(Default, Debug)]
pub struct Stop {
    asked: AtomicBool,
    event: Event,
}

impl Stop {
    /// It was not asked for yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks. No request is taken any more, nor refused: to a client the server has gone, and it asks
    /// the next one. Each connection says what it still owes, then that this was all; it closes when
    /// the client does, or when its time is over.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.event.notify();
    }

    /// Whether it was asked for.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until the end was asked for.
    pub async fn wait(&self) {
        loop {
            let seen = self.event.seen();
            if self.asked.load(Ordering::SeqCst) {
                return;
            }
            self.event.after(seen).await;
        }
    }
}

/// A moment on a lane's clock, or never.
#[derive(Clone)]
pub(crate) struct Deadline {
    lane: Lane,
    at_ns: Option<u64>,
}

impl Deadline {
    /// So many milliseconds from now; None: never.
    pub(crate) fn new(lane: &Lane, after_ms: Option<u64>) -> Deadline {
        let after_ns = after_ms.map(|after| after.saturating_mul(1_000_000));
        Deadline {
            lane: lane.clone(),
            at_ns: after_ns.map(|after| lane.now().saturating_add(after)),
        }
    }

    pub(crate) fn has_come(&self) -> bool {
        self.at_ns.is_some_and(|at| self.lane.now() >= at)
    }

    pub(crate) async fn wait(&self) {
        match self.at_ns {
            Some(at) => self.lane.sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

/// Waits for whichever comes first. Only for waits: what loses is dropped, so neither may be a
/// future of the engine.
pub(crate) async fn either(one: impl Future<Output = ()>, two: impl Future<Output = ()>) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    std::future::poll_fn(|context| {
        let ready = one.as_mut().poll(context).is_ready() || two.as_mut().poll(context).is_ready();
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Runs what waits for the client until `over` says how the connection ends. Nothing is cancelled:
/// the wire is shut down, and the work ends because nothing comes any more.
pub(crate) async fn until<W: Wire, T>(
    wire: &W,
    over: impl Future<Output = End>,
    work: impl Future<Output = Result<T, End>>,
) -> Result<T, End> {
    let (mut over, mut work) = (pin!(over), pin!(work));
    let mut ended = None;
    std::future::poll_fn(|context| {
        loop {
            if let Poll::Ready(result) = work.as_mut().poll(context) {
                return Poll::Ready(ended.map_or(result, Err));
            }
            if ended.is_some() {
                return Poll::Pending;
            }
            let Poll::Ready(end) = over.as_mut().poll(context) else { return Poll::Pending };
            ended = Some(end);
            wire.shutdown();
        }
    })
    .await
}
