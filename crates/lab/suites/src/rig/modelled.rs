//! A modelled drive in virtual time.

use super::Rig;
use crate::target::Target;
use block::Stack;
use drive_backend::{Keep, Shared};
use drives::{Fast, Op};
use lane::{Prices, World};
use load::{Foresees, Step};
use std::sync::Arc;
use trace::Operation;

/// Steps of the world between two calls of the watch.
const STEPS: u32 = 1 << 14;

/// A modelled drive in virtual time.
pub struct Modelled {
    world: World,
    drive: Arc<Shared>,
    device: Stack,
    is_limited: bool,
}

impl Modelled {
    /// Returns a new drive, on a lane that charges work at these prices.
    ///
    /// # Errors
    /// The target is not a modelled drive, or its options do not fit the model.
    pub fn new(target: &Target, prices: Prices) -> Result<Modelled, String> {
        let none = || format!("{}: is not a modelled drive; name one as model:NAME", target.text);
        let model = target.model.as_ref().ok_or_else(none)?;
        let drive = Shared::new(model, &target.options, Keep::Nothing);
        let drive = drive.map_err(|error| error.to_string())?;
        let mut world = World::timed(prices);
        let lane = world.lane();
        let device = Stack::new(&lane, drive_backend::Modelled::attach(&drive, &lane));
        let device = stack::limited(device, &target.limits);
        Ok(Modelled { world, drive, device, is_limited: !target.limits.is_empty() })
    }
}

impl Rig for Modelled {
    fn device(&self) -> &Stack {
        &self.device
    }

    fn time(&self) -> &'static str {
        "virtual"
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        for _ in 0..STEPS {
            if done() {
                return true;
            }
            if !self.world.step() {
                return false;
            }
        }
        true
    }

    fn foresees(&mut self) -> Option<&mut dyn Foresees> {
        if self.is_limited { None } else { Some(self) }
    }

    fn age(&mut self, work: &mut dyn FnMut(&mut Fast)) -> bool {
        self.drive.precondition(work);
        true
    }

    fn active_ns(&self) -> Option<u64> {
        self.drive.active_ns()
    }

    fn health(&self) -> Vec<(&'static str, f64)> {
        let Some(health) = self.drive.health() else { return Vec::new() };
        vec![
            ("host_written_bytes", health.host_written_bytes as f64),
            ("nand_written_bytes", health.nand_written_bytes as f64),
            ("write_amplification", health.write_amplification),
            ("worn_percent", health.worn_percent),
        ]
    }
}

impl Foresees for Modelled {
    #[inline]
    fn submit(&mut self, now_ns: u64, step: &Step, ahead: &[Step]) -> block::Result<u64> {
        let (first, count) = (step.at.first, step.at.count);
        let op = match step.operation {
            Operation::Read => Op::Read { first, count },
            Operation::Write { .. } | Operation::Zero { .. } => Op::Write { first, count },
            Operation::Flush => Op::Flush,
            Operation::Discard => Op::Trim { first, count: count.into() },
            Operation::Advise => return Ok(now_ns),
        };
        self.drive.foresee(now_ns, op, ahead.iter().map(|step| step.at.first))
    }

    fn flush(&mut self, now_ns: u64) -> block::Result<u64> {
        self.drive.foresee(now_ns, Op::Flush, std::iter::empty())
    }
}
