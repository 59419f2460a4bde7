//! The parameters of a test that `cargo xtask soak` repeats: always the same in an ordinary run,
//! different in each round of a soak.

/// Returns a count, multiplied by the scale of a soak.
pub(crate) fn scaled(count: u64) -> u64 {
    count * number("OVERDRIVE_SCALE").unwrap_or(1)
}

/// Whether this is a round of a soak.
pub(crate) fn is_soak() -> bool {
    number("OVERDRIVE_SEED").is_some()
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}: not a number")))
}

/// Draws parameters.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new() -> Dice {
        // The state must not be zero.
        Dice(number("OVERDRIVE_SEED").unwrap_or(1).wrapping_mul(2) | 1)
    }

    /// Source: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + (self.next() >> 33) % (most - least + 1)
    }

    /// Returns one of these; in an ordinary run the first.
    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let index = self.between(0, from.len() as u64 - 1) as usize;
        if is_soak() { from[index] } else { from[0] }
    }
}
