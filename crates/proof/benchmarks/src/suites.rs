//! The figures of the suites on modelled drives: exact in virtual time, except for this machine's
//! own time to compute them.

use crate::sides::{cpu_ns, median, verdict, wall_ns};
use anyhow::{Context, Result, anyhow};
use block::Size;
use lane::Prices;
use load::{Limit, Load, Order};
use suites::prices::{self, Measure};
use suites::{Outcome, Plan, Preparation, Row, Suite, Target, TestRig};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The modelled drive.
    #[arg(long, default_value = "model:samsung-840-evo-250")]
    target: String,
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// A price list from 'cargo xtask bench prices --json', instead of measuring one.
    #[arg(long)]
    prices: Option<std::path::PathBuf>,
    /// Only this part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Requests of each run that measures modelled requests per second.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// QD1 writes compared with the ideal.
    Qd1,
    /// The time of a consistency run.
    Consistency,
    /// Modelled requests per second.
    Rate,
    /// The time of every suite with its defaults, bare.
    All,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // As `overdrive bench` does.
    host::want_huge_allocations();
    let target = Target::parse(&arguments.target)?;
    let prices = match &arguments.prices {
        Some(path) => {
            let text = std::fs::read_to_string(path).context("--prices")?;
            prices::from_json(&serde_json::from_str(&text)?).map_err(|what| anyhow!(what))?
        }
        None => prices::measure(&Measure::default(), &mut cpu_ns),
    };
    println!(
        "{} and {} MiB of cache; prices {}",
        target.text,
        arguments.mib,
        prices::to_json(&prices)
    );
    let wanted = |part| arguments.only.is_none_or(|only| only == part);
    let memory = Size(arguments.mib << 20);
    if wanted(Part::Qd1) {
        qd1(&target, memory, prices)?;
    }
    if wanted(Part::Consistency) {
        consistency(&target, memory, prices)?;
    }
    if wanted(Part::Rate) {
        rate(&target, memory, prices, arguments.requests)?;
    }
    if wanted(Part::All) {
        all(&target, prices)?;
    }
    Ok(())
}

/// Maximum time of all suites together, in seconds of a processor.
const ALL_S_MAX: f64 = 300.0;

fn all(target: &Target, prices: Prices) -> Result<()> {
    let mut whole = 0.0;
    for suite in suites::ALL {
        let name = suite.profile().name;
        let start = cpu_ns();
        outcome(name, target, None, prices)?;
        let took = (cpu_ns() - start) as f64 / 1e9;
        whole += took;
        println!("{name}: {took:.1} s of processor time");
    }
    println!(
        "every suite: {whole:.0} s of processor time, at most {ALL_S_MAX:.0}: {}",
        verdict(whole <= ALL_S_MAX)
    );
    Ok(())
}

fn suite(name: &str) -> Result<&'static dyn Suite> {
    suites::find(name).with_context(|| format!("there is no suite '{name}'"))
}

/// Returns a suite's outcome, bare or with the suite's usual cache.
fn outcome(name: &str, target: &Target, cache: Option<Size>, prices: Prices) -> Result<Outcome> {
    let suite = suite(name)?;
    let cache = cache.map(|memory| suite.cache(memory));
    let plan = Plan { cache, prices, ..Plan::new(suite.profile(), target.clone()) };
    let (outcome, ended) = suites::run(&plan, &mut ());
    ended.map_err(|halt| anyhow!("{name}: {halt}"))?;
    Ok(outcome)
}

fn row<'a>(outcome: &'a Outcome, test: &str) -> Result<&'a Row> {
    outcome.row(test).with_context(|| format!("the suite has no row '{test}'"))
}

