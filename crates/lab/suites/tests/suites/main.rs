//! The suites on a small drive: expected effects occur, and the same seed gives the same bytes.

mod eras;
mod generated;
mod limits;
mod pts;

use block::{Size, WriteMode};
use lane::Prices;
use std::cell::Cell;
use suites::{
    Halt, Job, Listing, Outcome, Plan, Preparation, QD1_SATURATING, QD1_WRITE, Row, Suite, Target,
    Watch, WithoutWrites, find, report,
};

const SECOND: u64 = 1_000_000_000;

fn drive(name: &str) -> Target {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    Target::parse(&format!("model:{folder}/{name}.toml?seed=3")).expect("the tests' drive")
}

fn small() -> Target {
    drive("small")
}

/// Returns a short run of the suite on the small drive.
fn plan(name: &str) -> Plan {
    let time_ns = match name {
        "corners" => SECOND / 10,
        "qd1" => SECOND * 4 / 10,
        "sizes" => SECOND / 50,
        "consistency" => 12 * SECOND,
        "trim" => 200 * SECOND,
        "fourcorners" => SECOND,
        "atto" | "sweep" | "pts" | "pts-throughput" | "pts-latency" => SECOND / 100,
        "pts-wsat" => 400 * SECOND,
        "cdm" | "as-ssd" | "hdtune" | "iometer" => SECOND / 10,
        _ => 0,
    };
    let whole = ["consistency", "trim", "seqfill", "pts-wsat"];
    let span_bytes = (!whole.contains(&name)).then_some(128 << 20);
    let usual = Plan::new(suite(name).profile(), small());
    let preparation = match name {
        "trim" => Preparation::parse("fill,torture:20s,trim").expect("sound"),
        _ => usual.preparation.clone(),
    };
    Plan { time_ns, span_bytes, preparation, ..usual }
}

fn state(name: &str) -> Preparation {
    Preparation::preset(name)
}

fn suite(name: &str) -> &'static dyn Suite {
    find(name).unwrap_or_else(|| panic!("no suite '{name}'"))
}

fn cached(name: &str, memory: u64) -> Plan {
    // Approximate prices of a current processor.
    let prices = Prices { ns: [300, 500, 400, 500, 400, 300, 500] };
    Plan { cache: Some(suite(name).cache(Size(memory))), prices, ..plan(name) }
}

fn run(plan: &Plan) -> Outcome {
    let (outcome, ended) = suites::run(plan, &mut ());
    assert_eq!(ended, Ok(()));
    assert!(outcome.complete);
    outcome
}

fn row<'a>(outcome: &'a Outcome, test: &str) -> &'a Row {
    let known = outcome.rows.iter().map(|row| row.test.as_str()).collect::<Vec<_>>();
    outcome.row(test).unwrap_or_else(|| panic!("no row '{test}' among {known:?}"))
}

fn value(outcome: &Outcome, test: &str) -> f64 {
    row(outcome, test).value
}

#[test]
fn every_suite_is_found_by_its_name_and_described() {
    let page = include_str!("../../../../../docs/SUITES.md");
    for suite in suites::ALL {
        let profile = suite.profile();
        assert_eq!(find(profile.name).map(|found| found.profile()), Some(profile));
        assert!(
            page.contains(&format!("\n| `{}` |", profile.name)),
            "{} in the table",
            profile.name
        );
        assert!(!profile.about.is_empty() && !profile.about.ends_with('.'), "{}", profile.about);
    }
    assert!(find("corner").is_none());
}

