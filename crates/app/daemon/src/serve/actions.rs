//! An operator's actions on a served volume.

use super::volume_service::{BLOCK, VolumeService};
use crate::control::losses::GivenUp;
use crate::setting::SettingChanges;
use block::{Durability, Request, WriteMode};
use drives::SLOT_BYTES;
use serde_json::{Value, json};
use stack::{Exit, Failure, SCRATCH};
use std::cell::Cell;

/// An operator's action, the only one of its volume or daemon until this is dropped.
pub(super) struct Operation<'a>(&'a Cell<bool>);

impl Operation<'_> {
    /// Begins an action. None: another one is in progress.
    pub(super) fn begin(busy: &Cell<bool>) -> Option<Operation<'_>> {
        (!busy.replace(true)).then_some(Operation(busy))
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl VolumeService {
    fn begin_operation(&self) -> Result<Operation<'_>, Failure> {
        Operation::begin(&self.busy).ok_or_else(|| {
            let message = format!(
                "{}: another operation is in progress; try again once it has ended",
                self.name
            );
            Failure::new(Exit::Busy, message)
        })
    }

    pub(super) fn io_failure(&self, error: block::Error) -> Failure {
        Failure::new(Exit::Io, format!("{}: {error}", self.name))
    }

    /// Makes all answered writes durable, even if a client's flush guarantees less by the volume's
    /// settings.
    pub(crate) async fn flush(&self) -> Result<(), Failure> {
        if let Some(loss) = self.volume.loss() {
            let Failure { exit, message } = self.loss_failure(loss, true);
            return Err(Failure::new(exit, format!("{}: {message}", self.name)));
        }
        let durability = self.shared().map(|shared| shared.settings().durability);
        // A drain waits only for a limited time for a link that is down.
        let has_link = self.attached.stack.link().is_some();
        let flushed = match durability {
            Some(Durability::Flush) if has_link => self.drain().await,
            None | Some(Durability::Flush) => {
                self.attached.stack.run_unless_stalled(Request::Flush).await
            }
            Some(Durability::Ordered | Durability::Scratch) => self.drain().await,
        };
        flushed.map_err(|error| self.io_failure(error))
    }

    pub(crate) async fn pause(&self) -> Result<(), Failure> {
        let _operation = self.begin_operation()?;
        let Some(shared) = self.shared() else {
            let message = format!("{}: has no cache to pause", self.name);
            return Err(Failure::new(Exit::Negative, message));
        };
        let before = self.paused.get().unwrap_or(shared.write_mode());
        shared.set_write_mode(WriteMode::None);
        if let Err(error) = self.drain().await {
            shared.set_write_mode(before);
            return Err(self.io_failure(error));
        }
        self.paused.set(Some(before));
        Ok(())
    }

    pub(crate) async fn freeze(&self) -> Result<(), Failure> {
        let _operation = self.begin_operation()?;
        let valve = self.volume.valve();
        if !valve.close() {
            return Ok(());
        }
        let quiet = valve.quiet(|| self.is_stalled() || self.is_link_down()).await;
        let drained = if quiet { self.drain().await } else { Ok(()) };
        if quiet && drained.is_ok() {
            return Ok(());
        }
        valve.open();
        Err(match drained {
            Err(error) => self.io_failure(error),
            Ok(()) => {
                let message = format!(
                    "{}: not frozen, because the backing does not answer changes in progress",
                    self.name
                );
                Failure::new(Exit::Io, message)
            }
        })
    }

    pub(crate) fn resume(&self) -> Result<(), Failure> {
        let _operation = self.begin_operation()?;
        let was_frozen = self.volume.valve().is_closed();
        self.volume.valve().open();
        let before = self.paused.take();
        if let (Some(before), Some(shared)) = (before, self.shared()) {
            shared.set_write_mode(before);
        }
        if was_frozen || before.is_some() {
            return Ok(());
        }
        let message = format!("{}: is neither paused nor frozen", self.name);
        Err(Failure::new(Exit::Negative, message))
    }

    /// Changes settings, all of them or none; returns notes for the operator.
    pub(crate) async fn set(&self, pairs: &[String]) -> Result<Vec<String>, Failure> {
        let _operation = self.begin_operation()?;
        let name = &self.name;
        let Some(cache) = &self.attached.cache else {
            let message = format!("{name}: has no cache to set");
            return Err(Failure::new(Exit::Negative, message));
        };
        let SettingChanges { engine: changes, rules } =
            crate::setting::changes(pairs, cache.shared().geometry())?;
        if self.is_held() {
            let message = format!("{name}: is frozen or paused; resume it first");
            return Err(Failure::new(Exit::Busy, message));
        }
        let mut notes = Vec::new();
        let absorbs = changes.write.map(WriteMode::absorbs);
        if absorbs == Some(true) {
            self.volume.check_absorbing()?;
            // Writeback must not wait for memory pages.
            if let Err(error) = host::lock_process() {
                notes.push(error.to_string());
            }
            self.volume.record_absorbing(true)?;
        }
        if let Err(error) = cache.set(&changes).await {
            let message = format!("{name}: {error}; no setting was changed");
            return Err(Failure::new(Exit::Io, message));
        }
        if let (Some(mapping), Some(rules)) = (&self.mapping, rules) {
            mapping.set_rules(rules);
        }
        self.apply_to_tasks();
        if absorbs == Some(false) {
            self.volume.record_absorbing(false)?;
        }
        if changes.durability == Some(Durability::Scratch) {
            notes.push(SCRATCH.to_owned());
        }
        Ok(notes)
    }

    /// Ends the failed state: tries again to write dirty data back, or discards it.
    pub(crate) async fn clear_error(
        &self,
        discard_dirty: bool,
        failure: Option<u64>,
        saved_to: Option<String>,
    ) -> Result<Value, Failure> {
        let _operation = self.begin_operation()?;
        let still = self.shared().map(|shared| shared.times_cleared());
        if failure.is_some() && failure != still {
            let message = format!(
                "{}: was cleared and has failed again since; the saved data is not all dirty \
                 data, so nothing was discarded",
                self.name
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        let failed = self.shared().is_some_and(|shared| shared.has_failed());
        let was_short = self.volume.was_short();
        if was_short && self.volume.accept_sizes() {
            crate::tell!(
                volume = self.name,
                "overdrive: {}: its backing had shrunk and has its former size again: data \
                 beyond the smaller size is lost, and reads return the present contents",
                self.name
            );
        }
        let (Some(cache), true) = (&self.attached.cache, failed) else {
            if was_short {
                return self.try_again(0, true).await;
            }
            let message = format!("{}: has not failed, so there is no error to clear", self.name);
            return Err(Failure::new(Exit::Negative, message));
        };
        let unflushed = was_short || self.may_have_lost_unflushed();
        if discard_dirty {
            let blocks = cache.discard_dirty().await.map_err(|error| self.io_failure(error))?;
            let bytes = blocks * BLOCK;
            let mut losses = self.losses.borrow_mut();
            losses.unflushed |= unflushed;
            losses.given_up.push(GivenUp { bytes, saved_to });
            return Ok(json!({ "discarded_bytes": bytes, "may_miss_unflushed": unflushed }));
        }
        let dirty = u64::from(cache.shared().dirty_blocks()) * BLOCK;
        cache.shared().clear_error();
        self.try_again(dirty, unflushed).await
    }

    /// Writes all dirty data back once more, `dirty_bytes` in all. `unflushed`: writes made
    /// directly to the backing may be missing.
    async fn try_again(&self, dirty_bytes: u64, unflushed: bool) -> Result<Value, Failure> {
        self.losses.borrow_mut().unflushed |= unflushed;
        match self.drain().await {
            Ok(()) => Ok(json!({
                "written_bytes": dirty_bytes,
                "may_miss_unflushed": unflushed,
            })),
            Err(error) => Err(Failure::new(
                Exit::Io,
                format!("{}: {error}; the volume has failed again", self.name),
            )),
        }
    }

    /// Whether a failed volume may miss writes made directly to its backing, because a flush has
    /// failed. For a volume that was taken over in the failed state, the reason is unknown.
    fn may_have_lost_unflushed(&self) -> bool {
        let errors = self.errors();
        let has_hung = self.attached.stack.stall().is_some_and(|stall| stall.begun() > 0);
        errors.flushes > 0 || errors.sum() == 0 && !has_hung
    }

    /// Cuts the power of the modelled drive below; power returns after `off_ns`.
    pub(crate) async fn power_cut(&self, seed: u64, off_ns: u64) -> Result<Value, Failure> {
        let negative = |message: String| Err(Failure::new(Exit::Negative, message));
        let (name, lane) = (&self.name, self.ring.lane());
        let Some(model) = self.volume.model().cloned() else {
            return negative(format!(
                "{name}: has no modelled drive; serve model:NAME to cut a drive's power"
            ));
        };
        if !model.is_on() {
            return negative(format!("{name}: the power of its drive is already off"));
        }
        lane.turn().await;
        let lost = model.power_cut(lane.now(), seed);
        let back = lane.now().saturating_add(off_ns);
        let (waiting, drive) = (lane.clone(), model.clone());
        let later = async move {
            waiting.sleep_until(back).await;
            waiting.turn().await;
            drive.power_on(waiting.now());
        };
        lane.turn().await;
        // If `off_ns` is 0, or no task can be started to wait, power returns before the answer.
        if off_ns == 0 || lane.spawn(later).is_err() {
            model.power_on(lane.now());
        }
        Ok(json!({ "lost_bytes": lost.slots * SLOT_BYTES, "off_ns": off_ns, "seed": seed }))
    }
}
