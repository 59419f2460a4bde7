//! A flash drive's description, and the drive made from it.

use crate::ftl::{Ftl, MapKind, Pacing, Settings, SlcFull, SlcSettings, Victims};
use crate::options::Options;
use crate::reader::{Read, Reader};
use crate::shape::{SLOT_BYTES, Shape};
use crate::timed::{Spread, Timed, Timing, slot_ns};
use crate::vendor::{VENDORS, Vendor};

/// The contents of a flash drive's file.
#[derive(Clone, PartialEq, Debug)]
pub struct FlashModel {
    /// Visible size in bytes.
    pub user_bytes: u64,
    /// Number of dies.
    pub dies: u32,
    /// Blocks per plane.
    pub blocks: u32,
    /// Pages per block, all bits used.
    pub pages: u32,
    /// Bytes of a unit: one page in each plane.
    pub unit_bytes: u64,
    /// Bits per cell.
    pub bits: u32,
    /// Rated number of erase cycles of a block.
    pub endurance: u32,
    /// The share of the blocks that are bad, or reserved to replace bad ones.
    pub bad_blocks: f64,
    /// The share of the blocks that static wear levelling keeps free, to move rarely written data
    /// there.
    pub wear_levelling: f64,
    /// The share of the blocks that is lost in addition, to parity and the firmware's own data.
    pub hidden_loss: f64,
    /// The smallest part to which data can be compressed; 1 if the drive does not compress.
    pub compression_floor: f64,
    /// Visible bytes of the static SLC area.
    pub slc_static_bytes: u64,
    /// Maximum size of a dynamic SLC area in bytes.
    pub slc_dynamic_bytes: u64,
    /// The vendor of its SMART attributes.
    pub vendor: Vendor,
    settings: Settings,
    timing: Timing,
    channel_bytes_per_second: f64,
    read_planes: u32,
    planes: u32,
}

const MB: f64 = 1e6;

fn ns(us: f64) -> u64 {
    (us * 1000.0 + 0.5) as u64
}

fn per_slot(mb_per_second: f64) -> u64 {
    slot_ns((mb_per_second * MB) as u64)
}

impl FlashModel {
    pub(super) fn read(reader: &mut Reader<'_>) -> Read<FlashModel> {
        let planes = reader.count("nand.planes", 1..=16)? as u32;
        let page = reader.count("nand.page_bytes", 2048..=65_536)?;
        let bits = reader.count("nand.bits", 1..=5)? as u32;
        let unit_bytes = page * u64::from(planes);
        if unit_bytes % SLOT_BYTES != 0 {
            let what = "page_bytes times planes must be a multiple of 4096; give such a page";
            return Err(reader.wrong("nand.page_bytes", what));
        }
        let buffer = reader.count("buffer.bytes", 65_536..=1 << 32)?;
        Ok(FlashModel {
            user_bytes: reader.count("capacity.user_bytes", 1 << 20..=16 << 40)?,
            dies: reader.count("nand.dies", 1..=4096)? as u32,
            blocks: reader.count("nand.blocks", 8..=1 << 20)? as u32,
            pages: reader.count("nand.pages", 1..=65_536)? as u32,
            unit_bytes,
            bits,
            endurance: reader.count("nand.endurance", 1..=10_000_000)? as u32,
            bad_blocks: reader.number_or("ftl.bad_blocks_percent", 0.0..=20.0, 0.0)? / 100.0,
            wear_levelling: {
                reader.number_or("ftl.wear_levelling_percent", 0.0..=20.0, 0.0)? / 100.0
            },
            hidden_loss: reader.number("ftl.hidden_loss_percent", 0.0..=50.0)? / 100.0,
            compression_floor: {
                reader.number_or("compression.floor_percent", 1.0..=100.0, 100.0)? / 100.0
            },
            slc_static_bytes: reader.number_or("slc.static_bytes", 0.0..=1e13, 0.0)? as u64,
            slc_dynamic_bytes: reader.number_or("slc.dynamic_bytes", 0.0..=1e13, 0.0)? as u64,
            vendor: vendor(reader)?,
            settings: settings(reader, (buffer / SLOT_BYTES) as u32)?,
            timing: timing(reader, bits)?,
            channel_bytes_per_second: reader.number("nand.channel_mb_s", 1.0..=10_000.0)? * MB,
            read_planes: reader.count("nand.read_planes", 1..=16)? as u32,
            planes,
        })
    }

    /// Whether reads and writes share its link, as on SATA.
    pub fn is_half_duplex(&self) -> bool {
        self.timing.half_duplex
    }

