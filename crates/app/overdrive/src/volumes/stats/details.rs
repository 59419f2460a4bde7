//! A volume's statistics, line by line.

use super::time;
use block::Size;
use cache::{Counters, Histograms};
use daemon::control::statistics::{
    Backing, ConfinedFiles, Curve, Guard, Member, Model, Point, Policy, Process, Queue, Statistics,
};

/// Prints the lines about events that have happened; with `all`, every line, and then every
/// counter.
pub(super) fn print(stats: &Statistics, all: bool) {
    match stats.has_cache() {
        true => print_cache(stats, all),
        false => print_backing(&stats.backing),
    }
    print_polling(&stats.process);
    print_members(&stats.members);
    daemon::say!("state     {}", stats.state.word());
    print_confinement(&stats.process);
    stats.model.iter().for_each(print_model);
    if stats.has_cache() {
        print_latencies(&stats.latencies, all);
    }
    if all && stats.has_cache() {
        print_counters(&stats.counters);
    }
}

fn print_cache(stats: &Statistics, all: bool) {
    let Statistics { counters, backing, .. } = stats;
    let reads = counters.read_hits + counters.read_misses + counters.read_joins;
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    let line = |is_shown: bool, text: String| {
        if is_shown || all {
            daemon::say!("{text}");
        }
    };
    line(
        reads > 0,
        format!(
            "reads     {reads}, {:.1} % from memory; time saved {} (estimated, summed over reads)",
            percent(counters.read_hits, reads),
            time(counters.time_saved_ns),
        ),
    );
    line(
        counters.blocks_retained > 0,
        format!(
            "retained  {} of cached data from an earlier process; clients have used {:.0} % of it \
             since",
            Size(counters.blocks_retained * 4096),
            percent(counters.blocks_retained_used, counters.blocks_retained),
        ),
    );
    line(
        counters.asked_write_bytes > 0,
        format!(
            "writes    {} by clients, {} absorbed, {} saved, {} written back",
            Size(counters.asked_write_bytes),
            Size(counters.blocks_absorbed * 4096),
            Size(counters.blocks_saved * 4096),
            Size(counters.blocks_written * 4096),
        ),
    );
    let limited = limited(counters);
    line(
        counters.blocks_dirty > 0 || limited.is_some(),
        format!(
            "dirty     {} of at most {}{}, for {}; writing it back would take about {}",
            Size(counters.blocks_dirty * 4096),
            Size(counters.dirty_blocks_max.min(counters.allowance_blocks) * 4096),
            limited.unwrap_or_default(),
            time(counters.dirty_age_ns),
            time(counters.flush_predicted_ns),
        ),
    );
    let has_backing_work = backing.reads + backing.changes + backing.flushes + backing.errors > 0;
    line(
        has_backing_work,
        format!(
            "backing   {} reads of {} (recent mean), {} changes, {} flushes, {}",
            backing.reads,
            time(backing.read_mean_ns),
            backing.changes,
            backing.flushes,
            errors(backing),
        ),
    );
    stats.policy.iter().for_each(|policy| print_policy(policy, all));
    stats.curve.iter().for_each(print_curve);
    let has_stepped = stats.guard.as_ref().is_none_or(|guard| {
        !guard.on
            || guard.times > 0
            || guard.reads_bypass.is_some()
            || guard.writes_bypass.is_some()
    });
    line(
        has_stepped,
        format!("guard     {}", stats.guard.as_ref().map_or("off".to_owned(), guard)),
    );
}

/// Returns the reason why less data may be dirty than `dirty_bytes` allows; None: the limit is not
/// reduced.
fn limited(counters: &Counters) -> Option<String> {
    let Counters { allowance_blocks: allowed, dirty_blocks_max: set, .. } = *counters;
    (allowed < set).then(|| {
        format!(
            " (dirty_bytes allows {}; the backing writes {} in the time of flush_target)",
            Size(set * 4096),
            Size(allowed * 4096)
        )
    })
}

