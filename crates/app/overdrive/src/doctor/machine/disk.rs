//! Facts about the machine's disks, from /sys/block and the list of mounts.

use super::{Machine, Space};
use std::path::{Path, PathBuf};

/// A disk: hardware, or a virtual machine's; not a loop, mapped or compressed device.
pub(super) struct Disk {
    pub(super) name: String,
    pub(super) scheduler: Option<String>,
    pub(super) is_rotational: bool,
    /// Whether it is a disk of a virtual machine, of which only the host knows the hardware.
    pub(super) is_virtual: bool,
    /// The kernel's view: `write back` or `write through`.
    pub(super) write_cache: Option<String>,
    /// The file and the text of the drive's own setting, if it is a SCSI or SATA drive.
    pub(super) drive_cache: Option<(String, String)>,
    pub(super) read_ahead_kib: Option<u64>,
    pub(super) size_bytes: u64,
    pub(super) physical_bytes: u64,
    pub(super) takes_discards: bool,
    /// Number of discards since the start of the machine. None: not counted.
    pub(super) discards: Option<u64>,
    pub(super) parts: Vec<Part>,
    /// Names of encrypted devices on it with 512-byte sectors.
    pub(super) small_crypt: Vec<String>,
    pub(super) mounts: Vec<Mounted>,
}

/// A partition.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) start_bytes: u64,
    /// Bytes by which it is off a physical block, as the kernel reports it.
    pub(super) offset_bytes: i64,
}

/// A mounted file system.
pub(super) struct Mounted {
    pub(super) point: PathBuf,
    pub(super) kind: String,
    /// Whether freed blocks are discarded immediately.
    pub(super) discards: bool,
    pub(super) is_read_only: bool,
    pub(super) space: Option<Space>,
}

/// Returns the machine's disks, by name.
pub(super) fn disks(machine: &Machine) -> Vec<Disk> {
    let names = machine.names("sys/block").into_iter();
    let is_disk =
        |name: &String| machine.has(&format!("sys/block/{name}/device")) && !name.starts_with("sr");
    let all = names.filter(is_disk).map(|name| disk(machine, name));
    all.filter(|disk| disk.size_bytes > 0).collect()
}

fn disk(machine: &Machine, name: String) -> Disk {
    let own = format!("sys/block/{name}");
    let queue = |file: &str| machine.text(format!("{own}/queue/{file}"));
    let number = |file: &str| queue(file).and_then(|text| text.parse::<u64>().ok());
    let above = devices_on(machine, &name);
    let stat = machine.text(format!("{own}/stat")).unwrap_or_default();
    Disk {
        scheduler: queue("scheduler").map(|text| super::chosen(&text).to_owned()),
        is_rotational: number("rotational") == Some(1),
        is_virtual: ["vd", "xvd"].iter().any(|prefix| name.starts_with(prefix)),
        write_cache: queue("write_cache"),
        drive_cache: drive_cache(machine, &own),
        read_ahead_kib: number("read_ahead_kb"),
        size_bytes: machine.text(format!("{own}/size")).map_or(0, sectors),
        physical_bytes: number("physical_block_size").unwrap_or(512).max(512),
        takes_discards: number("discard_max_bytes").unwrap_or(0) > 0,
        discards: stat.split_whitespace().nth(11).and_then(|count| count.parse().ok()),
        parts: parts(machine, &name),
        small_crypt: above.iter().filter(|one| has_small_crypt(machine, one)).cloned().collect(),
        mounts: mounts(machine, &above),
        name,
    }
}

/// Parses a number of sectors; returns bytes.
fn sectors(text: impl AsRef<str>) -> u64 {
    text.as_ref().parse::<u64>().map_or(0, |sectors| sectors.saturating_mul(512))
}

/// Returns the file of a SCSI drive's own cache, and its text.
fn drive_cache(machine: &Machine, own: &str) -> Option<(String, String)> {
    let scsi = format!("{own}/device/scsi_disk");
    let file = format!("{scsi}/{}/cache_type", machine.names(&scsi).first()?);
    let text = machine.text(&file)?;
    Some((format!("/{file}"), text))
}

fn parts(machine: &Machine, disk: &str) -> Vec<Part> {
    let own = format!("sys/block/{disk}");
    let names = machine.names(&own).into_iter();
    let part = |name: String| {
        machine.text(format!("{own}/{name}/partition"))?;
        let offset = machine.text(format!("{own}/{name}/alignment_offset"));
        Some(Part {
            start_bytes: sectors(machine.text(format!("{own}/{name}/start"))?),
            offset_bytes: offset.and_then(|text| text.parse().ok()).unwrap_or(0),
            name,
        })
    };
    names.filter_map(part).collect()
}

/// Returns the directories in /sys of a disk, its partitions, and the mapped devices on them.
fn devices_on(machine: &Machine, disk: &str) -> Vec<String> {
    let own = format!("sys/block/{disk}");
    let parts = machine.names(&own).into_iter().map(|name| format!("{own}/{name}"));
    let parts = parts.filter(|part| machine.has(&format!("{part}/partition")));
    let mut found: Vec<String> = std::iter::once(own.clone()).chain(parts).collect();
    let mut next = 0;
    while let Some(one) = found.get(next).cloned() {
        for holder in machine.names(format!("{one}/holders")) {
            let holder = format!("sys/block/{holder}");
            if !found.contains(&holder) {
                found.push(holder);
            }
        }
        next += 1;
    }
    found
}

/// Whether a device is encrypted in sectors of 512 bytes.
fn has_small_crypt(machine: &Machine, device: &str) -> bool {
    let is_crypt =
        machine.text(format!("{device}/dm/uuid")).is_some_and(|it| it.starts_with("CRYPT-"));
    let sector = machine.text(format!("{device}/queue/logical_block_size"));
    is_crypt && sector.as_deref() == Some("512")
}

fn mounts(machine: &Machine, devices: &[String]) -> Vec<Mounted> {
    let number = |device: &String| {
        let text = machine.text(format!("{device}/dev"))?;
        let (major, minor) = text.split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    let numbers: Vec<u64> = devices.iter().filter_map(number).collect();
    let last = |device: &String| Path::new(device).file_name().map(|name| name.to_owned());
    let names: Vec<_> = devices.iter().filter_map(last).collect();
    // Btrfs has device numbers of its own, and names its source.
    let is_on = |mount: &host::Mount| {
        let source = mount.source.starts_with("/dev").then(|| mount.source.file_name()).flatten();
        numbers.contains(&mount.device)
            || source.is_some_and(|source| names.iter().any(|name| name == source))
    };
    let mut found: Vec<Mounted> = Vec::new();
    let mut seen = Vec::new();
    for mount in host::mounts_in(&machine.path("proc/self")).into_iter().filter(is_on) {
        if seen.contains(&mount.device) {
            continue;
        }
        seen.push(mount.device);
        let options = || mount.system_options.split(',').chain(mount.options.split(','));
        found.push(Mounted {
            discards: options().any(|option| option == "discard" || option.starts_with("discard=")),
            is_read_only: options().any(|option| option == "ro"),
            space: (machine.space)(&mount.point),
            kind: mount.kind,
            point: mount.point,
        });
    }
    found
}
