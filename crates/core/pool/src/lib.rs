//! Pools: several devices as one, without striping; and [`Stripe`]s for comparison.
//!
//! Follows OCZ's Virtualized Controller Architecture 2.0, as far as that was published: addresses
//! do not determine the member; each write goes, as a whole, to the member that suits it best at
//! the time. A *map* records the *place* of every slot of 4 KiB: its member, and its position
//! there. This has the following consequences:
//!
//! - A write goes to the member with the fewest requests in flight; a member with more wear than
//!   the others counts as having more. So members of equal speed are written evenly, in proportion
//!   to their sizes. A slower member gets fewer writes, so that it does not slow down the others,
//!   and is reported. (Only while the others have free places: data is never moved, so a full pool
//!   writes to each member as much as becomes free there.)
//! - Every write goes to a free place. The older place becomes free when the change of the map is
//!   durable, so after a power cut each slot is old or new, never torn, whatever the members'
//!   atomic unit is.
//! - A request stays in one piece if free places are adjacent: then reads of it go to one member.
//!   Reads of several members run in parallel.
//! - Zeroes and discards are changes of the map. Once they are durable, they are sent to the member
//!   as discards. Older places of overwritten slots are discarded only in runs of 64 KiB or more,
//!   since shorter ones are soon reused.
//! - In memory, the map takes 4 bytes per slot, for at most 16 TiB, and free places half a byte.
//!
//! `layout.rs`, `format.rs` and `commit.rs` describe the position, the format and the order of the
//! data that survives a crash. Each member has the whole map and journal: half a percent of its
//! size in a pool of two, plus a small write per flush. So when a member is lost, the pool still
//! has the list of the data that was on it, and never returns older data instead.
//!
//! **A lost member** loses the data on it, like a disk of a JBOD; there is no redundancy. If a
//! write to a member fails, it goes to another member. If a flush fails, it is answered with an
//! error; reads of the data that was written to the member since its last successful flush then
//! fail, until that data is written again. All other data stays available.
//!
//! A pool is a layer: it runs in virtual time, in the crash laboratory and live, uses only its
//! lane's clock, and decides under one lock. A flush takes as long as the slowest member that was
//! written to.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bits;
mod commit;
mod create;
mod decide;
mod format;
mod found;
mod joined;
mod journal;
mod layout;
mod member;
mod missing_device;
mod opening;
mod planted;
mod pool;
mod refusal;
mod release;
mod slots;
mod state;
mod stripe;

pub use create::create;
pub use layout::{Layout, MEMBERS_MAX, SLOT_SECTORS};
pub use member::{MemberState, MemberStatistics};
pub use missing_device::MissingDevice;
pub use opening::open;
pub use planted::Bug;
#[cfg(feature = "laboratory")]
pub use planted::{plant, planted};
pub use pool::{Pool, PoolShared};
pub use refusal::{Reason, Refusal};
pub use stripe::{Stripe, stripe_limits};
