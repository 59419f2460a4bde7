//! The page of a sweep: curves, winners with their confidence, tables, method, raw data.

use super::rows::{Results, Row};
use super::standings::{BOUND, Figure, Interval, RESAMPLES, Standing, TRACES_MIN, standing};
use report::axis::{Axis, Scale};
use report::page::{Page, section, side_by_side};
use report::plot::{Curve, Names, Plot, Style, escaped};
use report::table::{Head, TableCell, table};
use report::words::{grouped, time};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

const SCHEMA: &str = "overdrive.sweep-page/1";
/// Maximum number of traces without figures, and of classes with a plot, on the page.
const MARKED_MAX: usize = 50;
const PLOTS_MAX: usize = 24;

const STYLE: &str = ".least { font-weight: 700; }\n";

/// A cache without its policy and size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Setup<'a> {
    compression: &'a str,
    drive: &'a str,
}

impl Setup<'_> {
    fn takes(&self, row: &Row) -> bool {
        row.compression == self.compression && row.drive == self.drive
    }

    fn has_drive(&self) -> bool {
        self.drive != "none"
    }

    /// Returns its name, empty for the plain one.
    fn name(&self) -> String {
        let compression = match self.compression {
            "off" => String::new(),
            ratio => format!(", compression {ratio}"),
        };
        match self.drive {
            "none" => compression,
            drive => format!("{compression}, {drive}"),
        }
    }
}

/// Returns the page.
pub(super) fn page(results: &Results) -> String {
    let all = setups(results);
    let setups = caches(&all);
    let drives: Vec<Setup<'_>> = all.iter().copied().filter(Setup::has_drive).collect();
    let classes = results.distinct(|row| &row.class);
    let of_misses = standings(results, &setups, &classes, misses);
    let of_latency = standings(results, &drives, &classes, |row| row.mean_ns);
    let mut parts = String::new();
    for setup in &setups {
        parts += &curves(results, *setup, None, Names::Beside).unwrap_or_default();
    }
    let of_class = |class: &&str| curves(results, setups[0], Some(class), Names::Above);
    if classes.len() > 1 {
        let plots: Vec<String> = classes.iter().take(PLOTS_MAX).filter_map(of_class).collect();
        parts += &section("By class", &side_by_side(&plots));
    }
    parts += &section("Winners", &winners("miss ratio", &of_misses, &ratio));
    parts += &section("Miss ratios by size", &by_size(results, &setups));
    let faster = winners("mean latency", &of_latency, &time);
    parts += &section("Latencies on modelled drives", &(faster + &latencies(results, &drives)));
    parts += &section("Rows without figures", &marked(results));
    parts += &section("Method", &method());
    let summary = &results.summary;
    let text = |key: &str| summary[key].as_str().unwrap_or_default().to_owned();
    let page = Page {
        title: &format!("Sweep: {}", text("manifest")),
        sub: &format!(
            "{} traces, {} jobs; Overdrive {}",
            grouped(summary["traces"].as_u64().unwrap_or_default()),
            grouped(summary["jobs"].as_u64().unwrap_or_default()),
            text("version"),
        ),
        verdict: &verdict(results, of_misses.first()),
        style: STYLE,
        parts: &parts,
        schema: SCHEMA,
        raw: &serde_json::to_string(&raw(results, &setups, &classes, &[of_misses, of_latency]))
            .unwrap_or_default(),
    };
    page.html()
}

fn setups(results: &Results) -> Vec<Setup<'_>> {
    let mut found: Vec<Setup<'_>> = Vec::new();
    for row in &results.rows {
        let setup = Setup { compression: &row.compression, drive: &row.drive };
        if !found.contains(&setup) {
            found.push(setup);
        }
    }
    found
}

/// Returns one setup for each compression: miss ratios do not depend on the drive.
fn caches<'a>(setups: &[Setup<'a>]) -> Vec<Setup<'a>> {
    let mut found: Vec<Setup<'_>> = Vec::new();
    for setup in setups {
        if found.iter().all(|other| other.compression != setup.compression) {
            found.push(*setup);
        }
    }
    found
}

