//! Cost of 2,000 s of consistency on this machine: processor time and peak memory.
//! `consistency [WORD...]` runs the drives with one of the words in their name; memory is the
//! maximum over all runs so far.

use drives::Model;
use suites::{Plan, Target, find, run};

/// Returns the seconds for which this thread has run.
fn now() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
    ns.expect("Linux with schedstat") as f64 / 1e9
}

fn memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let field = line.and_then(|line| line.split_whitespace().nth(1));
    field.and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() * 1024 / 1_000_000
}

#[global_allocator]
static ALLOCATOR: host::HugeAllocator = host::HugeAllocator;

fn main() {
    host::want_huge_allocations();
    let words: Vec<String> = std::env::args().skip(1).collect();
    for name in Model::names().filter(|name| words.iter().any(|word| name.contains(word.as_str())))
    {
        let target = Target::parse(&format!("model:{name}")).expect("a preset");
        let plan = Plan::new(find("consistency").expect("a suite").profile(), target);
        let start = now();
        let (outcome, _) = run(&plan, &mut ());
        let row = |test: &str| outcome.row(test).map_or(0.0, |row| row.value);
        let mean = row("all seconds, mean of a second");
        let least = row("all seconds, least of a second");
        let seconds = now() - start;
        println!(
            "{name:<26} {seconds:5.1} s, {:4.0} ns a request, {} MB; {mean:.0} a second, at least {least:.0}",
            seconds * 1e9 / (mean * 2000.0).max(1.0),
            memory_mb(),
        );
    }
}