#[test]
fn seqfill_shows_where_turbowrite_ends() {
    let outcome = run(&plan("seqfill"));
    // A superblock of the SLC area is 1.4 MB: the area is at most that much larger, and the curve
    // has steps of 8.4 MB.
    let knee = value(&outcome, "knee");
    assert!((0.115..0.130).contains(&knee), "{knee} GB");
    let (before, after) = (value(&outcome, "before the knee"), value(&outcome, "after the knee"));
    assert!(before > 2.0 * after, "{before}, {after}");
    // Four dies program 16 KiB in 890 us and 41 us of transfer: 70 MB/s.
    assert!((60.0..75.0).contains(&after), "{after}");
    let curve = &outcome.series[0];
    let bytes = curve.values.len() as f64 * curve.step * 1e9;
    assert!((bytes / outcome.plan.span() as f64 - 1.0).abs() < 0.02, "the curve covers the span");
}

#[test]
fn what_was_done_to_the_drive_before_shows() {
    let rate = |name| {
        let outcome = run(&Plan { state: state(name), ..plan("seqfill") });
        assert!(outcome.method[0].starts_with("The drive was purged"), "{:?}", outcome.method);
        assert_eq!(report::json(&outcome)["state"], name);
        outcome.rows[0].value
    };
    let (fresh, filled, steady) = (rate("fresh"), rate("filled"), rate("steady"));
    // Overwriting in the same order costs nothing; scattered data must be moved.
    assert!((filled / fresh - 1.0).abs() < 0.05, "{fresh}, {filled}");
    assert!(steady < 0.9 * fresh, "{fresh}, {steady}");
}

#[test]
fn consistency_falls_after_the_fill_and_spare_area_raises_it() {
    let outcome = run(&plan("consistency"));
    let curve = &outcome.series[0].values;
    assert_eq!(curve.len(), 12);
    let steady = curve[8..].iter().sum::<f64>() / 4.0;
    assert!(curve[0] > 2.0 * steady, "{} at first, {steady} at last", curve[0]);
    let least = value(&outcome, "all seconds, least of a second");
    assert!(least > 0.0 && least <= value(&outcome, "all seconds, 1st percentile of a second"));
    seconds_add_up(&outcome);
    let spared = run(&Plan { spare_percent: 25, ..plan("consistency") });
    assert!(spared.plan.span() <= outcome.plan.span() * 3 / 4);
    let raised = spared.series[0].values[8..].iter().sum::<f64>() / 4.0;
    assert!(raised > 1.3 * steady, "{raised} with spare area, {steady} without");
    let amplification = |outcome: &Outcome| {
        outcome
            .drive
            .iter()
            .find(|(name, _)| *name == "write_amplification")
            .map(|(_, value)| *value)
    };
    assert!(amplification(&spared) < amplification(&outcome));
}

/// Checks that the figures of each second agree with those of the whole run.
fn seconds_add_up(outcome: &Outcome) {
    let json = report::json(outcome);
    let names = ["answers in each second", "mean latency", "p99 latency", "max latency"];
    let all = json["series"].as_array().expect("series");
    assert_eq!(all.len(), names.len(), "{all:?}");
    for (series, name) in all.iter().zip(names) {
        assert!(series["name"].as_str().is_some_and(|it| it.ends_with(name)), "{series}");
        assert_eq!(series["values"].as_array().map(Vec::len), Some(12), "{name}");
    }
    let value = |series: usize, second: usize| {
        all[series]["values"][second].as_f64().unwrap_or_else(|| panic!("{second} of {series}"))
    };
    for second in 0..12 {
        // 32 under way at any time: Little's law gives the latency.
        let mean_us = 32e6 / value(0, second);
        assert!((value(1, second) / mean_us - 1.0).abs() < 0.05, "{second}: {mean_us}");
        assert!(value(1, second) <= value(2, second) && value(2, second) <= value(3, second));
    }
    let whole = &json["rows"][0];
    let longest = (0..12).map(|second| value(3, second)).fold(0.0, f64::max);
    assert!(longest * 1e3 <= whole["max_ns"].as_f64().expect("a latency") + 1.0);
    let buckets = whole["buckets"].as_array().expect("a distribution");
    let count: u64 = buckets.iter().filter_map(|bucket| bucket[1].as_u64()).sum();
    assert_eq!(Some(count), whole["requests"].as_u64());
    assert_eq!(
        (&whole["samples_of"], whole["samples"].as_array().map(Vec::len)),
        (&"seconds".into(), Some(12))
    );
    let mean = outcome.row("all seconds, mean of a second").expect("the mean's row");
    let sum: f64 = mean.seconds.iter().map(|second| second.value).sum();
    assert!((sum / 12.0 / mean.value - 1.0).abs() < 1e-9 && mean.latency_series().is_empty());
}

