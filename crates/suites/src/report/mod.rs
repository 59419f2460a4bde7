//! An outcome for people (a table, a page) and for programs (JSON).

mod axis;
mod json;
mod page;
mod plot;
mod text;

pub use json::json;
pub use page::page;
pub use text::text;