fn misses(row: &Row) -> Option<f64> {
    row.miss_ratio
}

/// Returns the traces of a setup that have a miss ratio in each row, the bound's included.
fn whole_traces<'a>(results: &'a Results, setup: Setup<'_>) -> BTreeSet<&'a str> {
    let rows = || results.rows.iter().filter(|row| setup.takes(row));
    let broken = rows().filter(|row| row.miss_ratio.is_none());
    let broken: BTreeSet<&str> = broken.map(|row| row.trace.as_str()).collect();
    rows().map(|row| row.trace.as_str()).filter(|trace| !broken.contains(trace)).collect()
}

/// The mean of a policy and a size over traces.
struct Mean<'a> {
    policy: &'a str,
    memory: &'a str,
    value: f64,
}

/// Returns the mean of each policy and size over the traces that have all, in the order of the
/// rows.
fn means<'a>(
    results: &'a Results,
    setup: Setup<'_>,
    class: Option<&str>,
    figure: Figure,
) -> Vec<Mean<'a>> {
    let whole = whole_traces(results, setup);
    let takes = |row: &&Row| {
        setup.takes(row)
            && class.is_none_or(|class| row.class == class)
            && whole.contains(row.trace.as_str())
    };
    let mut sums: Vec<(&str, &str, f64, f64)> = Vec::new();
    for row in results.rows.iter().filter(takes) {
        let Some(value) = figure(row) else { continue };
        let is_same =
            |sum: &&mut (&str, &str, f64, f64)| (sum.0, sum.1) == (&row.policy, &row.memory);
        match sums.iter_mut().find(is_same) {
            Some(sum) => (sum.2, sum.3) = (sum.2 + value, sum.3 + 1.0),
            None => sums.push((&row.policy, &row.memory, value, 1.0)),
        }
    }
    let mean = |(policy, memory, sum, count)| Mean { policy, memory, value: sum / count };
    sums.into_iter().map(mean).collect()
}

/// Returns the number of a size: percent, or bytes.
fn number(memory: &str, results: &Results) -> f64 {
    if let Some(percent) = memory.strip_suffix('%') {
        return percent.parse().unwrap_or_default();
    }
    let rows = results.rows.iter().filter(|row| row.memory == memory);
    rows.filter_map(|row| row.memory_bytes).max().unwrap_or_default() as f64
}

/// Plots the mean miss ratio by size; shares and bytes are different plots. None: no plot has two
/// sizes.
fn curves(
    results: &Results,
    setup: Setup<'_>,
    class: Option<&str>,
    names: Names,
) -> Option<String> {
    let means = means(results, setup, class, misses);
    let mut figures = String::new();
    for of_shares in [true, false] {
        let mut curves: Vec<Curve<'_>> = Vec::new();
        for mean in means.iter().filter(|mean| mean.memory.ends_with('%') == of_shares) {
            let point = (number(mean.memory, results), mean.value);
            match curves.iter_mut().find(|curve| curve.name == mean.policy) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    is_bound: mean.policy == BOUND,
                    ..Curve::new(mean.policy, vec![point])
                }),
            }
        }
        curves.iter_mut().for_each(|curve| curve.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        if curves.first().is_some_and(|curve| curve.points.len() > 1) {
            figures += &plot(setup, class, of_shares, names, curves).figure();
        }
    }
    (!figures.is_empty()).then_some(figures)
}

