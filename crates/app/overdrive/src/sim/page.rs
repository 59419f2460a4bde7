//! An outcome as one self-contained HTML page: verdict, plot, table, trace, method, raw data.

use super::table;
use block::Size;
use report::axis::Axis;
use report::page::Page;
use report::plot::{Curve, Names, Plot, Style, escaped};
use report::table::{plain_table, scrolled};
use report::words::{figure, grouped};
use simulator::{BLOCK_BYTES, DEFAULT, Outcome, Plan, Run, TRUSTED_SLOTS, What, json};
use std::fmt::Write;

const STYLE: &str = "\
.wide table { font-size: .78rem; } .wide th, .wide td { padding: .3rem .25rem; }
.least { font-weight: 700; } .facts td { text-align: left; white-space: normal; }
.facts td:first-child { color: var(--soft); white-space: nowrap; width: 8rem; }
";

/// Returns the page.
pub(super) fn page(plan: &Plan, outcome: &Outcome) -> String {
    let name = plan.path.file_name().unwrap_or(plan.path.as_os_str()).to_string_lossy();
    let partial = if outcome.is_complete { "" } else { "; not complete" };
    let mut parts = plot(plan, outcome).unwrap_or_default();
    ratios(&mut parts, plan, outcome);
    trace(&mut parts, plan, outcome);
    method(&mut parts, plan, outcome);
    let page = Page {
        title: &format!("Simulated caches: {name}"),
        sub: &format!(
            "{} block accesses, {} distinct blocks{partial}; Overdrive {}",
            grouped(outcome.counts.block_accesses),
            grouped(outcome.footprint.blocks),
            env!("CARGO_PKG_VERSION")
        ),
        verdict: &advice::of_simulation(plan, outcome),
        style: STYLE,
        parts: &parts,
        schema: json::SCHEMA,
        raw: &serde_json::to_string_pretty(&json::object(plan, outcome)).unwrap_or_default(),
    };
    page.html()
}

/// Plots the miss ratio against memory, one line per policy; None: there is only one size.
fn plot(plan: &Plan, outcome: &Outcome) -> Option<String> {
    let sizes = plan.memories.len();
    let mut drawn = Vec::new();
    let curves = plan.policies.iter().zip(outcome.runs.chunks(sizes)).filter(|(choice, _)| {
        // A policy with two names is one line.
        let is_new = !drawn.contains(&choice.what);
        drawn.push(choice.what);
        is_new
    });
    let curves = curves.map(|(choice, runs)| {
        let point = |run| (bytes(run), outcome.miss_ratio(run));
        let mut points: Vec<(f64, f64)> = runs.iter().map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points.dedup();
        Curve { is_bound: choice.what == What::Optimum, ..Curve::new(choice.name, points) }
    });
    let curves: Vec<Curve<'_>> = curves.collect();
    if curves.first().is_none_or(|curve| curve.points.len() < 2) {
        return None;
    }
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let y = Axis::around(all().map(|point| point.1));
    let begins = if y.low > 0.0 { format!(", from {}", y.word(y.low)) } else { String::new() };
    let estimated = match outcome.sampled.rate {
        rate if rate.is_all() => String::new(),
        rate => format!(", estimated from a sample of {rate}"),
    };
    let beginning = if outcome.is_complete { "" } else { ", of the trace's beginning" };
    let plot = Plot {
        title: format!("Miss ratio by memory{estimated}{beginning}"),
        along: "memory".to_owned(),
        up: format!("miss ratio{begins}"),
        x: Axis::doublings(all().map(|point| point.0)),
        y,
        style: Style::Marked,
        names: Names::Beside,
        curves,
        levels: Vec::new(),
    };
    Some(plot.figure() + &below(outcome))
}

/// Returns a sentence on the unreliable part of the plot, if there is one.
fn below(outcome: &Outcome) -> String {
    let (trusted, others): (Vec<&Run>, Vec<&Run>) =
        outcome.runs.iter().partition(|run| run.is_trusted());
    if others.is_empty() {
        return String::new();
    }
    let least = trusted.iter().map(|run| run.slots * BLOCK_BYTES).min();
    let place = least.map_or("All".to_owned(), |least| format!("Below {}", Size(least)));
    let slots = grouped(TRUSTED_SLOTS);
    format!(
        "<p class=\"sub\">{place} caches have fewer than {slots} sampled slots: too few for \
         reliable results.</p>\n"
    )
}

fn bytes(run: &Run) -> f64 {
    (run.slots * BLOCK_BYTES) as f64
}

