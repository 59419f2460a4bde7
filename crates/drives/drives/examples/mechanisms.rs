//! Published figures that single mechanisms of worn drives explain, beside those of the models, in
//! virtual time. `mechanisms [WORD...]` runs only the parts with one of these names: extents,
//! gathered, sectors, mode, passes, bursts, early, cliff, idle. Words behind `idle` select drives.

use drives::{Drive, Fast, Model, Op, Options, Random, Timed};
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;
const GB: u64 = 1_000_000_000;
/// Sectors of 128 KiB.
const LARGE: u32 = 256;

fn drive(name: &str) -> Option<Timed> {
    let model = Model::preset(name).expect("a preset");
    match model.drive(&Options::default()).expect("a sound drive") {
        Drive::Flash(flash) => Some(*flash),
        Drive::Disk(_) => None,
    }
}

fn slots(drive: &Timed) -> u32 {
    drive.ftl().shape().logical_slots
}

/// A drive that was filled, and of which `percent` was then written at random.
fn worn(name: &str, percent: u64) -> Timed {
    let drive = drive(name).expect("a flash drive");
    wear(drive, percent)
}

fn wear(drive: Timed, percent: u64) -> Timed {
    let all = u64::from(slots(&drive));
    drive.fast_forward(|fast: &mut Fast| {
        fast.write_sequential(0, all);
        fast.write_random(u32::MAX, all * percent / 100, &mut Random::new(7));
    })
}

/// Latencies of a load.
struct Load {
    bytes: u64,
    ns: u64,
    latencies: Vec<u64>,
    /// The longest time between two answers.
    silence: u64,
}

impl Load {
    fn mb_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.ns as f64
    }

    fn percentile_us(&mut self, percent: usize) -> f64 {
        self.latencies.sort_unstable();
        self.latencies[(self.latencies.len() * percent / 100).min(self.latencies.len() - 1)] as f64
            / 1e3
    }

    fn mean_us(&self) -> f64 {
        self.latencies.iter().sum::<u64>() as f64 / self.latencies.len() as f64 / 1e3
    }
}

/// Submits requests with `depth` under way for `ns`; moves `now` to the end.
fn load(
    drive: &mut Timed,
    now: &mut u64,
    depth: usize,
    ns: u64,
    mut next: impl FnMut() -> Option<Op>,
) -> Load {
    let start = *now;
    let mut waiting = VecDeque::from(vec![start; depth]);
    let mut load = Load { bytes: 0, ns: 0, latencies: Vec::new(), silence: 0 };
    let mut last = start;
    while *now < start.saturating_add(ns) {
        let Some(op) = next() else { break };
        *now = waiting.pop_front().expect("a request under way").max(*now);
        load.silence = load.silence.max(*now - last);
        last = *now;
        let (Op::Read { count, .. } | Op::Write { count, .. }) = op else { break };
        let end = drive.submit(*now, op);
        load.bytes += u64::from(count) * 512;
        load.latencies.push(end - *now);
        waiting.push_back(end);
    }
    *now = waiting.into_iter().max().unwrap_or(*now).max(*now);
    load.ns = *now - start;
    load
}

fn random_writes(span: u32, seed: u64) -> impl FnMut() -> Option<Op> {
    let mut random = Random::new(seed);
    move || Some(Op::Write { first: u64::from(random.below(span)) * 8, count: 8 })
}

/// Sequential requests of this number of sectors over `bytes`, `passes` times.
fn sequential(bytes: u64, count: u32, passes: u64) -> impl FnMut() -> Option<Op> {
    let each = bytes / 512 / u64::from(count);
    let mut number = 0;
    move || {
        let first = number % each * u64::from(count);
        number += 1;
        (number <= each * passes).then_some(Op::Write { first, count })
    }
}

fn trim(drive: &mut Timed, now: &mut u64) {
    let count = u64::from(slots(drive)) * 8;
    *now = drive.submit(*now, Op::Trim { first: 0, count });
}

