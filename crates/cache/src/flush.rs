//! Flushes: everybody who needs one waits for the epoch, or for the backing's own flush.

use crate::cache::{Cache, Handle, LOST};
use crate::crew;
use crate::gate::Pass;
use crate::order::Step;
use crate::planted::{Bug, planted};
use block::{Request, Result, Stack};
use core::sync::atomic::Ordering;
use lane::Cost;

impl Cache {
    /// Makes everything durable.
    ///
    /// # Errors
    /// What the backing answered, once `retry_time` was over, or that it does not answer; what is
    /// dirty stays so.
    pub async fn drain(&self) -> Result {
        let handle = &*self.0;
        // As a client would: who leads a write-out may hang in the backing.
        Stack::new(&handle.lane, self.clone()).run_unless_stalled(Request::Flush).await?;
        // The flush is answered before the slots are released; here they should be clean, too.
        loop {
            handle.lane.turn().await;
            let seen = handle.shared.order_changed.seen();
            if !handle.shared.order.with(|order| order.is_releasing()) {
                return Ok(());
            }
            handle.shared.order_changed.after(seen).await;
        }
    }
}

impl Handle {
    /// Makes durable what the backing has: by a flush that begins after this was called.
    pub(crate) async fn flush_below(&self) -> Result {
        self.lane.turn().await;
        let target = self.shared.gate.with(|gate| gate.target());
        let mut error = LOST;
        loop {
            self.lane.turn().await;
            let seen = self.shared.gate_changed.seen();
            match self.shared.gate.with(|gate| gate.step(target)) {
                Pass::Over(good) => return if good { Ok(()) } else { Err(error) },
                Pass::Wait => self.shared.gate_changed.after(seen).await,
                Pass::Lead => {
                    self.shared.flushes_backing.fetch_add(1, Ordering::Relaxed);
                    let result = self.ask_below(Request::Flush).await;
                    if let Err(found) = result {
                        error = found;
                        // At once: killed now, a successor must not believe a flush of its own.
                        self.shared.arena.note_flush_failed();
                        self.shared.tainted.store(true, Ordering::SeqCst);
                        self.shared.flush_failures.fetch_add(1, Ordering::SeqCst);
                    }
                    self.lane.turn().await;
                    self.shared.gate.with(|gate| gate.report(result.is_ok()));
                    self.shared.gate_changed.notify();
                }
            }
        }
    }

    /// [`Handle::flush`], unless the backing hangs: then it is refused at once, so that those who are
    /// left behind do not pile up.
    pub(crate) async fn flush_for_client(&self) -> Result {
        if self.shared.stall.is_on() {
            return Err(self.shared.stall.error());
        }
        self.flush().await
    }

    /// Makes durable everything that was completed before this was called (C1).
    pub(crate) async fn flush(&self) -> Result {
        self.lane.charge(Cost::Flush, 1);
        self.shared.flushes.fetch_add(1, Ordering::Relaxed);
        self.lane.turn().await;
        let target = self.shared.order.with(|order| match planted(Bug::JoinRunningFlush) {
            true => order.running_target(),
            false => order.target(),
        });
        loop {
            self.lane.turn().await;
            let seen = self.shared.order_changed.seen();
            match self.shared.order.with(|order| order.step(target)) {
                Step::Done(result) => return result,
                Step::Wait => self.shared.order_changed.after(seen).await,
                Step::Lead { epoch, resume } => crew::write_out(self, epoch, resume).await,
            }
        }
    }
}
