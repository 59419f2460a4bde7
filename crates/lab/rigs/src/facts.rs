//! Facts about the machine and the device, which a figure in real time depends on.

use host::{Direct, FileVolume};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Returns facts about the machine: names and values.
pub fn machine() -> Vec<(&'static str, String)> {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut facts = vec![("kernel", format!("{} {release}", name.sysname().to_string_lossy()))];
    let processors = read("/proc/cpuinfo").unwrap_or_default();
    let models = processors.lines().filter_map(|line| line.strip_prefix("model name"));
    let mut models = models.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    if let Some(model) = models.next() {
        facts.push(("processor", format!("{} x {model}", models.count() + 1)));
    }
    if let Ok(count) = std::thread::available_parallelism() {
        facts.push(("processors", count.to_string()));
    }
    let memory = rustix::system::sysinfo();
    let bytes = memory.totalram as u64 * u64::from(memory.mem_unit);
    facts.push(("memory_bytes", bytes.to_string()));
    facts
}

/// Returns the total time in which this thread was ready to run and waited for a processor; 0 if
/// the kernel does not count it. proc(5) describes the file `schedstat`: time run, time waited,
/// number of turns. Time taken by a hypervisor is not included.
pub(crate) fn kept_waiting_ns() -> u64 {
    let counted = read("/proc/thread-self/schedstat").unwrap_or_default();
    counted.split_whitespace().nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0)
}

/// Returns the processor time of this thread until now, in nanoseconds. None: the kernel does not
/// count it.
pub(crate) fn processor_ns() -> Option<u64> {
    read("/proc/thread-self/schedstat")?.split_whitespace().next()?.parse().ok()
}

/// Returns facts about a file or device.
pub(crate) fn of(volume: &FileVolume) -> Vec<(&'static str, String)> {
    let direct = match volume.direct() {
        Direct::Yes => "yes".to_owned(),
        Direct::No(why) => format!("no: {why}"),
    };
    let mut facts = vec![("direct_io", direct)];
    let Ok(found) = std::fs::metadata(volume.path()) else { return facts };
    let (number, kind) =
        if volume.is_device() { (found.rdev(), "device") } else { (found.dev(), "file") };
    facts.push(("kind", kind.to_owned()));
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let place = format!("/sys/dev/block/{major}:{minor}");
    // The queue and the model of a partition are those of its disk.
    let disks = [place.clone(), format!("{place}/..")];
    let find = |leaf: &str| disks.iter().find_map(|disk| read(format!("{disk}/{leaf}")));
    for (name, leaf) in [
        ("device_model", "device/model"),
        ("device_firmware", "device/firmware_rev"),
        ("scheduler", "queue/scheduler"),
        ("write_cache", "queue/write_cache"),
        ("rotational", "queue/rotational"),
    ] {
        facts.extend(find(leaf).map(|value| (name, value)));
    }
    facts
}