fn line(what: &str, published: &str, modelled: String) {
    println!("{what:<72} {published:>10} {modelled:>12}");
}

fn rate(load: &Load) -> String {
    format!("{:.1}", load.mb_s())
}

/// A tree of extents: AnandTech's test of 2009, five minutes each.
fn extents() {
    let mut now = 0;
    let mut g2 = drive("intel-x25-m-g2-160").expect("flash");
    let all = slots(&g2);
    let what = "X25-M G2 160, 4 KiB random write over all of it, QD16, MB/s";
    let run = load(&mut g2, &mut now, 16, 300 * SECOND, random_writes(all, 1));
    line(&format!("{what}: new"), "39.7", rate(&run));
    let mut g2 = wear(g2, 100);
    now = 0;
    let run = load(&mut g2, &mut now, 16, 300 * SECOND, random_writes(all, 2));
    line(&format!("{what}: worn"), "", rate(&run));
    trim(&mut g2, &mut now);
    now += 600 * SECOND;
    let run = load(&mut g2, &mut now, 16, 300 * SECOND, random_writes(all, 3));
    line(&format!("{what}: TRIM, 10 min idle"), "39.8", rate(&run));
    for name in ["intel-x25-m-g1-80", "intel-x25-e-32"] {
        let mut old = worn(name, 0);
        trim(&mut old, &mut 0);
        let trimmed = old.ftl().counters().trimmed;
        line(&format!("{name}: slots that a TRIM frees"), "0", trimmed.to_string());
    }
}

fn gathered() {
    let name = "sandforce-sf-2281-240";
    let what = "SF-2281 240, 4 KiB random write over all of it, QD4, MB/s";
    let minute = 60 * SECOND;
    let mut new = drive(name).expect("flash");
    let all = slots(&new);
    let run = load(&mut new, &mut 0, 4, minute, random_writes(all, 1));
    line(&format!("{what}: new"), "163", rate(&run));
    let run = load(&mut worn(name, 0), &mut 0, 4, minute, random_writes(all, 2));
    line(&format!("{what}: used (filled)"), "115", rate(&run));
    let mut old = worn(name, 100);
    let mut now = 0;
    let run = load(&mut old, &mut now, 4, minute, random_writes(all, 3));
    line(&format!("{what}: after load"), "12.8", rate(&run));
    trim(&mut old, &mut now);
    let run = load(&mut old, &mut now, 4, minute, random_writes(all, 4));
    line(&format!("{what}: trimmed"), "116", rate(&run));
    let mut now = 0;
    let mut old = worn(name, 100);
    let mut run = load(&mut old, &mut now, 1, minute, sequential(u64::from(all) * 4096, LARGE, 1));
    line("SF-2281 240, 128 KiB in order, QD1, first worn minute, MB/s", "", rate(&run));
    line("  longest request, ms", "", format!("{:.0}", run.percentile_us(100) / 1e3));
    let start = now;
    now = old.submit(now, Op::Write { first: 1 << 27, count: 32_768 });
    line("  then one of 16 MiB, s", "", format!("{:.2}", (now - start) as f64 / 1e9));
    let mut old = worn(name, 100);
    let run = load(&mut old, &mut 0, 1, u64::MAX, sequential(u64::from(all) * 4096, LARGE, 1));
    line("  a whole worn pass, MB/s", "13.7", rate(&run));
}

fn sectors() {
    for (name, writes, reads) in [("samsung-840-250", "78", "53"), ("ocz-vertex-120", "", "")] {
        let mut random = Random::new(3);
        let mut used = worn(name, 0);
        let mut now = 0;
        let access = |write: bool, random: &mut Random| {
            let first = u64::from(random.below(1 << 21));
            Some(if write { Op::Write { first, count: 1 } } else { Op::Read { first, count: 1 } })
        };
        let run = load(&mut used, &mut now, 1, 10 * SECOND, || access(false, &mut random));
        line(
            &format!("{name}, 512-byte reads in 1 GiB, mean us"),
            reads,
            format!("{:.0}", run.mean_us()),
        );
        let run = load(&mut used, &mut now, 1, 10 * SECOND, || access(true, &mut random));
        line(
            &format!("{name}, 512-byte writes in 1 GiB, mean us"),
            writes,
            format!("{:.0}", run.mean_us()),
        );
        let mut new = drive(name).expect("flash");
        let run = load(&mut new, &mut 0, 1, 10 * SECOND, || access(false, &mut random));
        line(
            &format!("{name}, new, 512-byte reads, mean us"),
            reads,
            format!("{:.0}", run.mean_us()),
        );
    }
}

