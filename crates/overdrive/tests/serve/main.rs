//! `overdrive serve` as its users meet it: a real process, real clients, bad input.

mod backings;
mod captive;
mod clients;
mod common;
mod durability;
mod fio;
mod hostile;
mod options;
