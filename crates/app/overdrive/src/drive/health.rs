//! `overdrive drive health`: a drive's own report.

use super::report::{Health, INDENT, VERDICTS, as_json, as_text, examine};
use super::{members, modelled};
use crate::terminal;
use daemon::control::lower_drives::{self, LowerDrives};
use host::smartctl;
use stack::{Exit, Failure};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Show a drive's health: a verdict with its reasons, a forecast of its wear, and its figures.
///
/// NVMe drives are queried directly, others with smartctl. Each call records a sample, from which
/// wear is forecast ('drive history' shows them). The status is 1 if a drive is failing, or a
/// member of a pool is lost. Examples:
///   overdrive drive health sda
///   overdrive drive health /dev/nvme0n1 --json
///   overdrive drive health db           the drives below a served volume: a device, a modelled
///                                       drive, or each member of a pool or stripe
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// A device in /dev, its path, or a served volume.
    name: PathBuf,
    /// Print one JSON object.
    #[arg(long, short = 'J')]
    json: bool,
    /// Do not record a sample.
    #[arg(long)]
    no_history: bool,
    /// Longest time to wait for a drive's answer, in seconds. A disk at rest takes up to 20.
    #[arg(long, value_name = "SECONDS", default_value_t = smartctl::TIME_MAX.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

impl Options {
    fn examine(&self, device: &Path) -> Result<Health, Failure> {
        examine(device, !self.no_history, Duration::from_secs(self.timeout))
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let device = match find_drives(&options.name)? {
        LowerDrives::Device(path) => path,
        LowerDrives::Model(served) => return modelled::run(served, options.json),
        LowerDrives::Members(served, paths) => {
            return members::run(served, paths, options.json, &|path| options.examine(path));
        }
    };
    let health = options.examine(&device)?;
    let place = device.display().to_string();
    if options.json {
        daemon::say!("{}", as_json(&place, &health));
    } else {
        terminal::print_text(&as_text(&place, &health), INDENT, &VERDICTS);
    }
    if let Some(late) = health.late {
        return Err(late);
    }
    Ok(if health.fails() { ExitCode::from(Exit::Negative as u8) } else { ExitCode::SUCCESS })
}

/// Returns the drives that a name stands for.
fn find_drives(name: &Path) -> Result<LowerDrives, Failure> {
    let text = name.display();
    let is_path = text.to_string().contains('/');
    let path = if is_path { name.to_owned() } else { Path::new("/dev").join(name) };
    match std::fs::metadata(&path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_block_device() || kind.is_char_device() => {
            Ok(LowerDrives::Device(path))
        }
        Ok(_) if is_path => {
            let message =
                format!("{text}: is not a device; name one that 'overdrive drive list' shows");
            Err(Failure::new(Exit::Usage, message))
        }
        // /dev has directories, too, and a volume may have the name of one of them.
        _ => lower_drives::find(name),
    }
}
