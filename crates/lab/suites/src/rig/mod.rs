//! What a suite's bed stands on: a device on a lane, and the loop that drives the lane.

mod listed;
mod modelled;

pub use listed::{Listed, Listing};
pub use modelled::Modelled;

use block::Stack;
use drives::Fast;
use load::{Data, Foresees, Load};

/// A device to be tested, with the lane that it is used from and the loop that drives that lane.
pub trait Rig {
    /// The device. Its lane is the one that this rig drives.
    fn device(&self) -> &Stack;

    /// Whose time the lane's clock tells: `virtual` or `real`.
    fn time(&self) -> &'static str;

    /// Lets the lane go on for some thousand steps at most, and until `done`. False: nothing can happen any more.
    ///
    /// # Panics
    /// If the loop itself fails.
    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool;

    /// The device, if it says at once when a request will be answered: a load that has it to itself then
    /// needs no lane.
    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        None
    }

    /// Ages the device by what `work` does to its flash, in no time. False: it cannot be, and nothing was done; then
    /// the bed really writes.
    fn age(&mut self, _work: &mut dyn FnMut(&mut Fast)) -> bool {
        false
    }

    /// What is written to the device, and compared with what is read; None: it has no bytes. A device that has some is
    /// written before it is read.
    fn data(&self) -> Option<Data> {
        None
    }

    /// A load of at most so many requests at a time begins.
    fn begins(&mut self, _depth_max: u32) {}

    /// Requests a second that this load reaches here where the device takes no time, found by a short run; None: the load
    /// itself takes none.
    fn calibrate(&mut self, _load: &Load) -> Option<f64> {
        None
    }

    /// How long so far the load was ready to run and the machine ran something else, in nanoseconds. That is told of a
    /// row: its latencies have it in them.
    fn kept_waiting_ns(&self) -> u64 {
        0
    }

    /// Notes a load instead of running it. False: it is to be run.
    fn notes(&mut self, _stage: &str, _load: &Load) -> bool {
        false
    }

    /// What is to be known of the machine and the device: names and values.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What the device says of itself: names and values.
    fn health(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
