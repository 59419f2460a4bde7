//! Closed forms for write amplification and steady rates, with which the models are compared.
//!
//! `alpha` is physical divided by logical slots, `block_slots` the slots of an erase unit, and
//! amplification is programs (the host's and relocations) divided by the host's programs.

use libm::{exp, pow};

/// Returns the amplification of FIFO (and LRU) cleaning under uniform random writes, for any block
/// size; also greedy in the limit of large blocks: `alpha / (alpha + W0(-alpha e^-alpha))`
/// (Desnoyers, SYSTOR 2012; Xiang and Kurkoski, arXiv 1110.4245). Infinite for an `alpha` of at
/// most 1.
pub fn fifo(alpha: f64) -> f64 {
    if alpha <= 1.0 {
        return f64::INFINITY;
    }
    // The amplification is the root of A (1 - e^(-alpha/A)) = 1, which grows with A up to alpha.
    let (mut low, mut high) = (1.0, 1.0);
    while high * (1.0 - exp(-alpha / high)) < 1.0 && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if middle * (1.0 - exp(-alpha / middle)) < 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Returns the amplification of greedy cleaning under uniform random writes with finite blocks, in
/// the mean field of many blocks: the share of blocks with i valid slots is c / i, so
/// `alpha(m) = b (H_b - H_m) / (b - m)` and `A = b / (b - m)`, interpolated between whole m.
pub fn greedy(alpha: f64, block_slots: u32) -> f64 {
    let slots = f64::from(block_slots);
    let mut harmonic = 0.0;
    // Downwards from nearly full victims: alpha grows as the victims get emptier.
    for victim in (1..block_slots).rev() {
        let victim = f64::from(victim);
        harmonic += 1.0 / (victim + 1.0);
        // Between victim - 1 and victim the pool's emptiest block holds victim - t slots.
        let start = slots * harmonic / (slots - victim);
        let end = slots * (harmonic + 1.0 / victim) / (slots - victim + 1.0);
        if alpha >= start && alpha <= end {
            let (lack, gone) = (slots - victim, slots * harmonic);
            // alpha = b (H + t / m) / (b - m + t), solved for t.
            let part = (gone - alpha * lack) / (alpha - slots / victim);
            return slots / (lack + part);
        }
    }
    if alpha <= 1.0 { f64::INFINITY } else { 1.0 }
}

/// Returns the amplification if the emptiest of d random blocks is cleaned: the mean field of Van
/// Houdt (SIGMETRICS 2013). Let S(k) be the share of blocks with at least k valid slots; in balance
/// `1 - S(k)^d = c k (S(k) - S(k+1))`, solved from the full blocks downwards, with the c that gives
/// the right mean. `A = alpha / c`; one choice gives `(1 + OP) / OP`.
pub fn choices(alpha: f64, block_slots: u32, choices: u32) -> f64 {
    let mean = f64::from(block_slots) / alpha;
    let valid_at = |rate: f64| {
        let mut above = 0.0;
        let mut sum = 0.0;
        for valid in (1..=block_slots).rev() {
            let (mut low, mut high) = (above, 1.0);
            for _ in 0..60 {
                let share = (low + high) / 2.0;
                let flow = rate * f64::from(valid) * (share - above);
                if 1.0 - pow(share, f64::from(choices)) > flow {
                    low = share;
                } else {
                    high = share;
                }
            }
            above = (low + high) / 2.0;
            sum += above;
        }
        sum
    };
    let (mut low, mut high) = (0.0, alpha);
    for _ in 0..60 {
        let rate = (low + high) / 2.0;
        if valid_at(rate) > mean {
            low = rate;
        } else {
            high = rate;
        }
    }
    2.0 * alpha / (low + high)
}

/// Returns the amplification of one FIFO log for hot and cold data: the share `writes` of the
/// writes goes to the share `space` of the slots.
pub fn fifo_hot_cold(alpha: f64, writes: f64, space: f64) -> f64 {
    let of = |amplification: f64| {
        let part = |writes: f64, space: f64| {
            writes / (1.0 - exp(-writes * alpha / (space * amplification)))
        };
        part(writes, space) + part(1.0 - writes, 1.0 - space)
    };
    let (mut low, mut high) = (1.0, 1e6);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if of(middle) > middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Returns the share of logical slots that stays mapped when the share `trims` of the requests
/// trims a random mapped slot and the others write a random one (Frankie, Hughes, Kreutz-Delgado,
/// arXiv 1210.5975). The amplification is then that of `alpha / share`.
pub fn mapped_under_trim(trims: f64) -> f64 {
    (1.0 - 2.0 * trims) / (1.0 - trims)
}

/// The dies' part in [`die_bound_iops`].
#[derive(Clone, Copy, Debug)]
pub struct DieTimes {
    /// Number of dies that work in parallel.
    pub dies: f64,
    /// Slots of a unit.
    pub unit_slots: f64,
    /// Slots of a superblock.
    pub superblock_slots: f64,
    /// Nanoseconds to program a unit.
    pub program_ns: f64,
    /// Nanoseconds to read a page.
    pub read_ns: f64,
    /// Nanoseconds to erase a block.
    pub erase_ns: f64,
    /// Nanoseconds of a slot on the channel.
    pub transfer_ns: f64,
}

/// Returns the random 4 KiB writes per second that constantly busy dies sustain at an
/// amplification, if each relocated slot costs a separate read.
pub fn die_bound_iops(times: &DieTimes, amplification: f64) -> f64 {
    let program = times.program_ns + times.unit_slots * times.transfer_ns;
    let programs = amplification / times.unit_slots * program;
    let reads = (amplification - 1.0) * (times.read_ns + times.transfer_ns);
    let erases = amplification * times.dies * times.erase_ns / times.superblock_slots;
    times.dies / (programs + reads + erases) * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 4e-4, "{found} instead of {expected}");
    }

    #[test]
    fn the_published_table_is_met() {
        for (spare, expected) in [(0.02, 25.669), (0.07, 7.817), (0.3, 2.364), (1.0, 1.255)] {
            assert_near(fifo(1.0 + spare), expected);
        }
        for (spare, slots, expected) in
            [(0.07, 64, 7.010), (0.07, 1024, 7.761), (0.3, 256, 2.346), (1.0, 64, 1.239)]
        {
            assert_near(greedy(1.0 + spare, slots), expected);
        }
        for (spare, picks, expected) in
            [(0.07, 1, 15.286), (0.07, 2, 10.277), (0.12, 5, 5.014), (0.3, 10, 2.357)]
        {
            assert_near(choices(1.0 + spare, 64, picks), expected);
        }
        for (spare, writes, space, expected) in
            [(0.07, 0.8, 0.2, 8.182), (0.12, 0.9, 0.1, 5.823), (0.25, 0.8, 0.2, 3.034)]
        {
            assert_near(fifo_hot_cold(1.0 + spare, writes, space), expected);
        }
        for (trims, share, expected) in [(0.1, 0.8889, 2.6168), (0.3, 0.5714, 1.2730)] {
            assert_near(mapped_under_trim(trims), share);
            assert_near(fifo(1.12 / mapped_under_trim(trims)), expected);
        }
    }

    #[test]
    fn without_spare_space_nothing_can_be_written() {
        assert!(fifo(1.0).is_infinite() && greedy(0.9, 64).is_infinite());
    }
}
