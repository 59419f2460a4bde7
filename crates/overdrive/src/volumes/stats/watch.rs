//! `--watch`: what happens in each interval, as rates.

use super::{Chosen, time};
use block::Size;
use serde_json::{Map, Value, json};
use stack::Failure;
use std::time::Duration;

/// Lines between two headings.
const PAGE: usize = 20;

/// Two looks at a volume, and what lies between them.
struct Interval<'a> {
    before: &'a Value,
    after: &'a Value,
}

impl Interval<'_> {
    fn seconds(&self) -> f64 {
        let now = |stats: &Value| stats["now_ns"].as_u64().unwrap_or(0);
        now(self.after).saturating_sub(now(self.before)).max(1) as f64 / 1e9
    }

    /// How much a count has grown.
    fn grown(&self, group: &str, name: &str) -> u64 {
        let at = |stats: &Value| stats[group][name].as_u64().unwrap_or(0);
        at(self.after).saturating_sub(at(self.before))
    }

    fn rate(&self, group: &str, name: &str) -> f64 {
        self.grown(group, name) as f64 / self.seconds()
    }

    fn gauge(&self, name: &str) -> u64 {
        self.after["counters"][name].as_u64().unwrap_or(0)
    }

    fn has_cache(&self) -> bool {
        self.after["memory_bytes"].as_u64().unwrap_or(0) > 0
    }

    fn cells(&self) -> [String; 10] {
        let cached = self.has_cache();
        let counted = |name| self.rate("counters", name);
        let backing = |name| self.rate("backing", name);
        let hits = self.grown("counters", "read_hits");
        let reads =
            hits + self.grown("counters", "read_misses") + self.grown("counters", "read_joins");
        let [read_rate, change_rate, write_rate] = match cached {
            true => {
                [reads as f64 / self.seconds(), counted("changes"), counted("asked_write_bytes")]
            }
            false => [backing("reads"), backing("changes"), backing("write_bytes")],
        };
        let share = match reads {
            0 => "-".to_owned(),
            reads => format!("{:.1}", 100.0 * hits as f64 / reads as f64),
        };
        [
            self.after["volume"].as_str().unwrap_or_default().to_owned(),
            format!("{read_rate:.0}"),
            share,
            format!("{change_rate:.0}"),
            Size(write_rate as u64).to_string(),
            format!("{:.0}", backing("reads")),
            format!("{:.0}", backing("changes")),
            format!("{:.1}", backing("flushes")),
            Size(self.gauge("blocks_dirty") * 4096).to_string(),
            time(self.gauge("flush_predicted_ns")),
        ]
    }

    fn json(&self) -> Value {
        let rates = |group: &str| -> Map<String, Value> {
            let names = self.after[group].as_object().into_iter().flatten().map(|(name, _)| name);
            names.map(|name| (name.clone(), self.rate(group, name).into())).collect()
        };
        json!({
            "schema": "overdrive.volume-rates/1",
            "volume": self.after["volume"],
            "seconds": self.seconds(),
            // Of gauges the change: how they stand is in `stats`.
            "counters_per_second": rates("counters"),
            "backing_per_second": rates("backing"),
            "blocks_dirty": self.gauge("blocks_dirty"),
            "state": self.after["state"],
        })
    }
}

const HEADING: [&str; 10] = [
    "VOLUME",
    "READS/S",
    "HIT%",
    "CHANGES/S",
    "WRITTEN/S",
    "B.READS/S",
    "B.CHANGES/S",
    "B.FLUSHES/S",
    "DIRTY",
    "TO-FLUSH",
];

fn print(cells: [&str; 10]) {
    let [name, cells @ ..] = cells;
    let cells = cells.map(|cell| format!("{cell:>11}"));
    daemon::say!("{name:<12} {}", cells.join(" "));
}

#[allow(clippy::disallowed_methods, reason = "a command waits: there is no lane here")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// What is watched, with the latest look at it.
struct Watched {
    chosen: Chosen,
    before: Value,
}

/// Lines as a table, with a heading now and then, or objects.
struct Printer {
    as_json: bool,
    lines: usize,
}

impl Printer {
    fn print(&mut self, interval: &Interval) {
        if self.as_json {
            daemon::say!("{}", interval.json());
            return;
        }
        if self.lines.is_multiple_of(PAGE) {
            print(HEADING);
        }
        print(interval.cells().each_ref().map(String::as_str));
        self.lines += 1;
    }
}

/// Prints a line a volume each time, until none is left or the output takes nothing any more. "B." is what
/// the backing is asked.
///
/// # Errors
/// The last volume has gone; status 3 if its daemon has.
pub(super) fn run(chosen: Vec<Chosen>, time: Duration, as_json: bool) -> Result<(), Failure> {
    let mut watched = Vec::new();
    for mut chosen in chosen {
        let before = chosen.ask()?;
        watched.push(Watched { chosen, before });
    }
    let mut printer = Printer { as_json, lines: 0 };
    while !daemon::console::has_ended() {
        pause(time);
        let mut gone = Vec::new();
        watched.retain_mut(|one| match one.chosen.ask() {
            Ok(after) => {
                printer.print(&Interval { before: &one.before, after: &after });
                one.before = after;
                true
            }
            Err(failure) => {
                gone.push(Failure::new(failure.exit, format!("{}: {failure}", one.chosen.volume)));
                false
            }
        });
        let last = if watched.is_empty() { gone.pop() } else { None };
        gone.iter().for_each(|failure| daemon::tell!("overdrive: {failure}"));
        if let Some(failure) = last {
            return Err(failure);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_was_counted_between_two_looks() {
        let at = |now_ns: u64, hits: u64, misses: u64, asked: u64| {
            json!({
                "volume": "v", "now_ns": now_ns, "memory_bytes": 1, "state": "serving",
                "counters": {
                    "read_hits": hits, "read_misses": misses, "read_joins": 0, "changes": 7,
                    "asked_write_bytes": asked, "blocks_dirty": 2, "flush_predicted_ns": 0,
                },
                "backing": { "reads": misses, "changes": 0, "flushes": 0 },
            })
        };
        let (before, after) = (at(1_000_000_000, 100, 50, 0), at(3_000_000_000, 400, 150, 4 << 20));
        let interval = Interval { before: &before, after: &after };
        let cells = interval.cells();
        assert_eq!(cells[..5], ["v", "200", "75.0", "0", "2 MiB"]);
        assert_eq!((&*cells[5], &*cells[8]), ("50", "8 KiB"));
        assert_eq!(interval.json()["counters_per_second"]["read_hits"], 150.0);
        // A daemon that began anew in between has counted less: nothing is told that cannot be.
        let anew = Interval { before: &after, after: &before };
        assert_eq!(anew.cells()[1], "0");
    }
}