fn plot<'a>(
    setup: Setup<'_>,
    class: Option<&str>,
    of_shares: bool,
    names: Names,
    curves: Vec<Curve<'a>>,
) -> Plot<'a> {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let across = || all().map(|point| point.0);
    let (x, along) = match of_shares {
        true => (shares(across()), "memory, percent of the trace's footprint"),
        false => (Axis::doublings(across()), "memory"),
    };
    let traces = class.map_or("all traces".to_owned(), |class| format!("class {class}"));
    Plot {
        title: format!("Mean miss ratio: {traces}{}", setup.name()),
        along: along.to_owned(),
        up: "miss ratio".to_owned(),
        x,
        y: Axis::around(all().map(|point| point.1)),
        style: Style::Marked,
        names,
        curves,
        levels: Vec::new(),
    }
}

/// Returns whole decades around shares, which may be far below one percent.
fn shares(values: impl Iterator<Item = f64>) -> Axis {
    let (mut low, mut high) = (f64::MAX, f64::MIN_POSITIVE);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    let low = 10f64.powf(low.min(high).log10().floor());
    let high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
    Axis { low, high, scale: Scale::Decades }
}

/// The traces of a class with a setup, and the standing of the policies there.
struct Group<'a> {
    setup: Setup<'a>,
    /// None: all traces.
    class: Option<&'a str>,
    standing: Standing,
}

/// Returns the standings of each setup: of all traces, and of each class.
fn standings<'a>(
    results: &'a Results,
    setups: &[Setup<'a>],
    classes: &[&'a str],
    figure: Figure,
) -> Vec<Group<'a>> {
    let mut found = Vec::new();
    for setup in setups {
        for class in groups(classes) {
            let takes =
                |row: &Row| setup.takes(row) && class.is_none_or(|class| row.class == class);
            let standing = standing(results, &takes, figure);
            found.extend(standing.map(|standing| Group { setup: *setup, class, standing }));
        }
    }
    found
}

/// Returns the classes with a row of their own; None is all traces together.
fn groups<'a>(classes: &[&'a str]) -> Vec<Option<&'a str>> {
    let several = if classes.len() > 1 { classes } else { &[] };
    std::iter::once(None).chain(several.iter().copied().map(Some)).collect()
}

/// Writes a figure of a table.
type Text = dyn Fn(f64) -> String;

fn ratio(value: f64) -> String {
    format!("{value:.4}")
}

/// Returns the table of the standings of a figure.
fn winners(figure: &str, standings: &[Group<'_>], text: &Text) -> String {
    let heads = [
        Head::text("traces"),
        Head::number("number"),
        Head::text("lowest mean"),
        Head::number(figure),
        Head::number("best of resamples"),
        Head::text("next"),
        Head::number("difference"),
        Head::text("verdict"),
    ];
    let row = |group: &Group<'_>| {
        winner(group.class.unwrap_or("all").to_owned() + &group.setup.name(), &group.standing, text)
    };
    let rows: Vec<Vec<TableCell>> = standings.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    table(&format!("Winners by {figure}"), &heads, &rows)
        + "<p class=\"sub\">Difference: of the means, with its interval (95 % for all \
           pairs of policies together).</p>\n"
}

fn winner(name: String, standing: &Standing, text: &Text) -> Vec<TableCell> {
    let best = &standing.scores[0];
    let next = standing.rivals().next();
    let difference = next.map_or(String::new(), |next| match next.behind {
        Some(behind) => interval(&behind, text),
        None => text(next.mean - best.mean),
    });
    let close = standing.rivals().filter(|one| one.behind.is_some_and(|behind| behind.low <= 0.0));
    let close: Vec<&str> = close.map(|score| score.policy.as_str()).collect();
    let verdict = match (standing.is_clear(), next) {
        (_, None) => "all are equal".to_owned(),
        (true, _) => format!("{} is best", best.policy),
        _ if standing.traces < TRACES_MIN => "too few traces".to_owned(),
        _ => format!("not clear: {} may be better", close.join(", ")),
    };
    let best_share = match standing.traces < TRACES_MIN {
        true => "-".to_owned(),
        false => format!("{:.0} %", best.best_share * 100.0),
    };
    vec![
        name.into(),
        grouped(standing.traces as u64).into(),
        TableCell::marked(best.policy.clone(), "least"),
        text(best.mean).into(),
        best_share.into(),
        next.map_or(String::new(), |next| next.policy.clone()).into(),
        difference.into(),
        verdict.into(),
    ]
}

