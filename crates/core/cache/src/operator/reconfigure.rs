//! Changes of the settings while the volume is served (C12).
//!
//! Clients are not delayed. Stricter settings take effect before all earlier changes are made
//! durable, laxer ones only afterwards, so that a request in between follows the old settings, the
//! new ones, or both. `ordered` consists of two parts here: a flush is answered immediately, and
//! every write-through waits for closed epochs. The second takes effect before the first, and ends
//! only when no epoch is closed any more (`Shared::publish_closed`). The memory records it, so that
//! a successor keeps this process's promise, whatever it promises itself.

use crate::planted::{Bug, planted};
use crate::request::Cache;
use crate::settings::{Changes, Settings};
use block::{Durability, Error, Kind, Result};
use lane::atomic::Ordering;

const BUSY: Error = Error::new(Kind::Invalid, "set: another change of the settings is in progress");

const IN_DOUBT: Error = Error::new(
    Kind::Io,
    "set: an earlier process may have lost writes, so no order can be guaranteed until the first \
     flush of each client has reported that",
);

/// The settings of a change: before it, until all earlier changes are durable, and after it.
struct Switch {
    before: Settings,
    meanwhile: Settings,
    after: Settings,
    /// True if all earlier changes must be made durable.
    drains: bool,
}

/// Returns the strength of a flush's promise.
fn strength(durability: Durability) -> u32 {
    match durability {
        Durability::Scratch => 0,
        Durability::Ordered => 1,
        Durability::Flush => 2,
    }
}

/// Returns the stricter of two targets; 0 is none.
fn stricter(one: u64, two: u64) -> u64 {
    if one == 0 || two == 0 { one.max(two) } else { one.min(two) }
}

impl Switch {
    fn new(before: Settings, after: Settings) -> Switch {
        let stops = before.write.absorbs() && !after.write.absorbs();
        let stronger = strength(after.durability) > strength(before.durability);
        let flush_target_ns = stricter(before.flush_target_ns, after.flush_target_ns);
        let meanwhile = Settings {
            write: if stops { after.write } else { before.write },
            durability: if stronger { after.durability } else { before.durability },
            dirty_blocks_max: before.dirty_blocks_max.min(after.dirty_blocks_max),
            dirty_age_ns: before.dirty_age_ns.min(after.dirty_age_ns),
            flush_target_ns,
            ..before
        };
        let drains = stops
            || before.durability != after.durability
            || meanwhile.dirty_blocks_max < before.dirty_blocks_max
            || meanwhile.dirty_age_ns < before.dirty_age_ns
            || flush_target_ns != before.flush_target_ns;
        Switch { before, meanwhile, after, drains }
    }

    /// Whether the change begins the promise of an order.
    fn begins_order(&self) -> bool {
        let ordered = Durability::Ordered;
        self.before.durability != ordered && self.after.durability == ordered
    }

    /// Whether the order of flushes is promised until all earlier changes are durable.
    fn wants_order(&self) -> bool {
        let ordered = Durability::Ordered;
        self.meanwhile.durability == ordered || self.after.durability == ordered
    }
}

impl Cache {
    /// Changes settings, all of them or none. On return they are in effect: a later flush follows
    /// the new settings, and the amount and age of dirty data are within the new limits. If
    /// `durability` changes, a limit shrinks, or writes are no longer absorbed, all changes
    /// answered before are durable. (A write that overlapped dirty data in between was absorbed
    /// over it nevertheless.)
    ///
    /// # Errors
    /// The backing's error, or that the backing does not answer, or that no order can be promised
    /// while the volume is in doubt about a flush (C1): nothing has changed then. `Invalid`:
    /// another caller is changing the settings.
    pub async fn set(&self, changes: &Changes) -> Result {
        let shared = self.shared();
        if shared.is_reconfiguring.swap(true, Ordering::SeqCst) {
            return Err(BUSY);
        }
        let (cache, changes) = (self.clone(), *changes);
        let change = async move {
            let result = cache.switch(&changes).await;
            cache.shared().is_reconfiguring.store(false, Ordering::SeqCst);
            result
        };
        if planted(Bug::SwitchBeforeSettle) {
            let later = async move { _ = change.await };
            self.0.lane.spawn(later).expect("a lane has room for a few more tasks");
            return Ok(());
        }
        change.await
    }

    async fn switch(&self, changes: &Changes) -> Result {
        let shared = self.shared();
        let before = shared.settings();
        let switch = Switch::new(before, before.changed(changes, shared.geometry()));
        // The order would include data that may be lost, before all data sent from now on.
        if switch.begins_order() && shared.is_in_doubt() {
            return Err(IN_DOUBT);
        }
        self.put(&switch.meanwhile, switch.wants_order()).await;
        // More dirty data than allowed may also have been taken over from an earlier process with a
        // higher limit.
        let drains = switch.drains || shared.dirty_blocks() > switch.meanwhile.dirty_blocks_max;
        let drained = if drains { self.drain().await } else { Ok(()) };
        let result = match &drained {
            Ok(()) => switch.after,
            Err(_) => switch.before,
        };
        self.put(&result, result.durability == Durability::Ordered).await;
        if drained.is_ok()
            && let Some(on) = changes.guard
        {
            shared.set_guard(on, self.0.lane.now());
        }
        drained
    }

