//! `overdrive drive list`: the machine's block devices.

use crate::columns::{self, Cell, Column, Selected, Style};
use clap::ValueEnum;
use daemon::control::lower_drives;
use host::disks::{Device, Roots, devices};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::process::ExitCode;

#[derive(clap::Args)]
pub(super) struct Options {
    /// Also list devices without a size: empty loop devices and card readers.
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    style: Style,
    #[command(flatten)]
    output: Selected<Device, Heading>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Heading {
    /// The device in /dev.
    Name,
    Size,
    Model,
    /// 1 for a hard disk.
    Rota,
    /// Logical block, in bytes.
    LogSec,
    /// Physical block, in bytes.
    PhySec,
    /// Maximum size of a discard; 0: none.
    Discard,
    /// 1 if it cannot be written.
    Ro,
    /// Mount points, swap, devices above, volumes of Overdrive.
    Use,
}

impl Column<Device> for Heading {
    const DEFAULT: &str = "name,size,model,rota,log-sec,phy-sec,discard,use";
    const LEFT_OUT: &[Heading] = &[
        Heading::PhySec,
        Heading::LogSec,
        Heading::Rota,
        Heading::Discard,
        Heading::Model,
        Heading::Size,
    ];

    fn cell(self, device: &Device) -> Cell {
        match self {
            Heading::Name => Cell::Text(device.name.clone()),
            Heading::Size => Cell::Size(device.size_bytes),
            Heading::Model => Cell::Text(device.model.clone()),
            Heading::Rota => Cell::Flag(device.rotational),
            Heading::LogSec => Cell::Number(Some(device.logical_bytes as f64)),
            Heading::PhySec => Cell::Number(Some(device.physical_bytes as f64)),
            Heading::Discard => Cell::Size(device.discard_bytes),
            Heading::Ro => Cell::Flag(device.read_only),
            Heading::Use => Cell::Text(device.uses.join(",")),
        }
    }

    fn width_min(self) -> Option<usize> {
        matches!(self, Heading::Model | Heading::Use).then_some(8)
    }
}

fn as_json(device: &Device) -> Value {
    json!({
        "name": device.name,
        "path": format!("/dev/{}", device.name),
        "size_bytes": device.size_bytes,
        "model": device.model,
        "rotational": device.rotational,
        "logical_block_bytes": device.logical_bytes,
        "physical_block_bytes": device.physical_bytes,
        "discard_bytes": device.discard_bytes,
        "read_only": device.read_only,
        "uses": device.uses,
    })
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut found = devices(&Roots::default()).map_err(|error| {
        let message = format!("/sys/block: cannot be read ({error}); mount sysfs on /sys");
        Failure::new(Exit::Io, message)
    })?;
    found.retain(|device| options.all || device.size_bytes > 0);
    for (name, volume) in lower_drives::devices() {
        if let Some(device) = found.iter_mut().find(|device| device.name == name) {
            device.uses.push(format!("overdrive:{volume}"));
        }
    }
    if options.style.json {
        let drives: Vec<Value> = found.iter().map(as_json).collect();
        daemon::say!("{}", json!({ "schema": "overdrive.drive.list/1", "drives": drives }));
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        daemon::tell!("overdrive: there are no visible block devices here, as in most containers");
    }
    columns::print(&found, &options.output.columns, &options.style)?;
    Ok(ExitCode::SUCCESS)
}
