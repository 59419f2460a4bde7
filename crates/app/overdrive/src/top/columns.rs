//! The columns of the table of volumes.

use block::{Size, printable};
use daemon::units::nanoseconds;
use live::Volume;
use report::words::grouped;

/// A column: its heading, its least width, whether it is text, and its priority: columns with
/// higher numbers are left out first if the terminal is too narrow.
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) width: u16,
    pub(super) is_text: bool,
    priority: u8,
    cell: fn(&Volume) -> String,
}

impl Column {
    /// Returns the cell of a volume.
    pub(super) fn cell(&self, volume: &Volume) -> String {
        (self.cell)(volume)
    }
}

/// The mark of a figure that is not known.
const NONE: &str = "-";

fn text(head: &'static str, width: u16, priority: u8, cell: fn(&Volume) -> String) -> Column {
    Column { head, width, is_text: true, priority, cell }
}

fn number(head: &'static str, width: u16, priority: u8, cell: fn(&Volume) -> String) -> Column {
    Column { head, width, is_text: false, priority, cell }
}

fn rate(per_s: Option<f64>) -> String {
    per_s.map_or(NONE.to_owned(), |per_s| grouped(per_s.round() as u64))
}

fn time(ns: u64) -> String {
    if ns == 0 { NONE.to_owned() } else { nanoseconds(ns) }
}

fn counter(volume: &Volume, of: fn(&cache::Counters) -> u64) -> u64 {
    volume.stats.as_ref().map_or(0, |stats| of(&stats.counters))
}

/// All columns.
pub(super) fn all() -> [Column; 11] {
    [
        text("VOLUME", 16, 0, |volume| printable(&volume.row.name).into_owned()),
        text("STATE", 9, 0, |volume| volume.state_word().to_owned()),
        number("HIT%", 6, 0, |volume| {
            let ratio = volume.rates().and_then(|rates| rates.hit_ratio);
            ratio.map_or(NONE.to_owned(), |ratio| format!("{:.1}", ratio * 100.0))
        }),
        number("READS/S", 9, 1, |volume| rate(volume.rates().map(|rates| rates.reads_per_s))),
        number("CHANGES/S", 9, 2, |volume| rate(volume.rates().map(|it| it.changes_per_s))),
        number("HIT", 9, 5, |volume| time(counter(volume, |counters| counters.hit_ns))),
        number("BACKING", 9, 4, |volume| {
            time(volume.stats.as_ref().map_or(0, |stats| stats.backing.read_mean_ns))
        }),
        number("DIRTY", 10, 1, |volume| Size(volume.row.dirty_bytes).to_string()),
        number("SAVED", 10, 6, |volume| {
            Size(counter(volume, |counters| counters.blocks_saved) * 4096).to_string()
        }),
        number("TIME-SAVED", 10, 3, |volume| time(counter(volume, |it| it.time_saved_ns))),
        number("MEMORY", 10, 7, |volume| Size(volume.row.memory_bytes).to_string()),
    ]
}

/// Returns the columns that fit a width, with a blank between two.
pub(super) fn fitting(width: u16) -> Vec<Column> {
    let mut columns = Vec::from(all());
    let needed = |columns: &[Column]| columns.iter().map(|column| column.width + 1).sum::<u16>();
    while needed(&columns) > width + 1 {
        let last = columns.iter().enumerate().max_by_key(|(_, column)| column.priority);
        match last {
            Some((index, column)) if column.priority > 0 => drop(columns.remove(index)),
            _ => break,
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_important_columns_are_left_out() {
        let heads = |width| fitting(width).iter().map(|column| column.head).collect::<Vec<_>>();
        assert_eq!(heads(200).len(), 11);
        assert_eq!(heads(60), ["VOLUME", "STATE", "HIT%", "READS/S", "DIRTY"]);
        assert_eq!(heads(10), ["VOLUME", "STATE", "HIT%"]);
    }
}
