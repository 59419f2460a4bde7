//! An outcome for users (a table, a page) and for programs (JSON).

pub(crate) mod headline;
mod json;
mod page;
pub(crate) mod text;

pub use json::{json, json_of};
pub use page::{overlaid, page};
pub use text::text;
