//! A layer that makes requests to its child fail.

use super::{Attached, OpenNode};
use block::{Limits, Stack};
use layers::{Faults, FaultsShared};
use ring::Ring;
use std::sync::Arc;

/// The faults, and the child whose requests fail.
pub(crate) struct FaultsNode {
    pub(crate) shared: Arc<FaultsShared>,
    pub(crate) below: Box<dyn OpenNode>,
}

impl OpenNode for FaultsNode {
    fn children(&self) -> Vec<&dyn OpenNode> {
        vec![&*self.below]
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let Attached { stack, cache } = self.below.attach(ring);
        let faults = Faults::attach(self.shared.clone(), stack);
        Attached { stack: Stack::new(ring.lane(), faults), cache }
    }
}