#[test]
fn trim_brings_back_what_torture_took() {
    let outcome = run(&plan("trim"));
    let pass = |name: &str| value(&outcome, &format!("{name}: sequential 128 KiB write"));
    let (clean, dirty, trimmed) = (pass("clean"), pass("dirty"), pass("trimmed"));
    assert!(dirty < 0.8 * clean, "{clean} clean, {dirty} dirty");
    // Not all of it immediately: a trimmed SLC area waits for idle time.
    assert!(trimmed > 0.8 * clean, "{clean} clean, {trimmed} trimmed");
    assert!(trimmed > 1.1 * dirty, "{dirty} dirty, {trimmed} trimmed");
    assert_eq!(outcome.series.len(), 3);
}

#[test]
fn one_at_a_time_is_faster_behind_the_cache() {
    let bare = run(&plan("qd1"));
    let behind = run(&cached("qd1", 64 << 20));
    // The real drive's figure, which is an input of the model: 43.5 us.
    let mean = row(&bare, QD1_WRITE).latency.as_ref().expect("latencies").mean_ns();
    assert!((mean / 43_500.0 - 1.0).abs() < 0.1, "{mean}");
    assert!(value(&behind, QD1_WRITE) > 1.2 * value(&bare, QD1_WRITE));
    // The final flush is part of the result: all data is on the drive, except for blocks that were
    // overwritten in memory before.
    let written = |outcome: &Outcome| outcome.drive[0].1 / 4096.0;
    let requests =
        |outcome: &Outcome, test| row(outcome, test).latency.as_ref().expect("some").count();
    let asked = requests(&behind, QD1_WRITE) + requests(&behind, QD1_SATURATING);
    let laid_out = behind.plan.span() as f64 / 4096.0;
    let reached = written(&behind) - laid_out;
    let counted = |name: &str| {
        behind.counters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    };
    assert_eq!(counted("blocks_dirty").unwrap_or(0), 0, "{:?}", behind.counters);
    assert!(reached > 0.7 * asked as f64 && reached < asked as f64, "{reached} of {asked}");
    assert!(row(&behind, QD1_WRITE).flush_ns > row(&bare, QD1_WRITE).flush_ns);
}

#[test]
fn corners_show_depth_and_warmth() {
    let bare = run(&plan("corners"));
    assert_eq!(bare.rows.len(), 15);
    let read = |outcome: &Outcome, depth| value(outcome, &format!("read, random 4 KiB, QD{depth}"));
    assert!(read(&bare, 4) > 1.5 * read(&bare, 1), "dies work at the same time");
    assert!(bare.rows.iter().all(|row| row.cold.is_none() && row.ceiling.is_none()));
    // The whole span fits: warm reads come from memory, cold ones from the drive.
    let behind = run(&cached("corners", 256 << 20));
    let test = "read, random 4 KiB, QD1";
    let twice: Vec<&Row> = behind.rows.iter().filter(|row| row.test == test).collect();
    assert_eq!(twice.iter().map(|row| row.cold).collect::<Vec<_>>(), [Some(true), Some(false)]);
    assert!(twice[1].value > 50.0 * read(&bare, 1), "{} warm", twice[1].value);
    // The cold run warms the cache itself; its slowest reads are the drive's.
    let slowest = |row: &Row| row.latency.as_ref().expect("latencies").max_ns();
    assert!(slowest(twice[0]) > 50_000 && slowest(twice[1]) < 10_000);
    // A hit costs exactly its price: only the generator's path limits it.
    assert!(twice[1].is_near_ceiling() && !twice[0].is_near_ceiling());
    assert_eq!(slowest(twice[1]), 300);
}

