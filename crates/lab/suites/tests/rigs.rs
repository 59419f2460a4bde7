//! Suites on a rig other than a modelled drive in virtual time: memory on a ring's lane, in real
//! time.

use block::{FaultsSpec, Ram, SECTOR, Size, Stack};
use lane::Lane;
use layers::{Faults, FaultsShared, Recorder, RecorderShared, Recording};
use ring::Ring;
use std::cell::Cell;
use suites::{Halt, Outcome, Plan, Preparation, Rig, Target, Watch, find, report};
use trace::{Event, Operation};

const BYTES: u64 = 64 << 20;
/// Rounds of the live loop between two calls of the watch.
const ROUNDS: u32 = 256;

/// A stack on a live lane.
struct Live {
    ring: Ring,
    device: Stack,
}

impl Live {
    /// Returns memory whose writes fail from the n-th on.
    fn failing(write_from: u64) -> Live {
        let ring = Ring::new(&Lane::new()).expect("io_uring works here");
        let ram = Stack::new(ring.lane(), Ram::new(BYTES / SECTOR, SECTOR as u32));
        let faults = FaultsShared::new(&FaultsSpec { write_from, ..FaultsSpec::default() });
        let device = Stack::new(ring.lane(), Faults::attach(faults, ram));
        Live { ring, device }
    }

    /// Returns memory with a recorder that holds its first 4,096 requests.
    fn memory() -> (Live, Recording) {
        let ring = Ring::new(&Lane::new()).expect("io_uring works here");
        let ram = Stack::new(ring.lane(), Ram::new(BYTES / SECTOR, SECTOR as u32));
        let (shared, recording) = RecorderShared::new(0, 4096);
        let device = Stack::new(ring.lane(), Recorder::attach(&shared, ram));
        (Live { ring, device }, recording)
    }
}

impl Rig for Live {
    fn device(&self) -> &Stack {
        &self.device
    }

    fn time(&self) -> &'static str {
        "real"
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        let rounds = Cell::new(0);
        let enough = || {
            rounds.set(rounds.get() + 1);
            done() || rounds.get() > ROUNDS
        };
        self.ring.run(enough).expect("the loop runs");
        true
    }
}

fn plan(name: &str, time_ns: u64) -> Plan {
    let suite = find(name).expect("a suite");
    let target = Target::of_rig(&format!("ram:{}", Size(BYTES)), BYTES, 3);
    let usual = Plan::new(suite.profile(), target);
    let steps = if name == "trim" { "torture:1s,trim" } else { usual.suite.preparation };
    let preparation = Preparation::parse(steps).expect("sound");
    Plan { time_ns, preparation, ..usual }
}

fn run(plan: &Plan) -> (Outcome, Vec<Event>) {
    let (rig, mut recording) = Live::memory();
    let (outcome, ended) = suites::run_on(Box::new(rig), plan, &mut ());
    assert_eq!(ended, Ok(()));
    let mut events = Vec::new();
    recording.take(&mut events);
    (outcome, events)
}

#[test]
fn a_suite_runs_in_real_time_on_a_stack_of_its_own() {
    let (outcome, events) = run(&plan("trim", 60_000_000_000));
    assert!(outcome.complete && outcome.elapsed_ns > 50_000_000, "{} ns", outcome.elapsed_ns);
    assert!(outcome.rows.iter().all(|row| row.value > 0.0), "{:?}", outcome.rows);
    assert_eq!(outcome.series.len(), 3);
    // The first pass, as received by the device.
    let block = (128u32 << 10) / SECTOR as u32;
    for (event, number) in events.iter().zip(0..BYTES / (128 << 10)) {
        assert_eq!(event.operation, Operation::Write { fua: false });
        assert_eq!((event.first, event.sectors), (number * u64::from(block), block));
    }
    let json = report::json(&outcome);
    assert_eq!((&json["time"], &json["target"]), (&"real".into(), &"ram:64 MiB".into()));
    assert_eq!((&json["drive"]["title"], &json["seed"]), (&"ram:64 MiB".into(), &3.into()));
    assert!(json["drive"]["model"].is_null());
    assert!(
        report::text(&outcome, None)
            .to_string()
            .starts_with("TRIM validation on ram:64 MiB, bare, in real time\n")
    );
    assert!(report::page(&outcome).contains("Measured in real time on ram:64 MiB"));
}

#[test]
fn the_cache_stands_in_front_of_any_rig() {
    let suite = find("trim").expect("a suite");
    let cache = Some(suite.cache(Size(16 << 20)));
    let (outcome, _) = run(&Plan { cache, ..plan("trim", 60_000_000_000) });
    assert!(outcome.complete);
    let counted = |name: &str| {
        outcome.counters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    };
    assert_eq!(counted("blocks_dirty"), Some(0), "each pass ends with a flush");
    assert!(counted("changes").is_some_and(|changes| changes > 3 * BYTES / (128 << 10)));
}

#[test]
fn a_rig_without_a_short_way_is_aged_by_writing() {
    // On a busy machine, a tenth of it could pass without a request.
    let (outcome, events) = run(&plan("consistency", 1_000_000_000));
    assert!(outcome.complete && outcome.rows[0].value > 0.0);
    let block = (64u32 << 10) / SECTOR as u32;
    let mut filled: Vec<u64> = events
        .iter()
        .take((BYTES / (64 << 10)) as usize)
        .map(|event| {
            assert_eq!((event.operation, event.sectors), (Operation::Write { fua: false }, block));
            event.first
        })
        .collect();
    filled.sort_unstable();
    let wanted: Vec<u64> = (0..BYTES / SECTOR).step_by(block as usize).collect();
    assert_eq!(filled, wanted, "all of it, once");
}

