//! The base of every history.

use super::dice::Dice;
use super::{EngineSetup, Limits, Mix, WINDOW_SHARES};
use crate::model::Model;
use block::{Compress, Discard, Durability, Fua, WriteMode};
use cache::Format;
use policy::Kind;

pub(super) fn limits(small: bool) -> Limits {
    if small {
        Limits {
            power: 1024,
            kill: 64,
            kill_midway: 2,
            midway_one_of: 1,
            kill_one_in: 1,
            nested_one_in: 256,
            damaged_one_in: 16,
        }
    } else {
        Limits {
            power: 40,
            kill: 2,
            kill_midway: 1,
            midway_one_of: 1,
            kill_one_in: 2,
            nested_one_in: 4096,
            damaged_one_in: 24,
        }
    }
}

pub(super) fn model(dice: &mut Dice, small: bool) -> Model {
    let unit_sectors = dice.pick(&[8, 8, 8, 1]);
    let logical_sectors = if unit_sectors == 8 { dice.pick(&[1, 1, 1, 8]) } else { 1 };
    Model {
        sectors: if small { 8 * dice.number_between(3, 6) } else { 8 * dice.number_between(6, 12) },
        absent: 0,
        unit_sectors,
        logical_sectors,
        stamps: 1,
        latency_ns: dice.pick(&[300, 10_000, 100_000]),
        discard: dice.pick(&[Discard::Zeroes, Discard::Zeroes, Discard::Ignored]),
        fua: dice.pick(&[Fua::Native, Fua::Native, Fua::None]),
        instant: false,
        over_link: false,
        answers_now: false,
    }
}

pub(super) fn engine(dice: &mut Dice, small: bool) -> EngineSetup {
    let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::BackNow, WriteMode::Through];
    let slots = if small { dice.number_between(6, 12) } else { dice.number_between(8, 16) };
    EngineSetup {
        durability: Durability::Flush,
        format: Format::Four,
        mode: if dice.0.one_in(16) { WriteMode::None } else { dice.pick(&modes) },
        slots,
        slots_least: slots,
        slots_max: slots,
        shards: dice.pick(&[1, 2]),
        region_blocks: dice.pick(&[1, 4, 4, 8]),
        extents: dice.pick(&[1, 4, 8]),
        zeros_blocks: 1 << 20,
        fills: dice.number_between(1, 4),
        run_blocks: dice.pick(&[1, 2, 4, 8]),
        slice_blocks: 256,
        dirty_blocks_max: dice.number_between(2, slots * 3 / 4),
        dirty_age_ns: dice.pick(&[50_000, 500_000, 5_000_000]),
        flush_target_ns: dice.pick(&[0, 0, 300_000, 1_000_000]),
        retry_time_ns: dice.pick(&[0, 1_000_000, 20_000_000]),
        stall_time_ns: 0,
        workers: dice.number_between(1, 3),
        absorb_blocks_max: dice.pick(&[1, 2, 8]),
        fill_cost_ns: dice.pick(&[0, 0, 400]),
        policy: dice.pick(&[Kind::Adaptive, Kind::Adaptive, Kind::Lru, Kind::Sieve]),
        window_share: WINDOW_SHARES[0],
        readers: 0,
        stream_blocks_max: u32::MAX,
        keeps_clean: true,
        compress: Compress::Off,
    }
}

pub(super) fn mix(dice: &mut Dice) -> Mix {
    Mix {
        read: dice.number_between(0, 6),
        write: dice.number_between(4, 10),
        fua: dice.number_between(0, 2),
        zero: dice.pick(&[0, 1, 2]),
        discard: dice.pick(&[0, 0, 1, 2]),
        flush: dice.pick(&[0, 1, 1, 2, 3]),
        status: dice.pick(&[0, 0, 0, 1, 3]),
    }
}
