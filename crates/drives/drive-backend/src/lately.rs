//! A drive's recent amplification. The amplification of its whole life includes its first fill,
//! which theory does not cover.

use drives::{Counters, Fast, Ftl, SLOT_BYTES, Victims};

/// Maximum relative difference of the amplifications of two quarters in steady state.
const NEAR: f64 = 0.03;

/// A drive's recent amplification, and the inputs of theory for the same.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lately {
    /// Bytes that the host wrote in that time: two to three quarters of the drive, or less if it
    /// has not written that many.
    pub host_written_bytes: u64,
    /// Programs divided by the host's programs in that time, without those of the map.
    pub write_amplification: f64,
    /// Whether two consecutive quarters of an overwrite had the same amplification, and slots were
    /// moved in both.
    pub is_steady: bool,
    /// Slots in use divided by visible slots, now.
    pub alpha: f64,
    /// How victims are chosen for cleaning.
    pub victims: Victims,
    /// Slots of a superblock.
    pub superblock_slots: u32,
}

/// Earlier values of the counters, a quarter of an overwrite apart; the latest last.
#[derive(Default)]
pub(crate) struct Window {
    marks: [Counters; 3],
}

impl Window {
    /// Records the counters after each quarter.
    #[inline]
    pub(crate) fn record(&mut self, ftl: &Ftl) {
        let [_, before, last] = self.marks;
        let now = ftl.counters();
        if now.host_writes - last.host_writes >= quarter(ftl) {
            self.marks = [before, last, *now];
        }
    }

    /// Records the counters while a drive is aged.
    pub(crate) fn record_fast(&mut self, fast: &Fast) {
        self.record(fast.ftl());
    }

    pub(crate) fn lately(&self, ftl: &Ftl) -> Lately {
        let now = ftl.counters();
        let [first, second, third] = &self.marks;
        let moved = |from: &Counters, to: &Counters| {
            to.relocations + to.folds > from.relocations + from.folds
        };
        let (before, after) =
            (second.amplification_since(first), third.amplification_since(second));
        Lately {
            host_written_bytes: (now.host_writes - first.host_writes) * SLOT_BYTES,
            write_amplification: now.amplification_since(first),
            is_steady: ftl.settings().log_blocks == 0
                && moved(first, second)
                && moved(second, third)
                && (after / before - 1.0).abs() < NEAR,
            alpha: ftl.alpha(),
            victims: ftl.settings().victims,
            superblock_slots: ftl.shape().superblock_slots(),
        }
    }
}

/// Returns the host writes, in slots, of a quarter of an overwrite.
pub(crate) fn quarter(ftl: &Ftl) -> u64 {
    u64::from(ftl.shape().logical_slots / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::{Model, Options, Random, predicted};

    const SMALL: &str = "like = \"samsung-840-pro-256\"\ntitle = \"Small\"\n\
        [capacity]\nuser_bytes = [64000000, \"test\"]\n\
        [nand]\ndies = [1, \"test\"]\nchannels = [1, \"test\"]\n\
        blocks = [300, \"test\"]\npages = [16, \"test\"]\n";

    #[test]
    fn only_cleaning_that_stays_the_same_is_steady() {
        let model = Model::parse("small", SMALL).expect("sound");
        let ftl = model.ftl(&Options::default()).expect("sound").expect("flash");
        let (quarter, all) = (quarter(&ftl), u64::from(ftl.shape().logical_slots));
        let (mut fast, mut window, mut dice) = (Fast::new(ftl), Window::default(), Random::new(3));
        for _ in 0..8 {
            fast.write_sequential(0, quarter);
            window.record_fast(&fast);
        }
        let ordered = window.lately(fast.ftl());
        assert!(!ordered.is_steady, "{ordered:?}");
        fast.write_sequential(0, all);
        for _ in 0..40 {
            fast.write_random(u32::MAX, quarter, &mut dice);
            window.record_fast(&fast);
        }
        fast.write_random(u32::MAX, quarter / 2, &mut dice);
        window.record_fast(&fast);
        let lately = window.lately(fast.ftl());
        assert!(lately.is_steady, "{lately:?}");
        assert_eq!(lately.host_written_bytes / SLOT_BYTES, 2 * quarter + quarter / 2);
        let prediction = predicted(lately.victims, lately.alpha, lately.superblock_slots);
        let off =
            lately.write_amplification / prediction.expect("a closed form").amplification - 1.0;
        assert!(off.abs() < 0.06, "{off}");
    }
}