    /// Puts settings into effect.
    async fn put(&self, settings: &Settings, wants_order: bool) {
        let shared = self.shared();
        shared.settings.put(settings);
        self.0.apply_link_policy();
        shared.gauges.set_allowance(&shared.settings.now(), shared.writeback.estimator.pace());
        self.0.lane.turn().await;
        shared.epochs.with(|epochs| {
            if wants_order && !shared.gauges.is_ordered() {
                shared.gauges.begin_order(&shared.arena);
            }
            shared.settings.set_durability(settings.durability, wants_order);
            shared.publish_closed(epochs);
        });
        // Waiting tasks may now have another next step: tasks that wait for room, for closed
        // epochs, or for the time of writeback.
        shared.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::WriteMode;

    fn before() -> Settings {
        Settings {
            write: WriteMode::Back,
            durability: Durability::Flush,
            dirty_blocks_max: 1000,
            dirty_age_ns: 5000,
            flush_target_ns: 300,
            ..Settings::default()
        }
    }

    /// Returns the settings during the change, and whether all earlier changes are made durable.
    fn meanwhile(before: Settings, after: Settings) -> (Settings, bool) {
        let switch = Switch::new(before, after);
        assert_eq!((switch.before, switch.after), (before, after));
        (switch.meanwhile, switch.drains)
    }

    #[test]
    fn where_nothing_becomes_stricter_nothing_changes_before_the_end_and_nothing_drains() {
        let before = before();
        assert_eq!(meanwhile(before, before), (before, false));
        let laxer = Settings { dirty_blocks_max: 1001, dirty_age_ns: 5001, ..before };
        assert_eq!(meanwhile(before, laxer), (before, false));
        for target in [0, 301] {
            let laxer = Settings { flush_target_ns: target, ..before };
            assert_eq!(meanwhile(before, laxer), (before, false));
        }
        let other = Settings { write: WriteMode::BackNow, absorb_blocks_max: 3, ..before };
        assert_eq!(meanwhile(before, other), (before, false), "both absorb");
    }

    #[test]
    fn each_stricter_limit_is_in_force_before_everything_from_before_is_made_durable() {
        let before = before();
        let changes = [
            Settings { dirty_blocks_max: 999, ..before },
            Settings { dirty_age_ns: 4999, ..before },
            Settings { flush_target_ns: 299, ..before },
        ];
        for after in changes {
            assert_eq!(meanwhile(before, after), (after, true));
        }
        let without = Settings { flush_target_ns: 0, ..before };
        assert_eq!(meanwhile(without, before), (before, true), "any target is stricter than none");
        let targets = [(0, 0), (0, 5), (5, 0), (5, 7), (7, 5)];
        assert_eq!(targets.map(|(one, two)| stricter(one, two)), [0, 5, 5, 5, 5]);
    }

    #[test]
    fn what_stops_absorbing_does_so_before_and_what_begins_to_absorb_does_so_after() {
        use WriteMode::{Back, BackNow, None, Through};
        let with = |write| Settings { write, ..before() };
        for absorbs in [Back, BackNow] {
            for passes in [Through, None] {
                assert_eq!(meanwhile(with(absorbs), with(passes)), (with(passes), true));
                assert_eq!(meanwhile(with(passes), with(absorbs)), (with(passes), false));
            }
        }
        assert_eq!(meanwhile(with(Through), with(None)), (with(Through), false));
    }

    #[test]
    fn of_two_meanings_of_a_flush_the_stronger_one_holds_until_everything_is_durable() {
        use Durability::{Flush, Ordered, Scratch};
        let with = |durability| Settings { durability, ..before() };
        // From, to, the setting in between, and whether closed epochs precede write-throughs.
        let cases = [
            (Scratch, Ordered, Ordered, true),
            (Scratch, Flush, Flush, false),
            (Ordered, Scratch, Ordered, true),
            (Ordered, Flush, Flush, false),
            (Flush, Scratch, Flush, false),
            (Flush, Ordered, Flush, true),
        ];
        for (from, to, holds, order) in cases {
            assert_eq!(meanwhile(with(from), with(to)), (with(holds), true), "{from:?} to {to:?}");
            let switch = Switch::new(with(from), with(to));
            assert_eq!(switch.wants_order(), order, "{from:?} to {to:?}");
        }
        assert!(Switch::new(with(Ordered), with(Ordered)).wants_order());
    }
}
