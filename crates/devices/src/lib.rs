//! Drives as they are found: the machine's block devices, what real and modelled ones say of their
//! health, and how a modelled one ages. It takes no options and prints nothing.
#![forbid(unsafe_code)]

pub mod age;
pub mod smartctl;
pub mod sysfs;

pub use age::{Aged, age};
pub use smartctl::{Line, Nothing, Report};
pub use sysfs::{Device, Roots, devices};