/// Writes the table of the terminal, with the lowest ratio of each size in bold.
fn ratios(page: &mut String, plan: &Plan, outcome: &Outcome) {
    page.push_str("<h2>Miss ratios</h2>\n");
    let mut html = "<table>\n".to_owned();
    let (rows, sizes) = (table::rows(plan, outcome), plan.memories.len());
    // Sizes that were given in bytes are in the next column.
    let skipped = usize::from(rows.iter().skip(1).all(|row| row[0].is_empty()));
    for (number, row) in rows.iter().enumerate() {
        let before = row.len() - plan.policies.len();
        let of_row = |policy: usize| outcome.runs[policy * sizes + number - 1].block_misses;
        let past = |policy: &usize| plan.policies[*policy].what != What::Optimum;
        let least = match number {
            0 => None,
            _ => {
                let all = || (0..plan.policies.len()).filter(past).map(of_row);
                all().min().filter(|least| all().max() > Some(*least))
            }
        };
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate().skip(skipped) {
            let policy = column.checked_sub(before).filter(past);
            let is_least = least.is_some() && policy.map(of_row) == least;
            let tag = if number == 0 { "th" } else { "td" };
            let class = if is_least { " class=\"least\"" } else { "" };
            _ = write!(html, "<{tag}{class}>{}</{tag}>", escaped(cell));
        }
        html.push_str("</tr>\n");
    }
    page.push_str(&scrolled("Miss ratios", &(html + "</table>")));
    tiered(page, plan, outcome);
    hinted(page, plan, outcome);
    if let Some(warning) = table::mistrust(outcome) {
        _ = writeln!(page, "<p class=\"sub\">{}</p>", escaped(&warning));
    }
}

/// Writes the table and the sentence on compression, if it was simulated.
fn tiered(page: &mut String, plan: &Plan, outcome: &Outcome) {
    let Some(sentence) = table::gain(plan, outcome) else { return };
    _ = writeln!(page, "<h2>With compression</h2>\n<p>{}</p>", escaped(&sentence));
    if let Some(rows) = table::tiered_rows(plan, outcome) {
        page.push_str(&plain_table("With compression", &rows));
    }
}

/// Writes the tables on the map, if there is one.
fn hinted(page: &mut String, plan: &Plan, outcome: &Outcome) {
    let Some(rows) = table::hinted_rows(plan, outcome) else { return };
    page.push_str("<h2>With a map of the files</h2>\n");
    page.push_str(&plain_table("With a map of the files", &rows));
    if let Some(rows) = table::class_rows(outcome) {
        page.push_str("<p>Share of the accesses to each class that miss:</p>\n");
        page.push_str(&plain_table("Misses by class", &rows));
    }
}

fn trace(page: &mut String, plan: &Plan, outcome: &Outcome) {
    page.push_str("<h2>Trace</h2>\n<table class=\"facts\">\n");
    if !outcome.is_complete {
        page.push_str("<tr><td>read</td><td>its beginning: it was interrupted</td></tr>\n");
    }
    for (what, value) in table::facts(plan, outcome) {
        _ = writeln!(page, "<tr><td>{what}</td><td>{}</td></tr>", escaped(&value));
    }
    if !plan.devices.is_empty() {
        let names = escaped(&plan.devices.join(", "));
        _ = writeln!(page, "<tr><td>counted</td><td>only requests of {names}</td></tr>");
    }
    page.push_str("</table>\n");
}

fn method(page: &mut String, plan: &Plan, outcome: &Outcome) {
    page.push_str("<h2>Method</h2>\n");
    let has = |what| plan.policies.iter().any(|choice| choice.what == what);
    let which = match plan.reads_only {
        true => "Only reads count, and admit their blocks.",
        false => "Reads and writes both count, and both admit their blocks.",
    };
    let mut paragraphs = vec![format!(
        "A request counts by the blocks of 4 KiB that it touches, each once; blocks of different \
         devices are different. {which} Flushes, discards and zeros touch no block. Requests are \
         in the order of the file."
    )];
    let shards = match plan.shards {
        1 => String::new(),
        count => format!(", split in {count} shards of equal size by regions of 4 MiB"),
    };
    paragraphs.push(format!(
        "A miss ratio is the share of block accesses whose block the cache did not hold. Each \
         policy is simulated with each size{shards}; every cache is empty at the start, and a \
         cold miss is a miss. The lowest ratio of each size is bold, if they differ."
    ));
    if has(What::Optimum) {
        paragraphs.push(
            "opt is Belady's optimum: it evicts the block whose next access is last, and may not \
             admit the block just read. No policy misses less."
                .to_owned(),
        );
    }
    if plan.policies.iter().any(|choice| choice.name == "default") {
        paragraphs.push(format!("default is the policy of overdrive serve: {}.", DEFAULT.name()));
    }
    paragraphs.extend(of_sample(outcome));
    if !outcome.footprint.is_exact {
        paragraphs.push("The footprint is estimated, with a standard error of 0.41 %.".to_owned());
    }
    for paragraph in paragraphs {
        _ = writeln!(page, "<p>{}</p>", escaped(&paragraph));
    }
    page.push_str(
        "<p>For details see Overdrive's <code>docs/SIMULATION.md</code>: <em>What is \
         counted</em>, <em>Policies</em> and their sources, <em>Samples</em> and their error, \
         <em>Formats</em>.</p>\n",
    );
}

