//! Reports. Self-contained pages: HTML with charts as SVG and treemaps, readable without a network
//! and without scripts; the only script adds buttons that save a chart as SVG or PNG. Text for
//! terminals: lines and tables.
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
pub mod circumstances;
pub mod direction;
pub mod figure;
pub mod grid;
pub mod heatmap;
mod html;
pub mod matrix_names;
pub mod names;
pub mod notes;
pub mod page;
pub mod picture;
pub mod plot;
pub mod ranking;
mod style;
pub mod table;
pub mod terminal;
pub mod treemap;
pub mod words;
