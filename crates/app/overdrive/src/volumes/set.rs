//! `overdrive volume set`: settings that change while the volume is served.

use super::find;
use super::save::Edit;
use crate::settings::settable;
use daemon::control::words::Ask;
use stack::Failure;
use std::path::PathBuf;
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
    /// Also write the settings into this config file; by default into the one in /etc/overdrive
    /// that names the volume.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = daemon::config::DIRECTORY)]
    save: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let (name, changes) = match options.words.split_first() {
        Some((first, rest)) if !first.contains('=') => (Some(first.as_str()), rest),
        _ => (None, options.words.as_slice()),
    };
    let mut target = find(control, name)?;
    let volume = target.row.name;
    // Prepared and checked before anything is changed.
    let saving = options.save.as_deref().map(|path| Edit::prepare(path, &volume, changes));
    let saving = saving.transpose()?;
    let ask = Ask::Set { volume: volume.clone(), changes: changes.to_vec() };
    let notes = target.daemon.ask(&ask)?;
    for note in notes.as_array().into_iter().flatten().filter_map(|note| note.as_str()) {
        daemon::tell!("overdrive: {volume}: {note}");
    }
    let saved = saving.map(Edit::commit).transpose()?;
    let until = match &saved {
        Some(path) => format!("and saved in {}", path.display()),
        None => "until its daemon ends".to_owned(),
    };
    if options.json {
        let said = serde_json::json!({
            "schema": "overdrive.volume-done/1", "volume": volume, "done": "set",
            "changes": changes, "notes": notes,
            "until": saved.is_none().then_some("the daemon ends"), "saved": saved,
        });
        daemon::say!("{said}");
    } else {
        daemon::say!("{volume} set, {until}: {}", changes.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}
