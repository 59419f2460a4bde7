//! Results that the judge accepts, and results that it rejects.

use block::Durability;
use killtest::ledger::{Change, Ledger};
use std::time::Duration;

/// A volume of four blocks.
const SECTORS: u64 = 32;
const BYTES: usize = 512;

/// A ledger, and the volume's contents.
struct Table {
    ledger: Ledger,
    image: Vec<u8>,
    durability: Durability,
}

impl Table {
    fn new() -> Table {
        Table::of(Durability::Flush)
    }

    fn of(durability: Durability) -> Table {
        let mut ledger = Ledger::new(1, SECTORS);
        ledger.begin_life(durability);
        Table { ledger, image: vec![0; SECTORS as usize * BYTES], durability }
    }

    /// Sends a write; returns its stamps.
    fn send(&mut self, first: u64, count: u32, fua: bool) -> (Change, Vec<u8>) {
        let mut bytes = Vec::new();
        let change = self.ledger.send_change(first, count, fua, Some((&mut bytes, 0)));
        (change, bytes)
    }

    fn put(&mut self, first: u64, bytes: &[u8]) {
        let start = first as usize * BYTES;
        self.image[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Sends a write that is carried out and answered.
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

    /// The daemon dies, and another one takes over.
    fn kill(&mut self) {
        self.ledger.begin_life(self.durability);
    }

    /// Cuts the power, which leaves this image. Returns whether the judge accepts it.
    fn cut(&mut self) -> bool {
        let image = self.image.clone();
        self.ledger.cut(&image);
        self.kill();
        self.ledger.violations().is_empty()
    }
}

#[test]
fn what_was_acknowledged_must_be_there_after_a_kill() {
    let mut table = Table::new();
    let old = table.write(8, 8);
    table.write(8, 8);
    table.kill();
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
        table.kill();
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
    table.put(0, &first);
    assert!(table.cut(), "the second was not flushed");
    table.put(0, &second);
    assert!(!table.is_right(), "it was seen to be lost");

    let mut table = Table::new();
    table.write(0, 8);
    table.flush();
    table.image.fill(0);
    assert!(!table.cut(), "it was flushed");
}

#[test]
fn a_flush_covers_only_what_was_answered_before_it_was_sent() {
    let mut table = Table::new();
    let sent_at = table.ledger.send_flush();
    table.write(0, 8);
    table.ledger.answer_flush(sent_at);
    table.image.fill(0);
    assert!(table.cut());
}

#[test]
fn fua_is_durable_by_itself() {
    let mut table = Table::new();
    let (change, _) = table.send(3, 2, true);
    table.ledger.answer_change(&change, true);
    assert!(!table.cut());
}

#[test]
fn what_a_read_denied_may_come_back_by_a_power_cut_until_a_flush() {
    for flushed in [false, true] {
        let mut table = Table::new();
        let old = table.write(0, 8);
        let (_, lost) = table.send(0, 8, false);
        table.kill();
        table.put(0, &old);
        assert!(table.is_right());
        if flushed {
            table.flush();
        }
        table.put(0, &lost);
        assert_eq!(table.cut(), !flushed);
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
    table.kill();
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

/// Writes 0, flushes, writes 1, and cuts the power, which leaves these of the two blocks.
fn around_a_flush(durability: Durability, left: [bool; 2]) -> bool {
    let mut table = Table::of(durability);
    let first = table.write(0, 8);
    table.flush();
    let second = table.write(8, 8);
    table.image.fill(0);
    if left[0] {
        table.put(0, &first);
    }
    if left[1] {
        table.put(8, &second);
    }
    table.cut()
}

#[test]
fn an_ordered_flush_makes_nothing_durable_and_keeps_the_order() {
    for left in [[false, false], [true, false], [true, true]] {
        assert!(around_a_flush(Durability::Ordered, left), "{left:?}");
    }
    assert!(!around_a_flush(Durability::Ordered, [false, true]));
    assert!(!around_a_flush(Durability::Flush, [false, false]), "there it is durable");
    assert!(around_a_flush(Durability::Scratch, [false, true]), "nothing is promised");
}

#[test]
fn a_newer_change_stands_for_what_a_flush_has_covered() {
    for newer in [false, true] {
        let mut table = Table::of(Durability::Ordered);
        table.write(0, 8);
        table.flush();
        let second = table.write(8, 8);
        let third = table.write(0, 8);
        table.image.fill(0);
        table.put(8, &second);
        if newer {
            table.put(0, &third);
        }
        assert_eq!(table.cut(), newer);
    }
}

#[test]
fn what_overlaps_a_flush_is_on_either_side_of_it() {
    // Sent before the flush and answered after it.
    let mut table = Table::of(Durability::Ordered);
    let (change, _) = table.send(0, 8, false);
    table.flush();
    table.ledger.answer_change(&change, true);
    let later = table.write(8, 8);
    table.image.fill(0);
    table.put(8, &later);
    assert!(table.cut());

    // Sent before the flush was answered.
    let mut table = Table::of(Durability::Ordered);
    table.write(0, 8);
    let sent_at = table.ledger.send_flush();
    let (_, bytes) = table.send(8, 8, false);
    table.ledger.answer_flush(sent_at);
    table.image.fill(0);
    table.put(8, &bytes);
    assert!(table.cut());
}

#[test]
fn an_ordered_fua_write_is_before_what_is_sent_after_its_answer() {
    for answered in [false, true] {
        let mut table = Table::of(Durability::Ordered);
        let before = table.write(16, 8);
        let (change, _) = table.send(0, 8, true);
        if answered {
            table.ledger.answer_change(&change, true);
        }
        let later = table.write(8, 8);
        table.image.fill(0);
        table.put(8, &later);
        table.put(16, &before);
        assert_eq!(table.cut(), !answered);
    }
    // It is a flush of all changes that were completed before it was sent.
    let mut table = Table::of(Durability::Ordered);
    table.write(16, 8);
    let (change, bytes) = table.send(0, 8, true);
    table.ledger.answer_change(&change, true);
    let later = table.write(8, 8);
    table.image.fill(0);
    table.put(0, &bytes);
    table.put(8, &later);
    assert!(!table.cut());
}

#[test]
fn the_order_of_one_life_holds_in_the_next_whatever_its_durability() {
    for next in [Durability::Ordered, Durability::Flush] {
        let mut table = Table::of(Durability::Ordered);
        table.write(0, 8);
        table.flush();
        table.durability = next;
        table.kill();
        let later = table.write(8, 8);
        table.image.fill(0);
        table.put(8, &later);
        assert!(!table.cut());
    }
}

/// Returns the table and both contents of a volume whose first block was written and flushed, and
/// written again before a kill; the next daemon is in doubt.
fn in_doubt(durability: Durability) -> (Table, Vec<u8>, Vec<u8>) {
    let mut table = Table::of(durability);
    let old = table.write(0, 8);
    table.flush();
    let new = table.write(0, 8);
    table.ledger.killed();
    table.kill();
    assert!(table.ledger.excuse());
    (table, old, new)
}

#[test]
fn in_doubt_writes_from_before_the_kill_may_be_lost_whatever_is_flushed_later() {
    for durability in [Durability::Flush, Durability::Ordered] {
        let (mut table, old, _) = in_doubt(durability);
        table.write(8, 8);
        table.flush();
        table.write(16, 8);
        table.put(0, &old);
        assert!(table.cut(), "{:?}", table.ledger.violations());
    }
}

#[test]
fn in_doubt_reads_show_the_newest_until_a_power_cut() {
    let (mut table, old, new) = in_doubt(Durability::Flush);
    table.flush();
    assert!(table.is_right());
    table.put(0, &old);
    assert!(!table.is_right());
    table.put(0, &new);
}

#[test]
fn in_doubt_nothing_is_lost_that_an_earlier_flush_covered_or_that_is_flushed_now() {
    let (mut table, _, _) = in_doubt(Durability::Flush);
    table.image.fill(0);
    assert!(!table.cut(), "an earlier flush has covered the first content");
    let (mut table, _, new) = in_doubt(Durability::Flush);
    table.write(0, 8);
    table.flush();
    table.put(0, &new);
    assert!(!table.cut(), "the third was written after the kill, and flushed");
}

#[test]
fn without_doubt_a_flush_after_a_kill_covers_what_was_written_before_it() {
    let mut table = Table::new();
    let old = table.write(0, 8);
    table.write(0, 8);
    table.ledger.killed();
    table.kill();
    table.flush();
    table.put(0, &old);
    assert!(!table.cut());
}

#[test]
fn an_unanswered_write_that_was_seen_may_be_lost_only_in_doubt_about_a_flush() {
    for in_doubt in [false, true] {
        let mut table = Table::new();
        let old = table.write(0, 8);
        table.flush();
        let (_, new) = table.send(0, 8, false);
        table.ledger.killed();
        table.ledger.lost_flush();
        table.kill();
        assert!(!in_doubt || table.ledger.excuse());
        table.put(0, &new);
        assert!(table.is_right());
        table.flush();
        table.put(0, &old);
        assert_eq!(table.cut(), in_doubt);
    }
}

#[test]
fn a_daemon_may_be_in_doubt_only_after_a_kill() {
    let mut table = Table::new();
    table.kill();
    assert!(!table.ledger.excuse());
    let (mut table, _, _) = in_doubt(Durability::Flush);
    assert!(table.cut());
    assert!(!table.ledger.excuse(), "a power cut leaves nothing to be in doubt about");
}

#[test]
fn what_a_kill_leaves_in_ordered_mode_is_everything() {
    let mut table = Table::of(Durability::Ordered);
    let old = table.write(0, 8);
    table.write(0, 8);
    table.kill();
    assert!(table.is_right());
    table.put(0, &old);
    assert!(!table.is_right());
}

#[test]
fn what_an_operator_has_flushed_outlives_a_power_cut_in_ordered_mode() {
    let mut table = Table::of(Durability::Ordered);
    table.write(0, 8);
    let sent_at = table.ledger.send_flush();
    table.ledger.durable(sent_at);
    table.image.fill(0);
    assert!(!table.cut());
}

#[test]
fn what_a_power_cut_has_left_is_durable() {
    let mut table = Table::of(Durability::Ordered);
    let old = table.write(0, 8);
    let new = table.write(0, 8);
    table.put(0, &old);
    assert!(table.cut());
    table.put(0, &new);
    assert!(!table.cut(), "it was lost, and is there again");
}

#[test]
fn zeros_that_may_be_of_several_changes_are_the_kindest_of_them() {
    let mut table = Table::of(Durability::Ordered);
    table.write(0, 8);
    table.flush();
    table.write(8, 8);
    let zeros = table.ledger.send_change(8, 8, false, None);
    table.ledger.answer_change(&zeros, true);
    table.image.fill(0);
    assert!(table.cut(), "they may be the zeros from before all of it");
}

#[test]
fn how_old_it_is_that_a_power_cut_has_left() {
    let ms = Duration::from_millis;
    let mut table = Table::of(Durability::Ordered);
    table.ledger.pass_time(ms(100));
    let first = table.write(0, 8);
    table.ledger.pass_time(ms(200));
    table.write(8, 8);
    table.ledger.pass_time(ms(300));
    table.ledger.pass_time(ms(1000));
    table.image.fill(0);
    table.put(0, &first);
    let image = table.image.clone();
    assert_eq!(table.ledger.cut(&image), Some(ms(700)), "its answer was noted at 300 ms");
    assert_eq!(table.ledger.cut(&image), None, "nothing more is missing");
}