fn mode() {
    for (name, first, second) in [
        ("ocz-vertex-450-256", "", "204"),
        ("ocz-vector-256", "", ""),
        ("samsung-840-pro-256", "", ""),
    ] {
        let mut new = drive(name).expect("flash");
        let (mut now, all) = (0, u64::from(slots(&new)) * 4096);
        let mut writes = sequential(all, LARGE, 1);
        for (part, published) in [(1, first), (2, first), (3, second), (4, second)] {
            let mut left = all / 4 / 131_072;
            let run = load(&mut new, &mut now, 1, u64::MAX, || {
                left = left.checked_sub(1)?;
                writes()
            });
            line(&format!("{name}, 128 KiB in order, quarter {part}, MB/s"), published, rate(&run));
        }
    }
    for (name, published) in [
        ("ocz-vector-256", "33"),
        ("samsung-840-pro-256", ""),
        ("ocz-vertex-450-256", ""),
        ("sandisk-extreme-ii-240", ""),
        ("samsung-840-evo-250", "12-20"),
    ] {
        let mut old = worn(name, 300);
        let all = slots(&old);
        let run = load(&mut old, &mut 0, 32, 60 * SECOND, random_writes(all, 3));
        line(&format!("{name}, steady 4 KiB, QD32, MB/s"), published, rate(&run));
    }
    let name = "sandisk-extreme-ii-240";
    let mut tortured = worn(name, 0);
    let (mut now, all) = (0, slots(&tortured));
    load(&mut tortured, &mut now, 32, 2400 * SECOND, random_writes(all, 3));
    now += 5 * SECOND;
    let bytes = u64::from(all) * 4096;
    // HD Tune writes 64 KiB at regular distances.
    let each = bytes / 512 / 16_384;
    let mut number = 0;
    let before = now;
    let run = load(&mut tortured, &mut now, 1, u64::MAX, || {
        number += 1;
        (number < 16_384).then_some(Op::Write { first: number * each / 8 * 8, count: 128 })
    });
    line("Extreme II 240, dirty, 64 KiB at 16,384 positions (HD Tune), MB/s", "201", rate(&run));
    line("  its seconds", "", format!("{:.0}", (now - before) as f64 / 1e9));
    let run = load(&mut tortured, &mut now, 1, u64::MAX, sequential(bytes, LARGE, 1));
    line("Extreme II 240, dirty, a whole pass, MB/s", "147", rate(&run));
}

fn passes() {
    let mut old = worn("samsung-840-pro-256", 100);
    let mut now = 0;
    for pass in 1..=5 {
        let run = load(&mut old, &mut now, 1, u64::MAX, sequential(GB, 32_768, 1));
        line(
            &format!("840 Pro 256 after load, 1 GB in order, pass {pass}, MiB/s"),
            if pass == 5 { "468" } else { "" },
            format!("{:.1}", run.mb_s() / 1.048576),
        );
    }
    for idle in [10, 60, 600] {
        let mut old = worn("samsung-840-pro-256", 100);
        let mut now = idle * SECOND;
        let run = load(&mut old, &mut now, 1, u64::MAX, sequential(GB, 32_768, 1));
        line(
            &format!("  one pass after {idle} s of idle time, MiB/s"),
            "",
            format!("{:.1}", run.mb_s() / 1.048576),
        );
    }
}

