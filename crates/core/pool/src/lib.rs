//! Pools: several devices as one, without stripes, and [`Stripe`]s to compare them with.
//!
//! After OCZ's Virtualized Controller Architecture 2.0, as far as that is known: requests are not laid
//! out over the members by their addresses; each write goes, whole, to the member that suits it best
//! now. A *map* says where every slot of 4 KiB lies. From that follows the rest:
//!
//! - The member is the one with the fewest requests in flight; a member that was written more than the
//!   others counts as having more. Members of one speed are so written evenly, in proportion to their
//!   sizes; a member that is slower gets less rather than slow all others down, and is reported. (Only while
//!   the others have free places: nothing is moved, so a pool that is full of data writes to each member
//!   as much as it frees there.)
//! - Every write goes to a free place. The older place is free once the map's change is durable, so a
//!   power cut leaves each slot old or new, never torn, whatever the members' own unit is.
//! - A request stays together where free places do: reads of it then go to one member. Reads that lie
//!   on several go there at the same time.
//! - Zeroes and discards are changes of the map. The owner is told once they are durable. Older places
//!   of overwritten slots are told only in runs of 64 KiB and more, since others will be used soon.
//! - The map is 4 bytes a slot in memory, for at most 16 TiB, and half a byte for free places.
//!
//! What survives a crash is drawn in `layout.rs` (where), `format.rs` (what) and `commit.rs` (when).
//! Each member holds the whole map and journal: half a per cent of it for two, and a small write more
//! for each flush. Only so it is known, when a member is lost, what was on it, and nothing older is
//! taken for it.
//!
//! **A lost member** takes along what lay on it, as a disk of a JBOD does; there is no redundancy. A
//! write that it refuses goes to another member. A flush that it refuses is answered with an error; what
//! was written to it since its last good flush reads as an error from then on, until it is written
//! again. Everything else goes on.
//!
//! A pool is a layer: it runs in virtual time, in the crash laboratory and live, has no clock but its
//! lane's, and decides under one lock. A flush is as slow as the slowest member that was written to.
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
mod gone;
mod joined;
mod journal;
mod layout;
mod member;
mod opening;
mod planted;
mod pool;
mod refusal;
mod release;
mod slots;
mod state;
mod stripe;

pub use create::create;
pub use gone::Gone;
pub use layout::{Layout, MEMBERS_MAX, SLOT_SECTORS};
pub use member::{MemberState, MemberStatistics};
pub use opening::open;
pub use planted::Bug;
#[cfg(feature = "laboratory")]
pub use planted::{plant, planted};
pub use pool::{Pool, PoolShared};
pub use refusal::{Reason, Refusal};
pub use stripe::{Stripe, stripe_limits};
