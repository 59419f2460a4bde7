//! Draws from a seed.

use crate::model::Fault;
use lane::Random;

pub(super) struct Dice(pub(super) Random);

impl Dice {
    pub(super) fn number_between(&mut self, low: u32, high: u32) -> u32 {
        low + self.0.below(u64::from(high - low + 1)) as u32
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize]
    }

    /// Returns a fault: in half of the cases, an operation fails among the first `among`.
    pub(super) fn fault(&mut self, among: u32) -> Fault {
        if self.0.one_in(2) {
            return Fault::default();
        }
        Fault { from: self.number_between(1, among), count: self.pick(&[0, 1, 1, 1, 2, 5]) }
    }
}
