//! Each finding on machines made of files, for both answers.

use super::{Machine, Space, checks_of};
use crate::doctor::{Check, State};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

/// A machine with one SSD `sda` of 256 GiB in good order, with a file system on its partition.
struct Fake(TempDir);

impl Fake {
    fn new() -> Fake {
        let fake = Fake(tempfile::tempdir().expect("a directory"));
        let queue = [
            ("scheduler", "[none] mq-deadline bfq"),
            ("rotational", "0"),
            ("write_cache", "write back"),
            ("read_ahead_kb", "128"),
            ("physical_block_size", "4096"),
            ("discard_max_bytes", "2147450880"),
        ];
        for (file, text) in queue {
            fake.put(&format!("sys/block/sda/queue/{file}"), text);
        }
        fake.put("sys/block/sda/device/scsi_disk/0:0:0:0/cache_type", "write back");
        fake.put("sys/block/sda/size", &(256 * GIB / 512).to_string());
        fake.put("sys/block/sda/dev", "8:0");
        fake.put("sys/block/sda/stat", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
        fake.put("sys/block/sda/sda1/partition", "1");
        fake.put("sys/block/sda/sda1/start", "2048");
        fake.put("sys/block/sda/sda1/alignment_offset", "0");
        fake.put("sys/block/sda/sda1/dev", "8:1");
        fake.mount("8:1", "/dev/sda1", "rw");
        // A loop device and a drive without a medium are no disks.
        fake.put("sys/block/loop0/queue/read_ahead_kb", "0");
        fake.put("sys/block/sdb/device/type", "0");
        fake.put("sys/block/sdb/size", "0");
        fake.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "schedutil");
        fake.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "acpi-cpufreq");
        fake.put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_min_freq", "800000");
        fake.put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3600000");
        fake.put("sys/devices/system/cpu/cpufreq/boost", "1");
        fake.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
        fake.put("sys/kernel/mm/transparent_hugepage/defrag", "always [madvise] never");
        fake
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a file")).expect("created");
        fs::write(path, text).expect("written");
    }

    /// Mounts a file system, and the control groups of the second generation.
    fn mount(&self, number: &str, source: &str, options: &str) {
        self.put(
            "proc/self/mountinfo",
            &format!(
                "22 1 {number} / /data rw - ext4 {source} {options}\n\
                 40 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
            ),
        );
        self.put("proc/self/cgroup", "0::/a\n");
    }

    fn checks(&self) -> Vec<Check> {
        self.checks_with(|_| {
            Some(Space { total_bytes: 200 * GIB, free_bytes: 60 * GIB, block_bytes: 4096 })
        })
    }

    fn checks_with(&self, space: fn(&Path) -> Option<Space>) -> Vec<Check> {
        checks_of(&Machine { root: self.0.path().to_owned(), space })
    }

    /// Asserts that one check needs mending, and returns its finding, effect and mend.
    #[track_caller]
    fn costs(&self, name: &str) -> [String; 3] {
        one_cost(self.checks(), name)
    }

    #[track_caller]
    fn all_is_well(&self) {
        let worse: Vec<_> = self.checks().into_iter().filter(|it| it.state != State::Ok).collect();
        assert_eq!(worse, [], "nothing needs mending");
    }
}

/// Words that name the source of an effect.
const SOURCES: [&str; 10] = [
    "measured",
    "counted",
    "computed",
    "Documentation/",
    "installation guide",
    "closed form",
    "drive models",
    "cdrlabs.com",
    "cryptsetup 2.4.0",
    "docs/design/measurements.md",
];

#[track_caller]
fn one_cost(checks: Vec<Check>, name: &str) -> [String; 3] {
    let mut costly = checks.into_iter().filter(|check| check.state == State::Costly);
    let check = costly.next().expect("something costs");
    assert_eq!((check.name, costly.next()), (name, None));
    let effect = check.effect.as_deref().expect("an effect");
    assert!(SOURCES.iter().any(|source| effect.contains(source)), "no source: {effect}");
    [check.found, check.effect.expect("an effect"), check.mend.expect("a mend")]
}

#[test]
fn a_machine_in_order_has_nothing_to_mend_and_names_every_check() {
    let fake = Fake::new();
    fake.all_is_well();
    let names: Vec<_> = fake.checks().iter().map(|check| check.name).collect();
    assert_eq!(
        names,
        [
            "I/O scheduler",
            "write cache",
            "read-ahead",
            "alignment",
            "sector size",
            "TRIM",
            "full SSD",
            "CPU governor",
            "cgroup limits",
            "transparent pages",
        ]
    );
}

#[test]
fn a_machine_without_disks_has_checks_of_the_rest_only() {
    let empty = Fake(tempfile::tempdir().expect("a directory"));
    let checks = empty.checks();
    assert_eq!(checks.len(), 3);
    assert!(checks.iter().all(|check| check.state != State::Costly), "{checks:?}");
}

