//! The state of an export that all lanes share, and the way to its server.

use super::Agreed;
use super::connected::{Connected, Connections};
use super::remote::NONSENSE;
use super::remote_limits::limits;
use super::writing::Writing;
use block::{Error, Kind, Limits, LinkState, SECTOR, Wire};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

/// Maximum size of a request. Larger ones than the server accepts are cut.
const READ_BYTES_MAX: u32 = 32 << 20;
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
    /// None: it is only read.
    writing: Option<Arc<Writing>>,
    state: Arc<LinkState>,
    connections: Connections,
}

impl LinkShared {
    /// An export, as the server described it first. Later connections must agree to the same.
    pub fn new(agreed: Agreed) -> Arc<LinkShared> {
        LinkShared::open(agreed, None, 0)
    }

    /// Same as [`LinkShared::new`], for an export that is written.
    pub fn written(agreed: Agreed, writing: Arc<Writing>) -> Arc<LinkShared> {
        LinkShared::open(agreed, Some(writing), 0)
    }

    /// Same as [`LinkShared::new`] or [`LinkShared::written`], over connections that end
    /// `notice_ns` after a cut at the latest.
    pub fn open(agreed: Agreed, writing: Option<Arc<Writing>>, notice_ns: u64) -> Arc<LinkShared> {
        let state = Arc::new(LinkState::new(notice_ns));
        let connections = Connections::default();
        Arc::new(LinkShared { agreed, damage: OnceLock::new(), writing, state, connections })
    }

    /// Returns the limits of the device.
    pub fn limits(&self) -> Limits {
        let read_only = self.writing.is_none();
        Limits { read_only, io_max_bytes: READ_BYTES_MAX, ..limits(&self.agreed) }
    }

    /// Returns the description of the export.
    pub(super) fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Returns the state of writing. None: the export is only read.
    pub(super) fn writing(&self) -> Option<&Arc<Writing>> {
        self.writing.as_ref()
    }

    /// Returns whether the link is down, and how that is handled.
    pub(super) fn state(&self) -> &Arc<LinkState> {
        &self.state
    }

    /// Counts a connection, until the result is dropped: the link is up.
    pub(super) fn count_connection(&self, now_ns: u64) -> Connected {
        let connected = self.connections.count();
        self.state.note_up(now_ns);
        connected
    }

    /// Notes that an attempt to connect has failed. The link is lost, unless other connections are
    /// there. `is_needed`: they cannot take the place of this one.
    pub(super) fn note_failed_attempt(&self, is_needed: bool, now_ns: u64) {
        match self.connections.are_there() && !is_needed {
            true => self.state.note_up(now_ns),
            false => self.state.note_lost(now_ns),
        }
    }

    /// Returns the number of sectors of the largest read that the server accepts.
    pub(super) fn piece_sectors(&self) -> u32 {
        limits(&self.agreed).io_max_bytes / SECTOR as u32
    }

    /// Returns the reason why the export cannot be used any more. None: it can.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.get()
    }

    /// Notes damage, unless another lane has found some first.
    pub(super) fn damage_by(&self, damage: Damage) {
        let _ = self.damage.set(damage);
    }

    pub(super) fn error(&self) -> Option<Error> {
        Some(match self.damage()? {
            Damage::Nonsense => NONSENSE,
            Damage::Changed { .. } => CHANGED,
        })
    }
}