    /// Returns the share of the blocks that the FTL does not have: bad ones, those that wear
    /// levelling keeps free, and the hidden loss.
    pub fn lost(&self) -> f64 {
        self.bad_blocks + self.wear_levelling + self.hidden_loss
    }

    /// Returns the geometry of a drive with data of this kind.
    pub fn shape(&self, options: &Options) -> Shape {
        let ratio = options.data_share.clamp(self.compression_floor, 1.0);
        let unit_slots = (self.unit_bytes / SLOT_BYTES) as f64 / ratio;
        let user = options.user_bytes.unwrap_or(self.user_bytes);
        Shape {
            logical_slots: u32::try_from(user / SLOT_BYTES).unwrap_or(u32::MAX),
            superblocks: self.superblocks(self.lost_of(options.seed)),
            dies: self.dies,
            unit_slots: unit_slots as u32,
            pages: self.pages,
            slc_pages: self.pages / self.bits,
        }
    }

    /// Returns the geometry of the average drive, with incompressible data.
    pub(super) fn average_shape(&self) -> Shape {
        let superblocks = self.superblocks(self.lost());
        Shape { superblocks, ..self.shape(&Options::default()) }
    }

    fn superblocks(&self, lost: f64) -> u32 {
        (f64::from(self.blocks) * (1.0 - lost)) as u32
    }

    /// Returns the slots of the blocks that remain when the others of the drive of this seed are
    /// whole superblocks.
    fn odd_slots(&self, shape: &Shape, seed: u64) -> u32 {
        let good = f64::from(self.blocks) * (1.0 - self.lost_of(seed));
        ((good - libm::floor(good)) * f64::from(shape.superblock_slots())) as u32
    }

    /// Returns the lost share of the drive of this seed. Each of its dies has bad blocks of its
    /// own; the firmware puts blocks of other dies in their place.
    ///
    /// Blocks are bad independently of one another, so the variance of their number on a die is its
    /// mean.
    fn lost_of(&self, seed: u64) -> f64 {
        let blocks = f64::from(self.blocks) * f64::from(self.planes);
        let mean = self.bad_blocks * blocks;
        let bad = (0..u64::from(self.dies)).map(|die| {
            let drawn = lane::Random::nth(seed ^ 0x510e_527f_ade6_82d1, die);
            (mean + libm::sqrt(mean) * normal(drawn)).clamp(0.0, blocks)
        });
        let mean_of_dies = bad.sum::<f64>() / f64::from(self.dies);
        self.lost() + (mean_of_dies - mean) / blocks
    }

    /// Returns the policies for this geometry.
    pub fn settings(&self, shape: &Shape, options: &Options) -> Settings {
        let each = u64::from(shape.slc_superblock_slots().max(1)) * SLOT_BYTES;
        let mut settings = self.settings;
        settings.slc.static_superblocks = self.slc_static_bytes.div_ceil(each) as u32;
        settings.slc.dynamic_superblocks = self.slc_dynamic_bytes.div_ceil(each) as u32;
        settings.odd_slots = self.odd_slots(shape, options.seed);
        settings.seed = options.seed;
        settings.compression_256 = (self.compression_floor * 256.0) as u32;
        settings
    }

    /// Returns the times for this geometry.
    pub fn timing(&self, shape: &Shape) -> Timing {
        // A compressed slot crosses the channel compressed.
        let slot_bytes = self.unit_bytes as f64 / f64::from(shape.unit_slots);
        let channel_slot_ns = slot_bytes / self.channel_bytes_per_second * 1e9;
        let read_slots = (shape.unit_slots * self.read_planes / self.planes).max(1);
        // The limit applies to the programmed bytes, however much of the host's data they are.
        let share = slot_bytes / SLOT_BYTES as f64;
        let native_slot_ns = (self.timing.native_slot_ns as f64 * share) as u64;
        let channel_slot_ns = channel_slot_ns as u64;
        let endurance = self.endurance;
        Timing { channel_slot_ns, read_slots, native_slot_ns, endurance, ..self.timing }
    }

    /// Returns the flash without SLC area, map and all losses, divided by the visible size, minus
    /// one.
    pub fn spare(&self) -> f64 {
        let shape = self.average_shape();
        let settings = self.settings(&shape, &Options::default());
        let apart = settings.slc.static_superblocks + settings.map_superblocks(&shape);
        let block = f64::from(shape.superblock_slots());
        let all = f64::from(shape.superblocks - apart) * block;
        all / f64::from(shape.logical_slots) - 1.0
    }

    pub(super) fn ftl(&self, options: &Options) -> Result<Ftl, &'static str> {
        let shape = self.shape(options);
        let settings = self.settings(&shape, options);
        Ftl::new(shape, settings)
    }

    pub(super) fn drive(&self, options: &Options) -> Result<Timed, &'static str> {
        let ftl = self.ftl(options)?;
        let timing = self.timing(ftl.shape());
        Ok(Timed::new(ftl, timing))
    }
}

