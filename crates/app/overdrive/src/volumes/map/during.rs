//! Figures of the map of a volume for the time of a benchmark on its files.

use super::super::{Target, find, mount_points, rows};
use super::Report;
use super::tables::percent;
use block::{Size, printable};
use daemon::control::statistics::{FileClass, FileHints};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A volume whose cache uses a map of its files, with the figures at the start.
pub(crate) struct MapDuring {
    target: Target,
    before: FileHints,
}

impl MapDuring {
    /// Returns the volume that has the file system of this directory. None: that lies on no volume
    /// of this user's daemons, or the cache has no map.
    pub(crate) fn start(directory: &Path) -> Option<MapDuring> {
        let device = fs::metadata(directory).ok()?.dev();
        let has = |point: &String| fs::metadata(point).is_ok_and(|found| found.dev() == device);
        let rows = rows().into_iter().filter(|row| !row.device.is_empty());
        let row = rows.filter(|row| row.memory_bytes > 0).find(|row| {
            let points = mount_points(row);
            points.iter().any(has)
        })?;
        let mut target = find(None, Some(&row.name)).ok()?;
        let before = target.daemon.statistics(&row.name).ok()?.files?;
        Some(MapDuring { target, before })
    }

    /// Returns a sentence on the classes: their cached bytes now, and the share of the accesses
    /// since the start that hit.
    pub(crate) fn end(mut self) -> String {
        let volume = printable(&self.target.row.name).into_owned();
        match Report::make(&mut self.target) {
            Ok(report) => report.about_run(&self.before),
            Err(failure) => format!("The files of the volume {volume} cannot be mapped: {failure}"),
        }
    }
}

/// Returns the accesses to a class since an earlier time: hits, and all.
fn accesses(figures: &FileClass, before: &FileHints) -> (u64, u64) {
    let earlier = before.classes.iter().find(|one| one.class == figures.class);
    let (hits, misses) = earlier.map_or((0, 0), |one| (one.hits, one.misses));
    let hits = figures.hits.saturating_sub(hits);
    (hits, hits + figures.misses.saturating_sub(misses))
}

impl Report {
    fn about_run(&self, before: &FileHints) -> String {
        let words = self.amounts.classes.iter().map(|class| {
            let figures = self.figures(&class.class);
            let (hits, all) = figures.map_or((0, 0), |figures| accesses(figures, before));
            let cached = Size(class.cached_bytes);
            (class.cached_bytes + all > 0).then(|| match all {
                0 => format!("{} {cached}", class.class),
                _ => format!("{} {cached}, {} of {all} hit", class.class, percent(hits, all)),
            })
        });
        let words: Vec<String> = words.flatten().collect();
        format!(
            "The files lie on the volume {}, whose cache uses a map of them. Cached bytes of each \
             class after the run, and blocks accessed in it (hits are an estimate): {}.",
            printable(&self.volume),
            words.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::map::examples;

    #[test]
    fn the_sentence_is_about_the_accesses_of_the_run_only() {
        let report = examples::report();
        let mut before = FileHints::default();
        before.classes.push(FileClass {
            class: "databases".to_owned(),
            hits: 870,
            misses: 90,
            ..FileClass::default()
        });
        let sentence = report.about_run(&before);
        let words = "metadata 32 KiB; databases 4 MiB, 75 % of 40 hit; documents 4 KiB; \
                     other 16 MiB, 0 % of 4096 hit.";
        assert!(sentence.ends_with(words), "{sentence}");
        assert!(sentence.starts_with("The files lie on the volume db, "), "{sentence}");
    }
}
