//! SMART: a drive's health, in its vendor's own attributes.
//!
//! Numbers and units are those of smartmontools' drivedb.h (2026-08-19); an attribute whose value
//! is not modelled is left out.

use crate::ftl::Ftl;
use crate::preset::FlashModel;
use crate::shape::SLOT_BYTES;
use crate::timed::Timed;
use crate::vendor::Vendor;
use alloc::vec;
use alloc::vec::Vec;

/// One attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Its number; 0 in NVMe's log.
    pub id: u8,
    /// Its name.
    pub name: &'static str,
    /// The vendor's normalized value, from 100 for new downwards; None in NVMe's log.
    pub normalized: Option<u8>,
    /// Its raw value.
    pub raw: u64,
}

/// The model's data on a drive's health, including data that the vendor does not report.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Health {
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes programmed into the flash, for any reason. With compression, bytes of the flash rather
    /// than visible bytes.
    pub nand_written_bytes: u64,
    /// Erases of a block: minimum, mean and maximum.
    pub erases: [u32; 3],
    /// The mean of full-density and SLC erases divided by the endurance, in percent; may exceed
    /// 100.
    pub worn_percent: f64,
    /// Programs of the flash divided by writes of the host.
    pub write_amplification: f64,
    /// Number of free superblocks.
    pub free_superblocks: u32,
}

impl Health {
    /// Returns the health of a drive of this model.
    pub fn of(model: &FlashModel, drive: &Timed) -> Health {
        Health::of_ftl(model, drive.ftl(), drive.host_reads())
    }

    /// Returns the health of a drive of this model; `host_reads` in slots.
    pub fn of_ftl(model: &FlashModel, ftl: &Ftl, host_reads: u64) -> Health {
        let counters = ftl.counters();
        let slot_bytes = model.unit_bytes as f64 / f64::from(ftl.shape().unit_slots);
        let slots = counters.programs() - counters.map_programs;
        let nand = slots as f64 * slot_bytes + (counters.map_programs * SLOT_BYTES) as f64;
        let host = (counters.host_writes * SLOT_BYTES) as f64;
        let erases = ftl.erases();
        let mean = erases.iter().map(|count| u64::from(*count)).sum::<u64>() as f64
            / erases.len().max(1) as f64;
        Health {
            host_written_bytes: counters.host_writes * SLOT_BYTES,
            host_read_bytes: host_reads * SLOT_BYTES,
            nand_written_bytes: nand as u64,
            erases: [
                erases.iter().copied().min().unwrap_or(0),
                mean as u32,
                erases.iter().copied().max().unwrap_or(0),
            ],
            worn_percent: mean / f64::from(model.endurance) * 100.0,
            write_amplification: if host > 0.0 { nand / host } else { 1.0 },
            free_superblocks: ftl.free_superblocks(),
        }
    }

