//! `overdrive serve` as its users run it: a real process, real clients, bad input, kills.
//!
//! Tests that draw their parameters ([`dice`]) are repeated, and enlarged, by `cargo xtask soak`.

mod accepted;
mod arrival;
mod as_files;
mod backings;
mod bytes;
mod captive;
mod checker;
mod clients;
mod common;
mod config;
mod contents;
mod crowd;
mod databases;
mod devices;
mod dice;
mod doubts;
mod durability;
mod extents;
mod failed;
mod file_size;
mod files;
mod fio;
mod former;
mod freeze;
mod hang;
mod home;
mod hostile;
mod in_use;
mod limits;
mod lives;
mod metrics;
mod mistakes;
mod model;
mod mounted;
mod operator;
mod options;
mod ordered;
mod ordered_databases;
mod output;
#[cfg(feature = "planted")]
mod planted;
mod pools;
mod power;
mod pressure;
mod rate_limits;
mod recipes;
mod remote;
mod rescue;
mod retained;
mod settings;
mod silence;
mod threads;
mod upgrade;
mod warmth;
