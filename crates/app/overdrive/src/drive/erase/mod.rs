//! `overdrive drive erase`: erases a whole drive that is not in use.

mod certificate;
mod method;
mod plan;
mod probes;
mod risks;

use super::target::Target;
use crate::progress::Stages;
use block::Size;
use certificate::Certificate;
use clap::ValueEnum;
use method::Method;
use plan::Plan;
use probes::Probes;
use serde_json::json;
use stack::{Exit, Failure};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Erase a whole drive. All its data is lost.
///
/// A drive is refused if it is mounted, open, swap, below another device, the backing of a volume,
/// or a member of an array, a volume group or a pool. The user has to type its serial number.
/// Blocks of the drive are read before and after; the certificate lists them. Examples:
///   overdrive drive erase nvme0n1 --dry-run
///   overdrive drive erase nvme0n1 --certificate erased.json
///   overdrive drive erase /dev/loop7 --method discard --confirm loop7
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// The drive: its name in /dev or its path.
    device: PathBuf,
    /// How to erase it; by default the best method that the drive has.
    #[arg(long, value_enum, value_name = "METHOD")]
    method: Option<Choice>,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// The serial number of the drive, or the name of a device without one, instead of typing it.
    #[arg(long, value_name = "SERIAL")]
    confirm: Option<String>,
    /// Write the certificate to this new file, as JSON.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print the certificate, or the plan, as one JSON object.
    #[arg(long, short = 'J')]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Choice {
    /// NVMe, SCSI: the drive erases all its blocks itself, spare blocks too, and continues after a
    /// power cut: by block erase, else by overwriting, else by key.
    Sanitize,
    /// Sanitize by erasing the blocks of its flash.
    SanitizeBlock,
    /// Sanitize by overwriting all blocks with zeros, which may take a day.
    SanitizeOverwrite,
    /// Sanitize by erasing the key of its encryption.
    SanitizeKey,
    /// NVMe, SCSI: a format that erases the data.
    Format,
    /// Discard all blocks (TRIM, UNMAP). The drive may keep the data in its flash.
    Discard,
    /// Write zeros to all blocks. Spare blocks of the flash keep old data.
    Zero,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let target = Target::claim(&options.device)?;
    let plan = Plan::of(&target, options.method)?;
    if options.dry_run || plan.method == Method::AtaLines {
        print_plan(&target, &plan, options.json);
        // An ATA drive is not erased by this command.
        let is_done = options.dry_run;
        return Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::from(Exit::Negative as u8) });
    }
    for warning in &plan.warnings {
        daemon::tell!("overdrive: {warning}");
    }
    for contents in target.claim.contents() {
        daemon::tell!("overdrive: {}: has {contents}", target.node.display());
    }
    // Opened before anything is erased: the certificate must have a place.
    let file = options.certificate.as_deref().map(new_file).transpose()?;
    let consequence = format!("all its data will be lost ({})", plan.method.words());
    let confirmed = target.confirm(options.confirm.as_deref(), &consequence);
    let certificate = confirmed.and_then(|()| erase(&target, &plan)).inspect_err(|_| {
        options.certificate.iter().for_each(|path| drop(std::fs::remove_file(path)));
    })?;
    let object = certificate.as_json();
    if let (Some(mut file), Some(path)) = (file, &options.certificate) {
        let written = writeln!(file, "{object}").and_then(|()| file.sync_all());
        written.map_err(|error| {
            let message = format!(
                "{}: the drive was erased, but its certificate cannot be written ({error}): \
                 {object}",
                path.display()
            );
            Failure::new(Exit::Io, message)
        })?;
    }
    match options.json {
        true => daemon::say!("{object}"),
        false => daemon::say!("{}", certificate.as_text()),
    }
    let is_clean = certificate.is_clean();
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(Exit::Integrity as u8) })
}

fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| {
        let message =
            format!("{}: cannot be created ({error}); nothing was erased", path.display());
        Failure::new(Exit::Usage, message)
    })
}

fn erase(target: &Target, plan: &Plan) -> Result<Certificate, Failure> {
    let mut probes = Probes::new(target.claim.bytes());
    probes.read_before(&target.claim);
    let begun_s = now_s();
    let mut stages = Stages::with_time_left();
    plan.run(target, &mut |share| stages.set("erasing", share)).map_err(|error| {
        let node = target.node.display();
        let message = format!("{node}: erasing it has failed, and some data may be left: {error}");
        Failure::new(Exit::Io, message)
    })?;
    let ended_s = now_s();
    probes.read_after(&target.claim);
    Ok(Certificate::of(target, plan, probes, begun_s, ended_s))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

fn print_plan(target: &Target, plan: &Plan, as_object: bool) {
    let (node, identity) = (target.node.display(), &target.identity);
    if as_object {
        let object = json!({
            "schema": "overdrive.drive.erase-plan/1",
            "device": node.to_string(),
            "model": identity.model,
            "serial": identity.serial,
            "capacity_bytes": target.claim.bytes(),
            "method": plan.method.name(),
            "contents": target.claim.contents(),
            "warnings": plan.warnings,
            "commands": plan.commands(target),
            "confirm": target.word(),
        });
        daemon::say!("{object}");
        return;
    }
    let model = if identity.model.is_empty() { "unknown model" } else { &identity.model };
    daemon::say!(
        "{node}: {model}, {}, serial number {}",
        Size(target.claim.bytes()),
        if identity.serial.is_empty() { "not reported" } else { &identity.serial }
    );
    for contents in target.claim.contents() {
        daemon::say!("  has {contents}, which would be lost");
    }
    for warning in &plan.warnings {
        daemon::say!("  warning: {warning}");
    }
    daemon::say!("  would be erased: {}", plan.method.words());
    let commands = plan.commands(target);
    if !commands.is_empty() {
        daemon::say!("  this program does not run these commands; run them as root, one by one:");
        commands.iter().for_each(|command| daemon::say!("    {command}"));
    }
    daemon::say!("  nothing was changed");
}
