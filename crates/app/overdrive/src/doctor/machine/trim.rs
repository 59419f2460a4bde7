//! Checks of an SSD's free blocks: TRIM, and how full it is.

use super::disk::{Disk, Mounted};
use super::{Finding, Machine};
use drives::theory;

/// File systems that can discard freed blocks.
const TRIMMING: [&str; 7] = ["ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "bcachefs"];
/// Share of the SSD's file systems in use above which it counts as full.
const FULL: f64 = 0.95;
/// Share in use with which a full drive is compared.
const ROOMY: f64 = 0.80;
/// Flash that consumer drives have beyond their capacity: GiB sold as GB.
const SPARE: f64 = 1.07;

/// Places that start fstrim regularly.
const TIMERS: [&str; 4] = [
    "etc/systemd/system/timers.target.wants/fstrim.timer",
    "usr/lib/systemd/system/timers.target.wants/fstrim.timer",
    "etc/cron.weekly/fstrim",
    "etc/cron.daily/fstrim",
];

/// Judges whether an SSD is informed about freed blocks.
pub(super) fn trim(machine: &Machine, disk: &Disk) -> Option<Finding> {
    if disk.is_rotational || disk.is_virtual {
        return None;
    }
    let writable = |mount: &&Mounted| !mount.is_read_only && TRIMMING.contains(&&*mount.kind);
    let mounts: Vec<&Mounted> = disk.mounts.iter().filter(writable).collect();
    if mounts.is_empty() {
        return Some(Finding::ok("no writable file system on it"));
    }
    let effect = "the SSD copies deleted data as if it were in use: a full 850 EVO M.2 of 250 GB \
                  wrote 23.9 MB/s after half an hour of random writes, and 295 after TRIM \
                  (cdrlabs.com, TRIM Performance)";
    if !disk.takes_discards {
        let mend = "connect it without the adapter or controller that refuses TRIM, or leave a \
                    tenth of it unpartitioned";
        return Some(Finding::costs("discards do not reach it", effect, mend).limited());
    }
    if let Some(timer) = TIMERS.iter().find(|timer| machine.has(timer)) {
        let name = timer.rsplit('/').next().unwrap_or_default();
        return Some(Finding::ok(format!("{name} is enabled")));
    }
    if mounts.iter().all(|mount| mount.discards) {
        return Some(Finding::ok("mounted with discard"));
    }
    match disk.discards {
        Some(1..) => Some(Finding::ok("discards have been sent since the machine's start")),
        _ => Some(Finding::costs(
            "TRIM has not run since the machine's start, and nothing starts it",
            effect,
            "as root: systemctl enable --now fstrim.timer",
        )),
    }
}

/// Judges how full an SSD's file systems are.
pub(super) fn full(disk: &Disk) -> Option<Finding> {
    if disk.is_rotational || disk.is_virtual {
        return None;
    }
    let spaces: Vec<_> = disk.mounts.iter().filter_map(|mount| mount.space).collect();
    let total: u64 = spaces.iter().map(|space| space.total_bytes).sum();
    let free: u64 = spaces.iter().map(|space| space.free_bytes).sum();
    if total == 0 {
        return None;
    }
    let used = 1.0 - free as f64 / total as f64;
    // The rest of the drive has no file system, and may be in use.
    let live = |used: f64| {
        let mounted = total.min(disk.size_bytes) as f64;
        (mounted * used + (disk.size_bytes as f64 - mounted)) / disk.size_bytes as f64
    };
    let found = format!("{:.0} % in use", 100.0 * used);
    if used <= FULL {
        return Some(Finding::ok(found));
    }
    let amplification = |used: f64| theory::fifo(SPARE / live(used));
    let effect = format!(
        "random writes reach the flash {:.1} times, at {:.0} % in use {:.1} times (FIFO cleaning, 7 \
         % spare flash, uniform writes: closed form of crates/drives/drives/src/theory.rs)",
        amplification(used),
        100.0 * ROOMY,
        amplification(ROOMY)
    );
    let fullest = disk.mounts.iter().filter_map(|mount| Some((mount, mount.space?)));
    let share = |space: super::Space| space.free_bytes * 1000 / space.total_bytes.max(1);
    let point = fullest.min_by_key(|(_, space)| share(*space)).map(|(mount, _)| &mount.point);
    let point = point.map_or(String::new(), |point| point.display().to_string());
    let mend =
        format!("free a fifth of it: du -xh --max-depth=2 {point} | sort -h, then fstrim {point}");
    Some(Finding::costs(found, effect, mend))
}
