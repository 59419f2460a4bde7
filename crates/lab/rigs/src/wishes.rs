//! Options of a rig, in addition to its target.

use block::Size;
use load::Content;

/// Options of a rig, in addition to its target.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Create a file of this size, and remove it at the end.
    pub size: Option<Size>,
    /// The data on the target may be lost.
    pub destroy: bool,
    /// The target is only read, and opened read-only.
    pub read_only: bool,
    /// Compare reads with the data that was written.
    pub verify: bool,
    /// The data of writes.
    pub content: Content,
}
