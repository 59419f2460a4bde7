//! The answer as lines of text, and the tables that the page has, too.

use super::Shown;
use advice::load::span;
use block::Size;
use report::terminal::{Line, Look, Span};
use report::words::{grouped, time};

/// Processes that are shown by name.
const PROCESSES_SHOWN: usize = 12;

/// Returns the table of sizes; its first row has the heads.
pub(super) fn size_rows(shown: &Shown) -> Vec<[String; 6]> {
    let heads = ["memory", "hits", "of reads", "of writes", "saved a day", ""];
    let mut rows = vec![heads.map(str::to_owned)];
    for (index, gain) in shown.advice.sizes.iter().enumerate() {
        let note = match (shown.advice.chosen == Some(index), gain.displaced) {
            (true, _) => "recommended".to_owned(),
            (false, Some(displaced)) if gain.is_spare == Some(false) => {
                format!("not spare: takes {} of active files", Size(displaced.active_bytes))
            }
            _ => String::new(),
        };
        rows.push([
            Size(gain.memory_bytes).to_string(),
            percent(gain.hit_ratio),
            gain.read_hit_ratio.map_or(String::new(), percent),
            gain.write_hit_ratio.map_or(String::new(), percent),
            gain.saved_ns_per_day.map_or("unknown".to_owned(), span),
            note,
        ]);
    }
    rows
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

/// Returns the table of processes, those with most requests first; its first row has the heads.
/// Empty: processes are unknown.
pub(super) fn process_rows(shown: &Shown) -> Vec<[String; 5]> {
    let (facts, advice) = (&shown.facts, &shown.advice);
    if facts.processes.is_empty() {
        return Vec::new();
    }
    let size = advice.chosen.unwrap_or(advice.sizes.len().saturating_sub(1));
    let hits = match advice.sizes.get(size) {
        Some(gain) => format!("hits, {}", Size(gain.memory_bytes)),
        None => "hits".to_owned(),
    };
    let mut rows = vec![["process".into(), "reads".into(), "writes".into(), hits, "saved".into()]];
    let all = facts.processes.iter().zip(&advice.processes);
    rows.extend(all.clone().take(PROCESSES_SHOWN).map(|(process, gains)| {
        let gain = gains.get(size);
        [
            block::printable(&process.name).into_owned(),
            grouped(process.reads),
            grouped(process.writes),
            gain.map_or(String::new(), |gain| percent(gain.read_hit_ratio)),
            gain.map_or(String::new(), |gain| time(gain.read_saved_ns)),
        ]
    }));
    let left = all.skip(PROCESSES_SHOWN);
    let (count, reads, writes) = left.fold((0, 0, 0), |(count, reads, writes), (it, _)| {
        (count + 1, reads + it.reads, writes + it.writes)
    });
    if count > 0 {
        let name = format!("{} others", grouped(count));
        rows.push([name, grouped(reads), grouped(writes), String::new(), String::new()]);
    }
    rows
}

/// Returns the facts as names and values.
pub(super) fn facts(shown: &Shown) -> Vec<(&'static str, String)> {
    let (facts, latency) = (&shown.facts, &shown.premises.latency);
    let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let mut rows = vec![
        ("observed", shown.source.clone()),
        ("for", known(facts.duration_ns.map(|ns| time(ns as f64)))),
        ("reads", format!("{}, {}", grouped(facts.reads), Size(facts.read_bytes))),
        ("writes", format!("{}, {}", grouped(facts.writes), Size(facts.write_bytes))),
        ("flushes", known(facts.flushes.map(|count| flushes(count, facts.duration_ns)))),
        (
            "without a cache",
            format!(
                "a read takes {}, a write {} ({})",
                time(latency.read_ns),
                time(latency.write_ns),
                latency.source.name()
            ),
        ),
        ("sequential reads", known(facts.sequential_share.map(percent))),
        ("reads in steps", known(facts.strided_share.map(percent))),
    ];
    if facts.ahead_reads > 0 {
        let share = percent(facts.ahead_reads as f64 / facts.reads.max(1) as f64);
        rows.push(("read ahead", format!("{share} of the reads, by the page cache")));
    }
    if facts.background_writes > 0 {
        let share = percent(facts.background_writes as f64 / facts.writes.max(1) as f64);
        rows.push(("written later", format!("{share} of the writes: no program waits for them")));
    }
    for gain in &shown.advice.durabilities {
        let name = match gain.name {
            "flush" => "--durability flush",
            _ => "--durability ordered",
        };
        let saved = match gain.saved_ns_per_day {
            Some(ns) => format!("writes save {} a day", span(ns)),
            None => format!("writes save {}", time(gain.saved_ns)),
        };
        let bound = if gain.name == "flush" { "at least" } else { "at most" };
        let present = if gain.is_present { "; the present setting" } else { "" };
        rows.push((name, format!("{saved} ({bound}){present}")));
    }
    let compression = |(ratio, stored): (f64, f64)| {
        format!("ratio {ratio:.2}; {:.0} % of the blocks become smaller", 100.0 * stored)
    };
    rows.push(("compression", known(shown.compression.map(compression))));
    if let Some(machine) = &shown.premises.machine {
        rows.push((
            "memory",
            format!(
                "{}; {} available, of which active files use {}: {} to spare",
                Size(machine.memory_bytes),
                Size(machine.available_bytes),
                Size(machine.active_file_bytes),
                Size(machine.spare_bytes())
            ),
        ));
    }
    if let Some(refaults) = shown.premises.refaults {
        let words =
            format!("{} pages that had just been evicted were read again", grouped(refaults));
        rows.push(("page cache", words));
    }
    rows
}

fn flushes(count: u64, duration_ns: Option<u64>) -> String {
    match duration_ns {
        Some(ns) => format!("{}, {:.2} per second", grouped(count), count as f64 * 1e9 / ns as f64),
        None => grouped(count),
    }
}

pub(super) fn lines(shown: &Shown, width: Option<usize>) -> Vec<Line> {
    let advice = &shown.advice;
    let look = if advice.leaves_it { Look::Doubtful } else { Look::Good };
    let mut lines = vec![Line::of(Span::new(look, &*advice.verdict)), Line::from(&*advice.reason)];
    if let Some(recommendation) = &advice.recommendation {
        lines.push(Line::from(format!("  {recommendation}")));
    }
    if !advice.sizes.is_empty() {
        lines.push(Line::default());
        for [memory, hits, reads, writes, saved, note] in size_rows(shown) {
            let row = format!("{memory:<10}{hits:>9}{reads:>10}{writes:>11}{saved:>14}  {note}");
            lines.push(Line::from(row.trim_end()));
        }
    }
    let processes = process_rows(shown);
    if !processes.is_empty() {
        lines.push(Line::default());
    }
    for [name, reads, writes, hits, saved] in processes {
        let row = format!("{name:<28}{reads:>12}{writes:>12}{hits:>16}{saved:>12}");
        lines.push(Line::from(row));
    }
    lines.push(Line::default());
    let facts = facts(shown).into_iter();
    lines.extend(facts.map(|(name, value)| Line::from(format!("{name:<22}{value}"))));
    lines.extend([Line::default(), Line::heading("not seen")]);
    lines.extend(advice.unseen.iter().map(|it| Line::from(format!("- {it}"))));
    lines.iter().flat_map(|line| line.fitted(width, 2)).collect()
}
