//! Watches a block device by its counters.
//!
//! Source: the kernel's Documentation/admin-guide/iostats.rst.

use advice::load::{Facts, Mean};
use stack::{Exit, Failure};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two looks at the counters.
const LOOK: Duration = Duration::from_millis(200);

/// Facts about a device, and why watching ended early, if it did.
pub(super) struct Watched {
    pub(super) facts: Facts,
    pub(super) ended: Option<String>,
}

/// Counters of a device since the machine's start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counters {
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    writes: u64,
    write_sectors: u64,
    write_ms: u64,
    discards: u64,
    /// None: the kernel is older than 5.5.
    flushes: Option<(u64, u64)>,
}

/// Returns the name of a device, or of the device below a directory.
pub(super) fn device_of(target: &Path) -> Result<String, Failure> {
    let data = target.metadata().map_err(|error| super::unreadable(target, &error))?;
    let number = match data.file_type().is_block_device() {
        true => data.rdev(),
        false => number_below(target).unwrap_or_else(|| data.dev()),
    };
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let is_it = fields.next()?.parse() == Ok(major) && fields.next()?.parse() == Ok(minor);
        is_it.then(|| fields.next().map(str::to_owned))?
    });
    name.ok_or_else(|| {
        let what = "is on no block device with counters in /proc/diskstats; name the device";
        Failure::new(Exit::Usage, format!("{}: {what}", target.display()))
    })
}

/// Returns the number of the device that a file system names as its source.
fn number_below(target: &Path) -> Option<u64> {
    let target = target.canonicalize().ok()?;
    let mounts = host::mounts();
    let source = &host::mount_around(&mounts, &target)?.source;
    let data = source.metadata().ok()?;
    data.file_type().is_block_device().then(|| data.rdev())
}

fn counters(text: &str, name: &str) -> Option<Counters> {
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(name))?;
    let fields: Vec<u64> =
        line.split_whitespace().skip(3).map(|field| field.parse().unwrap_or(0)).collect();
    let field = |index: usize| fields.get(index).copied();
    Some(Counters {
        reads: field(0)?,
        read_sectors: field(2)?,
        read_ms: field(3)?,
        writes: field(4)?,
        write_sectors: field(6)?,
        write_ms: field(7)?,
        discards: field(11).unwrap_or(0),
        flushes: field(15).zip(field(16)),
    })
}

/// Returns the facts between two looks.
fn between(before: &Counters, after: &Counters, duration_ns: u64) -> Facts {
    // The counters of a device that was attached again begin at zero.
    let since = |before: u64, after: u64| after.saturating_sub(before);
    let times = |count, before, after| Mean { count, sum_ns: since(before, after) * 1_000_000 };
    let reads = since(before.reads, after.reads);
    let writes = since(before.writes, after.writes);
    let flushes = before.flushes.zip(after.flushes);
    let flushed = flushes.map(|(before, after)| since(before.0, after.0));
    let flush_times = flushes.map_or(Mean::default(), |(before, after)| {
        times(since(before.0, after.0), before.1, after.1)
    });
    Facts {
        reads,
        writes,
        others: since(before.discards, after.discards) + flushed.unwrap_or(0),
        read_bytes: since(before.read_sectors, after.read_sectors) * 512,
        write_bytes: since(before.write_sectors, after.write_sectors) * 512,
        flushes: flushed,
        duration_ns: Some(duration_ns),
        read_times: times(reads, before.read_ms, after.read_ms),
        write_times: times(writes, before.write_ms, after.write_ms),
        flush_times,
        ..Facts::default()
    }
}

/// Watches a device for this time, until a signal ends it, or until the device vanishes.
///
/// # Errors
/// There is no such device at the start.
#[expect(clippy::disallowed_methods, reason = "no lane: a command's own thread and clock")]
pub(super) fn watch(
    root: &Path,
    name: &str,
    time_us: u64,
    watch: &mut dyn simulator::Watch,
) -> Result<Watched, Failure> {
    let read = || {
        let text = fs::read_to_string(root.join("proc/diskstats")).unwrap_or_default();
        counters(&text, name)
    };
    let Some(before) = read() else {
        let message = format!("/dev/{name}: has no counters in /proc/diskstats");
        return Err(Failure::new(Exit::Io, message));
    };
    let (begun, all) = (Instant::now(), Duration::from_micros(time_us));
    let (mut last, mut seen, mut ended) = (before, Duration::ZERO, None);
    while seen < all && ended.is_none() {
        std::thread::sleep(LOOK.min(all - seen));
        let Some(now) = read() else {
            let words = format!("/dev/{name} vanished after {:.1} s.", seen.as_secs_f64());
            ended = Some(words);
            break;
        };
        (last, seen) = (now, begun.elapsed());
        let share = seen.as_secs_f64() / all.as_secs_f64();
        if !watch.look("watching", share.min(1.0)) && seen < all {
            ended = Some(format!("Interrupted after {:.1} s.", seen.as_secs_f64()));
        }
    }
    let facts = between(&before, &last, seen.as_nanos() as u64);
    Ok(Watched { facts, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "   8       0 sda 100 5 800 400 50 6 1600 900 0 70 80 7 0 9 1 20 60\n";

    /// Changes the counters at each look, and removes the device at the third.
    struct Changing<'a>(&'a Path, u32);

    impl simulator::Watch for Changing<'_> {
        fn look(&mut self, _: &'static str, _: f64) -> bool {
            self.1 += 1;
            let text = match self.1 {
                1 => LINE.replace("100 5 800 400", "110 5 880 450").replace("20 60", "22 70"),
                _ => String::new(),
            };
            fs::write(self.0.join("proc/diskstats"), text).expect("written");
            true
        }
    }

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("proc")).expect("created");
        fs::write(root.path().join("proc/diskstats"), LINE).expect("written");
        root
    }

    #[test]
    fn a_device_that_vanishes_leaves_what_was_seen_before() {
        let root = root();
        let mut changing = Changing(root.path(), 0);
        let watched = watch(root.path(), "sda", 60_000_000, &mut changing).expect("there");
        assert!(watched.ended.expect("ended").starts_with("/dev/sda vanished after "));
        let facts = watched.facts;
        assert_eq!((facts.reads, facts.read_bytes, facts.writes), (10, 80 * 512, 0));
        assert_eq!(facts.read_times.ns(), Some(5_000_000.0));
        assert_eq!((facts.flushes, facts.flush_times.ns()), (Some(2), Some(5_000_000.0)));
        assert!(facts.duration_ns.expect("watched") > 100_000_000 && facts.hits.is_empty());
    }

    #[test]
    fn signals_end_watching_and_a_missing_device_is_an_error() {
        struct Stopped;
        impl simulator::Watch for Stopped {
            fn look(&mut self, _: &'static str, _: f64) -> bool {
                false
            }
        }
        let root = root();
        let watched = watch(root.path(), "sda", 60_000_000, &mut Stopped).expect("there");
        assert!(watched.ended.expect("ended").starts_with("Interrupted after "));
        assert_eq!(watched.facts.reads, 0);
        let missing = watch(root.path(), "sdb", 1, &mut Stopped);
        assert!(missing.is_err_and(|failure| failure.message.contains("/dev/sdb")));
        assert_eq!(counters("8 0 sda 1 2", "sda"), None);
        let old = counters("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", "sda").expect("an old kernel's");
        assert_eq!((old.reads, old.flushes, old.discards), (1, None, 0));
    }
}
