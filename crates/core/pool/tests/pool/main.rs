//! Pools in virtual time: the distribution over members, and slow, failing and missing members.

mod common;
mod failure;
mod limits;
mod members;
mod speed;
mod stripes;