fn interval(of: &Interval, text: &Text) -> String {
    format!("{} ({} to {})", text(of.mean), text(of.low), text(of.high))
}

/// Returns a table for each setup: sizes down, policies across, the lowest of each size in bold.
fn by_size(results: &Results, setups: &[Setup<'_>]) -> String {
    setups.iter().map(|setup| matrix(results, *setup, misses, &ratio)).collect()
}

fn matrix(results: &Results, setup: Setup<'_>, figure: Figure, text: &Text) -> String {
    let means = means(results, setup, None, figure);
    let (mut policies, mut sizes): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for mean in &means {
        if !policies.contains(&mean.policy) {
            policies.push(mean.policy);
        }
        if !sizes.contains(&mean.memory) {
            sizes.push(mean.memory);
        }
    }
    if sizes.is_empty() {
        return String::new();
    }
    let heads: Vec<Head<'_>> = std::iter::once(Head::text("memory"))
        .chain(policies.iter().map(|policy| Head::number(policy)))
        .collect();
    let row = |size: &&str| {
        let value = |policy: &str| {
            means
                .iter()
                .find(|mean| (mean.policy, mean.memory) == (policy, size))
                .map(|it| it.value)
        };
        let rivals = policies.iter().filter(|policy| **policy != BOUND);
        let least = rivals.filter_map(|policy| value(policy)).fold(f64::INFINITY, f64::min);
        let cell = |policy: &&str| match value(policy) {
            Some(found) if found == least && *policy != BOUND => {
                TableCell::marked(text(found), "least")
            }
            found => found.map_or(String::new(), text).into(),
        };
        let name = std::iter::once(TableCell::from(*size));
        name.chain(policies.iter().map(cell)).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<TableCell>> = sizes.iter().map(row).collect();
    let name = setup.name();
    let caption = match name.strip_prefix(", ") {
        Some(name) => format!("<p>With {}:</p>\n", escaped(name)),
        None => String::new(),
    };
    caption + &table(&format!("Means{name}"), &heads, &rows)
}

/// Returns the latencies on each drive: mean, and 99th percentile.
fn latencies(results: &Results, drives: &[Setup<'_>]) -> String {
    let mut tables = String::new();
    for setup in drives {
        tables += "<p>Mean latency of all requests:</p>\n";
        tables += &matrix(results, *setup, |row| row.mean_ns, &time);
        tables += "<p>99th percentile of each trace, in the mean of the traces:</p>\n";
        tables += &matrix(results, *setup, |row| row.p99_ns.map(|ns| ns as f64), &time);
    }
    tables
}

/// Lists traces without figures, each with its reason once.
fn marked(results: &Results) -> String {
    let mut reasons: Vec<(&str, &str)> = Vec::new();
    let failed =
        results.rows.iter().filter_map(|row| Some((row.trace.as_str(), row.error.as_deref()?)));
    for (trace, reason) in failed {
        if reasons.last() != Some(&(trace, reason)) && !reasons.contains(&(trace, reason)) {
            reasons.push((trace, reason));
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let heads = [Head::text("trace"), Head::text("reason")];
    let row = |(trace, reason): &(&str, &str)| vec![(*trace).into(), (*reason).into()];
    let rows: Vec<Vec<TableCell>> = reasons.iter().take(MARKED_MAX).map(row).collect();
    let mut text = table("Rows without figures", &heads, &rows);
    if reasons.len() > MARKED_MAX {
        _ = writeln!(text, "<p>And {} more.</p>", grouped((reasons.len() - MARKED_MAX) as u64));
    }
    text
}

fn method() -> String {
    let sentences = [
        "A trace counts once, with its mean over the sizes; long traces count as much as short \
         ones. Only traces that have figures for all policies and sizes are compared."
            .to_owned(),
        format!(
            "Policies are compared in pairs on the same traces: intervals are of the mean \
             difference over traces, by {} resamples of the traces with replacement (percentile \
             bootstrap, a fixed seed). Their confidence is 95 % for all pairs of policies of a row \
             together (Bonferroni), because the best one was chosen after the fact. Below \
             {TRACES_MIN} traces there are none.",
            grouped(RESAMPLES as u64)
        ),
        "The intervals cover chance in the choice of the traces, if these are independent samples \
         of a class. Traces of one machine or one program are not: give these a class of their \
         own, and compare classes."
            .to_owned(),
        format!(
            "'{BOUND}' is Belady's optimum, a bound, and takes no part. For all figures see the \
             sweep's results.parquet and results.csv, and docs/SWEEP.md."
        ),
    ];
    sentences.iter().map(|text| format!("<p>{}</p>\n", escaped(text))).collect()
}

fn verdict(results: &Results, first: Option<&Group<'_>>) -> String {
    let mut lines = Vec::new();
    if results.summary["complete"] == false {
        lines.push("Not complete: the figures are of the jobs that have ended.".to_owned());
    }
    if let Some(Group { standing, .. }) = first {
        let best = &standing.scores[0];
        let next = standing.rivals().next();
        lines.push(match next {
            None => "All policies miss equally often on each trace.".to_owned(),
            Some(next) => {
                let certain = match standing.is_clear() {
                    true => "This is beyond chance",
                    false if standing.traces < TRACES_MIN => {
                        "There are too few traces for a verdict"
                    }
                    false => "This may be chance",
                };
                format!(
                    "{} misses least, {:.4} of the block accesses in the mean of {} traces; the \
                     next is {} with {:.4}. {certain}.",
                    best.policy,
                    best.mean,
                    grouped(standing.traces as u64),
                    next.policy,
                    next.mean
                )
            }
        });
    }
    match results.summary["marked_rows"].as_u64() {
        None | Some(0) => {}
        Some(rows) => lines.push(format!("{} rows have no figures.", grouped(rows))),
    }
    lines.join("\n")
}

fn json_of(standings: &[Group<'_>], figure: &str) -> Vec<Value> {
    standings.iter().map(|group| standing_json(group, figure)).collect()
}

fn standing_json(group: &Group<'_>, figure: &str) -> Value {
    let Group { setup, class, standing } = group;
    let scores = standing.scores.iter().map(|score| {
        let behind = score.behind;
        json!({
            "policy": score.policy,
            figure: score.mean,
            "difference": behind.map(|it| it.mean),
            "difference_low": behind.map(|it| it.low),
            "difference_high": behind.map(|it| it.high),
            "best_share": score.best_share,
        })
    });
    json!({
        "class": class,
        "compression": setup.compression,
        "drive": setup.drive,
        "traces": standing.traces,
        "left_out": standing.left_out,
        "clear": standing.is_clear(),
        "policies": scores.collect::<Vec<_>>(),
    })
}

/// Returns the summary, the standings and the means as JSON.
fn raw(
    results: &Results,
    setups: &[Setup<'_>],
    classes: &[&str],
    [of_misses, of_latency]: &[Vec<Group<'_>>; 2],
) -> Value {
    let mut all_means = Vec::new();
    for setup in setups {
        for class in groups(classes) {
            for mean in means(results, *setup, class, misses) {
                all_means.push(json!({
                    "class": class, "compression": setup.compression, "drive": setup.drive,
                    "policy": mean.policy, "memory": mean.memory, "miss_ratio": mean.value,
                }));
            }
        }
    }
    json!({
        "schema": SCHEMA,
        "summary": results.summary,
        "standings": json_of(of_misses, "miss_ratio"),
        "standings_on_drives": json_of(of_latency, "mean_ns"),
        "means": all_means,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(traces: usize) -> Results {
        let mut lines = vec![
            json!({"manifest": "<x>.toml", "version": "1", "traces": traces, "jobs": 4,
                   "complete": false, "marked_rows": 1})
            .to_string(),
        ];
        for trace in 0..traces {
            for compression in ["off", "2.5"] {
                for (policy, extra) in [("lru", 0.1), ("sieve", 0.05), (BOUND, 0.0)] {
                    for (memory, bytes, base) in [("0.5%", 4096, 0.6), ("10%", 65536, 0.3)] {
                        let is_broken = trace == 0 && policy == "sieve" && memory == "10%";
                        let ratio = base + extra + trace as f64 / 100.0;
                        let row = json!({
                            "trace": format!("t{trace:02}"),
                            "class": if trace % 2 == 0 { "web" } else { "<db>" },
                            "policy": policy, "compression": compression, "drive": "none",
                            "memory": memory, "memory_bytes": bytes,
                            "miss_ratio": (!is_broken).then_some(ratio),
                            "mean_ns": null, "p99_ns": null,
                            "error": is_broken.then_some("t00: line 3: no number"),
                        });
                        lines.push(row.to_string());
                    }
                }
            }
        }
        Results::parse(&lines.join("\n")).expect("lines")
    }

    #[test]
    fn the_page_has_curves_winners_and_reasons() {
        let page = page(&results(15));
        for needs in ["src=", "href=\"h", "url(", "@import", "http:", "https:"] {
            assert!(!page.contains(needs), "{needs}");
        }
        for part in [
            "<title>Sweep: &lt;x&gt;.toml</title>",
            "Not complete",
            "sieve misses least, 0.5750 of the block accesses in the mean of 14 traces; the next \
             is lru with 0.6250. This is beyond chance.",
            "1 rows have no figures",
            "Mean miss ratio: all traces</",
            "Mean miss ratio: all traces, compression 2.5</",
            "Mean miss ratio: class &lt;db&gt;</",
            "sieve is best",
            "0.0500 (0.0500 to 0.0500)",
            "t00: line 3: no number",
            "<h2>Method",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<h2>Latencies"), "no drive");
        let raw: Value =
            serde_json::from_str(report::page::raw_data(&page).expect("data")).expect("JSON");
        assert_eq!(raw["schema"], SCHEMA);
        // Two setups, each with all traces and two classes.
        assert_eq!(raw["standings"].as_array().map(Vec::len), Some(6));
        assert_eq!(raw["standings"][0]["left_out"], 1);
        assert_eq!(raw["means"].as_array().map(Vec::len), Some(2 * 3 * 3 * 2));
    }

    #[test]
    fn few_traces_give_no_verdict_and_no_rows_no_panic() {
        let few = page(&results(3));
        assert!(few.contains("too few traces") && !few.contains("beyond chance"), "{few}");
        let none = Results { summary: json!({}), rows: Vec::new() };
        assert!(!page(&none).contains("<svg"));
    }

    #[test]
    fn drives_have_latencies_and_their_own_winners() {
        let mut all = results(8);
        let on_drive = all.rows.iter().filter(|row| row.compression == "off");
        let on_drive = on_drive.filter(|row| row.policy != BOUND).cloned().map(|row| Row {
            drive: "disk".to_owned(),
            // The other policy is faster here.
            mean_ns: Some(if row.policy == "lru" { 1e6 } else { 3e6 }),
            p99_ns: Some(9_000_000),
            ..row
        });
        let on_drive: Vec<Row> = on_drive.collect();
        all.rows.extend(on_drive);
        let page = page(&all);
        for part in ["<h2>Latencies", "lru is best", "2.00 ms (2.00 ms to 2.00 ms)", "9.00 ms"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.contains("sieve is best"), "by misses");
    }

    #[test]
    fn small_shares_have_an_axis() {
        let axis = shares([0.05, 20.0].into_iter());
        assert!((axis.low - 0.01).abs() < 1e-9 && (axis.high - 100.0).abs() < 1e-9, "{axis:?}");
    }
}