#[test]
fn a_target_without_a_model_needs_its_rig() {
    let (outcome, ended) = suites::run(&plan("trim", 1), &mut ());
    assert!(outcome.rows.is_empty());
    let Err(Halt::Plan(what)) = ended else { panic!("{ended:?}") };
    assert_eq!(what, "ram:64 MiB: is not a modelled drive; name one as model:NAME");
}

/// A rig that hides the foreseen answers of a modelled drive.
struct Lanes(suites::Modelled);

impl Rig for Lanes {
    fn device(&self) -> &Stack {
        self.0.device()
    }

    fn time(&self) -> &'static str {
        self.0.time()
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        let rounds = Cell::new(0);
        let enough = || {
            rounds.set(rounds.get() + 1);
            done() || rounds.get() > ROUNDS
        };
        self.0.go_on(&enough)
    }

    fn age(&mut self, work: &mut dyn FnMut(&mut drives::Fast)) -> bool {
        self.0.age(work)
    }
}

#[test]
fn without_a_lane_a_load_is_the_same() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.toml");
    let target = Target::parse(&format!("model:{file}?seed=3")).expect("the tests' drive");
    for (name, time_ns) in [("fourcorners", 2_000_000_000), ("consistency", 4_000_000_000)] {
        let suite = find(name).expect("a suite");
        let span_bytes = suite.profile().span_bytes.map(|_| 128 << 20);
        let usual = Plan::new(suite.profile(), target.clone());
        let plan = Plan { time_ns, span_bytes, ..usual };
        let (direct, ended) = suites::run(&plan, &mut ());
        assert_eq!(ended, Ok(()));
        let rig = suites::Modelled::new(&target, plan.prices).expect("it fits");
        let (lanes, ended) = suites::run_on(Box::new(Lanes(rig)), &plan, &mut ());
        assert_eq!(ended, Ok(()));
        // The order of two requests answered in the same nanosecond may differ.
        for (one, other) in direct.rows.iter().zip(&lanes.rows) {
            let off = (one.value / other.value - 1.0).abs();
            assert!(off < 0.02, "{}: {} and {}", one.test, one.value, other.value);
        }
        assert_eq!(direct.rows.len(), lanes.rows.len());
        assert!((direct.elapsed_ns as f64 / lanes.elapsed_ns as f64 - 1.0).abs() < 0.01);
    }
}

/// Interrupts the suite at the first look at this stage.
struct UntilStage(&'static str);

impl Watch for UntilStage {
    fn look(&mut self, stage: &str, _: f64) -> bool {
        !stage.starts_with(self.0)
    }
}

/// Runs `pts` on the small drive until a stage.
fn stopped(stage: &'static str) -> (Outcome, Result<(), Halt>) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.toml");
    let target = Target::parse(&format!("model:{file}?seed=3")).expect("the tests' drive");
    let usual = Plan::new(find("pts").expect("a suite").profile(), target);
    let plan = Plan { time_ns: 100_000_000, span_bytes: Some(128 << 20), ..usual };
    let rig = suites::Modelled::new(&plan.target, plan.prices).expect("it fits");
    suites::run_on(Box::new(Lanes(rig)), &plan, &mut UntilStage(stage))
}

#[test]
fn a_round_that_is_interrupted_keeps_what_it_has_measured() {
    let (outcome, ended) = stopped("round 1: 95/5, random 128 KiB");
    assert_eq!(ended, Err(Halt::Interrupted));
    let tests: Vec<&str> = outcome.rows.iter().map(|row| row.test.as_str()).collect();
    assert_eq!((tests.len(), tests[0]), (10, "round 1, not ended: 100/0, random 1 MiB"));
    assert_eq!(tests[9], "round 1, not ended: 95/5, random 128 KiB");
    assert!(outcome.rows.iter().all(|row| row.partial && row.value > 0.0));
    assert!(outcome.method.join(" ").contains("NOT steady after 0 rounds"));

    // In the last cell of a round.
    let (outcome, ended) = stopped("round 2: 0/100, random 512 B");
    assert_eq!((ended, outcome.rows.len()), (Err(Halt::Interrupted), 2 * 56));
    assert!(outcome.row("0/100, random 4 KiB").is_some_and(|row| row.samples.len() == 1));
    assert!(outcome.row("round 2, not ended: 0/100, random 512 B").is_some());
    assert_eq!(outcome.series[0].values.len(), 1, "only whole rounds are judged");
    assert!(outcome.rows.iter().all(|row| row.partial));
    let text = report::text(&outcome, None).to_string();
    assert!(text.contains("NOT steady after 1 rounds") && text.contains("not complete"), "{text}");
}

#[test]
fn a_round_in_which_the_target_fails_keeps_what_it_has_measured() {
    // After the preparation's TRIM and its two passes of 64 KiB each: the first write of a cell.
    let rig = Live::failing(1 + 2 * BYTES / (64 << 10) + 1);
    let (outcome, ended) = suites::run_on(Box::new(rig), &plan("pts", 5_000_000), &mut ());
    assert!(matches!(ended, Err(Halt::Failed(_))), "{ended:?}");
    assert!(!outcome.complete && outcome.rows.len() >= 9, "{} rows", outcome.rows.len());
    let (last, whole) = outcome.rows.split_last().expect("some");
    assert!(last.partial && whole.iter().all(|row| row.partial));
    assert!(last.test.starts_with("round 1, not ended: 95/5, "), "{}", last.test);
}
