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
/// Minimum width of paths.
const PATH_WIDTH_MIN: usize = 24;

fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// Returns a part in percent of a whole.
pub(super) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ if part > 0 && part < whole.div_ceil(200) => "<1 %".to_owned(),
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
        terminal::print_wrapped(&Line::from(self.sentences().join(" ")), 2);
        self.print_classes();
        print_paths("directory", "mostly", &self.amounts.directories);
        print_paths("file", "class", &self.amounts.files);
    }

    /// Returns the summary, in sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.amount(), self.contents()];
        if self.summary.is_incomplete {
            sentences.push(
                "A part of the volume was left out, because the map reached its limit of work or \
                 memory."
                    .to_owned(),
            );
        }
        let about_hints = match &self.hints {
            _ if self.memory_bytes == 0 => None,
            None => Some("The cache does not use the map ('overdrive volume set files=auto')."),
            Some(hints) if !hints.followed => {
                Some("The cache does not follow the map now, because that costs hits.")
            }
            Some(_) => None,
        };
        sentences.extend(about_hints.map(str::to_owned));
        sentences
    }

    /// Returns the sentence on the cache.
    fn amount(&self) -> String {
        let volume = printable(&self.volume);
        if self.memory_bytes == 0 {
            return format!(
                "{volume} has no cache (memory 0), so nothing of it is in memory; it gets one if it \
                 is served again with --memory SIZE."
            );
        }
        let cached: u64 = self.amounts.classes.iter().map(|class| class.cached_bytes).sum();
        format!("{volume}: {} of {} in the cache.", size(cached), size(self.memory_bytes))
    }

    /// Returns the sentence on the contents of the volume.
    fn contents(&self) -> String {
        let systems = &self.summary.systems;
        let words: Vec<String> = systems.iter().map(words).collect();
        let words = words.join("; ");
        if systems.is_empty() {
            return "No file system was found on the volume, so its files are unknown.".to_owned();
        }
        if !systems.iter().any(|system| system.is_read) {
            return format!("No file system that can be read was found, only: {words}.");
        }
        let (files, directories) = (self.summary.files, self.summary.directories);
        format!("{files} files in {directories} directories ({words}).")
    }

    fn print_classes(&self) {
        let columns = vec![
            Column::text("class", Fit::Whole),
            Column::number("volume").left_out(2),
            Column::number("cached"),
            Column::number("share"),
            Column::number("dirty").left_out(0),
            Column::number("hits"),
            Column::number("misses").left_out(1),
            Column::number("saved"),
        ];
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
        terminal::print(table.lines(terminal::width()));
        let missing = table.missing(terminal::width());
        if !missing.is_empty() {
            let line = format!("Not shown for lack of room: {}; see --json.", missing.join(", "));
            terminal::print_wrapped(&line.into(), 2);
        }
    }
}

/// Prints those with the most cached blocks.
fn print_paths(head: &str, class: &str, all: &[PathAmounts]) {
    if all.is_empty() {
        return;
    }
    let columns = vec![
        Column::number("cached"),
        Column::number("share"),
        Column::text(class, Fit::Whole).left_out(0),
        Column::text(head, Fit::Shorten(PATH_WIDTH_MIN)),
    ];
    let mut table = Table::new(2, columns);
    for one in all.iter().take(ROWS_MAX) {
        let path = printable(&String::from_utf8_lossy(&one.path)).into_owned();
        let volume_bytes = one.cached_bytes + one.uncached_bytes;
        let share = percent(one.cached_bytes, volume_bytes);
        let row = [size(one.cached_bytes), share, one.class.clone(), path];
        table.push(row.into_iter().map(Into::into).collect());
    }
    if all.len() > ROWS_MAX {
        table.push_note(Line::from(format!("{} more: --json", all.len() - ROWS_MAX)));
    }
    terminal::print([Line::default()]);
    terminal::print(table.lines(terminal::width()));
}
