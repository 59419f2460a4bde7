//! What the judge lets pass, and what it does not.

use kills::ledger::{Change, Ledger};

/// A volume of four blocks.
const SECTORS: u64 = 32;
const BYTES: usize = 512;

/// A ledger, and what the volume holds.
struct Table {
    ledger: Ledger,
    image: Vec<u8>,
}

impl Table {
    fn new() -> Table {
        let mut ledger = Ledger::new(1, SECTORS);
        ledger.begin_life();
        Table { ledger, image: vec![0; SECTORS as usize * BYTES] }
    }

    /// Sends a write; its stamps are what is returned.
    fn send(&mut self, first: u64, count: u32, fua: bool) -> (Change, Vec<u8>) {
        let mut bytes = Vec::new();
        let change = self.ledger.send_change(first, count, fua, Some((&mut bytes, 0)));
        (change, bytes)
    }

    fn put(&mut self, first: u64, bytes: &[u8]) {
        let start = first as usize * BYTES;
        self.image[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// A write that is done and answered.
    fn write(&mut self, first: u64, count: u32) -> Vec<u8> {
        let (change, bytes) = self.send(first, count, false);
        self.put(first, &bytes);
        self.ledger.answer_change(&change, true);
        bytes
    }

    fn flush(&mut self) {
        let sent_at = self.ledger.send_flush();
        self.ledger.answer_flush(sent_at);
    }

    fn is_right(&mut self) -> bool {
        let image = self.image.clone();
        self.ledger.judge_image(&image)
    }

    fn power_cut(&mut self) {
        self.ledger.cut();
        self.ledger.begin_life();
    }
}

#[test]
fn what_was_acknowledged_must_be_there_after_a_kill() {
    let mut table = Table::new();
    let old = table.write(8, 8);
    table.write(8, 8);
    table.ledger.begin_life();
    assert!(table.is_right());
    table.put(8, &old);
    assert!(!table.is_right());
    let violation = &table.ledger.violations()[0];
    assert_eq!(violation.sector, 8);
    assert!(violation.history.iter().any(|line| line.contains("answered")), "{violation:?}");
}

#[test]
fn what_was_not_answered_may_be_there_or_not_but_stays_as_it_was_seen() {
    for seen in [false, true] {
        let mut table = Table::new();
        let old = table.write(0, 8);
        let (_, new) = table.send(0, 8, false);
        table.ledger.begin_life();
        table.put(0, if seen { &new } else { &old });
        assert!(table.is_right());
        table.put(0, if seen { &old } else { &new });
        assert!(!table.is_right(), "seen: {seen}");
    }
}

#[test]
fn a_power_cut_may_take_what_no_flush_has_covered_and_no_more() {
    let mut table = Table::new();
    let first = table.write(0, 8);
    table.flush();
    let second = table.write(0, 8);
    table.power_cut();
    table.put(0, &first);
    assert!(table.is_right(), "the second was not flushed");
    table.put(0, &second);
    assert!(!table.is_right(), "it was seen to be lost");

    let mut table = Table::new();
    table.write(0, 8);
    table.flush();
    table.power_cut();
    table.image.fill(0);
    assert!(!table.is_right(), "it was flushed");
}

#[test]
fn a_flush_covers_only_what_was_answered_before_it_was_sent() {
    let mut table = Table::new();
    let sent_at = table.ledger.send_flush();
    table.write(0, 8);
    table.ledger.answer_flush(sent_at);
    table.power_cut();
    table.image.fill(0);
    assert!(table.is_right());
}

#[test]
fn fua_is_durable_by_itself() {
    let mut table = Table::new();
    let (change, _) = table.send(3, 2, true);
    table.ledger.answer_change(&change, true);
    table.power_cut();
    assert!(!table.is_right());
}

#[test]
fn what_a_read_denied_may_come_back_by_a_power_cut_until_a_flush() {
    for flushed in [false, true] {
        let mut table = Table::new();
        let old = table.write(0, 8);
        let (_, lost) = table.send(0, 8, false);
        table.ledger.begin_life();
        table.put(0, &old);
        assert!(table.is_right());
        if flushed {
            table.flush();
        }
        table.power_cut();
        table.put(0, &lost);
        assert_eq!(table.is_right(), !flushed);
    }
}

#[test]
fn another_sectors_bytes_and_torn_blocks_are_found() {
    let mut table = Table::new();
    let one = table.write(0, 1);
    table.put(9, &one);
    assert!(!table.is_right(), "sector 0 in the place of sector 9");

    let mut table = Table::new();
    let old = table.write(0, 8);
    let (_, new) = table.send(0, 8, false);
    table.ledger.begin_life();
    table.put(0, &new[..4 * BYTES]);
    table.put(4, &old[4 * BYTES..]);
    assert!(!table.is_right(), "half of one write, half of the other");
}

#[test]
fn zeros_are_a_version_like_any_other() {
    let mut table = Table::new();
    let data = table.write(0, 8);
    let change = table.ledger.send_change(0, 8, false, None);
    table.ledger.answer_change(&change, true);
    table.image.fill(0);
    assert!(table.is_right());
    table.put(0, &data);
    assert!(!table.is_right(), "older than the zeros");
}
