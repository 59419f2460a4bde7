//! The map as tables for a terminal.

use super::Report;
use super::amounts::PathAmounts;
use crate::terminal;
use block::{Size, printable};
use daemon::MappedSystem;
use daemon::units::nanoseconds;
use report::terminal::{Column, Fit, Line, Table};

/// Rows of the tables of directories and of files.
const ROWS_MAX: usize = 10;

fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// Returns a part in percent of a whole.
fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ => format!("{:.0} %", part as f64 * 100.0 / whole as f64),
    }
}

/// Returns a file system in words.
fn words(system: &MappedSystem) -> String {
    let mut words = system.kind.clone();
    if system.is_damaged {
        words.push_str(", damaged");
    }
    if system.unreadable > 0 {
        words.push_str(&format!(", {} objects make no sense", system.unreadable));
    }
    words
}

impl Report {
    /// Prints all tables.
    pub(super) fn print(&self) {
        terminal::print_wrapped(&Line::from(self.sentence()), 2);
        self.print_classes();
        print_paths("directory", &self.amounts.directories);
        print_paths("file", &self.amounts.files);
    }

    fn sentence(&self) -> String {
        let cached: u64 = self.amounts.classes.iter().map(|class| class.cached_bytes).sum();
        let systems: Vec<String> = self.summary.systems.iter().map(words).collect();
        let mut sentence = format!(
            "{}: {} of {} in the cache; {} files in {} directories ({})",
            printable(&self.volume),
            size(cached),
            size(self.memory_bytes),
            self.summary.files,
            self.summary.directories,
            systems.join("; ")
        );
        if self.summary.is_incomplete {
            sentence.push_str(
                "; a part of the volume was left out, because the map reached its \
                               limit of work or memory",
            );
        }
        match &self.hints {
            None => sentence.push_str(
                "; the cache does not use the map ('overdrive volume set \
                                       files=auto')",
            ),
            Some(hints) if !hints.followed => {
                sentence
                    .push_str("; the cache does not follow the map now, because that costs hits");
            }
            Some(_) => {}
        }
        sentence
    }

    fn print_classes(&self) {
        let mut columns = vec![Column::text("class", Fit::Whole)];
        let heads = ["volume", "cached", "share", "dirty", "hits", "misses", "saved"];
        columns.extend(heads.map(Column::number));
        let mut table = Table::new(2, columns);
        for class in &self.amounts.classes {
            let figures = self.figures(&class.class);
            let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
            let row = [
                class.class.clone(),
                size(class.bytes),
                size(class.cached_bytes),
                percent(class.cached_bytes, class.bytes),
                if class.dirty_bytes > 0 { size(class.dirty_bytes) } else { String::new() },
                number(figures.map(|figures| figures.hits)),
                number(figures.map(|figures| figures.misses)),
                figures.map(|figures| nanoseconds(figures.time_saved_ns)).unwrap_or_default(),
            ];
            table.push(row.into_iter().map(Into::into).collect());
        }
        terminal::print([Line::default()]);
        terminal::print(table.narrowed(terminal::width()));
    }
}

/// Prints those with the most cached blocks.
fn print_paths(head: &str, all: &[PathAmounts]) {
    if all.is_empty() {
        return;
    }
    let columns =
        vec![Column::number("cached"), Column::number("share"), Column::text(head, Fit::Whole)];
    let mut table = Table::new(2, columns);
    for one in all.iter().take(ROWS_MAX) {
        let path = printable(&String::from_utf8_lossy(&one.path)).into_owned();
        let row = [size(one.cached_bytes), percent(one.cached_bytes, one.bytes), path];
        table.push(row.into_iter().map(Into::into).collect());
    }
    if all.len() > ROWS_MAX {
        table.push_note(Line::from(format!("{} more: --json", all.len() - ROWS_MAX)));
    }
    terminal::print([Line::default()]);
    terminal::print(table.narrowed(terminal::width()));
}