    /// Returns the health as a vendor's attributes, in the order of their numbers.
    pub fn attributes(&self, vendor: Vendor) -> Vec<Attribute> {
        let [least, mean, most] = self.erases.map(u64::from);
        let gib = |bytes: u64| bytes >> 30;
        let left = (100.0 - self.worn_percent).clamp(0.0, 100.0) as u8;
        // Vendors stop at 1.
        let wear = |id, name, raw| attribute(id, name, left.max(1), raw);
        let count = |id, name, raw| attribute(id, name, 100, raw);
        let left = u64::from(left);
        let intel = |own: Option<Attribute>| {
            let before = count(225, "Host_Writes_32MiB", self.host_written_bytes >> 25);
            let after = wear(233, "Media_Wearout_Indicator", 0);
            [Some(before), own, Some(after)].into_iter().flatten().collect()
        };
        match vendor {
            Vendor::Samsung => vec![
                wear(177, "Wear_Leveling_Count", mean),
                count(241, "Total_LBAs_Written", self.host_written_bytes / 512),
            ],
            Vendor::Intel => {
                let worn = (self.worn_percent * 1024.0) as u64;
                intel(Some(count(226, "Workld_Media_Wear_Indic", worn)))
            }
            Vendor::IntelFirst => intel(None),
            Vendor::Indilinx => vec![
                count(199, "Write_Sectors_Tot_Ct", self.host_written_bytes / 512),
                count(206, "Min_Erase_Count", least),
                count(207, "Max_Erase_Count", most),
                count(208, "Average_Erase_Count", mean),
                wear(209, "Remaining_Lifetime_Perc", left),
            ],
            Vendor::SandForce => vec![
                wear(231, "SSD_Life_Left", left),
                count(233, "SandForce_Internal", gib(self.nand_written_bytes)),
                count(241, "Lifetime_Writes_GiB", gib(self.host_written_bytes)),
                count(242, "Lifetime_Reads_GiB", gib(self.host_read_bytes)),
            ],
            Vendor::Nvme => vec![
                field("percentage_used", (self.worn_percent as u64).min(255)),
                field("data_units_read", self.host_read_bytes.div_ceil(512_000)),
                field("data_units_written", self.host_written_bytes.div_ceil(512_000)),
            ],
        }
    }
}

fn attribute(id: u8, name: &'static str, normalized: u8, raw: u64) -> Attribute {
    Attribute { id, name, normalized: Some(normalized), raw }
}

/// Returns a field of NVMe's log.
fn field(name: &'static str, raw: u64) -> Attribute {
    Attribute { id: 0, name, normalized: None, raw }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::VENDORS;
    use crate::{Drive, Kind, Model, Op, Options};

    #[test]
    fn a_drive_reports_what_was_written_in_its_vendors_units() {
        let model = Model::preset("intel-x25-m-g1-80").expect("a preset");
        let Kind::Flash(flash) = &model.kind else {
            panic!("a flash drive");
        };
        let Drive::Flash(mut drive) = model.drive(&Options::default()).expect("a sound drive")
        else {
            panic!("a flash drive");
        };
        let mut now = 0;
        for request in 0..2048 {
            now = drive.submit(now, Op::Write { first: request * 256, count: 256 });
        }
        let health = Health::of(flash, &drive);
        assert_eq!(health.host_written_bytes, 256 << 20);
        // Slots that are still in the buffer have not reached the flash, and count as neither.
        assert!((health.write_amplification - 1.0).abs() < 0.01, "{health:?}");
        let attributes = health.attributes(flash.vendor);
        assert!(
            attributes.iter().any(|attributes| attributes.id == 225 && attributes.raw == 8),
            "{attributes:?}"
        );
        // As smartctl prints it: the normalized value counts.
        let wear = attributes.iter().find(|attributes| attributes.id == 233).expect("its wear");
        assert!(wear.raw == 0 && wear.normalized.is_some_and(|left| (99..=100).contains(&left)));
        assert!(
            !attributes.iter().any(|attributes| attributes.id == 226),
            "its successor has that"
        );
    }

    #[test]
    fn every_vendors_attributes_are_numbered_once() {
        let health = Health {
            host_written_bytes: 1 << 40,
            host_read_bytes: 1 << 30,
            nand_written_bytes: 2 << 40,
            erases: [1, 20, 30],
            worn_percent: 300.0,
            write_amplification: 2.0,
            free_superblocks: 4,
        };
        for (_, vendor) in VENDORS {
            let attributes = health.attributes(vendor);
            let names: alloc::collections::BTreeSet<_> =
                attributes.iter().map(|attributes| (attributes.id, attributes.name)).collect();
            assert_eq!(names.len(), attributes.len());
        }
        assert_eq!(health.attributes(Vendor::SandForce)[1].raw, 2048);
        let indilinx = health.attributes(Vendor::Indilinx);
        assert_eq!((indilinx[4].raw, indilinx[4].normalized), (0, Some(1)), "not negative");
    }
}
