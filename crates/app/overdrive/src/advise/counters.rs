//! Watches a block device by its counters.
//!
//! Source: the kernel's Documentation/admin-guide/iostats.rst.

use super::family::Family;
use super::limit::{Ended, Limit, Until};
use advice::load::{Facts, Mean};
use stack::{Exit, Failure};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Time between two looks at the counters.
const LOOK: Duration = Duration::from_millis(200);

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

/// Watches a device until the limit. Returns the facts and the end.
///
/// # Errors
/// There is no such device at the start.
pub(super) fn watch(
    root: &Path,
    name: &str,
    mut family: Option<&mut Family>,
    limit: &mut Limit<'_>,
) -> Result<(Facts, Ended), Failure> {
    let read = || {
        let text = fs::read_to_string(root.join("proc/diskstats")).unwrap_or_default();
        counters(&text, name)
    };
    let Some(before) = read() else {
        let message = format!("/dev/{name}: has no counters in /proc/diskstats");
        return Err(Failure::new(Exit::Io, message));
    };
    let begin_ns = host::now_ns();
    let (mut last, mut seen_ns) = (before, 0);
    let until = loop {
        if let Some(family) = &mut family {
            family.refresh();
        }
        let ended = limit.wait(LOOK, seen_ns, family.as_deref());
        let Some(now) = read() else {
            break Until::Gone(name.to_owned());
        };
        (last, seen_ns) = (now, host::now_ns() - begin_ns);
        if let Some(ended) = ended {
            break ended;
        }
    };
    Ok((between(&before, &last, seen_ns), Ended { until, ns: seen_ns }))
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

    fn limit(watch: &mut dyn simulator::Watch) -> Limit<'_> {
        Limit { time_ns: Some(60_000_000_000), child: None, watch }
    }

    #[test]
    fn a_device_that_vanishes_leaves_what_was_seen_before() {
        let root = root();
        let mut changing = Changing(root.path(), 0);
        let (facts, ended) =
            watch(root.path(), "sda", None, &mut limit(&mut changing)).expect("there");
        assert!(ended.reason().expect("early").starts_with("/dev/sda vanished after "));
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
        let mut stopped = Stopped;
        let watched = watch(root.path(), "sda", None, &mut limit(&mut stopped));
        let (facts, ended) = watched.expect("there");
        assert!(ended.reason().expect("early").starts_with("Ended by a signal after "));
        assert_eq!(facts.reads, 0);
        let missing = watch(root.path(), "sdb", None, &mut limit(&mut stopped));
        assert!(missing.is_err_and(|failure| failure.message.contains("/dev/sdb")));
        assert_eq!(counters("8 0 sda 1 2", "sda"), None);
        let old = counters("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", "sda").expect("an old kernel's");
        assert_eq!((old.reads, old.flushes, old.discards), (1, None, 0));
    }
}
