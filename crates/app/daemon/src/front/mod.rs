//! Fronts: protocols by which clients reach volumes.
//!
//! ```text
//!   the plan --bind--> Front --Fleet--> sites, control, the end
//!                        |
//!   nbd/  sockets        +--> Export, Client (crate `export`) --> a volume's stack
//!   fuse/ a directory
//!   ublk/ a block device
//! ```
//!
//! The code that serves volumes uses only the trait; a new front is a folder here, and a line where
//! the plan is made into fronts.

mod fleet;
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

pub(crate) use self::fuse::{Fuse, MountInfo, abort, approach, is_mounted};
pub(crate) use self::nbd::{Direct, Nbd};
pub(crate) use self::ublk::{Opened, Ublk};
pub(crate) use fleet::Fleet;
pub(crate) use inherited::{Handover, Inherited, find_inherited};

/// Reason why a daemon ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// All dirty data must be written back.
    Stop,
    /// Another program replaces this one: nothing need be written back.
    Upgrade,
}

/// Resolves when the clients of a front have disconnected.
pub(crate) type EndFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A protocol at an address. It has its address from the start, and serves once it is opened.
///
/// A front uses volumes only through their exports. An export's own stop ends its clients; its
/// session counts them.
pub(crate) trait Front {
    /// Returns the address of the export with this name, for messages to users.
    fn address(&self, export: &str) -> String;

    /// Starts to serve these exports of the home lane, which the front is on. The other lanes have
    /// exports of the same names, and accept jobs of the front.
    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>);

    /// Removes an export from the list: new clients do not find it.
    fn remove(&self, export: &str);

    /// Stops accepting clients. Before a stop, a new client is rejected; before an upgrade it waits
    /// for the next program. An upgrade that fails is followed by a stop.
    fn close(&self, ending: Ending);

    /// Waits until every client has disconnected, after a request to do so; at most until the
    /// deadline on the lane's clock.
    fn end(&self, deadline_ns: u64) -> EndFuture<'_>;

    /// Returns the files with which the next program continues after an upgrade, each under the
    /// name by which it takes them ([`Inherited::take`]).
    fn inherit(&self) -> Vec<(String, File)>;
}
