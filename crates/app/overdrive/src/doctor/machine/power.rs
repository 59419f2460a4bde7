//! Checks of the processors' clock and of the memory's pages.

use super::{Finding, Machine, chosen};

/// Drivers whose governor `powersave` follows the load, instead of the lowest clock.
const DYNAMIC: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

/// Judges the governor of the processors' clock.
pub(super) fn governor(machine: &Machine) -> Finding {
    let cpu = "sys/devices/system/cpu";
    let names = machine.names(cpu).into_iter();
    let is_number = |name: &str| {
        let digits = name.strip_prefix("cpu").unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    let of = |name: &str, file: &str| machine.text(format!("{cpu}/{name}/cpufreq/{file}"));
    let all: Vec<String> =
        names.filter(|name| is_number(name) && of(name, "scaling_governor").is_some()).collect();
    let Some(first) = all.first() else {
        return Finding::ok("the machine or its host chooses the clock");
    };
    let is_slow = |name: &&String| {
        let driver = of(name, "scaling_driver").unwrap_or_default();
        of(name, "scaling_governor").as_deref() == Some("powersave")
            && !DYNAMIC.contains(&driver.as_str())
    };
    let slow: Vec<&String> = all.iter().filter(is_slow).collect();
    let mhz = |name: &str, file: &str| {
        of(name, file).and_then(|khz| khz.parse::<u64>().ok()).unwrap_or(0) / 1000
    };
    if let Some(one) = slow.first() {
        let (low, high) = (mhz(one, "cpuinfo_min_freq"), mhz(one, "cpuinfo_max_freq"));
        let effect = format!(
            "they run at {low} of {high} MHz whatever the load: a hit, and every system call, takes \
             up to {:.1} times as long (computed from this machine's clocks)",
            high as f64 / low.max(1) as f64
        );
        let found = format!("powersave on {} of {} processors", slow.len(), all.len());
        let mend = "as root: cpupower frequency-set -g schedutil (or performance)";
        return Finding::costs(found, effect, mend);
    }
    let preference = of(first, "energy_performance_preference");
    if preference.as_deref() == Some("power") {
        let effect = "the processors prefer to save energy to being fast (the kernel's \
                      Documentation/admin-guide/pm/intel_pstate.rst); by how much is not known here";
        let mend = "as root: cpupower set --epp balance_performance";
        return Finding::costs("energy preference 'power'", effect, mend).limited();
    }
    Finding::ok(of(first, "scaling_governor").unwrap_or_default())
}

/// Judges transparent huge pages.
pub(super) fn transparent_pages(machine: &Machine) -> Finding {
    let thp = |file: &str| machine.text(format!("sys/kernel/mm/transparent_hugepage/{file}"));
    let Some(enabled) = thp("enabled") else {
        let effect = "the kernel has none";
        let mend = "reserve huge pages instead: 'huge pages' in the list of overdrive serve";
        return Finding::costs(effect, MODELS, mend).limited();
    };
    let defrag = thp("defrag").unwrap_or_default();
    let write = |file: &str, value: &str| {
        format!("as root: echo {value} > /sys/kernel/mm/transparent_hugepage/{file}")
    };
    if chosen(&enabled) == "never" {
        return Finding::costs("never", MODELS, write("enabled", "madvise"));
    }
    if chosen(&defrag) == "always" && chosen(&enabled) == "always" {
        let effect = "any program may stop at a page fault until the kernel has freed and compacted \
                      2 MiB (the kernel's Documentation/admin-guide/mm/transhuge.rst)";
        return Finding::costs(
            "always, compacted at the fault",
            effect,
            write("defrag", "madvise"),
        );
    }
    Finding::ok(chosen(&enabled).to_owned())
}

const MODELS: &str = "large tables take ordinary pages: a modelled drive takes 91 to 97 s for what \
                      takes 67 s with huge pages (docs/design/measurements.md)";
