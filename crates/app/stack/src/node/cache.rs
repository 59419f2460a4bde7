//! The cache: its engine, its memory, and its child.

use super::{Attached, OpenNode};
use block::{Limits, Stack};
use cache::{Cache, Shared};
use layers::{Recorder, RecorderSwitch};
use ring::{Fence, Ring, SharedMemory};
use std::sync::Arc;

/// A cache over its child.
pub(crate) struct CacheNode {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memory: SharedMemory,
    pub(crate) fence: Option<Fence>,
    pub(crate) below: Box<dyn OpenNode>,
    /// The switch for a recorder of the requests to its child.
    pub(crate) recorder: Arc<RecorderSwitch>,
}

impl OpenNode for CacheNode {
    fn children(&self) -> Vec<&dyn OpenNode> {
        vec![&*self.below]
    }

    fn limits(&self) -> Limits {
        self.below.limits()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let below = self.below.attach(ring).stack;
        let below = Stack::new(ring.lane(), Recorder::attach_switch(&self.recorder, below));
        let cache = Cache::attach(&self.shared, ring.lane(), below);
        Attached { stack: Stack::new(ring.lane(), cache.clone()), cache: Some(cache) }
    }
}
