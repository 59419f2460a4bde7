//! The target of a suite: a device on a lane, and the loop that drives the lane.

mod listed;
mod modelled;

pub(crate) use listed::Listed;
pub use modelled::Modelled;

use block::Stack;
use drives::Fast;
use load::{Data, Foresees, Load};

/// A device under test, with its lane and the loop that drives that lane.
pub trait Rig {
    /// Returns the device. Its lane is driven by this rig.
    fn device(&self) -> &Stack;

    /// Returns the kind of the lane's clock: `virtual` or `real`.
    fn time(&self) -> &'static str;

    /// Runs the lane for at most some thousand steps, and until `done`. False: no event is left.
    ///
    /// # Panics
    /// If the loop itself fails.
    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool;

    /// Returns the device, if it returns the completion time of a request when it is submitted: a
    /// load that has it to itself then needs no lane.
    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        None
    }

    /// Ages the device in no time by calling `work` on its flash. False: that is not supported, and
    /// nothing was done; then the data is really written.
    fn age(&mut self, _work: &mut dyn FnMut(&mut Fast)) -> bool {
        false
    }

    /// Returns the data for writes and for the comparison of reads. None: the device stores no
    /// data. A device that does is written before it is read.
    fn data(&self) -> Option<Data> {
        None
    }

    /// Announces a load with at most this queue depth.
    fn begins(&mut self, _depth_max: u32) {}

    /// Returns the requests per second of this load on the null device, measured in a short run.
    /// None: the load itself takes no time.
    fn calibrate(&mut self, _load: &Load) -> Option<f64> {
        None
    }

    /// Returns the total time in which the load was ready to run while the machine ran something
    /// else, in nanoseconds. Rows report it, because it is part of their latencies.
    fn kept_waiting_ns(&self) -> u64 {
        0
    }

    /// Returns the processor time of the load's thread until now, in nanoseconds. None in virtual
    /// time, where only charged work takes any.
    fn processor_ns(&self) -> Option<u64> {
        None
    }

    /// Records a load instead of running it. False: it must be run.
    fn notes(&mut self, _stage: &str, _load: &Load) -> bool {
        false
    }

    /// Records the bytes of a generated trace instead of replaying it. False: it must be replayed.
    fn notes_trace(&mut self, _bytes: u64) -> bool {
        false
    }

    /// Returns facts about the machine and the device: names and values.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the time in which the device had requests or worked in the background, in
    /// nanoseconds. None: it is not known.
    fn active_ns(&self) -> Option<u64> {
        None
    }

    /// Returns the device's own statistics: names and values.
    fn health(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
