//! Values derived from a flash drive's numbers before anything is written to it.

use super::FlashModel;
use crate::ftl::{Pacing, Victims};
use crate::options::Options;
use crate::theory::{self, DieTimes};

/// The prediction of a closed form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Predicted {
    /// Programs over host writes under uniform random writes.
    pub amplification: f64,
    /// The form's name.
    pub form: &'static str,
    /// Its source.
    pub source: &'static str,
}

/// Derived values of a flash drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Derived {
    /// Bytes of flash, all bits used.
    pub raw_bytes: u64,
    /// Size of an erase unit, in bytes.
    pub superblock_bytes: u64,
    /// Number of superblocks, without those that are lost.
    pub superblocks: u32,
    /// All flash divided by the visible size, minus one.
    pub over_provisioning: f64,
    /// The same without the static SLC area and the hidden loss.
    pub spare: f64,
    /// The same without the space that cleaning keeps free: alpha of the closed forms, minus one.
    pub spare_in_use: f64,
    /// Size of a flat map with 4 bytes per slot, in bytes.
    pub flat_map_bytes: u64,
    /// Program rate of the dies in bytes per second, all bits used.
    pub native_bytes_per_second: f64,
    /// The same with one bit a cell; None if the drive never does that.
    pub slc_bytes_per_second: Option<f64>,
    /// Amplification in random steady state by theory; None for victims without a closed form.
    pub predicted: Option<Predicted>,
    /// Resulting limit of the dies on 4 KiB random writes per second, by theory.
    pub die_bound_iops: Option<f64>,
    /// The same limit of the firmware: the time of one write and of its relocations.
    pub firmware_bound_iops: Option<f64>,
}

/// Returns the prediction of theory for this policy, if it has a closed form.
pub fn predicted(victims: Victims, alpha: f64, block_slots: u32) -> Option<Predicted> {
    let of = |amplification, form, source| Predicted { amplification, form, source };
    Some(match victims {
        Victims::Greedy => {
            let source =
                "mean field of many blocks; tends to Desnoyers, SYSTOR 2012, for large ones";
            of(theory::greedy(alpha, block_slots), "greedy", source)
        }
        Victims::Fifo => {
            let source = "Desnoyers, SYSTOR 2012; Xiang and Kurkoski, arXiv 1110.4245";
            of(theory::fifo(alpha), "FIFO", source)
        }
        Victims::Choices(count) => {
            // Above this the amplification hardly grows, and the time of the computation is
            // proportional to the slots.
            let found = theory::choices(alpha, block_slots.min(1024), count);
            of(found, "d choices", "Van Houdt, SIGMETRICS 2013")
        }
        Victims::CostBenefit => return None,
    })
}

impl FlashModel {
    /// Returns the derived values, with incompressible data.
    pub fn derived(&self) -> Derived {
        let options = Options::default();
        let shape = self.average_shape();
        let (settings, timing) = (self.settings(&shape, &options), self.timing(&shape));
        let block = f64::from(shape.superblock_slots());
        let user = f64::from(shape.logical_slots);
        let free = match settings.pacing {
            Pacing::Paced { free_superblocks } => f64::from(free_superblocks),
            Pacing::Burst { low, high, .. } => f64::from(low + high) / 2.0,
        };
        // Two frontiers are half filled on average.
        let apart = settings.slc.static_superblocks + settings.map_superblocks(&shape);
        let kept = f64::from(apart) + free + 1.0;
        let alpha = (f64::from(shape.superblocks) - kept) * block / user;
        // No closed form gives the cost of merging.
        let predicted = (settings.log_blocks == 0)
            .then(|| predicted(settings.victims, alpha, shape.superblock_slots()))
            .flatten();
        let slots = f64::from(shape.unit_slots);
        let transfer = slots * timing.channel_slot_ns as f64;
        let rate = |program_ns: u64| {
            let programs = f64::from(shape.dies) / (program_ns as f64 + transfer);
            programs * self.unit_bytes as f64 * 1e9
        };
        let times = DieTimes {
            dies: f64::from(shape.dies),
            unit_slots: slots,
            superblock_slots: block,
            program_ns: timing.program_ns as f64,
            read_ns: timing.read_ns as f64,
            erase_ns: timing.erase_ns as f64,
            transfer_ns: timing.channel_slot_ns as f64,
        };
        let firmware = |amplification: f64| {
            let relocated = (amplification - 1.0) * timing.firmware_relocate_ns as f64;
            1e9 / (timing.firmware_write_ns as f64 + relocated)
        };
        let units = u64::from(self.dies) * u64::from(self.pages);
        let raw_bytes = units * u64::from(self.blocks) * self.unit_bytes;
        let slc = self.slc_static_bytes + self.slc_dynamic_bytes > 0;
        Derived {
            raw_bytes,
            superblock_bytes: units * self.unit_bytes,
            superblocks: shape.superblocks,
            over_provisioning: raw_bytes as f64 / self.user_bytes as f64 - 1.0,
            spare: self.spare(),
            spare_in_use: alpha - 1.0,
            flat_map_bytes: u64::from(shape.logical_slots) * 4,
            native_bytes_per_second: rate(timing.program_ns),
            slc_bytes_per_second: slc.then(|| rate(timing.slc_program_ns)),
            predicted,
            die_bound_iops: predicted
                .map(|prediction| theory::die_bound_iops(&times, prediction.amplification)),
            firmware_bound_iops: predicted.map(|prediction| firmware(prediction.amplification)),
        }
    }
}
