//! Results are stored, and `overdrive bench history` shows them.

use crate::columns::{self, Cell, Column as ListColumn, Selected, Style};
use crate::terminal;
use ::report::circumstances;
use ::report::terminal::{Column, Fit, Line, Look, Span, Table, Text};
use ::report::words::figure;
use block::printable;
use clap::ValueEnum;
use history::{Error, History, Run, Which};
use serde_json::{Map, Value, json};
use stack::{Exit, Failure};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use suites::{Outcome, report};

/// List the stored results, or show, print or remove one.
///
/// Each result is stored with its machine, device, state and command, in history.sqlite3 in the
/// user's data directory (XDG_DATA_HOME, or ~/.local/share), unless --no-history is given.
///
/// Examples:
///   overdrive bench history --suite qd1
///   overdrive bench history 12
///   overdrive bench history 12 --json > before.json
///   overdrive bench history --csv > all.csv
///   sqlite3 ~/.local/share/overdrive/history.sqlite3 'SELECT at, value FROM rows'
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// Number of a result: print its target, its command and its figures.
    run: Option<i64>,

    /// Only results of this suite.
    #[arg(long, conflicts_with = "run")]
    suite: Option<String>,

    /// Only results of targets with this text in their name.
    #[arg(long, value_name = "TEXT", conflicts_with = "run")]
    target: Option<String>,

    /// Only the newest N [default: 20 in a list, all as CSV]
    #[arg(long, value_name = "N", conflicts_with = "run")]
    newest: Option<u32>,

    /// Print each figure as a line of CSV, with its run.
    #[arg(long, conflicts_with_all = ["run", "json"])]
    csv: bool,

    /// Remove this result.
    #[arg(long, requires = "run", conflicts_with = "json")]
    remove: bool,

    #[command(flatten)]
    style: Style,

    #[command(flatten)]
    output: Selected<Run, Heading>,
}

/// RESULT is the result in a sentence. TEST, VALUE and UNIT are those of a result's first figure.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Heading {
    Run,
    /// In UTC.
    At,
    Suite,
    Target,
    Cached,
    State,
    Preparation,
    /// 0 if the run was interrupted, or the target failed.
    Complete,
    Result,
    Test,
    Value,
    Unit,
    /// Number of figures.
    Figures,
    Command,
}

/// Returns a text in the result.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl ListColumn<Run> for Heading {
    const DEFAULT: &str = "run,at,suite,target,cached,state,complete,result";
    const LEFT_OUT: &[Heading] =
        &[Heading::Complete, Heading::State, Heading::Cached, Heading::At, Heading::Suite];

    fn cell(self, run: &Run) -> Cell {
        let result = &run.result;
        let first = &result["rows"][0];
        let flag = |name: &str| Cell::Flag(result[name].as_bool().unwrap_or(false));
        match self {
            Heading::Run => Cell::Number(Some(run.id as f64)),
            Heading::At => Cell::Text(run.at.clone()),
            Heading::Suite => Cell::Text(text(&result["suite"])),
            Heading::Target => Cell::Text(text(&result["target"])),
            Heading::Cached => flag("cached"),
            Heading::State => Cell::Text(text(&result["state"])),
            Heading::Preparation => Cell::Text(text(&result["preparation"])),
            Heading::Complete => flag("complete"),
            Heading::Result => Cell::Text(headline(result)),
            Heading::Test => Cell::Text(text(&first["test"])),
            Heading::Value => Cell::Figure(first["value"].as_f64().map_or(String::new(), figure)),
            Heading::Unit => Cell::Text(text(&first["unit"])),
            Heading::Figures => {
                Cell::Number(result["rows"].as_array().map(|rows| rows.len() as f64))
            }
            Heading::Command => Cell::Text(run.command.join(" ")),
        }
    }

    fn width_min(self) -> Option<usize> {
        match self {
            Heading::Target | Heading::Test | Heading::Command => Some(16),
            Heading::Result => Some(24),
            Heading::State | Heading::Preparation => Some(8),
            _ => None,
        }
    }
}