/// Returns a number that is nearly normal, of mean 0 and variance 1, from random bits: the sum of
/// four even ones, at most 3.5.
fn normal(drawn: u64) -> f64 {
    let parts = (0..4).map(|part| f64::from((drawn >> (16 * part)) as u16) / 65_536.0);
    (parts.sum::<f64>() - 2.0) * libm::sqrt(3.0)
}

fn vendor(reader: &mut Reader<'_>) -> Read<Vendor> {
    let word = reader.choice("smart.vendor", &VENDORS.map(|(word, _)| word))?;
    let found = VENDORS.iter().find(|(known, _)| *known == word);
    Ok(found.map_or(Vendor::Samsung, |(_, vendor)| *vendor))
}

fn settings(reader: &mut Reader<'_>, buffer_slots: u32) -> Read<Settings> {
    let victims = ["greedy", "fifo", "choices", "cost-benefit"];
    let victims = reader.choice("ftl.victims", &victims)?;
    let choices = reader.count_where(victims == "choices", "ftl.choices", 1..=1000)?;
    let victims = match victims {
        "fifo" => Victims::Fifo,
        "choices" => Victims::Choices(choices as u32),
        "cost-benefit" => Victims::CostBenefit,
        _ => Victims::Greedy,
    };
    let pacing = pacing(reader)?;
    let map = map(reader)?;
    let is_hybrid = reader.choice("map.blocks", &["pages", "hybrid"])? == "hybrid";
    let log_blocks = reader.count_where(is_hybrid, "map.log_blocks", 1..=1 << 20)? as u32;
    let full = match reader.choice("slc.full", &["direct", "fold-first"])? {
        "fold-first" => SlcFull::FoldFirst,
        _ => SlcFull::Direct,
    };
    Ok(Settings {
        victims,
        pacing,
        slc: SlcSettings {
            full,
            fold_when_idle: reader.flag("slc.fold_when_idle")?,
            trimmed_when_idle: reader.flag("slc.trimmed_when_idle")?,
            ..SlcSettings::NONE
        },
        idle_free_superblocks: reader.number_or("ftl.idle_free_superblocks", 0.0..=1e6, 0.0)?
            as u32,
        map,
        log_blocks: if is_hybrid { log_blocks } else { 0 },
        trim_256: (reader.number_or("ftl.trim_percent", 0.0..=100.0, 100.0)? * 2.56) as u32,
        buffer_slots,
        ..Settings::default()
    })
}

fn pacing(reader: &mut Reader<'_>) -> Read<Pacing> {
    let burst = reader.choice("ftl.pacing", &["paced", "burst"])? == "burst";
    let free = 2..=65_536;
    let paced = reader.count_where(!burst, "ftl.free_superblocks", free.clone())?;
    let low = reader.count_where(burst, "ftl.burst_low", free.clone())?;
    let high = reader.count_where(burst, "ftl.burst_high", free)?;
    let gain = reader.number_or("ftl.burst_gain", 0.0..=64.0, 0.0)?;
    Ok(if burst {
        Pacing::Burst { low: low as u32, high: high as u32, gain: gain as u32 }
    } else {
        Pacing::Paced { free_superblocks: paced as u32 }
    })
}

fn map(reader: &mut Reader<'_>) -> Read<MapKind> {
    let kind = reader.choice("map.kind", &["flat", "cached", "extents"])?;
    let (flat, tree) = (kind == "flat", kind == "extents");
    let bytes = reader.count_where(!flat, "map.bytes", 65_536..=1 << 40)?;
    let node_bytes = reader.count_where(tree, "map.node_bytes", 4..=256)? as u32;
    let gathered = reader.number_or("map.gathered_changes", 0.0..=1e9, 0.0)? as u32;
    let updates = reader.count_where(flat, "map.journal_updates", 1..=1 << 20)?;
    Ok(match kind {
        "cached" => MapKind::Cached { bytes, gathered },
        "extents" => MapKind::Extents { bytes, node_bytes },
        _ => MapKind::Flat { journal_updates: updates as u32 },
    })
}

