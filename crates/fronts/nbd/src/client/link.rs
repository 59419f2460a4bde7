//! An export as a block device of a lane that outlives its connections. It only reads.
//!
//! ```text
//!   run --> the present connection (Remote) -- answer -->
//!            | it has ended
//!            v
//!           dial again, compare what the server agrees to, send the read again
//! ```
//!
//! A read may be sent any number of times, so a connection that ends loses nothing. Changes are
//! refused: a change that a broken connection has carried may reach the export after a newer one,
//! and a server that was restarted may have lost changes that it had answered.

use super::remote::NONSENSE;
use super::remote_limits::limits;
use super::{Agreed, Remote};
use crate::codec::NBD_ESHUTDOWN;
use block::{Block, Buf, Error, Extent, Kind, Limits, Request, Result, SECTOR, Stretch, Wire};
use lane::{Event, Lane};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// Maximum size of a read. Larger ones than the server accepts are cut.
const READ_BYTES_MAX: u32 = 32 << 20;
/// Time for which a read waits for a new connection before it fails.
pub const RECONNECT_NS: u64 = 10_000_000_000;
/// Pause before a second attempt to connect. It doubles with each further attempt.
const PAUSE_MIN_NS: u64 = 20_000_000;
const PAUSE_MAX_NS: u64 = 1_000_000_000;
/// A connection that has lasted for this long is followed by another one without a pause.
const STEADY_NS: u64 = 5_000_000_000;

const UNREACHABLE: Error = Error::new(Kind::Io, "reach the NBD server");
const CHANGED: Error =
    Error::new(Kind::Io, "use the NBD export: it is another one than when it was opened");

/// The way to a server.
pub trait Dial: 'static {
    /// A connection.
    type Wire: Wire;

    /// Connects, and agrees with the server on the export. Ends within seconds, whatever the server
    /// does. None: the attempt failed; the next one may succeed.
    fn dial(&self) -> impl Future<Output = Option<(Self::Wire, Agreed)>>;
}

/// Reason why an export cannot be used any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// The server violates the protocol.
    Nonsense,
    /// The server agrees to something else than before.
    Changed {
        /// Before.
        before: Agreed,
        /// Now.
        now: Agreed,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Nonsense => write!(out, "its NBD server breaks the protocol"),
            Damage::Changed { before, now } if before.export.bytes != now.export.bytes => write!(
                out,
                "its NBD server now shows an export of {} bytes, which had {} bytes before",
                now.export.bytes, before.export.bytes
            ),
            Damage::Changed { .. } => {
                write!(out, "its NBD server now shows an export with other abilities than before")
            }
        }
    }
}

/// State of an export that all lanes share.
#[derive(Debug)]
pub struct LinkShared {
    agreed: Agreed,
    damage: OnceLock<Damage>,
}

impl LinkShared {
    /// An export, as the server described it first. Later connections must agree to the same.
    pub fn new(agreed: Agreed) -> Arc<LinkShared> {
        Arc::new(LinkShared { agreed, damage: OnceLock::new() })
    }

    /// Returns the limits of the device.
    pub fn limits(&self) -> Limits {
        Limits { read_only: true, io_max_bytes: READ_BYTES_MAX, ..limits(&self.agreed) }
    }

    /// Returns the number of sectors of the largest read that the server accepts.
    fn piece_sectors(&self) -> u32 {
        limits(&self.agreed).io_max_bytes / SECTOR as u32
    }

    /// Returns the reason why the export cannot be used any more. None: it can.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.get()
    }

    fn error(&self) -> Option<Error> {
        Some(match self.damage()? {
            Damage::Nonsense => NONSENSE,
            Damage::Changed { .. } => CHANGED,
        })
    }
}

/// An export, as one lane sees it.
pub struct Link<D: Dial> {
    lane: Lane,
    dial: D,
    shared: Arc<LinkShared>,
    limits: Limits,
    piece_sectors: u32,
    current: RefCell<Option<Rc<Remote<D::Wire>>>>,
    /// Whether a request is dialling. The others wait.
    is_dialling: Cell<bool>,
    dialled: Event,
    /// Time at which the present connection was made.
    since_ns: Cell<u64>,
    /// Pause before the next attempt.
    pause_ns: Cell<u64>,
}

