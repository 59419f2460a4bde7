//! A comparison as one self-contained HTML page.

use crate::comparison::{Comparison, Verdict, letter};
use crate::json::SCHEMA;
use crate::method::method;
use crate::saved::{Row, Series};
use crate::text::{heads, rows};
use report::bars::{Bar, Test, bars};
use report::chart::{self, Distribution, Sequence};
use report::names;
use report::page::{Page, facts, section, side_by_side};
use report::plot::escaped;
use std::fmt::Write;

/// Most tests of one plot; more would be unreadable.
const BARS_MAX: usize = 40;
const DISTRIBUTIONS_MAX: usize = 6;
const LATENCIES_MAX: usize = 4;

const STYLE: &str = "\
.compared td:nth-child(1), .compared th:nth-child(1), .compared td:nth-child(2),
.compared td:nth-child(3n+6) { text-align: left; } .compared .more, .compared .less { font-weight: 600; }
.compared .noise, .compared .none { color: var(--soft); }
.beside th, .beside td { text-align: left; white-space: normal; min-width: 9rem; }
";

/// Returns the page.
pub fn page(comparison: &Comparison) -> String {
    let mut parts = side_by_side(&values(comparison));
    parts += &section("Figures", &table(comparison));
    parts += &section("Over time and position", &side_by_side(&series(comparison)));
    parts += &section("Service times", &side_by_side(&service_times(comparison)));
    parts += &section("Not the same in all", &circumstances(comparison));
    let paragraphs: String =
        method(comparison).iter().map(|it| format!("<p>{}</p>\n", escaped(it))).collect();
    parts += &section("Method", &(paragraphs + &facts(&places(comparison))));
    let raw = crate::json(comparison);
    let page = Page {
        title: &format!("{} results compared", comparison.runs.len()),
        sub: &comparison.names.join("; "),
        verdict: &verdict(comparison),
        style: STYLE,
        parts: &parts,
        schema: SCHEMA,
        raw: &serde_json::to_string_pretty(&raw).unwrap_or_default(),
    };
    page.html()
}

/// Counts the verdicts, one line for each run.
fn verdict(comparison: &Comparison) -> String {
    let line = |number: usize| {
        let count = |verdict| {
            let lines = comparison.lines.iter();
            lines.filter(|line| line.against[number - 1].verdict == verdict).count()
        };
        format!(
            "{} against A: {} figures more, {} less, {} noise, {} without an interval.",
            letter(number),
            count(Verdict::More),
            count(Verdict::Less),
            count(Verdict::Noise),
            count(Verdict::NoInterval)
        )
    };
    (1..comparison.runs.len()).map(line).collect::<Vec<_>>().join("\n")
}

