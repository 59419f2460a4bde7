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

/// Returns the configuration that a volume's daemon serves. None: it serves none, or is older and
/// does not report it.
fn own_config(daemon: &mut Daemon, volume: &str) -> Result<Option<PathBuf>, Failure> {
    let shown = daemon.ask(&Ask::Show { volume: volume.to_owned() })?;
    Ok(shown["config"].as_str().map(PathBuf::from))
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let (name, changes) = match options.words.split_first() {
        Some((first, rest)) if !first.contains('=') => (Some(first.as_str()), rest),
        _ => (None, options.words.as_slice()),
    };
    let mut target = find(control, name)?;
    let volume = target.row.name;
    // Prepared and checked before anything is changed.
    let saving = match &options.save {
        Some(path) if path == Path::new(DIRECTORY) => {
            let path = own_config(&mut target.daemon, &volume)?.unwrap_or(path.clone());
            Some(Edit::prepare(&path, &volume, changes)?)
        }
        Some(path) => Some(Edit::prepare(path, &volume, changes)?),
        None => None,
    };
    let ask = Ask::Set { volume: volume.clone(), changes: changes.to_vec() };
    let notes = target.daemon.ask(&ask)?;
    for note in notes.as_array().into_iter().flatten().filter_map(|note| note.as_str()) {
        daemon::tell!("overdrive: {volume}: {note}");
    }
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
