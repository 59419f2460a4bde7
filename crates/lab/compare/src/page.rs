//! A comparison as one self-contained HTML page.

use crate::comparison::{Cell, Comparison, Line, Verdict, letter};
use crate::json::SCHEMA;
use crate::method::method;
use crate::saved::{Row, Run, Series};
use crate::text::{heads, rows};
use crate::winner::{is_judged, verdict};
use report::bars::Bar;
use report::chart::{self, Distribution, Sequence};
use report::circumstances;
use report::heatmap::Matrix;
use report::matrix_names;
use report::names;
use report::page::{Page, facts, section, side_by_side};
use report::plot::escaped;
use report::ranking::{Entry, is_lower_better, ranking};
use report::table::{Head, TableCell};

/// Maximum number of charts of a single test; the table has all.
const CHARTS_MAX: usize = 40;
const DISTRIBUTIONS_MAX: usize = 6;
const LATENCIES_MAX: usize = 4;

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
        title: &title(comparison),
        sub: &origins(comparison),
        verdict: &verdict(comparison).join("\n"),
        style: "",
        parts: &parts,
        schema: SCHEMA,
        raw: &serde_json::to_string_pretty(&raw).unwrap_or_default(),
    };
    page.html()
}

/// Names the suite, if all runs are of one.
fn title(comparison: &Comparison) -> String {
    let suite = comparison.runs[0].suite_title();
    let count = comparison.runs.len();
    match comparison.runs.iter().all(|run| run.suite_title() == suite) {
        true => format!("{suite}: {count} results compared"),
        false => format!("{count} results compared"),
    }
}

/// Returns the names of the runs, with their dates.
fn origins(comparison: &Comparison) -> String {
    let runs = comparison.names.iter().zip(&comparison.runs);
    let origin = |(name, run): (&String, &Run)| match run.at.as_str() {
        "" => name.clone(),
        at => format!("{name}, {}", circumstances::date(at)),
    };
    runs.map(origin).collect::<Vec<_>>().join("; ")
}

/// Draws matrices as heat maps, values over sizes or depths as curves, and each other test as a
/// chart of its own, best run first: figures of different kinds never share an axis.
fn values(comparison: &Comparison) -> Vec<String> {
    let mut units: Vec<&str> = comparison.lines.iter().map(|line| line.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    let mut figures = Vec::new();
    let mut ranked = Vec::new();
    for unit in units {
        let of_unit: Vec<_> = comparison.lines.iter().filter(|line| line.unit == unit).collect();
        let (matrices, of_unit) = matrices(comparison, unit, of_unit);
        figures.extend(matrices);
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
        let of = of_unit.iter().filter(|line| left.contains(&line.test.as_str()));
        ranked.extend(
            of.map(|line| (*line, ranking(&line.test, unit, &[], &entries(comparison, line)))),
        );
    }
    // In the order of the tests, not of their units.
    let position = |line: &Line| comparison.lines.iter().position(|known| known.test == line.test);
    ranked.sort_by_key(|(line, _)| position(line));
    figures.extend(ranked.into_iter().take(CHARTS_MAX).map(|(_, chart)| chart));
    figures
}

/// Returns a test's values as entries of a chart. The first run, with which the others are
/// compared, is marked.
fn entries(comparison: &Comparison, line: &Line) -> Vec<Entry> {
    let cells = line.cells.iter().zip(&comparison.names).enumerate();
    let entry = |(number, (cell, name)): (usize, (&Option<Cell>, &String))| {
        let cell = cell.as_ref()?;
        let interval = cell.estimate.map(|estimate| estimate.interval());
        let bars = vec![Some(Bar { value: cell.value, interval })];
        Some(Entry { name: name.clone(), bars, is_own: number == 0 })
    };
    cells.filter_map(entry).collect()
}

/// Returns a heat map of each run's matrices, and the lines that belong in none.
fn matrices<'a>(
    comparison: &Comparison,
    unit: &str,
    lines: Vec<&'a Line>,
) -> (Vec<String>, Vec<&'a Line>) {
    let mut figures = Vec::new();
    let mut used = vec![false; lines.len()];
    for (run, name) in comparison.names.iter().enumerate() {
        let of: Vec<usize> =
            (0..lines.len()).filter(|at| lines[*at].cells[run].is_some()).collect();
        let value = |at: &usize| {
            let value = lines[*at].cells[run].as_ref().map_or(0.0, |cell| cell.value);
            (lines[*at].test.as_str(), value)
        };
        let (found, left) = matrix_names::matrices(&of.iter().map(value).collect::<Vec<_>>(), unit);
        for matrix in found {
            let title = format!("{name}: {}", matrix.title);
            figures.push(Matrix { title, ..matrix }.figure());
        }
        let taken = (0..of.len()).filter(|index| !left.contains(index));
        taken.for_each(|index| used[of[index]] = true);
    }
    let rest = lines.iter().zip(&used).filter(|(_, used)| !**used).map(|(line, _)| *line);
    (figures, rest.collect())
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
            let percentiles: Vec<_> = found.iter().map(Distribution::percentiles).collect();
            figures.push(chart::percentiles(&line.test, &percentiles));
            figures.extend(chart::service_times(&line.test, &found));
        }
    }
    figures
}

