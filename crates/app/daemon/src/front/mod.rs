//! Fronts: protocols by which clients reach volumes.
//!
//! ```text
//!   the plan --bind--> Front --Fronts--> volumes, control, the end
//!                        |
//!   nbd/  sockets        +--> Export, Client (crate `export`) --> a volume's stack
//!   fuse/ a directory
//!   ublk/ a block device
//! ```
//!
//! The code that serves volumes uses only the trait. A new front is a folder here, and a line where
//! `serve` makes fronts of the plan.

mod fronts;
mod fuse;
mod inherited;
mod nbd;
mod task_count;
mod ublk;

use crate::lanes::Lanes;
use export::Export;
use host::File;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

pub(crate) use self::fuse::{Fuse, MountInfo, Mountpoint, abort, approach, is_mounted, mountpoint};
pub(crate) use self::nbd::{KernelNbd, Nbd, tls_refused};
pub(crate) use self::ublk::{Ublk, UblkDevice};
pub(crate) use fronts::Fronts;
pub use inherited::find_inherited;
pub(crate) use inherited::{Handover, Inherited, forget_inherited};

/// Reason why a daemon ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// All dirty data must be written back.
    Stop,
    /// Another program replaces this one: nothing need be written back.
    Upgrade,
}

/// Future that resolves when the clients of a front have disconnected.
pub(crate) type EndFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A protocol at an address. The address is bound from the start; clients are served once the front
/// is opened.
///
/// A front uses volumes only through their exports. Each export has a stop, which ends its clients,
/// and makes a session for each client, which counts it.
pub(crate) trait Front {
    /// Returns the address of the export with this name, for messages to users.
    fn address(&self, export: &str) -> String;

    /// Starts to serve these exports on the home lane. The further lanes have exports of the same
    /// names, and run jobs of the front.
    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>);

    /// Removes an export: new clients do not find it.
    fn remove(&self, export: &str);

    /// Stops accepting clients. If the daemon stops, new clients are rejected; if it is upgraded,
    /// they wait for the next program. After an upgrade that fails, this is called again, to stop.
    fn close(&self, ending: Ending);

    /// Waits until every client has disconnected, at most until the deadline on the lane's clock.
    /// Clients must have been requested to end.
    fn end(&self, deadline_ns: u64) -> EndFuture<'_>;

    /// Returns the files with which the next program continues after an upgrade, each under the
    /// name by which it takes them ([`Inherited::take`]).
    fn handover_files(&self) -> Vec<(String, File)>;
}