#[test]
fn schedulers_are_judged_by_the_kind_of_disk() {
    let fake = Fake::new();
    fake.put("sys/block/sda/queue/scheduler", "none mq-deadline [bfq]");
    let [found, effect, mend] = fake.costs("I/O scheduler");
    assert_eq!(found, "sda: scheduler bfq");
    assert!(effect.contains("1.9 us") && effect.contains("bfq-iosched.rst"), "{effect}");
    assert_eq!(mend, "as root: echo none > /sys/block/sda/queue/scheduler");
    fake.put("sys/block/sda/queue/rotational", "1");
    fake.all_is_well();
    fake.put("sys/block/sda/queue/scheduler", "[none] mq-deadline bfq");
    assert!(fake.costs("I/O scheduler")[2].contains("echo mq-deadline"));
    fake.put("sys/block/sda/queue/scheduler", "none [mq-deadline] bfq");
    fake.all_is_well();
}

#[test]
fn a_write_cache_that_is_off_or_not_flushed_is_found() {
    let fake = Fake::new();
    fake.put("sys/block/sda/device/scsi_disk/0:0:0:0/cache_type", "write through");
    let [found, effect, mend] = fake.costs("write cache");
    assert!(found.ends_with("write cache is off") && effect.contains("flash program"));
    assert!(mend.ends_with("/sys/block/sda/device/scsi_disk/0:0:0:0/cache_type"), "{mend}");
    fake.put("sys/block/sda/queue/rotational", "1");
    fake.put("sys/block/sda/queue/scheduler", "[mq-deadline] none");
    assert!(fake.costs("write cache")[1].contains("120 sequential writes"));
    fake.put("sys/block/sda/device/scsi_disk/0:0:0:0/cache_type", "write back");
    fake.all_is_well();
    fake.put("sys/block/sda/queue/write_cache", "write through");
    let [_, effect, mend] = fake.costs("write cache");
    assert!(effect.starts_with("flushed data is lost") && mend.contains("queue/write_cache"));
}

#[test]
fn read_ahead_is_too_small_or_too_large() {
    let fake = Fake::new();
    for (kib, words) in [("0", "32 times as many"), ("16384", "16 MiB around one page")] {
        fake.put("sys/block/sda/queue/read_ahead_kb", kib);
        let [_, effect, mend] = fake.costs("read-ahead");
        assert!(effect.contains(words) && mend.contains("echo 128 >"), "{effect}");
    }
    fake.put("sys/block/sda/queue/read_ahead_kb", "4096");
    fake.all_is_well();
}

#[test]
fn partitions_inside_of_physical_blocks_are_found() {
    let fake = Fake::new();
    fake.put("sys/block/sda/sda1/start", "63");
    let [found, effect, mend] = fake.costs("alignment");
    assert!(found.starts_with("sda: sda1 begins at byte 32256"), "{found}");
    assert!(effect.contains("two physical blocks") && mend.contains("parted -a optimal"));
    fake.put("sys/block/sda/sda1/start", "2048");
    fake.put("sys/block/sda/sda1/alignment_offset", "-1");
    fake.costs("alignment");
}

#[test]
fn an_ssd_that_is_never_trimmed_is_found() {
    let fake = Fake::new();
    fake.put("sys/block/sda/stat", "1 2 3 4 5 6 7 8 9 10 11 0 0 0 0");
    let [_, effect, mend] = fake.costs("TRIM");
    assert!(effect.contains("23.9 MB/s after") && mend.contains("enable --now fstrim.timer"));
    fake.mount("8:1", "/dev/sda1", "rw,discard=async");
    fake.all_is_well();
    fake.mount("8:1", "/dev/sda1", "ro");
    fake.all_is_well();
    fake.mount("8:1", "/dev/sda1", "rw");
    fake.put("etc/systemd/system/timers.target.wants/fstrim.timer", "");
    fake.all_is_well();
    fake.put("sys/block/sda/queue/discard_max_bytes", "0");
    let checks = fake.checks();
    let limited = checks.iter().find(|check| check.state == State::Limited).expect("limited");
    assert_eq!((limited.name, &*limited.found), ("TRIM", "sda: discards do not reach it"));
}

#[test]
fn a_full_ssd_is_found_through_mapped_devices() {
    let fake = Fake::new();
    let full: fn(&Path) -> Option<Space> = |point| {
        assert_eq!(point, Path::new("/data"));
        Some(Space { total_bytes: 250 * GIB, free_bytes: 5 * GIB, block_bytes: 4096 })
    };
    let [found, effect, mend] = one_cost(fake.checks_with(full), "full SSD");
    assert_eq!(found, "sda: 98 % in use");
    // The closed form at 0.98 and 0.8 of 250 of the 256 GiB, with 7 % spare.
    assert!(
        effect.contains("reach the flash ") && effect.contains("at 80 % in use 2."),
        "{effect}"
    );
    assert!(mend.contains("/data"), "{mend}");
    // The same file system on an encrypted device of the partition.
    fake.put("sys/block/sda/sda1/holders/dm-0", "");
    fake.put("sys/block/dm-0/dev", "253:0");
    fake.mount("253:0", "/dev/mapper/data", "rw");
    one_cost(fake.checks_with(full), "full SSD");
    // No answer of the file system is no finding.
    assert!(fake.checks_with(|_| None).iter().all(|check| check.name != "full SSD"));
}

