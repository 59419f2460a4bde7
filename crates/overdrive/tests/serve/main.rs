//! `overdrive serve` as its users meet it: a real process, real clients, bad input, kills.
//!
//! What draws its parameters ([`dice`]) is run again and again, and larger, by `cargo xtask soak`.

mod backings;
mod bytes;
mod captive;
mod clients;
mod common;
mod config;
mod crowd;
mod databases;
mod dice;
mod durability;
mod extents;
mod failed;
mod files;
mod fio;
mod freeze;
mod hang;
mod home;
mod hostile;
mod lives;
mod mistakes;
mod model;
mod mounted;
mod operator;
mod options;
mod ordered;
mod ordered_databases;
mod pools;
mod power;
mod pressure;
mod remote;
mod settings;
mod upgrade;
