//! Pools in virtual time: which member gets what, and what becomes of one that is slow, fails or is gone.

mod common;
mod failure;
mod members;
mod speed;
mod stripes;