/// Compares QD1 writes with the ideal: with memory for a share of the span, that share of the
/// writes meets a dirty block and costs the drive nothing; the others run at the drive's best
/// depth.
fn qd1(target: &Target, memory: Size, prices: Prices) -> Result<()> {
    let bare = outcome("qd1", target, None, prices)?;
    let cached = outcome("qd1", target, Some(memory), prices)?;
    let value = |outcome, test| row(outcome, test).map(|row| row.value);
    let one = (value(&bare, suites::QD1_WRITE)?, value(&cached, suites::QD1_WRITE)?);
    let deep = (value(&bare, suites::QD1_SATURATING)?, value(&cached, suites::QD1_SATURATING)?);
    let ideal = deep.0 / (1.0 - memory.0 as f64 / cached.plan.span() as f64);
    println!(
        "4 KiB random writes at QD1: bare {:.0}, cached {:.0} a second, {:.2} x; the ideal is {ideal:.0}, \
         {:.2} x",
        one.0,
        one.1,
        one.1 / one.0,
        ideal / one.0
    );
    figure("  of the ideal, final flush included", one.1 / ideal, 0.95, one.1 >= 0.95 * ideal);
    let worst = |outcome, test| {
        let latency = row(outcome, test)?.latency.as_ref().context("no latencies")?;
        Ok::<f64, anyhow::Error>(latency.max_ns() as f64 / 1e3)
    };
    for test in [suites::QD1_WRITE, suites::QD1_SATURATING] {
        let (alone, with) = (worst(&bare, test)?, worst(&cached, test)?);
        println!("  worst, {test}: bare {alone:.1} us, cached {with:.1} us");
    }
    let alone = worst(&bare, suites::QD1_WRITE)?;
    let with = worst(&cached, suites::QD1_WRITE)?;
    figure("  worst write against the bare drive's", with / alone, 1.1, with <= 1.1 * alone);
    figure("  saturating, QD32, against bare", deep.1 / deep.0, 1.0, deep.1 >= deep.0);
    Ok(())
}

fn figure(what: &str, value: f64, target: f64, reached: bool) {
    println!("{what:<44} {value:>8.3}  target {target}: {}", verdict(reached));
}

/// Measures this machine's time for 2,000 s of consistency.
fn consistency(target: &Target, memory: Size, prices: Prices) -> Result<()> {
    for (name, cache) in [("bare", None), ("cached", Some(memory))] {
        let (start, processor) = (wall_ns(), cpu_ns());
        let outcome = outcome("consistency", target, cache, prices)?;
        let real = (wall_ns() - start) as f64 / 1e9;
        let processor = (cpu_ns() - processor) as f64 / 1e9;
        let virtual_s = outcome.elapsed_ns as f64 / 1e9;
        let mean = value_or_nan(&outcome, "from 1,400 s, mean of a second");
        println!(
            "consistency, {name}: {virtual_s:.0} s of virtual time, steady at {mean:.0} IOPS; \
             {real:.1} s of real time"
        );
        // One thread that waits for nothing: on a processor of its own, that is the real time.
        figure("  seconds of processor time", processor, 30.0, processor < 30.0);
    }
    Ok(())
}

fn value_or_nan(outcome: &Outcome, test: &str) -> f64 {
    outcome.row(test).map_or(f64::NAN, |row| row.value)
}

/// Measures modelled requests per second of processor time: 4 KiB, 32 under way, without data, over
/// the whole drive, which was written once at random, so that its garbage collection runs.
fn rate(target: &Target, memory: Size, prices: Prices, requests: u64) -> Result<()> {
    let loads = [("random writes", Order::Random, 0), ("random reads", Order::Random, 100)];
    let hot = ("zipf 1.1, 70 % reads", Order::Zipf { exponent: 1.1 }, 70);
    for (name, cache, target_rate) in [("bare", None, 1.5e6), ("cached", Some(memory), 1e6)] {
        let suite = suite("corners")?;
        let cache = cache.map(|memory| suite.cache(memory));
        let plan = Plan { cache, prices, ..Plan::new(suite.profile(), target.clone()) };
        let mut watch = ();
        let mut rig = TestRig::new(&plan, &mut watch).map_err(|halt| anyhow!("{halt}"))?;
        let used = Preparation::preset("used");
        rig.prepare(&used, target.bytes(), 1).map_err(|halt| anyhow!("{halt}"))?;
        for (load_name, order, reads_percent) in loads.into_iter().chain([hot]) {
            let load = Load::new(order, 4096, target.bytes()).depth(32);
            let load = Load { reads_percent, limit: Limit::requests(requests), ..load };
            let mut rates = Vec::new();
            for seed in 0..3 {
                let start = cpu_ns();
                let record = rig.load("rate", Load { seed, ..load.clone() });
                record.map_err(|halt| anyhow!("{halt}"))?;
                rates.push(requests as f64 * 1e9 / (cpu_ns() - start) as f64);
            }
            let reached = median(rates);
            let what = format!("  {name}, {load_name}, millions a second");
            figure(&what, reached / 1e6, target_rate / 1e6, reached >= target_rate);
        }
    }
    Ok(())
}
