//! A layer that makes its child slower.

use super::{Attached, OpenNode};
use block::{Limits, Stack};
use layers::{Delay, DelayShared};
use ring::Ring;
use std::sync::Arc;

/// The delay, and the delayed child.
pub(crate) struct DelayNode {
    pub(crate) shared: Arc<DelayShared>,
    pub(crate) below: Box<dyn OpenNode>,
}

impl OpenNode for DelayNode {
    fn children(&self) -> Vec<&dyn OpenNode> {
        vec![&*self.below]
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let Attached { stack, cache } = self.below.attach(ring);
        let delay = Delay::attach(self.shared.clone(), ring.lane(), stack);
        Attached { stack: Stack::new(ring.lane(), delay), cache }
    }
}