/// Returns the result in a sentence. Results of earlier versions have none: then it is the number
/// of figures, and the range of those with the unit of the first.
fn headline(result: &Value) -> String {
    if let Some(headline) = result["headline"].as_str() {
        return headline.to_owned();
    }
    let rows = result["rows"].as_array().into_iter().flatten();
    let unit = text(&result["rows"][0]["unit"]);
    let (mut low, mut high, mut count) = (f64::MAX, f64::MIN, 0);
    for row in rows {
        count += 1;
        let value = row["value"].as_f64().filter(|_| row["unit"] == unit.as_str());
        if let Some(value) = value {
            (low, high) = (low.min(value), high.max(value));
        }
    }
    match low <= high {
        true => format!("{count} figures, {} to {} {unit}", figure(low), figure(high)),
        false => format!("{count} figures"),
    }
}

fn broken(error: Error) -> Failure {
    Failure::new(Exit::Io, error.to_string())
}

/// Returns the file: `history.sqlite3` in the user's data directory. None: neither XDG_DATA_HOME
/// nor HOME is set.
fn file() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data =
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("overdrive").join("history.sqlite3"))
}

/// Stores a result in the history. A failure is reported, and does not make the suite fail.
pub(super) fn keep(outcome: &Outcome) {
    // A suite that could not begin has no result.
    let Some(path) = file().filter(|_| !outcome.rows.is_empty()) else { return };
    let command: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let facts = rigs::machine().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    let machine = Value::Object(facts.collect::<Map<_, _>>());
    let kept = History::open_or_renew(&path).and_then(|(mut history, note)| {
        note.iter().for_each(|note| daemon::tell!("overdrive: {note}"));
        history.keep(&command, &machine, &report::json(outcome))
    });
    if let Err(error) = kept {
        daemon::tell!("overdrive: the result could not be stored: {error}");
    }
}

/// Opens the history; None: nothing has been stored yet.
fn open() -> Result<Option<History>, Failure> {
    let Some(path) = file() else {
        let message = "results cannot be stored: neither XDG_DATA_HOME nor HOME is set";
        return Err(Failure::new(Exit::Negative, message));
    };
    path.exists().then(|| History::open(&path)).transpose().map_err(broken)
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let history = open()?;
    match (options.run, history) {
        (Some(id), history) => one(history, id, options),
        (None, None) => listed(&[], options),
        (None, Some(history)) if options.csv => csv(&history, options),
        (None, Some(history)) => {
            listed(&history.list(&which(options, 20)).map_err(broken)?, options)
        }
    }
}

/// Returns the selected runs, at most `usual` if no number is given.
fn which(options: &Options, usual: u32) -> Which {
    let newest = options.newest.or((usual > 0).then_some(usual));
    Which { suite: options.suite.clone(), target: options.target.clone(), newest }
}

fn listed(runs: &[Run], options: &Options) -> Result<ExitCode, Failure> {
    if options.style.json {
        let as_json = |run: &Run| {
            let first = &run.result["rows"][0];
            let figure = |row: &Value| json!({ "test": row["test"], "value": row["value"], "unit": row["unit"] });
            let rows = run.result["rows"].as_array().into_iter().flatten();
            json!({
                "run": run.id, "at": run.at, "suite": run.result["suite"], "target": run.result["target"],
                "cached": run.result["cached"], "complete": run.result["complete"],
                "state": run.result["state"], "preparation": run.result["preparation"],
                "test": first["test"], "value": first["value"], "unit": first["unit"],
                "headline": headline(&run.result), "figures": rows.map(figure).collect::<Value>(),
                "command": run.command, "machine": run.machine,
            })
        };
        let runs: Vec<Value> = runs.iter().map(as_json).collect();
        daemon::say!("{}", json!({ "schema": "overdrive.bench.history/1", "runs": runs }));
        return Ok(ExitCode::SUCCESS);
    }
    if runs.is_empty() {
        match options.suite.is_none() && options.target.is_none() {
            true => daemon::tell!("overdrive: no result is stored yet; each suite stores its own"),
            false => daemon::tell!("overdrive: there are no such results"),
        }
    }
    columns::print(runs, &options.output.columns, &options.style)?;
    Ok(ExitCode::SUCCESS)
}

