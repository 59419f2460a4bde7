//! Backings without a device: memory of this process, and the null device.

use super::{Attached, OpenNode, Unkept};
use block::{Block, Limits, Null, Ram, Stack};
use host::File;
use ring::Ring;

/// Memory; its contents are lost when the process ends.
pub(crate) struct RamNode(pub(crate) Ram);

impl OpenNode for RamNode {
    fn limits(&self) -> Limits {
        Block::limits(&self.0).clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        Attached { stack: Stack::new(ring.lane(), self.0.clone()), cache: None }
    }
}

/// A device that stores nothing.
pub(crate) struct NullNode(pub(crate) Null);

impl OpenNode for NullNode {
    fn limits(&self) -> Limits {
        Block::limits(&self.0).clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        Attached { stack: Stack::new(ring.lane(), self.0.clone()), cache: None }
    }

    fn keepable(&self) -> Result<Vec<File>, Unkept> {
        Err(Unkept::Empty)
    }
}
