//! `overdrive drive overprovision`: space of a drive that is left unused, for its flash.

mod effect;
mod table;

use super::target::{Target, path_of};
use crate::drive::overprovision::effect::{Effect, effect, model_of};
use block::Size;
use drives::Model;
use host::discard;
use host::disks::{DriveIdentity, Roots, devices, drive_identity};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use table::{ALIGNMENT, Partition, SPARE, Table};

/// Show the space of a drive that no partition uses, or leave more of it unused.
///
/// A drive moves less data by itself if a part of it is never written. The effect is predicted by
/// the model of the drive. '--set' makes an unused partition behind the others, and discards it;
/// the drive must not be in use. Examples:
///   overdrive drive overprovision nvme0n1
///   overdrive drive overprovision nvme0n1 --model samsung-840-evo-250
///   overdrive drive overprovision nvme0n1 --set 10 --dry-run
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// The drive: its name in /dev or its path.
    device: PathBuf,
    /// Leave this share of the drive unused, in percent: 1 to 50.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=50))]
    set: Option<u8>,
    /// The model that predicts the effect; by default the one with the drive's name.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// With --set: print what would be done, and change nothing.
    #[arg(long, requires = "set")]
    dry_run: bool,
    /// With --set: the serial number of the drive, or the name of a device without one, instead of
    /// typing it.
    #[arg(long, value_name = "SERIAL", requires = "set")]
    confirm: Option<String>,
    /// Print one JSON object.
    #[arg(long, short = 'J')]
    json: bool,
}

/// Message if no effect is predicted.
const NO_EFFECT: &str = "effect: not predicted (a hard disk, or a model without a closed form); \
                         --model NAME predicts by another model";

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match options.set {
        None => show(options),
        Some(percent) => set(options, percent),
    }
}

fn show(options: &Options) -> Result<ExitCode, Failure> {
    let path = path_of(&options.device);
    let node = path.canonicalize().unwrap_or(path);
    let name = node.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let found = devices(&Roots::default()).unwrap_or_default();
    let Some(device) = found.into_iter().find(|device| device.name == name) else {
        let message =
            format!("{}: is no whole device; see 'overdrive drive list'", options.device.display());
        return Err(Failure::new(Exit::Negative, message));
    };
    let identity = drive_identity(&Roots::default(), &name);
    let table = table::read(&node, device.size_bytes)?;
    let model = model_of(options.model.as_deref(), &identity.model)?;
    let effect = match is_disk(device.rotational, model.as_ref()) {
        true => None,
        false => effect(model.as_ref(), &[0.07, 0.1, 0.25]),
    };
    print(options, &node, device.size_bytes, &identity, table.as_ref(), effect.as_ref(), None);
    Ok(ExitCode::SUCCESS)
}

/// Whether a drive without a model counts as a hard disk, which does not move data by itself.
fn is_disk(rotational: bool, model: Option<&Model>) -> bool {
    rotational && model.is_none()
}

/// The change of '--set'.
struct Step {
    bytes: u64,
    /// Lines for sfdisk.
    lines: String,
    appends: bool,
    is_done: bool,
}

fn set(options: &Options, percent: u8) -> Result<ExitCode, Failure> {
    let target = Target::claim(&options.device)?;
    let (node, bytes) = (target.node.clone(), target.claim.bytes());
    let table = table::read(&node, bytes)?;
    let mut step = plan(&target, table.as_ref(), percent)?;
    let model = model_of(options.model.as_deref(), &target.identity.model)?;
    let found = devices(&Roots::default()).unwrap_or_default();
    let name = node.file_name().unwrap_or_default().to_string_lossy();
    let rotational = found.iter().any(|device| device.name == name && device.rotational);
    let effect = match is_disk(rotational, model.as_ref()) {
        true => None,
        false => effect(model.as_ref(), &[f64::from(percent) / 100.0]),
    };
    let identity = target.identity.clone();
    if !options.dry_run {
        // The effect is shown before anything is changed.
        if !options.json {
            let lines = effect.as_ref().map_or(vec![NO_EFFECT.to_owned()], Effect::as_text);
            lines.iter().for_each(|line| daemon::tell!("overdrive: {line}"));
        }
        let consequence = format!("{} of it will be left unused", Size(step.bytes));
        target.confirm(options.confirm.as_deref(), &consequence)?;
        make(&target, table.as_ref(), &step)?;
        step.is_done = true;
    }
    let table = table::read(&node, bytes)?;
    print(options, &node, bytes, &identity, table.as_ref(), effect.as_ref(), Some(&step));
    Ok(ExitCode::SUCCESS)
}

