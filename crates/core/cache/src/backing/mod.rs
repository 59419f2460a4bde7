//! Requests to the backing, and the handling of a backing that fails or does not answer.

pub(crate) mod flush_gate;
pub(crate) mod health;
pub(crate) mod in_flight;
pub(crate) mod pipe;
pub(crate) mod retry;
pub(crate) mod write_times;

use crate::arena::Arena;
use crate::backing::flush_gate::Flushes;
use crate::backing::health::Health;
use crate::backing::in_flight::InFlight;
use crate::backing::pipe::Pipe;
use crate::backing::write_times::WriteTimes;
use alloc::sync::Arc;
use block::Stall;
use lane::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state of the backing that all lanes share.
pub(crate) struct Backing {
    /// Data that it may have lost, and whether the volume has failed because of that.
    pub(crate) health: Health,
    pub(crate) flushes: Flushes,
    /// Requests that it has not answered.
    pub(crate) in_flight: InFlight,
    pub(crate) write_times: WriteTimes,
    /// Measurements of its reads ahead of clients.
    pub(crate) pipe: Pipe,
    /// Whether requests to it hang.
    pub(crate) stall: Arc<Stall>,
    stalls: AtomicU64,
    /// Whether changes are refused because the link to it is down.
    refuses_changes: AtomicBool,
}

impl Backing {
    /// Makes the state of a backing about which nothing is known yet, under this arena.
    pub(crate) fn new(arena: Arena) -> Backing {
        Backing {
            health: Health::new(arena),
            flushes: Flushes::default(),
            in_flight: InFlight::default(),
            write_times: WriteTimes::new(),
            pipe: Pipe::new(),
            stall: Arc::default(),
            stalls: AtomicU64::new(0),
            refuses_changes: AtomicBool::new(false),
        }
    }

    /// The number of times a stall has begun or ended: odd from before the first task is notified
    /// of the stall until after the last one is notified of its end.
    pub(crate) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::SeqCst)
    }

    /// Whether changes are refused, also those that memory could absorb.
    #[inline]
    pub(crate) fn refuses_changes(&self) -> bool {
        self.refuses_changes.load(Ordering::Relaxed)
    }

    /// Sets whether requests to the backing, and all changes, get errors because its link is down.
    /// `hangs`: whether its requests do anyway.
    pub(crate) fn set_refusing(&self, refuses: bool, hangs: bool) {
        self.refuses_changes.store(refuses, Ordering::Relaxed);
        self.set_stalled(refuses || hangs);
    }

    /// Sets whether the backing hangs.
    fn set_stalled(&self, stalled: bool) {
        match (self.stall.is_on(), stalled) {
            (false, true) => {
                self.stalls.fetch_add(1, Ordering::SeqCst);
                self.stall.set(true);
            }
            (true, false) => {
                self.stall.set(false);
                self.stalls.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}
