//! Pools in virtual time: who gets what, and what becomes of a member that is slow, fails or is gone.

mod common;
mod failure;
mod members;
mod speed;
mod stripes;
