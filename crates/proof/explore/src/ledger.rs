//! The permitted results of reads: the values that were written to each cell, in order.
//!
//! A cell has only one writer, so the order of its values is known. Any client reads it.

use std::sync::Mutex;

#[derive(Clone, Debug)]
struct Cell {
    /// All values until now, starting with zero. The others are unique.
    values: Vec<u64>,
    /// Index of the newest value known to be stored: its write was answered, or a read has returned
    /// it.
    known: usize,
}

impl Cell {
    /// Returns the newest index of this value from `floor` on.
    fn index(&self, value: u64, floor: usize) -> Option<usize> {
        (floor..self.values.len()).rev().find(|&index| self.values[index] == value)
    }
}

/// The cells of a volume. No thread holds this lock while the explorer stops it.
#[derive(Debug)]
pub struct Ledger(Mutex<Vec<Cell>>);

impl Ledger {
    /// Creates `cells` cells of zeros.
    pub fn new(cells: usize) -> Ledger {
        Ledger(Mutex::new(vec![Cell { values: vec![0], known: 0 }; cells]))
    }

    fn with<R>(&self, cell: usize, act: impl FnOnce(&mut Cell) -> R) -> R {
        let mut cells = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        act(&mut cells[cell])
    }

    /// Records that a write of this value will be sent. Returns the value's index.
    pub fn record_send(&self, cell: usize, value: u64) -> usize {
        self.with(cell, |cell| {
            cell.values.push(value);
            cell.values.len() - 1
        })
    }

    /// Records that this write was answered.
    pub fn record_answer(&self, cell: usize, index: usize) {
        self.with(cell, |cell| cell.known = cell.known.max(index));
    }

    /// Returns the index of the newest value that is known to be stored. Later reads must not
    /// return an older one.
    pub fn floor(&self, cell: usize) -> usize {
        self.with(cell, |cell| cell.known)
    }

    /// Records that a read has returned this value. `floor` is the floor at the time the read was
    /// sent.
    ///
    /// # Panics
    /// If the value is not permitted (C10).
    pub fn check_read(&self, cell: usize, value: u64, floor: usize) {
        let known = self.with(cell, |cell| {
            let index = cell.index(value, floor);
            if let Some(index) = index
                && value != 0
            {
                cell.known = cell.known.max(index);
            }
            index.ok_or_else(|| cell.clone())
        });
        assert!(known.is_ok(), "C10: cell {cell} shows {value}, floor {floor}: {known:?}");
    }

    /// Checks the value that the disk would have after a power cut, when a flush was answered that
    /// was sent at this floor.
    ///
    /// # Panics
    /// If the value is not permitted (C1).
    pub fn check_durable(&self, cell: usize, value: u64, floor: usize) {
        let known = self.with(cell, |cell| cell.index(value, floor).ok_or_else(|| cell.clone()));
        assert!(known.is_ok(), "C1: cell {cell} would be {value}, floor {floor}: {known:?}");
    }

    /// The newest value. Valid once all requests were answered.
    pub fn newest(&self, cell: usize) -> u64 {
        self.with(cell, |cell| *cell.values.last().expect("it was zeros"))
    }
}
