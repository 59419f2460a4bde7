//! The map as JSON.

use super::Report;
use super::amounts::{ClassAmounts, PathAmounts};
use serde_json::{Value, json};

/// Name of the format.
pub(super) const SCHEMA: &str = "overdrive.map/1";

impl Report {
    /// Returns the object with all directories and files that have cached blocks.
    pub(super) fn json(&self) -> Value {
        self.json_of(usize::MAX, usize::MAX)
    }

    /// Returns the object with at most this number of directories and of files, and this number of
    /// bytes of the paths of each: those with the most cached blocks.
    pub(super) fn json_of(&self, paths_max: usize, bytes_max: usize) -> Value {
        let amounts = &self.amounts;
        let paths = |all: &[PathAmounts]| {
            let mut bytes = 0;
            let fits = |one: &&PathAmounts| {
                bytes += one.path.len();
                bytes <= bytes_max
            };
            all.iter().take(paths_max).take_while(fits).map(path).collect::<Vec<_>>()
        };
        json!({
            "schema": SCHEMA,
            "volume": self.volume,
            "memory_bytes": self.memory_bytes,
            "followed": self.hints.as_ref().map(|hints| hints.followed),
            "map": self.summary,
            "classes": amounts.classes.iter().map(|one| self.class(one)).collect::<Vec<_>>(),
            "directories": paths(&amounts.directories),
            "directories_total": amounts.directories.len(),
            "files": paths(&amounts.files),
            "files_total": amounts.files.len(),
        })
    }

    fn class(&self, one: &ClassAmounts) -> Value {
        let figures = self.figures(&one.class);
        json!({
            "class": one.class,
            "bytes": one.bytes,
            "cached_bytes": one.cached_bytes,
            "uncached_bytes": one.bytes.saturating_sub(one.cached_bytes),
            "dirty_bytes": one.dirty_bytes,
            "hits": figures.map(|figures| figures.hits),
            "misses": figures.map(|figures| figures.misses),
            "time_saved_ns": figures.map(|figures| figures.time_saved_ns),
        })
    }
}

/// Returns the amounts of a directory or a file. A name that is not UTF-8 is also given byte for
/// byte.
fn path(one: &PathAmounts) -> Value {
    let mut value = json!({
        "path": String::from_utf8_lossy(&one.path),
        "class": one.class,
        "bytes": one.bytes,
        "cached_bytes": one.cached_bytes,
        "uncached_bytes": one.uncached_bytes,
    });
    if str::from_utf8(&one.path).is_err() {
        let hex: String = one.path.iter().map(|byte| format!("{byte:02x}")).collect();
        value["path_bytes"] = hex.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::map::examples;

    #[test]
    fn names_that_are_not_text_are_given_byte_for_byte() {
        let json = examples::report().json();
        let files = json["files"].as_array().expect("a list");
        let bytes = |path: &str| {
            let file = files.iter().find(|file| file["path"] == path);
            file.unwrap_or_else(|| panic!("{path}: {json}"))["path_bytes"].clone()
        };
        assert_eq!(bytes("/films/\u{fffd}.mp4"), "2f66696c6d732fe42e6d7034");
        assert_eq!(bytes("/srv/box.mbox"), Value::Null);
        assert_eq!(json["files_total"], files.len());
    }

    #[test]
    fn a_part_has_the_most_cached_and_the_number_of_all() {
        let report = examples::report();
        for part in [report.json_of(1, usize::MAX), report.json_of(3, 20)] {
            assert_eq!(part["files"].as_array().map(Vec::len), Some(1));
            assert_eq!(part["files"][0]["path"], "/films/\u{fffd}.mp4");
            assert_eq!(part["files_total"], 3);
        }
    }
}
