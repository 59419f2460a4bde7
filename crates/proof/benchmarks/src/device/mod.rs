//! A volume as a block device: compared with other servers of a file under a loop device, and the
//! times of its life.

mod attached;
mod life;
mod load;
mod peers;

use crate::mounted::can_mount;
use crate::overdrive::Overdrive;
use crate::program::{ProgramOptions, TemporaryPath, fill};
use crate::sides::Pairs;
use anyhow::{Result, ensure};

pub(crate) use attached::Attached;
pub(crate) use load::{Load, fio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program_options: ProgramOptions,
    /// Which rows: `reads` (4 KiB hits against other servers), `verify` (verified writes), `life`
    /// (attach, kill, detach).
    #[arg(long, value_delimiter = ',', default_value = "reads,verify,life")]
    rows: Vec<String>,
    /// Size of the image that is read, in MiB; all of it is in memory.
    #[arg(long, default_value_t = 256)]
    image_mib: u64,
    /// Dirty data when the device is detached, in MiB.
    #[arg(long, default_value_t = 1024)]
    dirty_mib: u64,
    /// Rounds; each side runs once in a round.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Seconds of a run.
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

/// Minimum rate of reads relative to qemu-storage-daemon's FUSE export, ...
const OF_QEMU_MIN: f64 = 1.2;
/// ... and relative to nbdfuse over nbdkit.
const OF_NBDFUSE_MIN: f64 = 3.0;
/// Queue depth.
const DEPTH: u32 = 32;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    can_mount()?;
    let known = ["reads", "verify", "life"];
    for row in &arguments.rows {
        ensure!(known.contains(&row.as_str()), "--rows {row}: known are {}", known.join(", "));
    }
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let asked = |row: &str| arguments.rows.iter().any(|asked| asked == row);
    if asked("reads") {
        reads(&overdrive, arguments)?;
    }
    if asked("verify") {
        verify(&overdrive, arguments)?;
    }
    if asked("life") {
        life::run(&overdrive, &arguments.program_options, arguments.dirty_mib, arguments.rounds)?;
    }
    Ok(())
}

/// Makes an image with all blocks allocated on the disk.
fn image(arguments: &Arguments, name: &str) -> Result<TemporaryPath> {
    let image = arguments.program_options.file(name);
    fill(image.path(), arguments.image_mib << 20)?;
    Ok(image)
}

/// Compares 4 KiB reads, all of them hits, of three devices that exist at the same time and are
/// read in turns.
fn reads(overdrive: &Overdrive, arguments: &Arguments) -> Result<()> {
    let images = ["device", "device-qemu", "device-nbdfuse"].map(|name| image(arguments, name));
    let [ours, qemu, nbdkit] = images;
    let (ours, qemu, nbdkit) = (ours?, qemu?, nbdkit?);
    let memory = format!("{}M", arguments.image_mib * 2);
    // Hits are measured: without `--guard off`, a first pass over a fast file would not be cached.
    let ours = Attached::new(overdrive, ours.path(), &["--memory", &memory, "--guard", "off"])?;
    let qemu = peers::qemu(qemu.path())?;
    let nbdfuse = peers::nbdfuse(nbdkit.path())?;
    let devices = [ours.node(), qemu.node(), nbdfuse.node()];
    for device in &devices {
        fio(device, &Load::pass("read", DEPTH))?;
    }
    for depth in [DEPTH, 1] {
        let load = Load::timed("randread", depth, arguments.seconds);
        let mut found: [Vec<f64>; 3] = Default::default();
        for round in 0..arguments.rounds {
            let order = if round % 2 == 0 { [0, 1, 2] } else { [2, 1, 0] };
            for side in order {
                found[side].push(fio(&devices[side], &load)?);
            }
        }
        tell_reads(depth, &found);
    }
    Ok(())
}

fn tell_reads(depth: u32, found: &[Vec<f64>; 3]) {
    let peers = [("qemu-storage-daemon", OF_QEMU_MIN), ("nbdfuse over nbdkit", OF_NBDFUSE_MIN)];
    for ((name, least), rates) in peers.into_iter().zip(&found[1..]) {
        // The time per request, since pairs hold times.
        let both: Vec<(f64, f64)> =
            found[0].iter().zip(rates).map(|(ours, other)| (1e9 / ours, 1e9 / other)).collect();
        let pairs = Pairs::of(&both, |time| *time);
        let goal = match depth {
            DEPTH => format!("  target {least}: {}", pairs.level(least)),
            _ => String::new(),
        };
        println!(
            "4 KiB hits at depth {depth}: {:.1} K/s, {name} {:.1} K/s: {} x{goal}",
            1e6 / pairs.a(),
            1e6 / pairs.b(),
            pairs.speed_words(),
        );
    }
}

/// Runs writes at depth 32 that are read again and compared.
fn verify(overdrive: &Overdrive, arguments: &Arguments) -> Result<()> {
    let image = image(arguments, "device-verified")?;
    let device = Attached::new(overdrive, image.path(), &["--memory", "128M"])?;
    let rate = fio(&device.node(), &Load::verified(DEPTH, arguments.seconds))?;
    println!("verified 4 KiB writes at depth {DEPTH}: {:.1} K/s, no error", rate / 1e3);
    device.detach()
}
