//! Checks of a disk's queue: scheduler, write cache, read-ahead.

use super::Finding;
use super::disk::Disk;
use block::Size;

/// Read-ahead below which a stream of buffered reads becomes small requests, in KiB.
const READ_AHEAD_KIB_MIN: u64 = 64;
/// Read-ahead above which page faults of mapped files read too much, in KiB.
const READ_AHEAD_KIB_MAX: u64 = 4096;
/// The kernel's default.
const READ_AHEAD_KIB: u64 = 128;

fn set(disk: &Disk, file: &str, value: &str) -> String {
    format!("as root: echo {value} > /sys/block/{}/queue/{file}", disk.name)
}

/// Judges the scheduler. Hard disks gain by sorted requests; for SSDs they are work without use.
pub(super) fn scheduler(disk: &Disk) -> Finding {
    let Some(scheduler) = disk.scheduler.as_deref() else {
        return Finding::ok("no scheduler to choose");
    };
    let found = format!("scheduler {scheduler}");
    match scheduler {
        "bfq" if !disk.is_rotational && !disk.is_virtual => Finding::costs(
            found,
            "each request takes 1.9 us of one lock, where mq-deadline takes 0.7 (on an i7-2760QM), so \
             that an SSD is limited to 80,000 to 400,000 requests per second, by processor (the \
             kernel's Documentation/block/bfq-iosched.rst)",
            set(disk, "scheduler", "none"),
        ),
        "none" if disk.is_rotational && !disk.is_virtual => Finding::costs(
            format!("{found} on a hard disk"),
            "waiting requests are not sorted by address, and reads do not overtake writeback; \
             Oracle recommends mq-deadline for hard disks (Database 23 installation guide, \
             Verifying the Disk I/O Scheduler)",
            set(disk, "scheduler", "mq-deadline"),
        ),
        _ => Finding::ok(found),
    }
}

/// Judges the drive's volatile write cache, and whether the kernel flushes it.
pub(super) fn write_cache(disk: &Disk) -> Finding {
    let kernel = disk.write_cache.as_deref().unwrap_or("unknown");
    let Some((file, drive)) = &disk.drive_cache else {
        return Finding::ok(format!("{kernel}, as the drive reports it"));
    };
    let (is_on, is_flushed) = (drive.starts_with("write back"), kernel == "write back");
    if is_on && !is_flushed {
        return Finding::costs(
            "the drive's write cache is on, but the kernel sends no flushes",
            "flushed data is lost in a power cut: for a device without a volatile cache, the kernel \
             completes flushes without sending them (its \
             Documentation/block/writeback_cache_control.rst)",
            set(disk, "write_cache", "\"write back\""),
        );
    }
    if is_on {
        return Finding::ok("on, and flushed");
    }
    let effect = match disk.is_rotational {
        true => {
            "each small write waits for the platter: at 7,200 rpm at most 120 sequential writes \
             per second one after the other (computed: 8.3 ms per revolution)"
        }
        false => {
            "each write waits for its flash program, 0.2 to 5 ms by kind of flash, instead of the \
             drive's memory (program times of the drive models: overdrive drive models NAME)"
        }
    };
    let mend = format!("as root: echo \"write back\" > {file}");
    Finding::costs("the drive's write cache is off", effect, mend)
}

/// Judges the read-ahead.
pub(super) fn read_ahead(disk: &Disk) -> Finding {
    let Some(kib) = disk.read_ahead_kib else { return Finding::ok("not reported") };
    let mend = || set(disk, "read_ahead_kb", &READ_AHEAD_KIB.to_string());
    let found = format!("read-ahead {}", Size(kib << 10));
    if kib < READ_AHEAD_KIB_MIN {
        let times = READ_AHEAD_KIB / kib.max(4);
        let effect = format!(
            "a program that reads a file in pieces of 4 KiB causes {times} times as many requests as \
             with the kernel's default of {}: measured, 64 MiB take 16,384 requests with 4 KiB, \
             2,050 with 32 KiB and 517 with 128 KiB (docs/OPERATING.md#what-the-doctor-finds)",
            Size(READ_AHEAD_KIB << 10)
        );
        return Finding::costs(found, effect, mend());
    }
    if kib > READ_AHEAD_KIB_MAX {
        let effect = format!(
            "a page fault of a mapped file reads up to {} around one page: measured, 30 faults \
             with 8 MiB read 208 MiB (docs/OPERATING.md#what-the-doctor-finds)",
            Size(kib << 10)
        );
        return Finding::costs(found, effect, mend());
    }
    Finding::ok(found)
}
