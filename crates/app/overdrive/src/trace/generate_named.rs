//! `overdrive trace generate NAME`: a trace with published properties.

use super::generate_options::Options;
use super::generate_output::Output;
use crate::progress::Stages;
use crate::terminal;
use crate::watch::Watch;
use report::terminal::{Column, Fit, Line, Look, Span, Table, Text};
use report::words::grouped;
use serde_json::{Value, json};
use simulator::Watch as _;
use stack::{Exit, Failure};
use std::path::Path;
use std::process::ExitCode;
use suites::generated::{
    Meter, POINTS_MAX, Profile, Property, Requests, Scale, Workload, properties,
};
use trace::recording::Entry;

/// Time between two workloads of a trace.
const APART_NS: u64 = 1_000_000_000;
/// Requests between two looks for signals.
const LOOKED: u64 = 1 << 16;

pub(super) fn run(
    options: &Options,
    profile: Profile,
    output: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let profile = match &options.workload {
        Some(workload) => profile
            .only(workload)
            .map_err(|what| usage(format!("--workload {workload}: {what}")))?,
        None => profile,
    };
    let scale = options.scale.unwrap_or(1.0);
    let scale = Scale { scale, seed: options.seed, ..Scale::default() };
    // Mistakes are reported before a file is made.
    for workload in &profile.workloads {
        Requests::new(workload, &scale).map_err(usage)?;
    }
    let mut into = Output::create(output)?;
    let is_stdout = into.is_stdout();
    let mut watch = Watch::new(Stages::with_time_left())?;
    let generated = generate(&profile, &scale, &mut into, &mut watch);
    watch.finish();
    let table = match generated {
        Ok(table) => table,
        Err(failure) => {
            into.remove();
            return Err(failure);
        }
    };
    into.finish()?;
    show(options, &profile, output, &table, is_stdout);
    let wrong: Vec<&Property> = table.iter().filter(|property| property.is_wrong()).collect();
    match wrong.first() {
        None => Ok(ExitCode::SUCCESS),
        Some(first) => {
            let (count, name, workload) = (wrong.len(), &first.name, &first.workload);
            let message = format!(
                "{}: {count} published properties are missed by more than {POINTS_MAX} points, \
                 the first is '{name}' of {workload}; write a larger --scale",
                profile.name
            );
            Err(Failure::new(Exit::Negative, message))
        }
    }
}

/// Writes the trace, and returns its properties.
fn generate(
    profile: &Profile,
    scale: &Scale,
    into: &mut Output,
    watch: &mut Watch,
) -> Result<Vec<Property>, Failure> {
    let requests = |workload: &Workload| workload.requests.iter().map(|it| it.value).sum::<u64>();
    let all = profile.workloads.iter().map(requests).sum::<u64>() as f64 * scale.scale;
    let (mut table, mut begin_ns, mut done) = (Vec::new(), 0, 0);
    for (number, workload) in (0..).zip(&profile.workloads) {
        let mut meter = Meter::default();
        let requests = Requests::new(workload, scale);
        for event in requests.map_err(|what| Failure::new(Exit::Usage, what))? {
            meter.add(&event);
            let mut entry = Entry::from(event);
            entry.event.time_ns += begin_ns;
            entry.process = Some(number);
            into.put(entry, &profile.name, Some(&workload.name))?;
            done += 1;
            if done % LOOKED == 0 && !watch.look("generated", done as f64 / all) {
                let message = "trace generate: interrupted; the trace was removed";
                return Err(Failure::new(Exit::Negative, message));
            }
        }
        begin_ns += meter.duration_ns() + APART_NS;
        table.extend(properties(workload, scale, &meter));
    }
    Ok(table)
}

fn show(
    options: &Options,
    profile: &Profile,
    output: Option<&Path>,
    table: &[Property],
    is_stdout: bool,
) {
    if options.json {
        return daemon::say!("{}", object(options, profile, output, table));
    }
    if !is_stdout {
        return terminal::print(lines(profile, table, terminal::width()));
    }
    let wrong = table.iter().filter(|property| property.is_wrong()).count();
    daemon::complain!("{} properties, {wrong} of them wrong", table.len());
}

fn object(
    options: &Options,
    profile: &Profile,
    output: Option<&Path>,
    table: &[Property],
) -> Value {
    let property = |property: &Property| {
        json!({
            "workload": property.workload,
            "name": property.name,
            "unit": property.unit,
            "kind": if property.given.is_published { "published" } else { "assumed" },
            "given": property.given.value,
            "source": property.given.source,
            "generated": property.generated,
            "off_points": property.off_points,
            "wrong": property.is_wrong(),
        })
    };
    json!({
        "schema": "overdrive.trace-generate/1",
        "name": profile.name,
        "title": profile.title,
        "output": output.map(|path| path.display().to_string()),
        "scale": options.scale.unwrap_or(1.0),
        "seed": options.seed,
        "points_max": POINTS_MAX,
        "properties": table.iter().map(property).collect::<Vec<_>>(),
    })
}

fn lines(profile: &Profile, table: &[Property], width: Option<usize>) -> Text {
    let mut text = Text::default();
    text.extend(Line::heading(profile.title.clone()).fitted(width, 0));
    for workload in &profile.workloads {
        let count: f64 = table
            .iter()
            .filter(|it| it.workload == workload.name && ["reads", "writes"].contains(&&*it.name))
            .map(|it| it.generated)
            .sum();
        let count = grouped(count as u64);
        text.push("");
        let line = format!("{}: {}, {count} requests", workload.name, workload.about);
        text.extend(Line::from(&*line).fitted(width, 0));
        let columns = vec![
            Column::text("property", Fit::Wrap(16)),
            Column::number("published"),
            Column::number("assumed"),
            Column::number("generated"),
            Column::text("", Fit::Whole),
        ];
        let mut rows = Table::new(2, columns);
        for property in table.iter().filter(|property| property.workload == workload.name) {
            rows.push(row(property));
        }
        text.extend(rows.lines(width));
    }
    text
}

fn row(property: &Property) -> Vec<Span> {
    let given = property.in_words(property.given.value);
    let (published, assumed) = match property.given.is_published {
        true => (given, String::new()),
        false => (String::new(), given),
    };
    let verdict = match property.is_wrong() {
        true => Span::new(Look::Bad, format!("WRONG by {:.2} points", property.off_points)),
        false => Span::from(""),
    };
    let generated = property.in_words(property.generated);
    vec![property.name.as_str().into(), published.into(), assumed.into(), generated.into(), verdict]
}
