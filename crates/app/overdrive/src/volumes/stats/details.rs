//! A volume's statistics, line by line.

use super::super::list::look_of;
use super::time;
use block::Size;
use cache::{Counters, Histograms};
use daemon::control::statistics::{
    Backing, ConfinedFiles, Curve, Export, Guard, Member, Model, Point, Policy, Process, Queue,
    Statistics,
};
use report::terminal::{Column, Fit, Line, Look, Span, Table};

/// Width of the names before the lines, and indent of their further lines.
const INDENT: usize = 10;

/// The lines of a report, each of which fits the width.
struct Lines {
    lines: Vec<Line>,
    width: Option<usize>,
}

impl Lines {
    /// Adds a line.
    fn push(&mut self, line: impl Into<Line>) {
        self.lines.extend(line.into().fitted(self.width, INDENT));
    }

    /// Adds a table, whose first column has names, and the others numbers. If it is too wide, the
    /// columns with the headings `left_out` are, in this order.
    fn push_table(&mut self, heads: &[&str], rows: Vec<Vec<String>>, left_out: &[&str]) {
        let numbers = heads[1..].iter().map(|head| {
            let column = Column::number(*head).at_least(NUMBER);
            match left_out.iter().position(|one| one == head) {
                Some(turn) => column.left_out(turn),
                None => column,
            }
        });
        let names = Column::text(heads[0], Fit::Whole).at_least(NAMES);
        let mut table = Table::new(1, [names].into_iter().chain(numbers).collect());
        for row in rows {
            table.push(row.into_iter().map(Span::from).collect());
        }
        self.lines.extend(table.lines(self.width));
    }
}

/// Minimum widths of names and numbers in tables, so that tables below each other are aligned.
const NAMES: usize = 22;
const NUMBER: usize = 10;

/// Returns the lines about events that have happened; with `all`, every line, and then every
/// counter.
pub(super) fn lines(stats: &Statistics, all: bool, width: Option<usize>) -> Vec<Line> {
    let mut out = Lines { lines: Vec::new(), width };
    match stats.has_cache() {
        true => cache_lines(&mut out, stats, all),
        false => backing_lines(&mut out, &stats.backing),
    }
    stats.export.iter().for_each(|export| export_line(&mut out, export, all));
    polling_line(&mut out, &stats.process);
    member_lines(&mut out, &stats.members);
    let state = Span::new(look_of(stats.state), stats.state.word());
    out.push(Line::from("state     ").with(state));
    confinement_line(&mut out, &stats.process);
    stats.model.iter().for_each(|model| model_lines(&mut out, model));
    if stats.has_cache() {
        latency_lines(&mut out, &stats.latencies, all);
    }
    if all && stats.has_cache() {
        counter_lines(&mut out, &stats.counters);
    }
    out.lines
}

fn export_line(out: &mut Lines, export: &Export, all: bool) {
    if export.unanswered + export.fences == 0 && !all {
        return;
    }
    let waits_for = match export.waits_for.as_deref() {
        Some("connection") => ", which waits for a connection",
        Some("hold") => ", which is held because of an old copy",
        Some("room") => ", which waits until fewer are sent",
        _ => "",
    };
    let oldest = match export.unanswered {
        0 => String::new(),
        _ => format!(", the oldest for {}{waits_for}", time(export.oldest_ns)),
    };
    let fences = match export.fences {
        0 => String::new(),
        fences => format!(
            "; {fences} old copies of changes may be executed for {}, {} changes are held for them",
            time(export.settled_in_ns),
            export.held
        ),
    };
    out.push(format!("export    {} requests without an answer{oldest}{fences}", export.unanswered));
}