fn table(comparison: &Comparison) -> String {
    let heads = heads(comparison);
    let is_verdict = |column: usize| column > 2 && column % 3 == 2;
    let head =
        |(column, name): (usize, &'_ String)| (column < 2 || is_verdict(column), name.clone());
    let heads: Vec<(bool, String)> = heads.iter().enumerate().map(head).collect();
    let heads: Vec<Head<'_>> =
        heads.iter().map(|(is_text, name)| Head { name, is_text: *is_text }).collect();
    let cells = |(line, row): (&Line, Vec<String>)| -> Vec<TableCell> {
        let cell = |(column, text): (usize, String)| {
            let against = (column >= 3).then(|| line.against.get((column - 3) / 3)).flatten();
            let class = against.filter(|_| is_verdict(column)).map_or("", |it| class(line, it));
            TableCell::marked(text, class)
        };
        row.into_iter().enumerate().map(cell).collect()
    };
    let rows: Vec<Vec<TableCell>> =
        comparison.lines.iter().zip(rows(comparison)).map(cells).collect();
    report::table::table("Figures", &heads, &rows)
}

/// Returns the class of a verdict: whether the run is better than the first.
fn class(line: &Line, against: &crate::Against) -> &'static str {
    let is_less_better = is_lower_better(&line.unit);
    match against.verdict {
        Verdict::More | Verdict::Less if !is_judged(line) => "",
        Verdict::More if is_less_better => "worse",
        Verdict::Less if !is_less_better => "worse",
        Verdict::More | Verdict::Less => "better",
        Verdict::Noise | Verdict::NoInterval | Verdict::Missing => "unsure",
    }
}

/// Returns a table of the other differences; empty if there are none.
fn circumstances(comparison: &Comparison) -> String {
    if comparison.circumstances.is_empty() {
        return String::new();
    }
    let letters: Vec<String> =
        (0..comparison.runs.len()).map(|run| letter(run).to_string()).collect();
    let heads = std::iter::once("circumstance").chain(letters.iter().map(String::as_str));
    let heads: Vec<Head<'_>> = heads.map(Head::text).collect();
    let rows = comparison.circumstances.iter().map(|(name, each)| {
        std::iter::once((*name).into()).chain(each.iter().map(|it| it.as_str().into())).collect()
    });
    report::table::table("Not the same in all", &heads, &rows.collect::<Vec<Vec<TableCell>>>())
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
        // Curves, a chart of one test, three of consistency, one by position, one of latency, and
        // three of service times.
        assert_eq!(page.matches("<figure>").count(), 10);
        let both = "</svg>B: &lt;b&gt;";
        assert_eq!(page.matches(both).count(), 9, "all but the chart of one test: {page}");
        assert!(
            page.contains("class=\"whisker\"") && page.contains("class=\"text unsure\">noise</td>")
        );
        assert_eq!(page.matches("<script").count(), 2);
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