/// Plots values over sizes or depths as curves, and the others as bars.
fn values(comparison: &Comparison) -> Vec<String> {
    let mut units: Vec<&str> = comparison.lines.iter().map(|line| line.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    let mut figures = Vec::new();
    for unit in units {
        let of_unit: Vec<_> = comparison.lines.iter().filter(|line| line.unit == unit).collect();
        let mut points = Vec::new();
        for line in &of_unit {
            for (cell, name) in line.cells.iter().zip(&comparison.names) {
                points.extend(
                    cell.as_ref().map(|cell| (name.as_str(), line.test.as_str(), cell.value)),
                );
            }
        }
        let (curves, left) = names::curves(&points, unit);
        let left: Vec<&str> = left.into_iter().map(|number| points[number].1).collect();
        figures.extend(curves);
        let tests =
            of_unit.iter().filter(|line| left.contains(&line.test.as_str())).map(|line| Test {
                name: line.test.clone(),
                bars: line.cells.iter().map(|cell| cell.as_ref().map(bar)).collect(),
                published: None,
            });
        let tests: Vec<Test> = tests.take(BARS_MAX).collect();
        if !tests.is_empty() {
            figures.push(bars("By test", unit, &comparison.names, &tests));
        }
    }
    figures
}

fn bar(cell: &crate::comparison::Cell) -> Bar {
    Bar { value: cell.value, interval: cell.estimate.map(|estimate| estimate.interval()) }
}

/// Plots series of the same name together, with the names of their runs.
fn series(comparison: &Comparison) -> Vec<String> {
    let mut kinds: Vec<(&str, &str, &str)> = Vec::new();
    for series in comparison.runs.iter().flat_map(|run| &run.series) {
        let kind = (series.name.as_str(), series.unit.as_str(), series.along.as_str());
        if !kinds.contains(&kind) && !series.values.is_empty() {
            kinds.push(kind);
        }
    }
    // A run without a cache has one series where a cached run has two: it is drawn with both, and
    // not alone.
    let all = kinds.clone();
    kinds
        .retain(|(name, ..)| !all.iter().any(|(other, ..)| other != name && plain(other) == *name));
    let mut latencies = 0;
    let mut figures = Vec::new();
    for (name, unit, along) in kinds {
        let of_kind = |series: &&Series| series.unit == unit && series.along == along;
        let found = comparison.runs.iter().zip(&comparison.names).filter_map(|(run, of)| {
            let called =
                |wanted: &str| run.series.iter().filter(of_kind).find(|it| it.name == wanted);
            let series = called(name).or_else(|| called(&plain(name)))?;
            Some(Sequence { name: of, step: series.step, values: &series.values })
        });
        let found: Vec<Sequence<'_>> = found.collect();
        match (unit, along) {
            ("IOPS", "s") => figures.extend(chart::consistency(name, &found, None, &[])),
            // Each test has three: mean, 99th percentile, maximum.
            ("us", "s") if latencies < 3 * LATENCIES_MAX => {
                latencies += 1;
                figures.extend(chart::latency_over_time(name, &found));
            }
            ("MB/s" | "MiB/s", "GB") => {
                let title = format!("{name}, by position");
                figures.push(chart::by_position(&title, unit, &found, &[]));
            }
            _ => {}
        }
    }
    figures
}

/// Removes the state of the cache from the name of a series.
fn plain(name: &str) -> String {
    name.replace(", cold: ", ": ").replace(", warm: ", ": ")
}

/// Plots the distributions of tests that more than one run has.
fn service_times(comparison: &Comparison) -> Vec<String> {
    let mut figures = Vec::new();
    let mut drawn = 0;
    for line in &comparison.lines {
        let rows = line.cells.iter().zip(&comparison.runs).zip(&comparison.names);
        let found = rows.filter_map(|((cell, run), name)| {
            let row: &Row = &run.rows[cell.as_ref()?.row];
            (!row.buckets.is_empty()).then_some(Distribution { name, buckets: &row.buckets })
        });
        let found: Vec<Distribution<'_>> = found.collect();
        if found.len() > 1 && drawn < DISTRIBUTIONS_MAX {
            drawn += 1;
            figures.extend(chart::service_times(&line.test, &found));
        }
    }
    figures
}

fn table(comparison: &Comparison) -> String {
    let mut table = "<div class=\"wide\"><table class=\"compared\">\n<tr>".to_owned();
    heads(comparison).iter().for_each(|head| _ = write!(table, "<th>{head}</th>"));
    table.push_str("</tr>\n");
    for row in rows(comparison) {
        table.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let class = match (column > 2 && column % 3 == 2, cell.as_str()) {
                (true, "more" | "less" | "noise") => format!(" class=\"{cell}\""),
                (true, _) => " class=\"none\"".to_owned(),
                (false, _) => String::new(),
            };
            _ = write!(table, "<td{class}>{}</td>", escaped(cell));
        }
        table.push_str("</tr>\n");
    }
    table + "</table></div>\n"
}

/// Returns a table of the other differences; empty if there are none.
fn circumstances(comparison: &Comparison) -> String {
    if comparison.circumstances.is_empty() {
        return String::new();
    }
    let mut table = "<div class=\"wide\"><table class=\"beside\">\n<tr><th></th>".to_owned();
    let letters = (0..comparison.runs.len()).map(letter);
    letters.for_each(|letter| _ = write!(table, "<th>{letter}</th>"));
    table.push_str("</tr>\n");
    for (name, each) in &comparison.circumstances {
        _ = write!(table, "<tr><th>{name}</th>");
        each.iter().for_each(|value| _ = write!(table, "<td>{}</td>", escaped(value)));
        table.push_str("</tr>\n");
    }
    table + "</table></div>\n"
}

