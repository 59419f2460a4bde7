//! The layers on a memory, in virtual time.

mod common;
mod delay;
mod faults;
mod unaligned;
mod valve;
