//! The layers on a memory, in virtual time.

mod common;
mod delay;
mod faults;
mod limit;
mod plain;
mod record;
mod top;
mod unaligned;
mod valve;
