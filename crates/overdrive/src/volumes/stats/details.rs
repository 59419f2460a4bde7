//! What a volume has counted and measured, line by line.

use super::time;
use block::Size;
use cache::{Counters, Histograms};
use serde_json::Value;

/// Prints the lines; with `all`, every counter after them.
pub(super) fn print(stats: &Value, all: bool) {
    match stats["memory_bytes"].as_u64() {
        Some(1..) => print_cache(stats),
        _ => print_backing(&stats["backing"]),
    }
    print_members(stats);
    daemon::say!("state     {}", stats["state"].as_str().unwrap_or("unknown"));
    print_model(&stats["model"]);
    if stats["latencies"].as_object().is_some_and(|latencies| !latencies.is_empty()) {
        print_latencies(&stats["latencies"]);
    }
    if all {
        print_counters(&stats["counters"]);
    }
}

fn print_cache(stats: &Value) {
    let counter = |name: &str| stats["counters"][name].as_u64().unwrap_or(0);
    let reads = counter("read_hits") + counter("read_misses") + counter("read_joins");
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    daemon::say!(
        "reads     {reads}, {:.1} % from memory; time saved {} (estimated, summed over reads)",
        percent(counter("read_hits"), reads),
        time(counter("time_saved_ns")),
    );
    daemon::say!(
        "writes    {} asked, {} absorbed, {} saved, {} written out",
        Size(counter("asked_write_bytes")),
        Size(counter("blocks_absorbed") * 4096),
        Size(counter("blocks_saved") * 4096),
        Size(counter("blocks_written") * 4096),
    );
    daemon::say!(
        "dirty     {} of at most {}, for {}; writing it out would take about {}",
        Size(counter("blocks_dirty") * 4096),
        Size(counter("dirty_blocks_max").min(counter("allowance_blocks")) * 4096),
        time(counter("dirty_age_ns")),
        time(counter("flush_predicted_ns")),
    );
    let backing = |key: &str| stats["backing"][key].as_u64().unwrap_or(0);
    daemon::say!(
        "backing   {} reads of {} (mean of the latest), {} changes, {} flushes, {} errors",
        backing("reads"),
        time(backing("read_mean_ns")),
        backing("changes"),
        backing("flushes"),
        backing("errors"),
    );
    daemon::say!("guard     {}", guard(&stats["guard"]));
}

/// Without a cache all that is asked is asked of the backing.
fn print_backing(backing: &Value) {
    let count = |key: &str| backing[key].as_u64().unwrap_or(0);
    let mean = |key: &str| time(count(key));
    daemon::say!(
        "reads     {}, {}, mean {}",
        count("reads"),
        Size(count("read_bytes")),
        mean("read_mean_ns")
    );
    daemon::say!(
        "changes   {}, {} written, {} zeroed, {} discarded; writes mean {}",
        count("changes"),
        Size(count("write_bytes")),
        Size(count("zero_bytes")),
        Size(count("discard_bytes")),
        mean("write_mean_ns"),
    );
    daemon::say!("flushes   {}, mean {}", count("flushes"), mean("flush_mean_ns"));
    daemon::say!("errors    {}", count("errors"));
}

/// What is sampled, or starts and ends elsewhere than one would think.
fn label(histogram: &str) -> &'static str {
    match histogram {
        "hit_ns" => "hit (sampled)",
        "miss_ns" => "miss (fetch)",
        "flush_ns" => "flush (client's)",
        "run_ns" => "write-out request",
        "write_out_ns" => "write-out of an epoch",
        _ => "",
    }
}

fn print_latencies(latencies: &Value) {
    daemon::say!("");
    let row = |cells: [&str; 6]| {
        let [name, cells @ ..] = cells;
        let cells = cells.map(|cell| format!("{cell:>10}"));
        daemon::say!("{name:<22} {}", cells.join(" "));
    };
    row(["latency", "count", "p50", "p99", "p99.9", "max"]);
    for (name, _) in Histograms::explained() {
        let latency = &latencies[name];
        let number = |key: &str| latency[key].as_u64().unwrap_or(0);
        let label = match label(name) {
            "" => name.trim_end_matches("_ns"),
            label => label,
        };
        let [p50, p99, p99_9, max] =
            ["p50_ns", "p99_ns", "p99_9_ns", "max_ns"].map(|key| time(number(key)));
        row([label, &number("count").to_string(), &p50, &p99, &p99_9, &max]);
    }
}

fn print_counters(counters: &Value) {
    daemon::say!("");
    for (name, unit, gauge, _) in Counters::explained() {
        let kind = match name {
            "time_saved_ns" => ", estimated, summed over reads",
            "slowed_ns" => ", summed over changes",
            "hit_ns" => ", sampled",
            _ if gauge => " now",
            _ => "",
        };
        let value = counters[name].as_u64().unwrap_or(0);
        daemon::say!("{name:<28} {value:>16} {unit}{kind}");
    }
}

/// Whether the cache steps aside, and why.
fn guard(guard: &Value) -> String {
    if guard["on"] == false {
        return "off".to_owned();
    }
    let side = |key: &str, what: &str| Some(format!("{what} ({})", guard[key].as_str()?));
    let sides: Vec<String> = [
        side("reads_aside", "what is read is not kept"),
        side("writes_aside", "writes go to the backing"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let now = if sides.is_empty() { "does not step aside".to_owned() } else { sides.join("; ") };
    let number = |key: &str| guard[key].as_u64().unwrap_or(0);
    format!("{now}; has {} times, for {}", number("times"), time(number("bypass_ns")))
}

/// A modelled drive in a few lines; nothing for other backings.
fn print_model(model: &Value) {
    let Some(title) = model["title"].as_str() else { return };
    let number = |key: &str| model[key].as_u64().unwrap_or(0);
    let power = model["power"].as_str().unwrap_or("unknown");
    daemon::say!(
        "drive     {title}, modelled; power {power}, cut {} times, {} lost by that",
        number("power_cuts"),
        Size(number("lost_bytes")),
    );
    if let Some(amplification) = model["write_amplification"].as_f64() {
        daemon::say!(
            "flash     {} written by the host, {} to the flash: write amplification {:.2}",
            Size(number("host_written_bytes")),
            Size(number("nand_written_bytes")),
            amplification,
        );
    }
    let late = |key: &str| time(model["lateness"][key].as_u64().unwrap_or(0));
    daemon::say!(
        "lateness  of its answers behind the model: p50 {}, p99 {}, max {}",
        late("p50_ns"),
        late("p99_ns"),
        late("max_ns"),
    );
}

/// The members of a pool, if it is one.
fn print_members(stats: &Value) {
    let members = stats["members"].as_array().map_or(&[][..], Vec::as_slice);
    for (number, member) in (1..).zip(members) {
        let count = |key: &str| member[key].as_u64().unwrap_or(0);
        daemon::say!(
            "member {number}  {}: {} written, {} free, {} reads, {} writes, {} trims, {} errors, {} in \
             flight, {} each",
            member["state"].as_str().unwrap_or("unknown"),
            Size(count("written_bytes")),
            Size(count("free_bytes")),
            count("reads"),
            count("writes"),
            count("trims"),
            count("errors"),
            count("in_flight"),
            time(count("latency_ns")),
        );
    }
}