fn csv(history: &History, options: &Options) -> Result<ExitCode, Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    // The output need not be read to its end.
    history
        .csv(&which(options, 0), &mut |line| drop(out.write_all(line.as_bytes())))
        .map_err(broken)?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(id: i64) -> Failure {
    let message = format!("there is no result {id}; 'overdrive bench history' lists them");
    Failure::new(Exit::Negative, message)
}

/// Returns the result with this number.
///
/// # Errors
/// There is none, or the file cannot be read.
pub(super) fn find_stored(id: i64) -> Result<Run, Failure> {
    let history = open()?.ok_or_else(|| unknown(id))?;
    history.get(id).map_err(broken)?.ok_or_else(|| unknown(id))
}

fn one(history: Option<History>, id: i64, options: &Options) -> Result<ExitCode, Failure> {
    let mut history = history.ok_or_else(|| unknown(id))?;
    if options.remove {
        return match history.remove(id).map_err(broken)? {
            true => Ok(ExitCode::SUCCESS),
            false => Err(unknown(id)),
        };
    }
    let run = history.get(id).map_err(broken)?.ok_or_else(|| unknown(id))?;
    if options.style.json {
        daemon::say!("{}", run.result);
        return Ok(ExitCode::SUCCESS);
    }
    terminal::print(format_run(&run, terminal::width()));
    Ok(ExitCode::SUCCESS)
}

/// Formats a result: what was done, on which target, and the figures. Text that another program may
/// have put into the file must not control a terminal.
fn format_run(run: &Run, width: Option<usize>) -> Text {
    let result = &run.result;
    let mut lines = Text::default();
    let suite = text(&result["suite"]);
    let (suite, date) = (suites::title(&suite), circumstances::date(&run.at));
    let title = format!("{suite} on {}, {date}", text(&result["target"]));
    lines.push(Line::heading(&*printable(&title)));
    lines.extend(Line::from(&*printable(&headline(result))).fitted(width, 0));
    let mut fact = |line: String| {
        lines.extend(Line::from(format!("  {}", printable(&line))).fitted(width, 4));
    };
    fact(run.command.join(" "));
    let facts = |object: &Value| -> Vec<String> {
        let pairs = object.as_object().into_iter().flatten();
        let words = pairs.map(|(name, value)| circumstances::in_words(name, &plain(value)));
        words.map(|(name, value)| format!("{name} {value}")).collect()
    };
    fact(format!("machine: {}", facts(&run.machine).join(", ")));
    for (name, value) in [
        ("state", &result["state"]),
        ("preparation", &result["preparation"]),
        ("complete", &result["complete"]),
    ] {
        fact(format!("{name}: {}", plain(value)));
    }
    let target = facts(&result["facts"]);
    if !target.is_empty() {
        fact(format!("target: {}", target.join(", ")));
    }
    lines.extend(figures(result).lines(width));
    lines
}

/// Returns the table of a result's figures.
fn figures(result: &Value) -> Table {
    let columns = vec![
        Column::text("test", Fit::Wrap(20)),
        Column::number("value"),
        Column::text("unit", Fit::Whole),
        Column::text("notes", Fit::Wrap(20)),
    ];
    let mut table = Table::new(2, columns);
    for row in result["rows"].as_array().into_iter().flatten() {
        let [test, unit] =
            [&row["test"], &row["unit"]].map(|value| Span::from(&*printable(&text(value))));
        let value = figure(row["value"].as_f64().unwrap_or(0.0));
        let look = if row["valid"] == false { Look::Bad } else { Look::Plain };
        table.push(vec![test, value.into(), unit, Span::new(look, marks(row))]);
    }
    table
}

/// Returns remarks on a row besides its figure.
fn marks(row: &Value) -> String {
    let marks = [
        (row["valid"] == false, "(INVALID)"),
        (row["near_ceiling"] == true, "(near the ceiling)"),
        (row["cold"] == true, "(cold)"),
        (row["cold"] == false, "(warm)"),
        (!row["shortened"].is_null(), "(shortened)"),
        (row["partial"] == true, "(partial)"),
    ];
    let marks = marks.iter().filter(|(is_so, _)| *is_so).map(|(_, words)| *words);
    marks.collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
