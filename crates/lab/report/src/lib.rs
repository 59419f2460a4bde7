//! Pages that need nothing else: HTML with plots as SVG, to be read without a network and without scripts.
//!
//! ```text
//!   what was measured --axis, plot--> SVG --+
//!                     --words-------> text -+--page--> one file
//! ```
//!
//! What a page says comes from its callers. Light or dark is what the system prefers that it is read on.
#![forbid(unsafe_code)]

pub mod axis;
pub mod bars;
pub mod chart;
pub mod names;
pub mod page;
pub mod plot;
mod style;
pub mod words;