fn spread(reader: &mut Reader<'_>, bits: u32) -> Read<Spread> {
    let one_shot = reader.choice("nand.programs", &["pages", "cells"])? == "cells";
    let share = 0.0..=100.0;
    let mut or = |key: &str, most: f64| reader.number_or(key, 0.0..=most, 0.0);
    let jitter_ns = ns(or("spread.jitter_us", 1e4)?);
    let task_ns = ns(or("spread.task_us", 1e6)?);
    let task_every_ns = (or("spread.task_every_ms", 1e6)? * 1e6) as u64;
    let mut deviation = |key: &str| -> Read<u32> {
        Ok(((reader.number_or(key, share.clone(), 0.0)? * 2.56) as u32).min(255))
    };
    Ok(Spread {
        die_256: deviation("nand.die_spread_percent")?,
        block_256: deviation("nand.block_spread_percent")?,
        jitter_ns,
        task_ns,
        task_every_ns,
        ..Spread::of_cells(bits, one_shot)
    })
}

fn timing(reader: &mut Reader<'_>, bits: u32) -> Read<Timing> {
    let spread = spread(reader, bits)?;
    let mut us = |key: &str, most: f64| reader.number(key, 0.0..=most).map(ns);
    let times = Timing {
        read_ns: us("nand.read_us", 1e4)?,
        program_ns: us("nand.program_us", 1e5)?,
        erase_ns: us("nand.erase_us", 1e6)?,
        firmware_read_ns: us("firmware.read_us", 1e4)?,
        firmware_write_ns: us("firmware.write_us", 1e4)?,
        firmware_slot_ns: us("firmware.slot_us", 1e4)?,
        firmware_relocate_ns: us("firmware.relocate_us", 1e4)?,
        firmware_trim_ns: us("firmware.trim_us", 1e6)?,
        flush_ns: us("firmware.flush_us", 1e6)?,
        read_latency_ns: us("firmware.read_latency_us", 1e4)?,
        write_latency_ns: us("firmware.write_latency_us", 1e4)?,
        command_ns: us("link.command_us", 1e3)?,
        trim_slot_ns: 0,
        trim_slots_at_once: 0,
        channels: 0,
        slc_read_ns: 0,
        slc_program_ns: 0,
        slc_erase_ns: 0,
        channel_slot_ns: 0,
        read_slots: 1,
        suspend_ns: 0,
        link_slot_ns: 0,
        half_duplex: false,
        read_slot_ns: 0,
        write_slot_ns: 0,
        native_slot_ns: 0,
        map_hit_ns: 0,
        map_merge_ns: 0,
        map_blocks: false,
        sectors_buffered: false,
        read_ahead: false,
        idle_ns: 0,
        idle_share_256: 0,
        protected: false,
        spread,
        wear_256: 0,
        endurance: 0,
        retry_age_ns: 0,
        retries: 0,
    };
    let mut or =
        |key: &str, most: f64, otherwise: f64| reader.number_or(key, 0.0..=most, otherwise);
    let day_ns = 86_400e9;
    Ok(Timing {
        slc_read_ns: or("nand.slc_read_us", 1e4, 0.0).map(ns)?,
        slc_program_ns: or("nand.slc_program_us", 1e5, 0.0).map(ns)?,
        slc_erase_ns: or("nand.slc_erase_us", 1e6, 0.0).map(ns)?,
        suspend_ns: or("nand.suspend_us", 1e6, 1e6).map(ns)?,
        link_slot_ns: or("link.mb_s", 1e5, 0.0).map(per_slot)?,
        read_slot_ns: or("limits.read_mb_s", 1e5, 0.0).map(per_slot)?,
        write_slot_ns: or("limits.write_mb_s", 1e5, 0.0).map(per_slot)?,
        native_slot_ns: or("limits.native_write_mb_s", 1e5, 0.0).map(per_slot)?,
        trim_slot_ns: or("firmware.trim_slot_us", 1e4, 0.0).map(ns)?,
        trim_slots_at_once: or("firmware.trim_slots_at_once", 1e6, 0.0)? as u32,
        map_merge_ns: or("map.merge_us", 1e5, 0.0).map(ns)?,
        map_hit_ns: or("map.hit_us", 1e3, 0.0).map(ns)?,
        idle_ns: (or("idle.after_ms", 1e9, 1000.0)? * 1e6) as u64,
        idle_share_256: (or("idle.share_percent", 100.0, 100.0)? * 2.56) as u32,
        retry_age_ns: (or("retry.days", 1e5, 0.0)? * day_ns) as u64,
        retries: or("retry.most", 1000.0, 0.0)? as u32,
        wear_256: (or("nand.wear_percent", 50.0, 0.0)? * 2.56) as u32,
        channels: reader.count("nand.channels", 1..=256)? as u32,
        half_duplex: reader.flag("link.half_duplex")?,
        sectors_buffered: reader.flag("buffer.sectors")?,
        read_ahead: reader.flag("buffer.read_ahead")?,
        protected: reader.flag("buffer.protected")?,
        map_blocks: reader.flag("map.blocking")?,
        ..times
    })
}
