//! `overdrive volume stats`: what was counted, for people and for machines.

use super::find;
use block::Size;
use cache::{Counters, Histograms};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use volume::Failure;
use volume::control::words::Ask;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The volume.
    name: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Say what each number means; no volume is needed for that.
    #[arg(long)]
    explain: bool,
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    if options.explain {
        explain();
        return Ok(ExitCode::SUCCESS);
    }
    let mut target = find(control, options.name.as_deref())?;
    let stats = target.daemon.ask(&Ask::Stats { volume: target.row.name })?;
    if options.json {
        volume::say!("{stats}");
    } else {
        print(&stats);
    }
    Ok(ExitCode::SUCCESS)
}

fn explain() {
    for (name, unit, gauge, meaning) in Counters::explained() {
        let kind = if gauge { "now" } else { "since the start" };
        volume::say!("{name} ({unit}, {kind}): {meaning}");
    }
    for (name, meaning) in Histograms::explained() {
        volume::say!("{name} (latencies): {meaning}");
    }
}

fn print(stats: &Value) {
    let counter = |name: &str| stats["counters"][name].as_u64().unwrap_or(0);
    let reads = counter("read_hits") + counter("read_misses") + counter("read_joins");
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    volume::say!(
        "reads     {reads}, {:.1} % from memory; time saved {}",
        percent(counter("read_hits"), reads),
        time(counter("time_saved_ns")),
    );
    volume::say!(
        "writes    {} asked, {} absorbed, {} saved, {} written out",
        Size(counter("asked_write_bytes")),
        Size(counter("blocks_absorbed") * 4096),
        Size(counter("blocks_saved") * 4096),
        Size(counter("blocks_written") * 4096),
    );
    volume::say!(
        "dirty     {} of at most {}, for {}; writing it out would take about {}",
        Size(counter("blocks_dirty") * 4096),
        Size(counter("dirty_blocks_max").min(counter("allowance_blocks")) * 4096),
        time(counter("dirty_age_ns")),
        time(counter("flush_predicted_ns")),
    );
    volume::say!("guard     {}", guard(&stats["guard"]));
    print_members(stats);
    volume::say!("state     {}", stats["state"].as_str().unwrap_or("unknown"));
    print_model(&stats["model"]);
    volume::say!("");
    volume::say!(
        "{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "latency",
        "count",
        "p50",
        "p99",
        "p99.9",
        "max"
    );
    for (name, _) in Histograms::explained() {
        let latency = &stats["latencies"][name];
        let number = |key: &str| latency[key].as_u64().unwrap_or(0);
        volume::say!(
            "{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}",
            name.trim_end_matches("_ns"),
            number("count"),
            time(number("p50_ns")),
            time(number("p99_ns")),
            time(number("p99_9_ns")),
            time(number("max_ns")),
        );
    }
    volume::say!("");
    for (name, unit, gauge, _) in Counters::explained() {
        let kind = if gauge { " now" } else { "" };
        volume::say!("{name:<28} {:>16} {unit}{kind}", counter(name));
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
    format!("{now}; has {} times, for {}", number("times"), time(number("aside_ns")))
}

/// A modelled drive in a few lines; nothing for other backings.
fn print_model(model: &Value) {
    let Some(title) = model["title"].as_str() else { return };
    let number = |key: &str| model[key].as_u64().unwrap_or(0);
    let power = model["power"].as_str().unwrap_or("unknown");
    volume::say!(
        "drive     {title}, modelled; power {power}, cut {} times, {} lost by that",
        number("power_cuts"),
        Size(number("lost_bytes")),
    );
    if let Some(amplification) = model["write_amplification"].as_f64() {
        volume::say!(
            "flash     {} written by the host, {} to the flash: write amplification {:.2}",
            Size(number("host_written_bytes")),
            Size(number("nand_written_bytes")),
            amplification,
        );
    }
    let late = |key: &str| time(model["lateness"][key].as_u64().unwrap_or(0));
    volume::say!(
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
        volume::say!(
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

/// Nanoseconds for people.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