#[test]
fn sizes_show_what_a_transfer_costs() {
    let bare = run(&plan("sizes"));
    assert_eq!(bare.rows.len(), 30, "512 bytes to 8 MiB, written and read");
    let rate = |outcome: &Outcome, direction, size| value(outcome, &format!("{direction}, {size}"));
    for direction in ["write", "read"] {
        let small = rate(&bare, direction, "512 B");
        let (page, large) = (rate(&bare, direction, "4 KiB"), rate(&bare, direction, "1 MiB"));
        assert!(large > page && page > 1.5 * small, "{direction}: {small}, {page}, {large}");
    }
    assert!(report::page(&bare).contains("), and reads "), "the verdict");
    // A file that fits in the cache is still written to the drive, and read from it.
    let behind = run(&cached("sizes", 64 << 20));
    for direction in ["write", "read"] {
        let most = rate(&bare, direction, "8 MiB");
        let cached = rate(&behind, direction, "8 MiB");
        assert!(cached < 1.2 * most, "{direction}: {cached} against {most}");
    }
    assert!(behind.rows.iter().all(|row| row.cold == row.test.starts_with("read").then_some(true)));
}

#[test]
fn write_modes_reach_the_engine() {
    let through = |mode| {
        let mut plan = cached("qd1", 64 << 20);
        plan.cache.as_mut().expect("cached").write = mode;
        value(&run(&plan), QD1_WRITE)
    };
    assert!(through(WriteMode::Through) < 0.9 * through(WriteMode::BackNow));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    for plan in [plan("consistency"), cached("qd1", 64 << 20)] {
        let run_plan = |plan: &Plan| {
            let outcome = run(plan);
            (
                report::json(&outcome).to_string(),
                report::text(&outcome, None).to_string(),
                report::page(&outcome),
            )
        };
        let mut other = plan.clone();
        other.target.options.seed = 4;
        let once = run_plan(&plan);
        assert_eq!(once, run_plan(&plan));
        assert_ne!(once.0.replace("\"seed\":3", ""), run_plan(&other).0.replace("\"seed\":4", ""));
    }
}

#[test]
fn the_object_has_the_keys_that_are_promised() {
    let outcome = run(&cached("corners", 64 << 20));
    let json = report::json(&outcome);
    assert_eq!(json["schema"], "overdrive.bench/1");
    assert_eq!((&json["suite"], &json["cached"]), (&"corners".into(), &true.into()));
    assert_eq!(json["target"], outcome.plan.target.text);
    assert_eq!((&json["state"], &json["seed"]), (&"fresh".into(), &3.into()));
    assert_eq!(json["prices"]["hit_ns"], 300);
    assert_eq!(json["cache"]["memory"], 64 << 20);
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), outcome.rows.len());
    for row in rows {
        assert!(row["test"].is_string() && row["unit"].is_string() && row["value"].is_number());
        let names = ["mean_ns", "p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"];
        let times: Vec<f64> = names.iter().map(|name| row[name].as_f64().expect(name)).collect();
        assert!(times[1..].windows(2).all(|pair| pair[0] <= pair[1]), "{row}");
        assert!(times[0] > 0.0 && row["stdev_ns"].is_number(), "{row}");
        assert!(row["ceiling"].is_number(), "{row}");
    }
    assert!(
        rows.iter().any(|row| row["cold"] == true) && rows.iter().any(|row| row["cold"] == false)
    );
}

