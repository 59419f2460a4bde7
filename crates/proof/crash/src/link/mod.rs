//! The link: the engine's way to a disk that is the export of a server.
//!
//! ```text
//!   engine --> LinkLane --> Link: the product's fence, the link's state --> State (disk/server.rs)
//!                                       ^                                      ^
//!                 events of the link ---+--------------------------------------+
//! ```
//!
//! `lane.rs` and this file do what `crates/fronts/nbd/src/client` does: changes and flushes have a
//! connection each, and a request whose connection has ended is sent again as the fence permits.
//! `link_events.rs` cuts connections and restarts the server; `former.rs` is the start of a process
//! after a kill; `watch.rs` judges errors.

mod former;
mod lane;
mod watch;

pub(crate) use former::settle_former;
pub(crate) use lane::LinkLane;
pub(crate) use watch::Watch;

use crate::device::Disk;
use crate::disk::{Carried, Flight, Role, State};
use crate::model::Model;
use crate::trace;
use ::lane::Event;
use block::{Error, Kind, LinkState, Memory, Request, Result};
use nbd::fence::{Begin, Export, Fence, FlushMark, Sent, TABLE_BYTES};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const LOST: Error = Error::new(Kind::Io, "flush: the server may have lost changes");

/// Longest time until a cut connection is noticed.
pub(crate) const NOTICE_NS: u64 = 21_000_000_000;

/// A process's link to the server of its disk.
pub(crate) struct Link {
    pub(crate) disk: Disk,
    fence: RefCell<Fence>,
    pub(crate) state: Arc<LinkState>,
    /// Notified when a connection has ended or may be made, and when a change was answered.
    pub(crate) changed: Event,
    /// The anchor after which the connection of changes was made.
    session: Cell<u32>,
    /// Changes that the fence holds.
    held: Cell<u32>,
}

/// Result of an attempt to send a change.
enum Attempt {
    Sent {
        flight: Flight,
        connection: u32,
        copy: Sent,
    },
    /// Until this time of the world.
    Held(u64),
    /// Until [`Link::changed`].
    Waits,
}

fn export_of(model: &Model) -> Export {
    Export { sectors: model.limits().sectors, abilities: [1, 2] }
}

/// Returns the memory of a fence's table.
pub(crate) fn table_memory() -> Arc<Memory> {
    Arc::new(Memory::heap(TABLE_BYTES))
}

impl Link {
    /// Begins the link of a process over a disk that is a server's, with the table of an earlier
    /// process in `table`, or with fresh memory.
    pub(crate) fn begin(disk: &Disk, table: &Arc<Memory>, now_ns: u64) -> Rc<Link> {
        let (export, clock_ns) =
            disk.with(|state| (export_of(&state.model), state.server().clock_ns(now_ns)));
        let is_fresh = table.word(0).load(std::sync::atomic::Ordering::Acquire) == 0;
        let fence = match is_fresh {
            true => Fence::new(table, export),
            false => Fence::adopt(table, export, clock_ns).expect("the table is a fence's"),
        };
        Rc::new(Link {
            disk: disk.clone(),
            fence: RefCell::new(fence),
            state: Arc::new(LinkState::new(NOTICE_NS)),
            changed: Event::new(),
            session: Cell::new(0),
            held: Cell::new(0),
        })
    }

    /// Whether the fence holds no range: each change may be sent.
    fn is_free(&self, now_ns: u64) -> bool {
        let clock_ns = self.clock_ns(now_ns);
        self.fence.borrow_mut().fences(clock_ns) == 0
    }

    fn clock_ns(&self, now_ns: u64) -> u64 {
        self.disk.with(|state| state.server().clock_ns(now_ns))
    }

    /// Whether nothing is cut, and no change is held.
    fn is_well(&self) -> bool {
        let is_whole = |disk: &mut State| !disk.server().is_cut_anywhere();
        self.state.lost_ns().is_none() && self.held.get() == 0 && self.disk.with(is_whole)
    }

    /// Losses of the server's that a flush has reported.
    fn losses(&self) -> u32 {
        self.disk.with(|disk| disk.server().losses)
    }