#[test]
fn small_blocks_on_large_physical_ones_are_found() {
    let fake = Fake::new();
    let small: fn(&Path) -> Option<Space> =
        |_| Some(Space { total_bytes: 200 * GIB, free_bytes: 60 * GIB, block_bytes: 1024 });
    let [found, effect, mend] = one_cost(fake.checks_with(small), "sector size");
    assert!(found.contains("blocks of 1 KiB on physical blocks of 4 KiB"), "{found}");
    assert!(effect.contains("read, change and write 4 KiB") && mend.contains("mkfs.ext4"));
    fake.put("sys/block/sda/sda1/holders/dm-0", "");
    fake.put("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-1-data");
    fake.put("sys/block/dm-0/queue/logical_block_size", "512");
    let [found, _, mend] = fake.costs("sector size");
    assert!(found.contains("dm-0 encrypts") && mend.contains("--sector-size 4096"), "{found}");
    fake.put("sys/block/dm-0/queue/logical_block_size", "4096");
    fake.all_is_well();
}

#[test]
fn a_fixed_low_clock_is_found_and_a_dynamic_one_is_not() {
    let fake = Fake::new();
    let cpu = "sys/devices/system/cpu/cpu0/cpufreq";
    fake.put(&format!("{cpu}/scaling_governor"), "powersave");
    let [found, effect, mend] = fake.costs("CPU governor");
    assert_eq!(found, "powersave on 1 of 1 processors");
    assert!(effect.contains("800 of 3600 MHz") && effect.contains("4.5 times"), "{effect}");
    assert!(mend.contains("cpupower frequency-set"));
    fake.put(&format!("{cpu}/scaling_driver"), "intel_pstate");
    fake.all_is_well();
    fake.put(&format!("{cpu}/energy_performance_preference"), "power");
    assert!(fake.checks().iter().any(|check| check.state == State::Limited));
}

#[test]
fn limits_of_control_groups_count_when_they_were_reached() {
    let fake = Fake::new();
    let group = "sys/fs/cgroup/a";
    fake.put(&format!("{group}/memory.high"), "1073741824");
    fake.put(&format!("{group}/memory.max"), "max");
    fake.put(&format!("{group}/memory.events"), "low 0\nhigh 0\nmax 0\n");
    fake.put(&format!("{group}/cpu.stat"), "usage_usec 5\nnr_periods 100\nnr_throttled 0\n");
    fake.all_is_well();
    fake.put(&format!("{group}/memory.events"), "low 0\nhigh 7\nmax 0\n");
    let [found, effect, mend] = fake.costs("cgroup limits");
    assert!(found.contains("limited to 1 GiB, reached 7 times"), "{found}");
    assert!(effect.contains("counted") && mend.contains("echo 2147483648 >"), "{mend}");
    fake.put(&format!("{group}/memory.events"), "high 0\nmax 0\n");
    let stat = "nr_periods 100\nnr_throttled 25\nthrottled_usec 1500000\n";
    fake.put(&format!("{group}/cpu.stat"), stat);
    let [_, effect, mend] = fake.costs("cgroup limits");
    assert!(effect.contains("25 of 100 periods, 1.5 s") && mend.contains("echo max >"), "{effect}");
    fake.put(&format!("{group}/cpu.stat"), "nr_periods 0\nnr_throttled 0\n");
    fake.put(&format!("{group}/io.max"), "8:0 rbps=1048576 wbps=max riops=max wiops=max");
    let checks = fake.checks();
    let limited = checks.iter().find(|check| check.state == State::Limited).expect("limited");
    assert!(limited.mend.as_deref().expect("a mend").contains("8:0 rbps=max"), "{limited:?}");
}

#[test]
fn transparent_pages_are_wanted_without_stalls() {
    let fake = Fake::new();
    let thp = "sys/kernel/mm/transparent_hugepage";
    fake.put(&format!("{thp}/enabled"), "always madvise [never]");
    let [_, effect, mend] = fake.costs("transparent pages");
    assert!(effect.contains("67 s") && mend.contains("echo madvise >"));
    fake.put(&format!("{thp}/enabled"), "[always] madvise never");
    fake.all_is_well();
    fake.put(&format!("{thp}/defrag"), "[always] madvise never");
    let [_, effect, mend] = fake.costs("transparent pages");
    assert!(effect.contains("transhuge.rst") && mend.ends_with("/defrag"), "{mend}");
}