/// Prints the policy's name; with `all` also its queues.
fn print_policy(policy: &Policy, all: bool) {
    if !all {
        return daemon::say!("policy    {}", policy.name);
    }
    let queue = |queue: &Queue| format!("{} {}", queue.name, Size(queue.bytes));
    let queues: Vec<String> = policy.queues.iter().map(queue).collect();
    let window = match policy.window_percent {
        Some(percent) if percent >= 100.0 => {
            "; the window is the whole cache, as with LRU".to_owned()
        }
        Some(percent) => format!("; target size of the window {percent:.0} %"),
        None => String::new(),
    };
    daemon::say!("policy    {}: {}{window}", policy.name, queues.join(", "));
}

/// Prints the misses that other sizes would have had.
fn print_curve(curve: &Curve) {
    let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|cell| format!("{cell:>10}")).collect();
        daemon::say!("{name:<22} {}", cells.join(" "));
    };
    let guess =
        if curve.is_too_small { "; the cache is too small for a reliable estimate" } else { "" };
    let earlier = match curve.earlier_ns {
        0 => String::new(),
        earlier_ns => format!(", {} of it in earlier processes", time(earlier_ns)),
    };
    daemon::say!("");
    daemon::say!(
        "misses of other sizes in the last {}{earlier} (a simulated sample{guess})",
        time(curve.window_ns)
    );
    let points = || curve.points.iter();
    row("memory", &mut points().map(|point| Size(point.memory_bytes).to_string()));
    row("missed", &mut points().map(|point| format!("{:.1} %", point.miss_ratio * 100.0)));
    if curve.points.iter().all(|point| point.saves_ns_per_s.is_some()) {
        let saved = |point: &Point| format!("{:+.1} ms", point.saves_ns_per_s.unwrap_or(0.0) / 1e6);
        row("saved per second", &mut points().map(saved));
    }
    daemon::say!("");
}

/// Prints the requests to the backing; without a cache these are all requests.
fn print_backing(backing: &Backing) {
    let kinds = backing.kinds.clone().unwrap_or_default();
    daemon::say!(
        "reads     {}, {}, mean {}",
        backing.reads,
        Size(kinds.read_bytes),
        time(backing.read_mean_ns)
    );
    daemon::say!(
        "changes   {}, {} written, {} zeroed, {} discarded; writes mean {}",
        backing.changes,
        Size(kinds.write_bytes),
        Size(kinds.zero_bytes),
        Size(kinds.discard_bytes),
        time(kinds.write_mean_ns),
    );
    daemon::say!("flushes   {}, mean {}", backing.flushes, time(kinds.flush_mean_ns));
    daemon::say!("backing   {}", errors(backing));
}

/// Returns the number of errors, by kind.
fn errors(backing: &Backing) -> String {
    let kinds = backing.errors_by_kind.to_string();
    let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
    format!("{} errors{kinds}", backing.errors)
}

fn print_polling(process: &Process) {
    if process.poll_spent_ns > 0 {
        let (spent, vain) = (time(process.poll_spent_ns), time(process.poll_vain_ns));
        daemon::say!("polling   {spent}, {vain} of that without work");
    }
}

/// Prints which rights the daemon has given up.
fn print_confinement(process: &Process) {
    let calls = process.confined.calls.then_some("system calls");
    let files = match process.confined.files {
        ConfinedFiles::No => None,
        ConfinedFiles::Partly => Some("files (partly)"),
        ConfinedFiles::Yes => Some("files"),
    };
    let confined: Vec<_> = calls.into_iter().chain(files).collect();
    daemon::say!(
        "confined  {}",
        if confined.is_empty() { "no".into() } else { confined.join(", ") }
    );
}