/// Returns the source and the command of each run.
fn places(comparison: &Comparison) -> Vec<(&str, String)> {
    let runs = comparison.runs.iter().zip(&comparison.names);
    let commands = runs.map(|(run, name)| {
        let command = run.command.join(" ");
        let commands = if command.is_empty() {
            run.place.clone()
        } else {
            format!("{}: {command}", run.place)
        };
        (name.as_str(), commands)
    });
    commands.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::read;

    #[test]
    fn one_page_has_all_runs_in_each_plot() {
        let run = |place: &str, value: u32| {
            let text = format!(
                r#"{{"schema":"overdrive.bench/1","suite":"x","target":"<{place}>","rows":[
                {{"test":"write, 4 KiB","unit":"MB/s","value":{value},"buckets":[[1000,5],[2000,{value}]]}},
                {{"test":"write, 8 KiB","unit":"MB/s","value":{value}}},
                {{"test":"write, 16 KiB","unit":"MB/s","value":{value}}},
                {{"test":"all","unit":"MB/s","value":{value},"samples_of":"runs","samples":[1,2,{value}]}}],
                "series":[{{"name":"writes","unit":"IOPS","along":"s","step":1,"values":[1,2,{value}]}},
                {{"name":"fill","unit":"MB/s","along":"GB","step":1,"values":[1,2,{value}]}},
                {{"name":"w: max latency","unit":"us","along":"s","step":1,"values":[1,2,{value}]}}]}}"#
            );
            read(place, &text).expect("a sound result").remove(0)
        };
        let page = page(&Comparison::new(vec![run("a", 3), run("b", 5)]).expect("alike"));
        // Curves, bars, three of consistency, one by position, one of latency, two of service
        // times.
        assert_eq!(page.matches("<figure>").count(), 9);
        let both = "</svg>B: &lt;b&gt;";
        assert_eq!(page.matches(both).count(), 9, "{page}");
        assert!(
            page.contains("class=\"whisker\"") && page.contains("<td class=\"noise\">noise</td>")
        );
        assert_eq!(page.matches("<script").count(), 1);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn a_bare_series_stands_beside_the_cold_and_the_warm_one() {
        let run = |names: &[&str]| {
            let series = names.iter().map(|name| {
                format!(r#"{{"name":"{name}: p99 latency","unit":"us","along":"s","step":1,"values":[1,2]}}"#)
            });
            let series = series.collect::<Vec<_>>().join(",");
            let text = format!(
                r#"{{"schema":"overdrive.bench/1","suite":"x","target":"t","series":[{series}],"rows":[
                {{"test":"t","unit":"IOPS","value":1}}]}}"#
            );
            read("x", &text).expect("a sound result").remove(0)
        };
        let runs = vec![run(&["read"]), run(&["read, cold", "read, warm"])];
        let figures = series(&Comparison::new(runs).expect("alike"));
        assert_eq!(figures.len(), 2);
        assert!(
            figures.iter().all(|figure| figure.matches("<polyline").count() == 2),
            "{figures:?}"
        );
    }

    #[test]
    fn hostile_figures_make_a_page_all_the_same() {
        let run = |value: &str| {
            let text = format!(
                r#"{{"schema":"overdrive.bench/1","suite":"x","target":"t","rows":[
                {{"test":"a, 4 KiB","unit":"<b>","value":{value},"samples_of":"seconds","samples":[{value}]}},
                {{"test":"a, QD1","unit":"IOPS","value":{value},"buckets":[[0,0],[0,0]]}},
                {{"test":"b","unit":"IOPS","value":{value},"buckets":[[1000000000000000,1000000000000000]]}}],
                "series":[{{"name":"n","unit":"IOPS","along":"s","step":1000000000,"values":[{value},{value}]}},
                {{"name":"n","unit":"us","along":"s","step":0.000001,"values":[{value}]}},
                {{"name":"n","unit":"MB/s","along":"GB","step":1,"values":[{value}]}}]}}"#
            );
            read("x", &text).expect("no more than odd").remove(0)
        };
        for value in ["-1e15", "0", "-0.0", "1e-300", "1e15"] {
            let page = page(&Comparison::new(vec![run(value), run("1")]).expect("alike"));
            assert!(!page.contains("NaN") && !page.contains("<b>"), "{value}");
            assert!(page.len() < 200_000, "{value}: {}", page.len());
        }
    }
}
