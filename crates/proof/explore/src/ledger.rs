//! What clients may find: the values that were written to each cell, in their order.
//!
//! A cell has one writer, so that the order of its values is known. Any client reads it.

use std::sync::Mutex;

#[derive(Clone, Debug)]
struct Cell {
    /// All that it ever was, from zeros on. What is not zeros is unique.
    values: Vec<u64>,
    /// The newest of them that is known to be there: its write was answered, or a read has shown it.
    known: usize,
}

impl Cell {
    /// The newest place of this value from `floor` on.
    fn place(&self, value: u64, floor: usize) -> Option<usize> {
        (floor..self.values.len()).rev().find(|&place| self.values[place] == value)
    }
}

/// The cells of a volume. Its lock is held by no thread that the explorer stops.
#[derive(Debug)]
pub struct Ledger(Mutex<Vec<Cell>>);

impl Ledger {
    /// So many cells of zeros.
    pub fn new(cells: usize) -> Ledger {
        Ledger(Mutex::new(vec![Cell { values: vec![0], known: 0 }; cells]))
    }

    fn with<R>(&self, cell: usize, act: impl FnOnce(&mut Cell) -> R) -> R {
        let mut cells = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        act(&mut cells[cell])
    }

    /// A write of this value is about to be sent. Returns its place.
    pub fn sends(&self, cell: usize, value: u64) -> usize {
        self.with(cell, |cell| {
            cell.values.push(value);
            cell.values.len() - 1
        })
    }

    /// That write has been answered.
    pub fn answered(&self, cell: usize, place: usize) {
        self.with(cell, |cell| cell.known = cell.known.max(place));
    }

    /// The place of the newest value that is known to be there: nothing older may be read from now on.
    pub fn floor(&self, cell: usize) -> usize {
        self.with(cell, |cell| cell.known)
    }

    /// A read that was sent when the floor was this has shown this value.
    ///
    /// # Panics
    /// If it may not (C10).
    pub fn shown(&self, cell: usize, value: u64, floor: usize) {
        let known = self.with(cell, |cell| {
            let place = cell.place(value, floor);
            if let Some(place) = place
                && value != 0
            {
                cell.known = cell.known.max(place);
            }
            place.ok_or_else(|| cell.clone())
        });
        assert!(known.is_ok(), "C10: cell {cell} shows {value}, floor {floor}: {known:?}");
    }

    /// The disk would keep this value after a power cut, though a flush was answered that was sent at this floor.
    ///
    /// # Panics
    /// If it may not (C1).
    pub fn kept(&self, cell: usize, value: u64, floor: usize) {
        let known = self.with(cell, |cell| cell.place(value, floor).ok_or_else(|| cell.clone()));
        assert!(known.is_ok(), "C1: cell {cell} would be {value}, floor {floor}: {known:?}");
    }

    /// The newest value, once all was answered.
    pub fn newest(&self, cell: usize) -> u64 {
        self.with(cell, |cell| *cell.values.last().expect("it was zeros"))
    }
}
