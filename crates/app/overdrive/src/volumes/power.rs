//! `overdrive volume power-cut`: a power failure of a modelled drive.

use super::find;
use block::Size;
use daemon::control::words::Ask;
use daemon::units as sizes;
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The volume.
    name: Option<String>,
    /// Selects which of the data being programmed is lost.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long the power stays off; during that time every request to the drive fails.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = sizes::time_ms)]
    off: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    let mut target = find(control, options.name.as_deref())?;
    let volume = target.row.name.clone();
    let off_ns = options.off.saturating_mul(1_000_000);
    let ask = Ask::PowerCut { volume: volume.clone(), seed: options.seed, off_ns };
    let answer = target.daemon.ask(&ask)?;
    if options.json {
        let mut said =
            serde_json::json!({ "schema": "overdrive.volume-power-cut/1", "volume": volume });
        if let (Some(said), Some(answer)) = (said.as_object_mut(), answer.as_object()) {
            said.extend(answer.clone());
        }
        daemon::say!("{said}");
    } else {
        let lost = Size(answer["lost_bytes"].as_u64().unwrap_or(0));
        daemon::say!("{volume} power cut; {lost} of its drive reverted to an older version");
    }
    Ok(ExitCode::SUCCESS)
}
