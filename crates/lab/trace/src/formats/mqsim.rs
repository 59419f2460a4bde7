//! MQSim's ASCII format (A. Tavakkol et al., "MQSim: A Framework for Enabling Realistic Studies of
//! Modern Multi-Queue SSD Devices", FAST 2018; the README of CMU-SAFARI/MQSim, "Trace-based
//! workload").
//!
//! ```text
//!   time in ns   device   first sector of 512 bytes   sectors   1 = read, 0 = write
//!   938513000    4        264719034                   16        0
//! ```
//!
//! These are SSDsim's columns with SSDsim's units.

use super::{Found, ReadIs, ssdsim};
use crate::devices::Devices;

pub(crate) fn line(line: &[u8], devices: &mut Devices) -> Found {
    ssdsim::line(line, ReadIs::One, devices)
}
