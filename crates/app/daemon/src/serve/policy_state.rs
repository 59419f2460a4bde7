//! The state of a volume's policy: read at the start, saved with the list of hot blocks.

use super::warmth::{Warmth, reason};
use crate::device::blocking;

impl Warmth {
    /// Reads the state, and lets the policy go on from it.
    pub(super) async fn load_policy(&self) {
        if self.is_on() {
            self.read_policy().await;
        }
        self.is_policy_read.set(true);
    }

    async fn read_policy(&self) {
        let (lists, identity, blocks) = (self.lists.clone(), self.identity.clone(), self.blocks);
        let shared = self.cache.shared();
        let (kind, geometry) = (shared.settings().policy, *shared.geometry());
        match blocking(move || lists.load_policy(&identity, blocks, kind, &geometry)).await {
            Ok(Ok(Some(state))) => self.cache.restore_policy(state).await,
            Ok(Ok(None)) => {}
            Ok(Err(why)) => {
                crate::complain!(volume = self.name, "overdrive: {}: {why}", self.name)
            }
            Err(failure) => {
                crate::complain!(volume = self.name, "overdrive: {}: {failure}", self.name)
            }
        }
    }

    /// Replaces the saved state, unless the former one was not read yet. Returns the reason why it
    /// could not be saved.
    pub(super) async fn save_policy(&self) -> Option<String> {
        if !self.is_policy_read.get() {
            return None;
        }
        let state = self.cache.policy_state().await;
        let (lists, of) = (self.lists.clone(), self.description());
        reason(blocking(move || lists.save_policy(&of, &state)).await)
    }
}
