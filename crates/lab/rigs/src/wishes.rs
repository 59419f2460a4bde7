//! What is asked for beside the target.

use block::Size;
use load::Content;

/// What is asked for beside the target.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Make a file of this size, and remove it at the end.
    pub size: Option<Size>,
    /// What the target holds may be lost.
    pub destroy: bool,
    /// The target is only read, and is opened so.
    pub read_only: bool,
    /// Compare what is read with what was written.
    pub verify: bool,
    /// What is written.
    pub content: Content,
}
