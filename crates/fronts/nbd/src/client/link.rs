//! An export as a block device of a lane that outlives its connections.
//!
//! ```text
//!   read   --> the lane's own connection (Line) -- answer -->
//!               | it has ended
//!               v
//!              dial again, compare what the server agrees to, send the read again
//!   change --> the lane that carries all changes (Changes), if the export is written
//! ```
//!
//! A read may be sent any number of times, so a connection that ends loses nothing. Changes need a
//! fence, and go through the connections of one lane.

use super::Remote;
use super::changes::{Changes, WriteDials};
use super::ferry::Ferry;
use super::line::Line;
use super::shared::{Dial, LinkShared};
use crate::codec::NBD_ESHUTDOWN;
use block::{Block, Buf, Error, Extent, Kind, Limits, LinkState, Request, Result, Stretch};
use lane::Lane;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

/// Time for which a read waits for a new connection before it fails, unless requests wait for the
/// link as long as it takes.
pub const RECONNECT_NS: u64 = 10_000_000_000;

/// The way of a lane's changes.
enum Way<D: Dial> {
    /// The export is only read.
    None,
    /// This lane carries the changes of all lanes.
    Here(Rc<Changes<D>>),
    /// Another lane does.
    There(Arc<Ferry>),
}

/// An export, as one lane sees it.
pub struct Link<D: Dial> {
    lane: Lane,
    line: Rc<Line<D>>,
    shared: Arc<LinkShared>,
    limits: Limits,
    piece_sectors: u32,
    way: Way<D>,
}

impl<D: Dial> Link<D> {
    /// Returns the lane's handle on an export. It connects for the first request.
    ///
    /// `writes`: the ways to write, for an export that is written. The first lane that attaches
    /// uses them for all lanes.
    pub fn attach(
        lane: &Lane,
        dial: D,
        writes: Option<WriteDials<D>>,
        shared: &Arc<LinkShared>,
    ) -> Link<D> {
        let way = match (shared.writing(), writes) {
            (Some(writing), Some(dials)) => match writing.board() {
                Ok(ferry) => Way::There(ferry),
                Err(ferry) => Way::Here(Changes::start(lane, dials, shared, writing, ferry)),
            },
            _ => Way::None,
        };
        let line = Rc::new(Line::new(lane, dial, shared, shared.agreed().clone(), false));
        let kept = line.clone();
        // Without room for the task, requests notice the end of the link.
        let _ = lane.spawn(async move { kept.keep_connected().await });
        Link {
            lane: lane.clone(),
            line,
            limits: shared.limits(),
            piece_sectors: shared.piece_sectors(),
            shared: shared.clone(),
            way,
        }
    }

    /// Connects now, not only for the first request: then the end of the link is noticed although
    /// no request needs it.
    pub fn connect_early(&self) {
        self.line.want();
    }

    /// Reads in pieces that the server accepts, one after the other.
    async fn read(&self, at: Extent, into: &Buf) -> Result {
        let mut done = 0;
        while done < at.count {
            let count = (at.count - done).min(self.piece_sectors);
            let part = Extent::new(at.first + u64::from(done), count);
            self.repeat(|remote| {
                let request = Request::Read { at: part, into: into.part(done, count) };
                async move { remote.run(request).await }
            })
            .await?;
            done += count;
        }
        Ok(())
    }

    /// Runs a request that may be repeated, on as many connections as it takes.
    async fn repeat<T, F: Future<Output = Result<T>>>(
        &self,
        send: impl Fn(Rc<Remote<D::Wire>>) -> F,
    ) -> Result<T> {
        let mut until_ns = None;
        loop {
            // The time counts from the first moment on at which there is no connection.
            let until = until_ns.unwrap_or(self.lane.now() + RECONNECT_NS);
            let remote = self.line.connection(until).await?;
            let result = send(remote.clone()).await;
            match result {
                // The next server at this address may answer.
                Err(error) if error.errno == NBD_ESHUTDOWN as i32 => {
                    if self.line.is_current(&remote) {
                        self.line.leave();
                    }
                }
                Err(error) if remote.ended() == Some(error) => {
                    if self.line.is_current(&remote) {
                        self.line.drop_current();
                    }
                }
                result => return result,
            }
            until_ns.get_or_insert(self.lane.now() + RECONNECT_NS);
        }
    }
}

impl<D: Dial> Block for Link<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        match (request, &self.way) {
            (Request::Read { at, into }, _) => self.read(at, &into).await,
            (Request::Advise { .. }, _) => Ok(()),
            // Nothing was changed.
            (Request::Flush, Way::None) => Ok(()),
            (_, Way::None) => {
                Err(Error::new(Kind::ReadOnly, "change an NBD export that is only read"))
            }
            (request, Way::Here(changes)) => changes.run(request).await,
            (request, Way::There(ferry)) => ferry.run(&self.lane, request).await,
        }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.repeat(|remote| async move { remote.status(at).await }).await
    }

    fn held_ns(&self) -> u64 {
        let held_ns = self.shared.writing().map_or(0, |writing| writing.held_ns());
        held_ns.saturating_add(self.shared.state().held_ns())
    }

    fn may_keep(&self, at: Extent) -> bool {
        self.shared.writing().is_none_or(|writing| writing.peek(|fence| fence.may_keep(at)))
    }

    fn link(&self) -> Option<&Arc<LinkState>> {
        Some(self.shared.state())
    }
}

impl<D: Dial> Drop for Link<D> {
    fn drop(&mut self) {
        self.line.leave_for_good();
        if let Way::Here(changes) = &self.way {
            changes.end();
        }
    }
}