/// Plans the unused partition.
fn plan(target: &Target, table: Option<&Table>, percent: u8) -> Result<Step, Failure> {
    let (node, all) = (target.node.display(), target.claim.bytes());
    let bytes = (all / 100 * u64::from(percent)).next_multiple_of(ALIGNMENT);
    let refused = |exit, message| Err(Failure::new(exit, message));
    let Some(table) = table else {
        if let Some(contents) = target.claim.contents().first() {
            let message = format!(
                "{node}: has {contents} and no partitions; a part of it can only be left unused \
                 when it is new: see 'overdrive drive erase'"
            );
            return refused(Exit::Usage, message);
        }
        let data_mib = (all.saturating_sub(bytes) / ALIGNMENT).saturating_sub(2);
        let lines = format!("label: gpt\nsize={data_mib}MiB, name=\"data\"\nname=\"{SPARE}\"\n");
        return Ok(Step { bytes, lines, appends: false, is_done: false });
    };
    if table.label != "gpt" {
        let message = format!(
            "{node}: has a partition table of the kind '{}'; only GPT is changed",
            table.label
        );
        return refused(Exit::Usage, message);
    }
    if let Some(spare) = table.spare().next() {
        let message = format!(
            "{node}: has an unused partition of {} already ({SPARE}); remove it first, with: sfdisk \
             --delete {node} {}",
            Size(spare.bytes),
            spare.number
        );
        return refused(Exit::Usage, message);
    }
    let free = table.free_bytes();
    if free < bytes {
        let message = format!(
            "{node}: {} are free behind its last partition, and {percent} % are {}; shrink the \
             last partition first",
            Size(free),
            Size(bytes)
        );
        return refused(Exit::Usage, message);
    }
    let lines = format!("size={}MiB, name=\"{SPARE}\"\n", bytes / ALIGNMENT);
    Ok(Step { bytes, lines, appends: true, is_done: false })
}

/// Makes the unused partition and discards it, so that the drive knows that it is. The drive stays
/// claimed until the end, so nothing else can begin to use it. `before`: the table that the step
/// was planned for.
///
/// # Errors
/// The table is not the one before, or sfdisk has made another one than planned; nothing is
/// discarded then.
fn make(target: &Target, before: Option<&Table>, step: &Step) -> Result<(), Failure> {
    let (node, bytes) = (&target.node, target.claim.bytes());
    target.claim.lock_out_udev()?;
    // A program without a claim may have written a table while the user was asked.
    if table::read(node, bytes)?.as_ref() != before {
        let message = format!(
            "{}: another program has changed its partitions; nothing was changed, try it again",
            node.display()
        );
        return Err(Failure::new(Exit::Busy, message));
    }
    table::write(node, &step.lines, step.appends)?;
    if let Err(error) = target.claim.scan_partitions() {
        daemon::tell!(
            "overdrive: {}: the kernel still has its former partitions ({error}); it has the new \
             ones after 'blockdev --rereadpt {0}' or a restart",
            node.display()
        );
    }
    let after = table::read(node, bytes)?;
    let Some(spare) = after.as_ref().and_then(|after| after.spare_added_to(before)) else {
        let message = format!(
            "{}: has other partitions than planned after sfdisk; nothing was discarded: compare \
             them with 'sfdisk --list {0}'",
            node.display()
        );
        return Err(Failure::new(Exit::Integrity, message));
    };
    discard_spare(target, spare)
}

fn discard_spare(target: &Target, spare: &Partition) -> Result<(), Failure> {
    let node = target.node.display();
    if target.identity.discard_bytes == 0 {
        daemon::tell!(
            "overdrive: {node}: does not support discards; the space counts as unused after an \
             erasure"
        );
        return Ok(());
    }
    discard(target.claim.file(), spare.first_byte, spare.bytes)
        .map_err(|error| Failure::new(Exit::Io, format!("{node}: cannot be discarded ({error})")))
}

fn print(
    options: &Options,
    node: &Path,
    bytes: u64,
    identity: &DriveIdentity,
    table: Option<&Table>,
    effect: Option<&Effect>,
    step: Option<&Step>,
) {
    let spare: u64 = table.iter().flat_map(|table| table.spare()).map(|it| it.bytes).sum();
    let free = table.map_or(0, Table::free_bytes);
    let share = (spare + free) as f64 / bytes.max(1) as f64;
    if options.json {
        let object = json!({
            "schema": "overdrive.drive.overprovision/1",
            "device": node.display().to_string(),
            "model": identity.model,
            "capacity_bytes": bytes,
            "partition_table": table.map(|table| table.label.clone()),
            "partitions": table.map_or(0, |table| table.partitions.len()),
            "spare_bytes": spare,
            "free_bytes": free,
            "unused_share": share,
            "effect": effect.map_or(Value::Null, Effect::as_json),
            "done": step.map(|step| step.is_done),
        });
        daemon::say!("{object}");
        return;
    }
    let table_words = match table {
        Some(table) => format!("{} partitions ({})", table.partitions.len(), table.label),
        None => "no partitions".to_owned(),
    };
    let model = if identity.model.is_empty() { "unknown model" } else { &identity.model };
    daemon::say!("{}: {model}, {}, {table_words}", node.display(), Size(bytes));
    match table {
        Some(_) => daemon::say!(
            "unused: {} by a partition of this program, {} behind the last partition: {:.1} %",
            Size(spare),
            Size(free),
            share * 100.0
        ),
        None => daemon::say!("unused: nothing is kept free; the whole drive may be written"),
    }
    // It was shown before the change.
    if step.is_none_or(|step| !step.is_done) {
        let lines = effect.map_or(vec![NO_EFFECT.to_owned()], Effect::as_text);
        lines.iter().for_each(|line| daemon::say!("{line}"));
    }
    if let Some(step) = step.filter(|step| !step.is_done) {
        daemon::say!("would be left unused: {}, by sfdisk with these lines:", Size(step.bytes));
        step.lines.lines().for_each(|line| daemon::say!("  {line}"));
        daemon::say!("nothing was changed");
    }
}
