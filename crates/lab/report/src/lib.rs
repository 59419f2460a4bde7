//! Reports. Self-contained pages: HTML with plots as SVG and treemaps, readable without a network
//! and without scripts. Text for terminals: lines and tables.
//!
//! ```text
//!   measurements --axis, plot--> SVG --+
//!                --words-------> text -+--page------> one file
//!                                      +--terminal--> lines
//! ```
//!
//! The callers supply the text. The colour scheme, light or dark, follows the reader's system.
#![forbid(unsafe_code)]

pub mod axis;
pub mod bars;
pub mod chart;
pub mod names;
pub mod page;
pub mod plot;
mod style;
pub mod terminal;
pub mod treemap;
pub mod words;
