//! Pools in virtual time: the distribution over members, and slow, failing and missing members.

mod common;
mod failure;
mod members;
mod speed;
mod stripes;