    /// Whether a flush has succeeded since the last loss.
    fn has_flushed(&self) -> bool {
        self.disk.with(|disk| disk.server().has_flushed)
    }

    /// Whether the process may not have handled a flush that has succeeded since the last loss.
    fn has_unmended_loss(&self) -> bool {
        self.disk.with(|disk| disk.server().has_unmended)
    }

    /// Acts on the ends of connections that were noticed. Without an anchor no change is sent, so
    /// the connection of changes ends with it.
    fn handle_ends(&self, now_ns: u64) {
        let clock_ns = self.clock_ns(now_ns);
        let ended = |role| self.disk.with(|state| state.server().has_ended(role));
        if ended(Role::Anchor) {
            self.drop_connection(Role::Anchor, now_ns);
            self.drop_connection(Role::Changes, now_ns);
            self.fence.borrow_mut().session_ends(clock_ns);
            self.changed.notify();
        } else if ended(Role::Changes) {
            self.drop_connection(Role::Changes, now_ns);
            self.fence.borrow_mut().changes_end(clock_ns);
            self.changed.notify();
        }
        if ended(Role::Reads) {
            self.drop_connection(Role::Reads, now_ns);
        }
    }

    /// A loss is noted also where the next attempt to connect succeeds: errors count from then on.
    fn drop_connection(&self, role: Role, now_ns: u64) {
        if self.disk.with(|state| state.drop_connection(role, now_ns)) {
            self.state.note_lost(now_ns);
        }
    }

    /// Returns the connection of a role, or makes one.
    fn connect(&self, role: Role, now_ns: u64) -> Option<u32> {
        self.handle_ends(now_ns);
        let connection = self.disk.with(|state| state.server().connect(role));
        match connection {
            Some(_) => self.state.note_up(now_ns),
            None => self.state.note_lost(now_ns),
        }
        connection
    }

    /// Sends a copy of a change, if that is possible now.
    fn try_send(&self, request: &Request, number: u64, now_ns: u64) -> Attempt {
        let Some(anchor) = self.connect(Role::Anchor, now_ns) else { return Attempt::Waits };
        if self.session.replace(anchor) != anchor {
            self.drop_connection(Role::Changes, now_ns);
        }
        let Some(connection) = self.connect(Role::Changes, now_ns) else { return Attempt::Waits };
        let at = request.extent().expect("a change has a place");
        let clock_ns = self.clock_ns(now_ns);
        let begun = self.fence.borrow_mut().begin(at, is_fua(request), number, clock_ns);
        match begun {
            Begin::Full => Attempt::Waits,
            Begin::Held(until_ns) => {
                Attempt::Held(self.disk.with(|state| state.server().world_ns(until_ns)))
            }
            Begin::Sent(copy) => {
                let carried = Carried { connection, slot: copy.slot(), request: number };
                let flight = self.disk.with(|state| {
                    state.send_on(request, (Role::Changes, connection), Some(carried), now_ns)
                });
                Attempt::Sent { flight, connection, copy }
            }
        }
    }

    /// Begins a flush, also where there is no connection.
    ///
    /// # Errors
    /// Changes were lost that no flush has reported.
    fn flush_begins(&self, now_ns: u64) -> Result<FlushMark> {
        self.handle_ends(now_ns);
        let clock_ns = self.clock_ns(now_ns);
        let begun = self.fence.borrow_mut().flush_begins(clock_ns);
        begun.map_err(|_| self.lose())
    }

    fn flush_ends(&self, mark: FlushMark) -> Result {
        let ended = self.fence.borrow_mut().flush_ends(mark, true);
        ended.map_err(|_| self.lose())?;
        self.disk.with(|state| {
            state.flushed = true;
            state.server().has_flushed = true;
        });
        Ok(())
    }

    /// Counts a flush that fails because changes may be lost.
    fn lose(&self) -> Error {
        trace::event([13, 0, 0], format_args!("--- a flush reports a loss"));
        self.disk.with(|state| {
            state.server().losses += 1;
            (state.server().has_unmended, state.server().has_flushed) = (true, false);
        });
        LOST
    }
}

fn is_fua(request: &Request) -> bool {
    matches!(request, Request::Write { fua: true, .. } | Request::Zero { fua: true, .. })
}
