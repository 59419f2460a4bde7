//! Finds the price list: in a file, in an earlier measurement on this machine, or by a measurement.

use lane::Prices;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use suites::prices;

/// A price list.
#[derive(Clone, Debug)]
pub struct Found {
    /// The prices.
    pub prices: Prices,
    /// A sentence for the user, if they were measured now.
    pub note: Option<String>,
}

/// Returns the prices: from the given file, or of this machine.
///
/// # Errors
/// The file is not a price list: a sentence with its name.
pub fn find(asked: Option<&str>) -> Result<Found, String> {
    let known = |prices| Found { prices, note: None };
    match asked {
        None => Ok(read_stored().map_or_else(measure, known)),
        Some("measure") => Ok(measure()),
        Some(path) => {
            let read = read(Path::new(path)).map(known);
            read.map_err(|what| format!("--prices {path}: {what}"))
        }
    }
}

/// Reads a list, either on its own or as part of a suite's JSON.
fn read(path: &Path) -> Result<Prices, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| format!("not a JSON object: {error}"))?;
    prices::from_json(&value)
}

/// Returns the prices that this version has measured earlier on this machine.
fn read_stored() -> Option<Prices> {
    let text = std::fs::read_to_string(place()?).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    (value.get("machine")? == &machine()).then(|| prices::from_json(&value).ok()).flatten()
}

/// Measures the prices, which takes a second or two, and stores them.
fn measure() -> Found {
    let measured = prices::measure(&prices::Measure::default(), &mut cpu_ns);
    let mut document = prices::document(&measured);
    document["machine"] = machine();
    let kept = place().and_then(|path| {
        std::fs::create_dir_all(path.parent()?).ok()?;
        std::fs::write(&path, format!("{document}\n")).ok()?;
        Some(path)
    });
    let list = prices::to_json(&measured);
    let stored = kept.map(|path| format!("; stored in {}", path.display())).unwrap_or_default();
    let note = format!("measured the costs of the cache's work on this machine, {list}{stored}");
    Found { prices: measured, note: Some(note) }
}

/// Returns the scope of a list: this processor, and this version of the engine.
fn machine() -> Value {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    json!({ "processor": model, "version": env!("CARGO_PKG_VERSION") })
}

fn place() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("overdrive").join("prices.json"))
}

/// Returns the processor time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