fn of_sample(outcome: &Outcome) -> Option<String> {
    let rate = outcome.sampled.rate;
    (!rate.is_all()).then(|| {
        format!(
            "A sample of {rate} of the blocks, chosen by a hash, is simulated in caches reduced \
             by the same factor (SHARDS, FAST 2015; miniature simulations, ATC 2017). Each miss \
             there represents {} misses, and their number is divided by all accesses, \
             independent of the sample's share of them (SHARDS-adj). The first access to each \
             block misses in every cache: these misses are counted, not estimated. The footprint \
             is that of all blocks.",
            figure(1.0 / rate.share())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::examples::{outcome, sampled};
    use serde_json::Value;

    const NAMES: [&str; 4] = ["default", "adaptive", "sieve", "opt"];
    const MISSES: [&[u64]; 4] = [&[800, 600], &[800, 600], &[750, 610], &[500, 400]];

    /// Returns the page's raw data.
    fn raw(page: &str) -> Value {
        serde_json::from_str(report::page::raw_data(page).expect("raw data")).expect("an object")
    }

    #[test]
    fn the_page_needs_nothing_else_and_has_all_parts() {
        let (plan, outcome) = outcome(&NAMES, &MISSES);
        let page = page(&plan, &outcome);
        assert_eq!(
            page.matches("<script").count(),
            2,
            "the data, and the script that saves charts"
        );
        for needs in ["src=", "href=\"h", "url(", "@import", "http:", "https:"] {
            assert!(!page.contains(needs), "{needs}");
        }
        for part in
            ["prefers-color-scheme: dark", "<svg", "<h2>Miss ratios", "<h2>Trace", "<h2>Method"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.contains("<title>Simulated caches: a &lt;trace&gt;</title>"));
        assert_eq!(raw(&page), json::object(&plan, &outcome));
        // Three lines: default is the adaptive one. Two sizes: two points each.
        let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("<polyline")).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| line.matches(',').count() == 2), "{lines:?}");
        assert!(lines[2].contains("bound"), "{lines:?}");
        // The lowest ratio of each size, under each of its names, but not the optimum's.
        assert_eq!(page.matches("<td class=\"least\">0.7500</td>").count(), 1);
        assert_eq!(page.matches("<td class=\"least\">0.6000</td>").count(), 2);
        assert_eq!(page.matches("class=\"least\"").count(), 3);
        assert!(
            !page.contains("nterrupted") && !page.contains('~') && !page.contains("<td>sample")
        );
    }

    #[test]
    fn one_size_has_no_plot() {
        let (plan, outcome) = outcome(&["lru"], &[&[800]]);
        let page = page(&plan, &outcome);
        assert!(
            !page.contains("<svg") && !page.contains("\"least\""),
            "nor a least of one: {page}"
        );
    }

    #[test]
    fn what_is_partial_or_sampled_says_so_in_every_part() {
        let (plan, mut outcome) = sampled(&NAMES, &MISSES);
        outcome.is_complete = false;
        let page = page(&plan, &outcome);
        for part in [
            "Interrupted: all figures are for the trace's beginning.",
            "; not complete; Overdrive",
            "estimated from a sample of 0.5, of the trace",
            "<td>read</td><td>its beginning: it was interrupted</td>",
            "<td>~0.5000</td>",
            "<td>? 512</td>",
            "? fewer than 1,000 sampled slots",
            "<td>sample</td><td>0.5 of the blocks, 490 accesses",
            "SHARDS-adj",
            "Below 8 MiB caches have fewer than 1,000 sampled slots",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let raw = raw(&page);
        assert_eq!((&raw["complete"], &raw["sample_rate"]), (&false.into(), &0.5.into()));
        let trusted = [0, 1].map(|run| raw["runs"][run]["trusted"].clone());
        assert_eq!(trusted, [Value::from(false), Value::from(true)]);
    }
}
