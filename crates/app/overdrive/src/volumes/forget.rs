//! `overdrive volume forget`: removes a volume's list of hot blocks.

use super::{Name, find, waiting};
use daemon::control::words::Ask;
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

pub(super) fn run(control: Option<&PathBuf>, name: &Name) -> Result<ExitCode, Failure> {
    let mut target = find(control, name.name.as_deref())?;
    let volume = target.row.name.clone();
    let existed = waiting::ask(&mut target, &Ask::Forget { volume: volume.clone() })?;
    let existed = existed.as_bool().unwrap_or(false);
    if name.json {
        daemon::say!(
            "{}",
            serde_json::json!({
                "schema": "overdrive.volume-done/1", "volume": volume, "done": "forgotten",
                "existed": existed,
            })
        );
    } else if existed {
        daemon::say!("{volume}: its list of hot blocks was removed");
    } else {
        daemon::say!("{volume}: has no list of hot blocks");
    }
    Ok(ExitCode::SUCCESS)
}
