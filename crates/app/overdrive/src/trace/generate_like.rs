//! `overdrive trace generate --like TRACE`: an imitation, and its judgement.

use super::failure;
use super::generate_options::Options;
use super::generate_output::Output;
use crate::progress::Stages;
use crate::terminal;
use crate::watch::Watch;
use imitation::{DISTANCE_MAX, Imitation, Judgement, Recorded};
use report::terminal::{Column, Fit, Line, Look, Span, Table, Text};
use report::words::grouped;
use serde_json::{Value, json};
use simulator::Error;
use stack::{Exit, Failure};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(
    options: &Options,
    trace: &Path,
    output: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let mut watch = Watch::new(Stages::with_time_left())?;
    let made = make(options, trace, &mut watch);
    watch.finish();
    let (recorded, imitation, judgement) = made?;
    let into = Output::create(output)?;
    let is_stdout = into.is_stdout();
    write(into, &recorded, &imitation)?;
    let sentence = sentence(&judgement);
    if options.json {
        daemon::say!("{}", object(options, trace, output, &recorded, &imitation, &judgement));
    } else if !is_stdout {
        terminal::print(lines(&imitation, &judgement, terminal::width()));
    }
    let path = trace.display();
    if !judgement.is_good() {
        return Err(Failure::new(Exit::Negative, format!("{path}: {sentence}")));
    }
    if !recorded.is_complete {
        let message = format!("{path}: is cut off; the imitation is of its beginning");
        return Err(Failure::new(Exit::Negative, message));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the trace, imitates it, and compares both.
fn make(
    options: &Options,
    trace: &Path,
    watch: &mut Watch,
) -> Result<(Recorded, Imitation, Judgement), Failure> {
    let path = trace.display();
    let has_memory = |bytes: u64| {
        let checked = host::check_memory_available(bytes);
        checked.map_err(|what| format!("{path}: {what}; imitate a part of it"))
    };
    let (format, devices) = (options.format, &options.device);
    let recorded = imitation::read(trace, format, devices, watch, &has_memory).map_err(failure)?;
    let made = imitation::imitate(&recorded, options.seed, watch);
    let imitation = made.map_err(|error| match error {
        Error::Usage(what) => Failure::new(Exit::Usage, format!("{path}: {what}")),
        error => failure(error),
    })?;
    let judgement = imitation::judge(&recorded.entries, &imitation.entries, watch);
    let judgement = judgement.ok_or_else(|| failure(Error::Interrupted))?;
    Ok((recorded, imitation, judgement))
}

fn write(mut into: Output, recorded: &Recorded, imitation: &Imitation) -> Result<(), Failure> {
    if into.is_nothing() {
        return Ok(());
    }
    for entry in &imitation.entries {
        let device = &recorded.devices[entry.event.device as usize];
        let process = entry.process.map(|number| recorded.processes[number as usize].as_str());
        if let Err(failure) = into.put(*entry, device, process) {
            into.remove();
            return Err(failure);
        }
    }
    into.finish()
}

/// Returns the verdict in a sentence.
fn sentence(judgement: &Judgement) -> String {
    let worst = judgement.worst();
    match judgement.is_good() {
        true => format!("A good imitation: miss ratios differ by at most {worst:.3}."),
        false => format!(
            "not a good imitation: a miss ratio differs by {worst:.3}, more than {DISTANCE_MAX}; \
             use the trace itself"
        ),
    }
}

fn lines(imitation: &Imitation, judgement: &Judgement, width: Option<usize>) -> Text {
    let mut text = Text::default();
    let (requests, replaced) = (grouped(imitation.entries.len() as u64), imitation.replaced);
    let (window, replaced) = (grouped(imitation.window as u64), grouped(replaced));
    let line = format!(
        "{requests} requests; bursts are in a new order within windows of {window} requests, and \
         {replaced} requests have another extent than the recorded one in their place."
    );
    text.extend(Line::from(&*line).fitted(width, 0));
    text.push("");
    let columns = vec![
        Column::text("policy", Fit::Whole),
        Column::number("memory"),
        Column::number("recorded"),
        Column::number("imitated"),
        Column::number("difference"),
    ];
    let mut table = Table::new(2, columns);
    for one in &judgement.compared {
        let is_bad = one.difference().abs() > DISTANCE_MAX;
        let look = if is_bad { Look::Bad } else { Look::Plain };
        table.push(vec![
            one.policy.into(),
            format!("{} %", one.percent).into(),
            format!("{:.4}", one.recorded).into(),
            format!("{:.4}", one.imitated).into(),
            Span::new(look, format!("{:+.4}", one.difference())),
        ]);
    }
    text.extend(table.lines(width));
    text.push("");
    if judgement.is_good() {
        text.extend(Line::from(&*sentence(judgement)).fitted(width, 0));
    }
    text
}

fn object(
    options: &Options,
    trace: &Path,
    output: Option<&Path>,
    recorded: &Recorded,
    imitation: &Imitation,
    judgement: &Judgement,
) -> Value {
    let compared = judgement.compared.iter().map(|one| {
        json!({
            "policy": one.policy,
            "percent": one.percent,
            "slots": one.slots,
            "recorded": one.recorded,
            "imitated": one.imitated,
            "difference": one.difference(),
        })
    });
    json!({
        "schema": "overdrive.trace-generate/1",
        "like": trace.display().to_string(),
        "output": output.map(|path| path.display().to_string()),
        "seed": options.seed,
        "complete": recorded.is_complete,
        "requests": imitation.entries.len(),
        "left_out": recorded.left_out,
        "window": imitation.window,
        "replaced": imitation.replaced,
        "footprint_blocks": judgement.footprint_blocks,
        "miss_ratios": compared.collect::<Vec<_>>(),
        "worst": judgement.worst(),
        "worst_max": DISTANCE_MAX,
        "good": judgement.is_good(),
    })
}
