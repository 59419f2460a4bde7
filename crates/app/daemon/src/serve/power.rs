//! The power of a modelled drive, which an operator may cut.

use super::volume_service::VolumeService;
use drives::SLOT_BYTES;
use serde_json::{Value, json};
use stack::{Exit, Failure};

impl VolumeService {
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
