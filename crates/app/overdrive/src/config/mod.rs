//! `overdrive config`: checks and shows configuration files, and applies their changes.

mod reload;

use crate::terminal;
use clap::Subcommand;
use daemon::config::{self, DIRECTORY, Effective, Value};
use report::terminal::Line;
use stack::{Exit, Failure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check, show and reload configuration files.
///
/// A configuration is a file, such as /etc/overdrive/NAME.toml, or overdrive.toml with its drop-ins
/// conf.d/*.toml beside it, whose keys replace earlier ones. Without FILE, all configurations in
/// /etc/overdrive are read.
///
/// Examples:
///   overdrive config check
///   overdrive config show --effective /etc/overdrive/host.toml
///   overdrive config reload
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read configurations as 'overdrive serve' does; print all mistakes with file and line.
    Check(Options),
    /// Show the values of configurations.
    Show(ShowOptions),
    /// Apply changed settings to the volumes that are served: all that can change now, or none if
    /// one is refused; print those that need another start.
    Reload(Options),
}

#[derive(clap::Args)]
struct Options {
    /// A config file, or a directory with overdrive.toml.
    file: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct ShowOptions {
    #[command(flatten)]
    options: Options,
    /// Also show defaults: all values that are in force.
    #[arg(long)]
    effective: bool,
}

/// Returns the configurations to read.
fn paths(options: &Options) -> Result<Vec<PathBuf>, Failure> {
    match &options.file {
        Some(file) => Ok(vec![file.clone()]),
        None => config::all_in(Path::new(DIRECTORY)),
    }
}

/// A checked configuration: all mistakes of one that is not good.
struct Checked {
    path: PathBuf,
    result: Result<Effective, Vec<Failure>>,
}

impl Checked {
    /// Returns a good configuration.
    ///
    /// # Errors
    /// Its first mistake.
    fn good(self) -> Result<Effective, Failure> {
        self.result.map_err(|mut mistakes| mistakes.swap_remove(0))
    }
}

fn check_all(options: &Options) -> Result<Vec<Checked>, Failure> {
    let check = |path: PathBuf| Checked { result: config::effective(&path), path };
    Ok(paths(options)?.into_iter().map(check).collect())
}

/// Returns a refusal of each volume whose name two configurations use: only one daemon could serve
/// a device of that name.
fn doubled(all: &[Checked]) -> Vec<Failure> {
    let mut first: BTreeMap<&str, &Path> = BTreeMap::new();
    let mut failures = Vec::new();
    for Checked { path, result } in all {
        for volume in result.iter().flat_map(|found| &found.volumes) {
            if let Some(other) = first.insert(&volume.name, path) {
                let (name, path, other) = (&volume.name, path.display(), other.display());
                let message =
                    format!("{path}: [volume.{name}] is in {other} as well; rename one of them");
                failures.push(Failure::new(Exit::Usage, message));
            }
        }
    }
    failures
}

fn check(options: &Options) -> Result<ExitCode, Failure> {
    let all = check_all(options)?;
    let doubled = doubled(&all);
    let failures = all.iter().filter_map(|checked| checked.result.as_ref().err()).flatten();
    let failures: Vec<&Failure> = failures.chain(&doubled).collect();
    if options.json {
        let messages: Vec<&str> = failures.iter().map(|one| one.message.as_str()).collect();
        let files: Vec<&PathBuf> =
            all.iter().flat_map(|one| &one.result).flat_map(|one| &one.files).collect();
        let is_good = failures.is_empty();
        daemon::say!(
            "{}",
            serde_json::json!({
                "schema": "overdrive.config-check/1", "good": is_good, "files": files,
                "mistakes": messages,
            })
        );
    } else {
        for Checked { path, result } in &all {
            if let Ok(found) = result {
                let (volumes, files) = (found.volumes.len(), found.files.len());
                let s = |count: usize| if count == 1 { "" } else { "s" };
                let path = path.display();
                daemon::say!("{path}: {volumes} volume{}, {files} file{}", s(volumes), s(files));
            }
        }
        failures.iter().for_each(|failure| daemon::complain!("overdrive: {failure}"));
    }
    Ok(failures.first().map_or(ExitCode::SUCCESS, |first| ExitCode::from(first.exit as u8)))
}

/// Returns lines for each value. The origin of a value is beside it, or below it if both do not fit
/// the width.
fn lines(values: &[Value], width: Option<usize>) -> Vec<String> {
    let texts: Vec<String> =
        values.iter().map(|value| format!("{} = {}", value.key, value.value)).collect();
    let column = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).min(56);
    let lines = |(text, value): (&String, &Value)| {
        let origin = match (&value.file, value.line) {
            (Some(file), Some(line)) => format!("# {}:{line}", file.display()),
            _ => "# default".to_owned(),
        };
        let both = format!("  {text:column$}  {origin}");
        match width.is_none_or(|width| both.chars().count() <= width) {
            true => vec![both],
            false => vec![format!("  {text}"), format!("      {origin}")],
        }
    };
    texts.iter().zip(values).flat_map(lines).collect()
}

/// Prints lines as they are: paths and values are whole.
fn print(lines: Vec<String>) {
    lines.iter().for_each(|line| daemon::say!("{line}"));
}

fn show(arguments: &ShowOptions) -> Result<ExitCode, Failure> {
    let mut shown = Vec::new();
    for checked in check_all(&arguments.options)? {
        shown.push(checked.good()?);
    }
    if !arguments.effective {
        shown.iter_mut().for_each(Effective::retain_own);
    }
    if arguments.options.json {
        let all = serde_json::json!({ "schema": "overdrive.config/1", "configurations": shown });
        daemon::say!("{all}");
        return Ok(ExitCode::SUCCESS);
    }
    let width = terminal::width();
    for one in &shown {
        let files: Vec<String> = one.files.iter().map(|file| file.display().to_string()).collect();
        terminal::print(Line::from(files.join(", ")).fitted(width, 2));
        print(lines(&one.daemon, width));
        for volume in &one.volumes {
            terminal::print([Line::heading(format!("[volume.{}]", volume.name))]);
            print(lines(&volume.values, width));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn reload(options: &Options) -> Result<ExitCode, Failure> {
    let all = check_all(options)?;
    let doubled = doubled(&all).into_iter().next();
    let mut configs = Vec::new();
    for checked in all {
        configs.push(config::read(&checked.path)?);
    }
    match doubled {
        Some(failure) => Err(failure),
        None => reload::run(&configs, options.json),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Check(options) => check(options),
        Command::Show(options) => show(options),
        Command::Reload(options) => reload(options),
    }
}