fn print_latencies(latencies: &Histograms, all: bool) {
    let mut counted = 0;
    latencies.each(|_, latency| counted += latency.count());
    if counted == 0 && !all {
        return;
    }
    daemon::say!("");
    let row = |cells: [&str; 6]| {
        let [name, cells @ ..] = cells;
        let cells = cells.map(|cell| format!("{cell:>10}"));
        daemon::say!("{name:<22} {}", cells.join(" "));
    };
    row(["latency", "count", "p50", "p99", "p99.9", "max"]);
    let mut labels = Histograms::explained().map(|(_, label, _)| label);
    latencies.each(|name, latency| {
        let [p50, p99, p99_9] = [0.5, 0.99, 0.999].map(|share| time(latency.quantile(share)));
        let label = labels.next().unwrap_or(name);
        if latency.count() == 0 && !all {
            return;
        }
        row([label, &latency.count().to_string(), &p50, &p99, &p99_9, &time(latency.max())]);
    });
}

fn print_counters(counters: &Counters) {
    daemon::say!("");
    let mut explained = Counters::explained();
    counters.each(|name, value| {
        let (unit, gauge) =
            explained.next().map_or(("", false), |(_, unit, gauge, _)| (unit, gauge));
        let kind = match name {
            "time_saved_ns" => ", estimated, summed over reads",
            "slowed_ns" => ", summed over changes",
            "hit_ns" => ", sampled",
            _ if gauge => " now",
            _ => "",
        };
        daemon::say!("{name:<28} {value:>16} {unit}{kind}");
    });
}

/// Returns whether requests bypass the cache, and why.
fn guard(guard: &Guard) -> String {
    if !guard.on {
        return "off".to_owned();
    }
    let side = |why: &Option<String>, what: &str| Some(format!("{what} ({})", why.as_ref()?));
    let sides: Vec<String> = [
        side(&guard.reads_bypass, "reads are not cached"),
        side(&guard.writes_bypass, "writes are written through"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let now = if sides.is_empty() { "no bypass".to_owned() } else { sides.join("; ") };
    let expected =
        guard.expected_hits.map(|hits| format!("; an admitted miss brings {hits:.2} hits"));
    let expected = expected.unwrap_or_default();
    format!("{now}; bypassed {} times, for {}{expected}", guard.times, time(guard.bypass_ns))
}

/// Prints the state of a modelled drive in a few lines.
fn print_model(model: &Model) {
    daemon::say!(
        "drive     {}, modelled; power {}, cut {} times, {} lost in cuts",
        model.title,
        model.power,
        model.power_cuts,
        Size(model.lost_bytes),
    );
    if let Some(flash) = &model.flash {
        daemon::say!(
            "flash     {} written by the host, {} to the flash: write amplification {:.2}",
            Size(flash.host_written_bytes),
            Size(flash.nand_written_bytes),
            flash.write_amplification,
        );
    }
    let late = |share: f64| time(model.lateness.quantile(share));
    daemon::say!(
        "lateness  of its answers against the model: p50 {}, p99 {}, max {}",
        late(0.5),
        late(0.99),
        time(model.lateness.max()),
    );
}

/// Prints the members of a pool, if there is one.
fn print_members(members: &[Member]) {
    for (number, member) in (1..).zip(members) {
        daemon::say!(
            "member {number}  {}: {} written, {} free, {} reads, {} writes, {} trims, {} errors, {} in \
             flight, {} each",
            member.state,
            Size(member.written_bytes),
            Size(member.free_bytes),
            member.reads,
            member.writes,
            member.trims,
            member.errors,
            member.in_flight,
            time(member.latency_ns),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_limit_of_dirty_data_comes_with_its_reason() {
        let counters = |allowance_blocks| Counters {
            dirty_blocks_max: 5120,
            allowance_blocks,
            ..Counters::default()
        };
        assert_eq!(limited(&counters(5120)), None);
        let why = limited(&counters(256)).expect("less than is set");
        assert!(why.contains("allows 20 MiB") && why.contains("1 MiB"), "{why}");
        assert!(why.contains("flush_target"), "{why}");
    }
}
