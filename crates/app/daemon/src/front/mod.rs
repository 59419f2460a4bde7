//! Fronts: the ways by which clients reach volumes.
//!
//! ```text
//!   the plan --bind--> Front --Fleet--> sites, control, the end
//!                        |
//!   nbd/  sockets        +--> Export, Client (crate `export`) --> a volume's stack
//!   fuse/ a directory
//!   ublk/ a block device
//! ```
//!
//! What serves volumes knows fronts by the trait only; a new one is a folder here, and a line where the
//! plan is made into fronts.

mod fleet;
mod fuse;
mod inherited;
mod nbd;
mod serving;
mod ublk;

use crate::lanes::Lanes;
use export::Export;
use host::File;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

pub(crate) use self::fuse::{Fuse, MountInfo, abort, approach, is_mounted};
pub use self::nbd::Place;
pub(crate) use self::nbd::{Direct, Nbd};
pub(crate) use self::ublk::{Opened, Ublk};
pub(crate) use fleet::Fleet;
pub(crate) use inherited::{Handover, Inherited, find_inherited};

/// Why a daemon ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Everything is to be written out.
    Stop,
    /// Another program takes this one's place: nothing need be written out.
    Upgrade,
}

/// Ends when the clients of a front have gone.
pub(crate) type Gone<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A protocol at an address. It has its address from the start, and serves once it is opened.
///
/// It knows nothing of volumes but their exports. An export's own stop ends its clients; its session
/// counts them.
pub(crate) trait Front {
    /// Where clients find the export of this name, as they are told.
    fn address(&self, export: &str) -> String;

    /// Begins to serve these: exports of the home lane, which the front is on. The other lanes have exports of the
    /// same names, and take jobs of the front.
    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>);

    /// Takes an export off the list: new clients do not find it.
    fn remove(&self, export: &str);

    /// Takes no clients any more. Before a stop, a client that comes is turned away; before an upgrade it
    /// waits for the next program. An upgrade that fails is followed by a stop.
    fn close(&self, ending: Ending);

    /// Waits until every client has gone, once they were asked to; at most until the deadline on the
    /// lane's clock.
    fn end(&self, deadline_ns: u64) -> Gone<'_>;

    /// What the next program goes on with after an upgrade: files, each under the name by which it asks
    /// for them ([`Inherited::take`]).
    fn inherit(&self) -> Vec<(String, File)>;
}
