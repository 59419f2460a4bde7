//! Cost of the replay of a generated trace on this machine: `replay SUITE SCALE [MODEL]`.

use suites::{Plan, Target, find, run};

/// Returns the seconds for which this thread has run.
fn now() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
    ns.expect("Linux with schedstat") as f64 / 1e9
}

#[global_allocator]
static ALLOCATOR: host::HugeAllocator = host::HugeAllocator;

fn main() {
    host::want_huge_allocations();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, scale, model @ ..] = &words[..] else { panic!("write a suite and a scale") };
    let model = model.first().map_or("samsung-840-evo-250", String::as_str);
    let target = Target::parse(&format!("model:{model}")).expect("a preset");
    let suite = find(name).filter(|suite| suite.is_generated()).expect("a generated suite");
    let trace_scale = scale.parse().expect("a number");
    let plan = Plan { trace_scale, ..Plan::new(suite.profile(), target) };
    let start = now();
    let (outcome, ended) = run(&plan, &mut ());
    let seconds = now() - start;
    let whole = outcome.rows.iter().filter(|row| row.test.ends_with("mean service time"));
    let requests: u64 =
        whole.filter_map(|row| row.latency.as_ref()).map(load::Latency::count).sum();
    let each_ns = seconds * 1e9 / requests.max(1) as f64;
    println!(
        "{name} at {scale}: {seconds:.1} s, {requests} requests, {each_ns:.0} ns each: {ended:?}"
    );
    for row in &outcome.rows {
        println!("  {:<40} {:>12.2} {}", row.test, row.value, row.unit);
    }
}
