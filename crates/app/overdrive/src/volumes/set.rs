//! `overdrive volume set`: settings that change while the volume is served.

use super::find;
use super::save::Edit;
use crate::settings::settable;
use daemon::config::DIRECTORY;
use daemon::control::Daemon;
use daemon::control::words::Ask;
use stack::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Change settings while the volume is served: all that are given, or none.
///
/// Clients continue. Once this returns, flushes follow the new settings, and all data flushed
/// before is durable. If dirty data cannot be written to the backing, nothing is changed. The
/// settings apply until the daemon ends or is upgraded; the next daemon uses its own options. With
/// --save, they are also written into the volume's config file, whose comments stay.
///
/// The memory cannot be set: stop the daemon, or detach the volume, and serve it with another
/// --memory.
///
/// Examples:
///   overdrive volume set db durability=ordered dirty_age=2s
///   overdrive volume set db write=through --save
#[derive(clap::Args)]
#[command(verbatim_doc_comment, after_help = settable())]
pub(crate) struct Options {
    /// The volume, which may be omitted if only one is served, and the settings.
    #[arg(required = true, value_name = "[NAME] KEY=VALUE")]
    words: Vec<String>,
    /// Also write the settings into this configuration; by default into the one that the volume's
    /// daemon serves, or the one in /etc/overdrive that names the volume.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = DIRECTORY)]
    save: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The start of a volume's daemon, as far as saved settings are concerned.
#[derive(Default)]
struct Start {
    /// The configuration that it serves. None: it serves none, or is older and does not report it.
    config: Option<PathBuf>,
    /// Keys of the configuration that its command line replaces.
    replaced: Vec<String>,
}

impl Start {
    fn of(daemon: &mut Daemon, volume: &str) -> Result<Start, Failure> {
        let shown = daemon.ask(&Ask::Show { volume: volume.to_owned() })?;
        let replaced = shown["start"]["replaced"].as_array().into_iter().flatten();
        Ok(Start {
            config: shown["config"].as_str().map(PathBuf::from),
            replaced: replaced.filter_map(|key| key.as_str().map(str::to_owned)).collect(),
        })
    }

    /// Returns a note for each saved change that the next start by the same command line replaces.
    fn notes<'a>(&'a self, changes: &'a [String]) -> impl Iterator<Item = String> + 'a {
        let keys = changes.iter().filter_map(|change| Some(change.split_once('=')?.0));
        let keys = keys.map(|key| key.replace('-', "_"));
        keys.filter(|key| self.replaced.contains(key)).map(|key| {
            let option = key.replace('_', "-");
            format!(
                "{key} is saved, but the daemon was started with --{option}, which replaces the \
                 saved value at the next start; remove that option from its command line"
            )
        })
    }
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let (name, changes) = match options.words.split_first() {
        Some((first, rest)) if !first.contains('=') => (Some(first.as_str()), rest),
        _ => (None, options.words.as_slice()),
    };
    let mut target = find(control, name)?;
    let volume = target.row.name;
    // Prepared and checked before anything is changed.
    let (saving, start) = match &options.save {
        Some(path) => {
            let start = Start::of(&mut target.daemon, &volume)?;
            let own = start.config.as_ref().filter(|_| path == Path::new(DIRECTORY));
            let edit = Edit::prepare(own.unwrap_or(path), &volume, changes)?;
            (Some(edit), start)
        }
        None => (None, Start::default()),
    };
    let ask = Ask::Set { volume: volume.clone(), changes: changes.to_vec() };
    let answer = target.daemon.ask(&ask)?;
    let notes = answer.as_array().into_iter().flatten();
    let notes = notes.filter_map(|note| note.as_str().map(str::to_owned));
    let notes: Vec<String> = notes.chain(start.notes(changes)).collect();
    notes.iter().for_each(|note| daemon::tell!("overdrive: {volume}: {note}"));
    let saved = saving.map(Edit::commit).transpose()?;
    let until = match &saved {
        Some(paths) => {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("and saved in {}", paths.join(" and "))
        }
        None => "until its daemon ends".to_owned(),
    };
    if options.json {
        let said = serde_json::json!({
            "schema": "overdrive.volume-done/1", "volume": volume, "done": "set",
            "changes": changes, "notes": notes,
            "until": saved.is_none().then_some("the daemon ends"),
            "saved": saved.as_ref().and_then(|paths| paths.first()), "saved_files": saved,
        });
        daemon::say!("{said}");
    } else {
        daemon::say!("{volume} set, {until}: {}", changes.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}
