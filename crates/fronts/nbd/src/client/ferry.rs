//! Requests of several lanes for a device that only one lane has.
//!
//! A lane puts its request on a free seat and waits for the result there. The lane with the device
//! takes the seats in the order in which they were taken, and serves each in a task. All memory is
//! allocated at the creation.

use block::{Error, Kind, Request, Result};
use lane::{Event, Inbox, Lane, Lock};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Number of requests under way. More of them wait for a seat.
const SEATS: usize = 256;

const ENDED: Error = Error::new(Kind::Io, "use the NBD export: it is no longer served");

/// Contents of a seat.
enum Cargo {
    Free,
    Request(Request),
    /// The request is being served.
    Served,
    Result(Result),
}

struct Seat {
    cargo: Lock<Cargo>,
    done: Event,
}

/// The seats.
pub(super) struct Ferry {
    inbox: Inbox<usize>,
    seats: Vec<Seat>,
    free: Lock<Vec<usize>>,
    freed: Event,
}

impl Ferry {
    pub(super) fn new() -> Arc<Ferry> {
        let seat = || Seat { cargo: Lock::new(Cargo::Free), done: Event::new() };
        Arc::new(Ferry {
            inbox: Inbox::new(SEATS),
            seats: std::iter::repeat_with(seat).take(SEATS).collect(),
            free: Lock::new((0..SEATS).collect()),
            freed: Event::new(),
        })
    }

    /// Has a request served by the lane with the device.
    pub(super) async fn run(&self, lane: &Lane, request: Request) -> Result {
        let seat = self.seat(lane).await;
        lane.turn().await;
        self.seats[seat].cargo.with(|cargo| *cargo = Cargo::Request(request));
        let result = match self.inbox.post(seat) {
            Ok(()) => self.result(lane, seat).await,
            Err(_) => Err(ENDED),
        };
        lane.turn().await;
        self.free.with(|free| free.push(seat));
        self.freed.notify_one();
        result
    }

    async fn seat(&self, lane: &Lane) -> usize {
        loop {
            let seen = self.freed.seen();
            lane.turn().await;
            if let Some(seat) = self.free.with(Vec::pop) {
                return seat;
            }
            self.freed.after(seen).await;
        }
    }

    async fn result(&self, lane: &Lane, seat: usize) -> Result {
        let Seat { cargo, done } = &self.seats[seat];
        loop {
            let seen = done.seen();
            lane.turn().await;
            let found = cargo.with(|cargo| match cargo {
                Cargo::Result(result) => {
                    let result = *result;
                    *cargo = Cargo::Free;
                    Some(result)
                }
                _ => None,
            });
            match found {
                Some(result) => return result,
                None => done.after(seen).await,
            }
        }
    }

    /// Serves requests until [`Ferry::close`].
    pub(super) async fn serve<F: Future<Output = Result> + 'static>(
        self: Arc<Ferry>,
        lane: Lane,
        serve: impl Fn(Request) -> F + 'static,
    ) {
        let serve = Rc::new(serve);
        while let Some(seat) = self.inbox.next().await {
            lane.turn().await;
            let request = self.seats[seat].cargo.with(|cargo| match cargo {
                Cargo::Request(request) => {
                    let request = request.clone();
                    *cargo = Cargo::Served;
                    Some(request)
                }
                // It was closed.
                _ => None,
            });
            let Some(request) = request else { continue };
            let running = serve(request);
            let (ferry, turn) = (self.clone(), lane.clone());
            let task = async move {
                let result = running.await;
                turn.turn().await;
                ferry.answer(seat, result);
            };
            // On a lane without room for a task the request fails, as one of its clients would.
            if lane.spawn(task).is_err() {
                lane.turn().await;
                self.answer(seat, Err(Error::new(Kind::Io, "serve a request: the lane is full")));
            }
        }
    }

    fn answer(&self, seat: usize, result: Result) {
        self.seats[seat].cargo.with(|cargo| *cargo = Cargo::Result(result));
        self.seats[seat].done.notify();
    }

    /// Ends the service: requests on the seats fail, and so do all later ones.
    pub(super) fn close(&self) {
        self.inbox.close();
        for Seat { cargo, done } in &self.seats {
            // The result on a seat that is free is never taken.
            cargo.peek(|cargo| *cargo = Cargo::Result(Err(ENDED)));
            done.notify();
        }
    }
}