impl<D: Dial> Link<D> {
    /// Returns the lane's handle on an export. It connects for the first request.
    pub fn attach(lane: &Lane, dial: D, shared: &Arc<LinkShared>) -> Link<D> {
        Link {
            lane: lane.clone(),
            dial,
            limits: shared.limits(),
            piece_sectors: shared.piece_sectors(),
            shared: shared.clone(),
            current: RefCell::default(),
            is_dialling: Cell::new(false),
            dialled: Event::new(),
            since_ns: Cell::new(0),
            pause_ns: Cell::new(0),
        }
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
            let remote = self.connection(&mut until_ns).await?;
            match send(remote.clone()).await {
                // The next server at this address may answer.
                Err(error) if error.errno == NBD_ESHUTDOWN as i32 => remote.leave(),
                Err(error) if remote.ended() == Some(error) => {}
                result => return result,
            }
            self.forget(&remote)?;
        }
    }

    /// Returns a connection. `until_ns`: the time at which the request gives up, from the first
    /// time on that it finds no connection.
    async fn connection(&self, until_ns: &mut Option<u64>) -> Result<Rc<Remote<D::Wire>>> {
        loop {
            if let Some(error) = self.shared.error() {
                return Err(error);
            }
            let seen = self.dialled.seen();
            let current = self.current.borrow().clone();
            if let Some(remote) = current {
                match remote.ended() {
                    None => return Ok(remote),
                    Some(_) => self.forget(&remote)?,
                }
            }
            let until = *until_ns.get_or_insert(self.lane.now() + RECONNECT_NS);
            if self.is_dialling.get() {
                self.dialled.after(seen).await;
            } else if self.lane.now() >= until {
                return Err(UNREACHABLE);
            } else {
                self.is_dialling.set(true);
                self.dial_once().await;
                self.is_dialling.set(false);
                self.dialled.notify();
            }
        }
    }

    /// Makes one attempt to connect, after the pause that is due.
    async fn dial_once(&self) {
        let pause_ns = self.pause_ns.get();
        if pause_ns > 0 {
            self.lane.sleep_until(self.lane.now() + pause_ns).await;
        }
        self.pause_ns.set((pause_ns * 2).clamp(PAUSE_MIN_NS, PAUSE_MAX_NS));
        let Some((wire, agreed)) = self.dial.dial().await else { return };
        if let Some(now) = self.changed(&agreed) {
            // Another lane may have found damage first.
            let _ = self.shared.damage.set(now);
            wire.shutdown();
            return;
        }
        // Without room for its tasks, the next attempt may succeed.
        if let Ok(remote) = Remote::try_from_wire(&self.lane, wire, &agreed) {
            self.since_ns.set(self.lane.now());
            *self.current.borrow_mut() = Some(Rc::new(remote));
        }
    }

    fn changed(&self, now: &Agreed) -> Option<Damage> {
        let before = &self.shared.agreed;
        (!before.is_alike(now))
            .then(|| Damage::Changed { before: before.clone(), now: now.clone() })
    }

    /// Drops a connection that has ended.
    ///
    /// # Errors
    /// It has ended because the server violates the protocol.
    fn forget(&self, ended: &Rc<Remote<D::Wire>>) -> Result {
        let mut current = self.current.borrow_mut();
        if current.as_ref().is_some_and(|current| Rc::ptr_eq(current, ended)) {
            *current = None;
            if self.lane.now() >= self.since_ns.get() + STEADY_NS {
                self.pause_ns.set(0);
            }
        }
        match ended.ended() {
            Some(NONSENSE) => {
                let _ = self.shared.damage.set(Damage::Nonsense);
                Err(NONSENSE)
            }
            _ => Ok(()),
        }
    }
}

impl<D: Dial> Block for Link<D> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        match request {
            Request::Read { at, into } => self.read(at, &into).await,
            // Nothing was changed.
            Request::Flush | Request::Advise { .. } => Ok(()),
            _ => Err(Error::new(Kind::ReadOnly, "change an NBD export that is only read")),
        }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.repeat(|remote| async move { remote.status(at).await }).await
    }
}

impl<D: Dial> Drop for Link<D> {
    fn drop(&mut self) {
        if let Some(remote) = self.current.take() {
            remote.leave();
        }
    }
}
