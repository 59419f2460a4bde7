//! Damaged and hostile volumes: the readers never panic, end within their bounds, and name each
//! part that they could not read.

mod damage;
mod images;
mod judge;
mod shapes;
mod sparse;