fn bursts() {
    let mut old = worn("ocz-vertex-120", 100);
    let all = slots(&old);
    let run = load(&mut old, &mut 0, 3, 120 * SECOND, random_writes(all.min(2_000_000), 3));
    line(
        "Vertex 120 used, 4 KiB random write in 8 GB, QD3, MiB/s",
        "7",
        format!("{:.2}", run.mb_s() / 1.048576),
    );
    line("  longest time without an answer, ms", "", format!("{:.0}", run.silence as f64 / 1e6));
}

fn early() {
    let name = "ocz-vertex-120-early";
    for (state, mut old) in
        [("new", drive(name).expect("flash")), ("filled", worn(name, 0)), ("used", worn(name, 10))]
    {
        let mut now = 0;
        for (span, text) in [(2_000_000, "8 GB"), (u32::MAX, "all"), (2_000_000, "8 GB again")] {
            let span = slots(&old).min(span);
            let run = load(&mut old, &mut now, 3, 180 * SECOND, random_writes(span, 3));
            line(
                &format!("early Vertex {state}, 4 KiB random write in {text}, QD3, mean ms"),
                "4.86",
                format!("{:.2}", run.mean_us() / 1e3),
            );
            line(
                "  longest time without an answer, ms",
                "",
                format!("{:.0}", run.silence as f64 / 1e6),
            );
        }
    }
}

fn cliff() {
    let mut old = worn("intel-660p-1000", 0);
    let (mut now, all) = (0, slots(&old));
    let mut writes = random_writes(all, 3);
    for part in 0..14 {
        let mut run = load(&mut old, &mut now, 1, 200 * SECOND, &mut writes);
        let text = format!(
            "{:.0} IOPS, p50 {:.0} p99 {:.0} us, most {:.0} ms, silence {:.0} ms",
            run.mb_s() * 1e6 / 4096.0,
            run.percentile_us(50),
            run.percentile_us(99),
            run.percentile_us(100) / 1e3,
            run.silence as f64 / 1e6,
        );
        line(&format!("660p filled, 4 KiB random write, QD1, {} s", part * 200), "", text);
    }
}

fn idle() {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let selects = |name: &str| words.is_empty() || words.iter().any(|it| name.contains(it));
    for name in Model::names().filter(|name| selects(name)) {
        let Some(new) = drive(name) else { continue };
        let all = slots(&new);
        for (state, mut drive) in [("new", new), ("used", worn(name, 30))] {
            let mut random = Random::new(9);
            let mut now = 0;
            let mut most = (0, 0, "");
            let bytes = 4_000_000_000;
            for turn in 0..24 {
                if turn % 4 == 0 {
                    load(&mut drive, &mut now, 1, 60 * SECOND, sequential(bytes, LARGE, 1));
                }
                if turn % 4 == 1 {
                    load(&mut drive, &mut now, 4, SECOND, random_writes(all, turn));
                }
                now += (1 + u64::from(random.below(2000)) * turn) * SECOND / 100;
                let first = u64::from(random.below(all)) * 8;
                let (op, text) = match turn % 2 {
                    0 => (Op::Write { first, count: 8 }, "write"),
                    _ => (Op::Read { first, count: 8 }, "read"),
                };
                drive.idle(now);
                let end = drive.submit(now, op);
                most = most.max((end - now, turn, text));
                now = end;
            }
            println!(
                "{name:<28} {state:<5} first request after idle time, at most: {:>7.1} ms ({} {})",
                most.0 as f64 / 1e6,
                most.2,
                most.1
            );
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let parts: [(&str, fn()); 9] = [
        ("extents", extents),
        ("gathered", gathered),
        ("sectors", sectors),
        ("mode", mode),
        ("passes", passes),
        ("bursts", bursts),
        ("early", early),
        ("cliff", cliff),
        ("idle", idle),
    ];
    println!("{:<72} {:>10} {:>12}", "", "published", "modelled");
    for (_, part) in
        parts.iter().filter(|(name, _)| words.is_empty() || words.iter().any(|it| it == name))
    {
        part();
    }
}