#[test]
fn the_page_stands_alone_and_its_plots_are_those_of_the_reviews() {
    let mut outcome = run(&Plan { time_ns: SECOND, ..plan("consistency") });
    // The plots use the series only, so that no long run is needed.
    outcome.series[0].values = (0..1500).map(|second| f64::from(second % 7) * 1000.0).collect();
    let page = report::page(&outcome);
    let (scatter, rest) = page.split_once("</div>\n<h2>").expect("plots come first");
    assert_eq!(scatter.matches("<figure>").count(), 6);
    for title in [
        "whole run, logarithmic",
        "whole run, linear",
        "from 1,400 s, logarithmic",
        "from 1,400 s, linear",
        "from 1,400 s, linear to 40 K as in the reviews",
    ] {
        assert!(scatter.contains(&format!(": {title}</figcaption>")), "{title}");
    }
    assert!(rest.contains("<h2>Service times") && rest.contains("took longer"));
    for outside in ["http:", "https:", "<link", "url(", " src=", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<script").count(), 2, "the data, and the script that saves charts");
    assert!(!page.contains("NaN"));
    let raw = ::report::page::raw_data(&page).expect("the data");
    let raw: serde_json::Value = serde_json::from_str(raw).expect("an object");
    assert_eq!(raw, report::json(&outcome));
}

#[test]
fn spare_parts_of_several_sizes_are_overlaid_and_all_in_the_data() {
    let run = |spare_percent| run(&Plan { spare_percent, time_ns: SECOND, ..plan("consistency") });
    let outcomes = [run(0), run(25)];
    let page = report::overlaid(&outcomes);
    let (scatter, _) = page.split_once("</div>\n<h2>").expect("plots come first");
    assert_eq!(scatter.matches("<figure>").count(), 3);
    assert_eq!(scatter.matches("class=\"dots c1\"").count(), 3, "a second colour in each");
    assert!(page.contains("</svg>25 % spare</span>") && page.contains("<h3>25 % spare</h3>"));
    let json = report::json_of(&outcomes);
    assert_eq!(json["variants"][0], report::json(&outcomes[1]));
    assert_eq!(
        (&json["spare_percent"], report::json_of(&outcomes[..1])["variants"].is_null()),
        (&0.into(), true)
    );
}

#[test]
fn what_was_published_stands_beside_what_was_modelled() {
    let target = Target::parse("model:samsung-840-evo-250").expect("a preset");
    let plan =
        Plan { only: Some(QD1_WRITE.to_owned()), ..Plan::new(suite("qd1").profile(), target) };
    let short = Plan { time_ns: SECOND / 10, span_bytes: Some(64 << 20), ..plan };
    let page = report::page(&run(&short));
    // 22,769 requests per second, 43.5 us on average: reviews.md.
    for part in [
        ">22769</td>",
        ">43.5</td>",
        "published: for 60 s",
        "aria-label=\"Published and modelled\"",
        "class=\"put\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let worn = Preparation::parse("fill,random:100%").expect("sound");
    let page = report::page(&run(&Plan { preparation: worn, ..short }));
    assert!(!page.contains("22769"), "that was a new drive");
}

/// Interrupts the suite at the n-th look.
struct Impatient(Cell<u32>);

impl Watch for Impatient {
    fn look(&mut self, _: &str, share: f64) -> bool {
        assert!((0.0..=1.0).contains(&share), "{share}");
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() > 0
    }
}

#[test]
fn an_interrupted_suite_reports_what_it_has() {
    let whole = run(&plan("trim"));
    // A counter that large never interrupts: it counts the looks.
    let mut patient = Impatient(Cell::new(u32::MAX));
    assert_eq!(suites::run(&plan("trim"), &mut patient).1, Ok(()));
    let looks = u32::MAX - patient.0.get();
    let soon = Impatient(Cell::new(looks * 2 / 3));
    let (outcome, ended) = suites::run(&plan("trim"), &mut { soon });
    assert_eq!(ended, Err(Halt::Interrupted));
    assert!(!outcome.complete && !outcome.rows.is_empty() && outcome.rows.len() < whole.rows.len());
    assert!(outcome.rows.last().is_some_and(|row| row.partial));
    let json = report::json(&outcome);
    assert_eq!((&json["complete"], &json["schema"]), (&false.into(), &"overdrive.bench/1".into()));
    assert!(report::text(&outcome, None).to_string().contains("not complete"));
    assert!(report::page(&outcome).contains("Not complete"));
    // At the first look there is no result yet, and the page reports that as well.
    let steady = Plan { state: state("steady"), ..plan("qd1") };
    let (nothing, ended) = suites::run(&steady, &mut Impatient(Cell::new(0)));
    assert_eq!((ended, nothing.rows.len()), (Err(Halt::Interrupted), 0));
    assert!(report::page(&nothing).contains("Nothing was measured"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (wrong, says) in [
        (Plan { spare_percent: 91, ..plan("consistency") }, "--spare 91"),
        (Plan { state: state("steady"), ..plan("consistency") }, "--state steady"),
        (Plan { span_bytes: Some(1 << 20), ..plan("corners") }, "64 MiB"),
        (Plan { time_ns: 0, ..plan("qd1") }, "--time 0"),
        (cached("qd1", 4096), "at least 1 MiB"),
    ] {
        let (outcome, ended) = suites::run(&wrong, &mut ());
        assert!(outcome.rows.is_empty());
        let Err(Halt::Plan(what)) = ended else { panic!("{says}: {ended:?}") };
        assert!(what.contains(says), "{what}");
    }
}

/// Names of tests.
fn tests(outcome: &Outcome) -> Vec<&str> {
    outcome.rows.iter().map(|row| row.test.as_str()).collect()
}

#[test]
fn cdm_shows_the_median_in_its_rows_and_the_best_in_its_block() {
    let outcome = run(&plan("cdm"));
    assert_eq!(outcome.rows.len(), 16, "{:?}", tests(&outcome));
    let row = row(&outcome, "RND4K Q1T1 write");
    let mut runs = row.samples.clone();
    runs.sort_by(f64::total_cmp);
    assert_eq!((runs.len(), row.value), (5, runs[2]));
    let text = report::text(&outcome, None).to_string();
    let line = text
        .lines()
        .rfind(|line| line.starts_with("  RND    4KiB (Q=  1, T= 1):"))
        .expect("a line");
    assert!(line.contains(&format!("{:.3} MB/s [", runs[4])) && line.ends_with(" us>"), "{line}");
    assert_eq!(
        line.len(),
        "  RND    4KiB (Q=  1, T= 1):    44.166 MB/s [  11041.6 IOPS] <    88.48 us>".len()
    );
    assert_eq!(row.shortened.as_deref(), Some("0.1 s of 5 s, 128 MiB of 1 GiB"));
}

#[test]
fn as_ssd_weighs_its_rates() {
    let outcome = run(&plan("as-ssd"));
    let value = |test: &str| row(&outcome, test).value;
    let half = |direction: &str| {
        let value = |name: &str| value(&format!("{name} {direction}"));
        value("Seq") / 10.0 + value("4K") + value("4K-64Thrd")
    };
    assert!((value("Score") - half("read") - 1.5 * half("write")).abs() < 1e-9);
    assert_eq!(row(&outcome, "Acc.time read").unit, "ms");
    let block = report::text(&outcome, None).to_string();
    assert!(block.contains("4K-64Thrd ") && block.contains("* MB = 1,048,576 bytes"), "{block}");
    assert_eq!(row(&outcome, "4K-64Thrd read").unit, "MiB/s");
    assert_binary(row(&outcome, "4K read"), 4096);
}

#[test]
fn hdtune_passes_over_all_of_it_and_accesses_every_size() {
    let outcome = run(&plan("hdtune"));
    let value = |test: &str| row(&outcome, test).value;
    for direction in ["read", "write"] {
        let value = |name: &str| value(&format!("{direction}, {name}"));
        assert!(value("least") <= value("average") && value("average") <= value("largest"));
    }
    assert!(value("read access, 512 bytes") <= value("read access, 1 MB"));
    assert_eq!((outcome.series.len(), outcome.rows.len()), (2, 14));
    assert_eq!((row(&outcome, "read, average").unit, outcome.series[0].unit), ("MiB/s", "MiB/s"));
    assert_binary(row(&outcome, "read, average"), 64 << 10);
    // The figures of the program's own text are consistent as there: 21,522 requests of 4 KiB are
    // 84.070 MB/s.
    let text = report::text(&outcome, None).to_string();
    let line = text.lines().find(|line| line.starts_with("4 KB ")).expect("a line of the block");
    let number = |at: usize| line.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    let (rate, speed): (f64, f64) = (number(2).expect("a rate"), number(8).expect("a speed"));
    assert!((speed - rate / 256.0).abs() < 0.01, "{line}");
}

/// Checks that a rate of blocks of this size is in units of 2^20.
fn assert_binary(row: &Row, block_bytes: u32) {
    let mean_ns = row.latency.as_ref().expect("it was timed").mean_ns();
    let binary = f64::from(block_bytes) / 1_048_576.0 * 1e9 / mean_ns;
    assert!((row.value / binary - 1.0).abs() < 0.01, "{} and {binary}", row.value);
}

#[test]
fn iometer_has_its_patterns_and_more_under_way_is_no_slower() {
    let outcome = run(&plan("iometer"));
    assert_eq!(outcome.rows.len(), 24, "{:?}", tests(&outcome));
    for pattern in ["web server", "file server", "workstation", "database"] {
        let value = |depth: u32| row(&outcome, &format!("{pattern}, QD{depth}")).value;
        assert!(value(8) > value(1), "{pattern}: {} and {}", value(8), value(1));
    }
}

#[test]
fn sweep_covers_sizes_depths_and_mixes() {
    let outcome = run(&plan("sweep"));
    let all = tests(&outcome);
    for test in [
        "random read, 512 B, QD1",
        "random write, 4 KiB, QD256",
        "random read, 32 MiB, QD16",
        "70 % reads, random 4 KiB, QD32",
    ] {
        assert!(all.contains(&test), "{test}");
    }
    assert!(!all.contains(&"random read, 32 MiB, QD32"), "that would take a gigabyte");
}

#[test]
fn atto_is_the_sizes_of_a_smaller_file() {
    let outcome = run(&plan("atto"));
    assert_eq!(tests(&outcome), tests(&run(&plan("sizes"))));
    assert!(outcome.rows.iter().all(|row| row.value > 0.0));
}

#[test]
fn custom_runs_its_loads_one_after_the_other() {
    let job = |name: &str, pattern: &str| Job {
        name: Some(name.to_owned()),
        pattern: pattern.parse().expect("an order"),
        time_ns: Some(SECOND / 10),
        span_bytes: Some(128 << 20),
        ..Job::default()
    };
    let jobs = vec![
        Job { reads_percent: 0, block_bytes: 1 << 20, ..job("in order", "sequential") },
        Job { depth: 4, span_bytes: Some(4 << 20), ..job("a hot part", "zipf:1.1") },
        Job { rate: Some(1000), idle_before_ns: 5 * SECOND, ..job("open", "random") },
    ];
    let usual = Plan::new(suite("custom").profile(), small());
    let plan = usual.clone().with_jobs(jobs.clone());
    assert_eq!(plan.span(), 128 << 20, "as much as the largest needs");
    let outcome = run(&plan);
    assert_eq!(tests(&outcome), ["in order", "a hot part", "open"]);
    let units: Vec<&str> = outcome.rows.iter().map(|row| row.unit).collect();
    assert_eq!(units, ["MB/s", "IOPS", "IOPS"]);
    assert!((value(&outcome, "open") / 1000.0 - 1.0).abs() < 0.05, "{:?}", outcome.rows[2]);
    assert!(outcome.rows.iter().all(|row| row.shortened.is_none()));
    assert!((5 * SECOND..6 * SECOND).contains(&outcome.elapsed_ns), "the pause is kept");
    let only = run(&Plan { only: Some("open".to_owned()), ..plan });
    assert_eq!(tests(&only), ["open"]);
    // A span below the minimum of suites is a part of the minimum span.
    assert_eq!(usual.clone().with_jobs(vec![jobs[1].clone()]).span(), 64 << 20);
    let large = Job { span_bytes: Some(1 << 40), ..jobs[0].clone() };
    let refused = usual.with_jobs(vec![large]).check().expect_err("too large");
    assert!(refused.starts_with("load 'in order': span 1 TiB: only "), "{refused}");
}

#[test]
fn every_suite_can_be_listed_for_fio() {
    for suite in suites::ALL.iter().filter(|suite| !suite.is_generated()) {
        let name = suite.profile().name;
        let target = Target::of_rig("/dev/sdx", 1 << 30, 3);
        let Listing { loads, ended, .. } = suites::list(&Plan::new(suite.profile(), target));
        assert_eq!(ended, Ok(()), "{name}");
        assert!(!loads.is_empty(), "{name} does nothing");
        let target = suites::fio::FioTarget::Path("/dev/disk/by-path/a:b".to_owned());
        let loads =
            loads.iter().map(|(name, load)| (name.clone(), load.clone(), load::Content::random(1)));
        let text = suites::fio::job_file(name, &target, &loads.collect::<Vec<_>>());
        assert!(text.contains("\nfilename=/dev/disk/by-path/a\\:b\n"), "{text}");
        assert_eq!(text.matches("\nstonewall\n").count(), text.matches("\nrw=").count());
    }
}

#[test]
fn reads_alone_are_what_is_left_of_a_suite_that_may_not_write() {
    for suite in suites::ALL.iter().filter(|it| it.without_writes() != WithoutWrites::Never) {
        let name = suite.profile().name;
        let target = Target::of_rig("disk", 64 << 30, 1);
        let plan = Plan::new(suite.profile(), target.clone()).reading();
        let eras = suite
            .eras()
            .into_iter()
            .map(|era| suites::plan_in(*suite, era.first, target.clone()).expect(name).reading());
        for plan in eras.chain([plan]) {
            let Listing { loads, outcome, ended, .. } = suites::list(&plan);
            assert_eq!(ended, Ok(()), "{name}");
            assert!(!outcome.rows.is_empty(), "{name}");
            assert!(outcome.rows.iter().all(|row| !row.test.contains("write")), "{name}");
            for (stage, load) in &loads {
                assert!(load.reads_percent == 100 && !load.flush, "{name}: {stage}");
            }
            // There are no pauses for tests that are left out.
            let tests = outcome.rows.len() as u64;
            assert!(outcome.elapsed_ns <= (60 + 60 * tests) * SECOND, "{name}");
        }
    }
}

#[test]
fn pauses_are_as_much_shorter_as_the_tests_and_memory_needs_none() {
    let plan = Plan::new(suite("qd1").profile(), Target::of_rig("disk", 64 << 30, 1));
    let pauses = |plan: Plan| {
        let Listing { outcome, ended, .. } = suites::list(&plan);
        assert_eq!(ended, Ok(()));
        outcome.elapsed_ns / SECOND
    };
    // Before the first test, and after each of two.
    assert_eq!(pauses(plan.clone().in_real_time(true)), 180);
    let short = Plan { time_ns: SECOND, ..plan.clone() };
    assert_eq!(pauses(short.clone().in_real_time(true)), 3);
    assert_eq!(short.clone().in_real_time(true).preparation.to_string(), "fill,idle:1s");
    assert_eq!(pauses(short), 180, "a modelled drive's pauses take no time");
    assert_eq!(pauses(Plan { time_ns: 600 * SECOND, ..plan.clone() }.in_real_time(true)), 180);
    assert_eq!(pauses(plan.clone().in_real_time(false)), 0);
    assert_eq!(plan.in_real_time(false).preparation.to_string(), "fill");
}