fn cache_lines(out: &mut Lines, stats: &Statistics, all: bool) {
    let Statistics { counters, backing, .. } = stats;
    let reads = counters.read_hits + counters.read_misses + counters.read_joins;
    let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    let line = |out: &mut Lines, is_shown: bool, text: String| {
        if is_shown || all {
            out.push(text);
        }
    };
    line(
        out,
        reads > 0,
        format!(
            "reads     {reads}, {:.1} % from memory; time saved {} (estimated, summed over reads)",
            percent(counters.read_hits, reads),
            time(counters.time_saved_ns),
        ),
    );
    line(
        out,
        counters.blocks_retained > 0,
        format!(
            "retained  {} of cached data from an earlier process; clients have used {:.0} % of it \
             since",
            Size(counters.blocks_retained * 4096),
            percent(counters.blocks_retained_used, counters.blocks_retained),
        ),
    );
    line(
        out,
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
        out,
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
    if has_backing_work || all {
        let work = format!(
            "backing   {} reads of {} (recent mean), {} changes, {} flushes, ",
            backing.reads,
            time(backing.read_mean_ns),
            backing.changes,
            backing.flushes,
        );
        out.push(Line::from(work).with(errors(backing)));
    }
    stats.policy.iter().for_each(|policy| policy_line(out, policy, all));
    stats.curve.iter().for_each(|curve| curve_lines(out, curve));
    let has_stepped = stats.guard.as_ref().is_none_or(|guard| {
        !guard.on
            || guard.times > 0
            || guard.reads_bypass.is_some()
            || guard.writes_bypass.is_some()
    });
    if has_stepped || all {
        out.push(guard_line(stats.guard.as_ref()));
    }
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

/// Adds the policy's name; with `all` also its queues.
fn policy_line(out: &mut Lines, policy: &Policy, all: bool) {
    if !all {
        return out.push(format!("policy    {}", policy.name));
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
    out.push(format!("policy    {}: {}{window}", policy.name, queues.join(", ")));
}

/// Adds the misses that other sizes would have had.
fn curve_lines(out: &mut Lines, curve: &Curve) {
    let guess =
        if curve.is_too_small { "; the cache is too small for a reliable estimate" } else { "" };
    let earlier = match curve.earlier_ns {
        0 => String::new(),
        earlier_ns => format!(", {} of it in earlier processes", time(earlier_ns)),
    };
    out.push("");
    let window = time(curve.window_ns);
    let title =
        format!("misses of other sizes in the last {window}{earlier} (a simulated sample{guess})");
    out.lines.extend(Line::heading(title).fitted(out.width, 0));
    let sizes: Vec<String> =
        curve.points.iter().map(|point| Size(point.memory_bytes).to_string()).collect();
    let heads = ["memory"].into_iter().chain(sizes.iter().map(String::as_str));
    let row = |name: &str, cell: &dyn Fn(&Point) -> String| {
        [name.to_owned()].into_iter().chain(curve.points.iter().map(cell)).collect()
    };
    let mut rows = vec![row("missed", &|point| format!("{:.1} %", point.miss_ratio * 100.0))];
    if curve.points.iter().all(|point| point.uncompressed_miss_ratio.is_some()) {
        rows.push(row("without compression", &|point| {
            format!("{:.1} %", point.uncompressed_miss_ratio.unwrap_or(0.0) * 100.0)
        }));
    }
    if curve.points.iter().all(|point| point.saves_ns_per_s.is_some()) {
        rows.push(row("saved per second", &|point| {
            format!("{:+.1} ms", point.saves_ns_per_s.unwrap_or(0.0) / 1e6)
        }));
    }
    // Smaller sizes than the present one are of less use than larger ones.
    let heads: Vec<&str> = heads.collect();
    out.push_table(&heads, rows, &heads[1..]);
    out.push("");
}

/// Adds the requests to the backing; without a cache these are all requests.
fn backing_lines(out: &mut Lines, backing: &Backing) {
    let kinds = backing.kinds.clone().unwrap_or_default();
    out.push(format!(
        "reads     {}, {}, mean {}",
        backing.reads,
        Size(kinds.read_bytes),
        time(backing.read_mean_ns)
    ));
    out.push(format!(
        "changes   {}, {} written, {} zeroed, {} discarded; writes mean {}",
        backing.changes,
        Size(kinds.write_bytes),
        Size(kinds.zero_bytes),
        Size(kinds.discard_bytes),
        time(kinds.write_mean_ns),
    ));
    out.push(format!("flushes   {}, mean {}", backing.flushes, time(kinds.flush_mean_ns)));
    out.push(Line::from("backing   ").with(errors(backing)));
}

/// Returns the number of errors, by kind.
fn errors(backing: &Backing) -> Span {
    let kinds = backing.errors_by_kind.to_string();
    let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
    let look = if backing.errors > 0 { Look::Bad } else { Look::Plain };
    Span::new(look, format!("{} errors{kinds}", backing.errors))
}

fn polling_line(out: &mut Lines, process: &Process) {
    if process.poll_spent_ns > 0 {
        let (spent, vain) = (time(process.poll_spent_ns), time(process.poll_vain_ns));
        out.push(format!("polling   {spent}, {vain} of that without work"));
    }
}

/// Adds the rights that the daemon has given up.
fn confinement_line(out: &mut Lines, process: &Process) {
    let calls = process.confined.calls.then_some("system calls");
    let files = match process.confined.files {
        ConfinedFiles::No => None,
        ConfinedFiles::Partly => Some("files (partly)"),
        ConfinedFiles::Yes => Some("files"),
    };
    let rights = process.confined.rights.then_some("capabilities");
    let confined: Vec<_> = calls.into_iter().chain(files).chain(rights).collect();
    let confined = if confined.is_empty() { "no".into() } else { confined.join(", ") };
    out.push(format!("confined  {confined}"));
}

fn latency_lines(out: &mut Lines, latencies: &Histograms, all: bool) {
    let mut counted = 0;
    latencies.each(|_, latency| counted += latency.count());
    if counted == 0 && !all {
        return;
    }
    let mut rows = Vec::new();
    let mut labels = Histograms::explained().map(|(_, label, _)| label);
    latencies.each(|name, latency| {
        let [p50, p99, p99_9] = [0.5, 0.99, 0.999].map(|share| time(latency.quantile(share)));
        let label = labels.next().unwrap_or(name).to_owned();
        if latency.count() > 0 || all {
            let count = latency.count().to_string();
            rows.push(vec![label, count, p50, p99, p99_9, time(latency.max())]);
        }
    });
    out.push("");
    let heads = ["latency", "count", "p50", "p99", "p99.9", "max"];
    out.push_table(&heads, rows, &["p99.9", "p50"]);
}

fn counter_lines(out: &mut Lines, counters: &Counters) {
    let mut explained = Counters::explained();
    let columns =
        [Column::text("counter", Fit::Whole), Column::number(""), Column::text("", Fit::Wrap(20))];
    let mut table = Table::new(1, columns.into());
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
        table.push(vec![name.into(), value.to_string().into(), format!("{unit}{kind}").into()]);
    });
    out.push("");
    out.lines.extend(table.lines(out.width));
}

/// Returns whether requests bypass the cache, and why.
fn guard_line(guard: Option<&Guard>) -> Line {
    let line = Line::from("guard     ");
    let Some(guard) = guard.filter(|guard| guard.on) else { return line.with("off") };
    let side = |why: &Option<String>, what: &str| Some(format!("{what} ({})", why.as_ref()?));
    let sides: Vec<String> = [
        side(&guard.reads_bypass, "reads are not cached"),
        side(&guard.writes_bypass, "writes are written through"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let now = match sides.is_empty() {
        true => Span::from("no bypass"),
        false => Span::new(Look::Doubtful, sides.join("; ")),
    };
    let expected =
        guard.expected_hits.map(|hits| format!("; an admitted miss brings {hits:.2} hits"));
    let (times, length) = (guard.times, time(guard.bypass_ns));
    let expected = expected.unwrap_or_default();
    line.with(now).with(format!("; bypassed {times} times, for {length}{expected}"))
}

/// Adds the state of a modelled drive in a few lines.
fn model_lines(out: &mut Lines, model: &Model) {
    out.push(format!(
        "drive     {}, modelled; power {}, cut {} times, {} lost in cuts",
        model.title,
        model.power,
        model.power_cuts,
        Size(model.lost_bytes),
    ));
    if let Some(flash) = &model.flash {
        out.push(format!(
            "flash     {} written by the host, {} to the flash: write amplification {:.2}",
            Size(flash.host_written_bytes),
            Size(flash.nand_written_bytes),
            flash.write_amplification,
        ));
    }
    let late = |share: f64| time(model.lateness.quantile(share));
    out.push(format!(
        "lateness  of its answers against the model: p50 {}, p99 {}, max {}",
        late(0.5),
        late(0.99),
        time(model.lateness.max()),
    ));
}

/// Adds the members of a pool, if there is one.
fn member_lines(out: &mut Lines, members: &[Member]) {
    for (number, member) in (1..).zip(members) {
        out.push(format!(
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
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_wait_for_an_export_are_shown_with_the_reason() {
        let shown = |export: Export, all| {
            let stats = Statistics { export: Some(export), ..Statistics::default() };
            let lines = lines(&stats, all, None);
            let text: Vec<String> = lines.iter().map(Line::to_string).collect();
            text.into_iter().find(|line| line.starts_with("export"))
        };
        let second = 1_000_000_000;
        assert_eq!(shown(Export::default(), false), None);
        assert!(shown(Export::default(), true).is_some_and(|line| line.contains(" 0 requests")));
        let held = Export {
            unanswered: 3,
            held: 2,
            oldest_ns: 12 * second,
            waits_for: Some("hold".to_owned()),
            fences: 1,
            settled_in_ns: 18 * second,
        };
        let line = shown(held, false).expect("some wait");
        let parts = ["3 requests", "for 12", "an old copy; 1 old", "for 18", "2 changes are held"];
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }

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
