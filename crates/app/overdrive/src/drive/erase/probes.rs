//! Blocks that are read before and after a drive is erased.

use block::stable_hash;
use host::Erasable;
use serde_json::{Value, json};

/// Number of blocks.
const COUNT: u64 = 64;
/// Size of a block, in bytes.
const BYTES: u64 = 4096;

/// A block. Contents that cannot be read are `None`: damaged drives are erased as well.
struct Probe {
    /// Its position, in bytes.
    at: u64,
    before: Option<Contents>,
    after: Option<Contents>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Contents {
    hash: u64,
    is_zero: bool,
}

impl Contents {
    fn of(bytes: &[u8]) -> Contents {
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        Contents { hash: stable_hash(bytes.iter().copied()), is_zero }
    }

    fn as_json(self) -> Value {
        json!({ "hash": format!("{:016x}", self.hash), "zero": self.is_zero })
    }

    fn read(device: &Erasable, at: u64) -> Option<Contents> {
        device.read(at, BYTES as usize).ok().map(|bytes| Contents::of(&bytes))
    }
}

impl Probe {
    fn has_data(&self) -> bool {
        self.before.is_some_and(|contents| !contents.is_zero)
    }
}

/// The blocks: the first, the last, and others evenly between them.
pub(super) struct Probes(Vec<Probe>);

impl Probes {
    /// Chooses blocks of a device of this size.
    pub(super) fn new(bytes: u64) -> Probes {
        let blocks = bytes / BYTES;
        let count = COUNT.min(blocks);
        let last = blocks.saturating_sub(1);
        let block = |index: u64| {
            (u128::from(index) * u128::from(last) / u128::from(count.max(2) - 1)) as u64
        };
        let probe = |index| Probe { at: block(index) * BYTES, before: None, after: None };
        Probes((0..count).map(probe).collect())
    }

    /// Reads all before the drive is erased.
    pub(super) fn read_before(&mut self, device: &Erasable) {
        self.0.iter_mut().for_each(|probe| probe.before = Contents::read(device, probe.at));
    }

    /// Reads all after that.
    pub(super) fn read_after(&mut self, device: &Erasable) {
        self.0.iter_mut().for_each(|probe| probe.after = Contents::read(device, probe.at));
    }

    fn count(&self, is_it: impl Fn(&Probe) -> bool) -> usize {
        self.0.iter().filter(|probe| is_it(probe)).count()
    }

    /// Number of blocks.
    pub(super) fn all(&self) -> usize {
        self.0.len()
    }

    /// Number of blocks with data before.
    pub(super) fn with_data(&self) -> usize {
        self.count(Probe::has_data)
    }

    /// Number of blocks that still have their data.
    pub(super) fn unchanged(&self) -> usize {
        self.count(|probe| probe.has_data() && probe.before == probe.after)
    }

    /// Number of blocks that are zero afterwards.
    pub(super) fn zero(&self) -> usize {
        self.count(|probe| probe.after.is_some_and(|contents| contents.is_zero))
    }

    /// Number of blocks that could not be read before.
    pub(super) fn unreadable_before(&self) -> usize {
        self.count(|probe| probe.before.is_none())
    }

    /// Number of blocks that cannot be read afterwards.
    pub(super) fn unreadable_after(&self) -> usize {
        self.count(|probe| probe.after.is_none())
    }

    pub(super) fn as_json(&self) -> Value {
        let probe = |probe: &Probe| {
            json!({
                "at_bytes": probe.at, "bytes": BYTES,
                "before": probe.before.map(Contents::as_json),
                "after": probe.after.map(Contents::as_json),
            })
        };
        self.0.iter().map(probe).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_block_are_among_them_and_none_twice() {
        for bytes in [4096, 8192, 3 * 4096 + 512, 1 << 20, 1_000_204_886_016, u64::MAX] {
            let probes = Probes::new(bytes);
            let places: Vec<u64> = probes.0.iter().map(|probe| probe.at).collect();
            assert_eq!((places[0], places[places.len() - 1]), (0, bytes / 4096 * 4096 - 4096));
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{bytes}: {places:?}");
        }
        assert_eq!(Probes::new(512).all(), 0);
    }

    #[test]
    fn a_block_that_cannot_be_read_has_neither_kept_nor_lost_its_data() {
        let [data, zeros] = [[7u8; 16], [0; 16]].map(|bytes| Some(Contents::of(&bytes)));
        let probe = |before, after| Probe { at: 0, before, after };
        let probes = Probes(vec![
            probe(data, data),
            probe(data, zeros),
            probe(data, None),
            probe(None, data),
            probe(None, None),
            probe(zeros, zeros),
        ]);
        assert_eq!((probes.with_data(), probes.unchanged(), probes.zero()), (3, 1, 2));
        assert_eq!((probes.unreadable_before(), probes.unreadable_after()), (2, 2));
        assert_eq!(probes.as_json()[2]["after"], Value::Null);
    }
}
