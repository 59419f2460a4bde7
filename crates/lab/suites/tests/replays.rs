//! The suites that replay recordings, on modelled drives and on devices that fail.

use block::{FaultsSpec, Size, Stack};
use drive_backend::{Keep, Shared, State};
use drives::{Model, Options};
use lane::{Prices, World};
use layers::{Faults, FaultsShared, Recorder, RecorderShared};
use load::{Limit, Load, Order, Ordered, Replay, RunOptions, Running};
use suites::{Halt, Modelled, Outcome, Plan, Rig, Target, find, report};
use trace::{Event, Trace};

fn plan(name: &str) -> Plan {
    let target = Target::parse("model:samsung-840-evo-250?seed=3").expect("a preset");
    Plan { time_ns: 1_000_000_000, ..Plan::new(find(name).expect("a suite").profile(), target) }
}

fn cached(plan: Plan) -> Plan {
    let suite = find(plan.suite.name).expect("a suite");
    Plan { cache: Some(suite.cache(Size(1 << 30))), ..plan }
}

fn run(plan: &Plan) -> Outcome {
    let (outcome, ended) = suites::run(plan, &mut ());
    assert_eq!(ended, Ok(()));
    outcome
}

fn value(outcome: &Outcome, test: &str) -> f64 {
    outcome.row(test).unwrap_or_else(|| panic!("no row '{test}'")).value
}

#[test]
fn every_set_is_copied_in_both_states_and_every_row_says_that_it_is_a_replay() {
    let outcome = run(&plan("filebench"));
    let copies: Vec<_> = outcome.rows.iter().filter(|row| row.unit == "MB/s").collect();
    let names: Vec<&str> = copies.iter().map(|row| row.test.as_str()).collect();
    let sets = ["Movie", "RAW", "MP3", "TR", "Mozilla"];
    let wanted = ["fresh", "used"].map(|state| sets.map(|set| format!("{set}, {state}")));
    assert_eq!(names, wanted.concat());
    for row in &copies {
        let (said, set) = (row.shortened.as_deref().expect("a part"), row.test.split(',').next());
        let what =
            format!("a replay of a recording, copy of the file set {}, ", set.expect("a set"));
        assert!(said.starts_with(&what) && said.contains(" files, "), "{said}");
        assert_eq!(said.contains("random writes for 1 s of 1800 s"), row.test.ends_with("used"));
        // A SATA drive reads and writes each byte: at most half its rate.
        assert!((20.0..280.0).contains(&row.value), "{}: {}", row.test, row.value);
        assert!(!row.partial && row.latency.as_ref().is_some_and(|it| it.count() > 1000));
    }
    assert!(copies[0].prepared == "fill,idle:60s", "{}", copies[0].prepared);
    assert!(copies[9].prepared.contains("torture:1s"), "{}", copies[9].prepared);
    // Small files are not faster than large ones.
    assert!(value(&outcome, "Mozilla, fresh") < value(&outcome, "Movie, fresh"));
    let json = report::json(&outcome);
    assert!(json["method"].to_string().contains("The target has no file system"));
}

#[test]
fn one_copy_is_the_same_every_time() {
    let plan = Plan { only: Some("MP3, fresh".to_owned()), ..plan("filebench") };
    let (once, again) = (run(&plan), run(&plan));
    assert_eq!(once.rows.len(), 1, "no random writes where nothing follows them");
    assert_eq!(report::json(&once).to_string(), report::json(&again).to_string());
}

#[test]
fn the_second_load_is_faster_only_behind_a_cache() {
    let bare = run(&plan("loadtime"));
    let apart = value(&bare, "second load") / value(&bare, "first load");
    assert!((0.9..1.1).contains(&apart), "{apart}");
    let cached = run(&cached(plan("loadtime")));
    let [first, second] =
        ["first load", "second load"].map(|test| cached.row(test).expect("a row"));
    assert_eq!((first.cold, second.cold), (Some(true), Some(false)));
    assert!(second.value < first.value / 2.0, "{} and {}", first.value, second.value);
    let files = value(&bare, "first load, files") * value(&bare, "first load");
    assert!((files - 1596.0).abs() < 0.5, "{files} files");
    assert!(
        bare.rows
            .iter()
            .all(|row| row.shortened.as_deref().is_some_and(|it| it.contains("a replay")))
    );
}

#[test]
fn too_small_a_target_is_refused_with_what_is_needed() {
    let target = Target::parse("model:samsung-840-evo-250?size=512M").expect("it fits");
    let (outcome, ended) = suites::run(&Plan { target, ..plan("loadtime") }, &mut ());
    let Err(Halt::Plan(what)) = ended else { panic!("{ended:?}") };
    assert!(what.contains("needs 1 GiB, but only 512 MiB can be used"), "{what}");
    assert!(outcome.rows.is_empty());
}

/// A modelled drive whose reads fail from a given number on.
struct Failing {
    drive: Modelled,
    device: Stack,
}

impl Rig for Failing {
    fn device(&self) -> &Stack {
        &self.device
    }

    fn time(&self) -> &'static str {
        self.drive.time()
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        self.drive.go_on(done)
    }

    fn age(&mut self, work: &mut dyn FnMut(&mut drives::Fast)) -> bool {
        self.drive.age(work)
    }
}

#[test]
fn what_was_replayed_until_the_device_failed_is_kept_and_marked() {
    let plan = plan("filebench");
    let drive = Modelled::new(&plan.target, plan.prices).expect("it fits");
    // Within the second copy.
    let spec = FaultsSpec { read_from: 4000, ..FaultsSpec::default() };
    let faults = Faults::attach(FaultsShared::new(&spec), drive.device().clone());
    let device = Stack::new(drive.device().lane(), faults);
    let rig = Failing { drive, device };
    let (outcome, ended) = suites::run_on(Box::new(rig), &plan, &mut ());
    assert!(matches!(ended, Err(Halt::Failed(_))), "{ended:?}");
    assert!(!outcome.complete);
    let partial: Vec<_> = outcome.rows.iter().map(|row| (row.test.as_str(), row.partial)).collect();
    assert_eq!(partial, [("Movie, fresh", false), ("RAW, fresh", true)]);
    // The share that was copied, over its time, not the whole.
    assert!((20.0..280.0).contains(&outcome.rows[1].value), "{}", outcome.rows[1].value);
}

/// Interrupts the suite after this number of looks.
struct Impatient(u32);

impl suites::Watch for Impatient {
    fn look(&mut self, stage: &str, share: f64) -> bool {
        assert!((0.0..=1.0).contains(&share), "{stage}: {share}");
        self.0 = self.0.saturating_sub(u32::from(stage.contains("load")));
        self.0 > 0
    }
}

#[test]
fn an_interrupted_load_is_marked() {
    let mut watch = Impatient(1);
    let (outcome, ended) = suites::run(&cached(plan("loadtime")), &mut watch);
    assert_eq!(ended, Err(Halt::Interrupted));
    assert!(outcome.rows.iter().all(|row| row.partial), "{:?}", outcome.rows);
    assert!(outcome.row("second load").is_none());
}

const DRIVE_BYTES: u64 = 1 << 30;

/// Runs a load on a filled drive. Returns its requests, as a recorder above the drive sees them.
fn recorded(start: impl FnOnce(&Stack) -> Running) -> Vec<Event> {
    let model = Model::preset("samsung-840-evo-250").expect("a preset");
    let options = Options { user_bytes: Some(DRIVE_BYTES), ..Options::default() };
    let shared = Shared::new(&model, &options, Keep::Nothing).expect("a drive");
    shared.age(State::Filled).expect("a drive");
    let mut world = World::timed(Prices::default());
    let lane = world.lane();
    let drive = Stack::new(&lane, drive_backend::Modelled::attach(&shared, &lane));
    let (recorder, mut recording) = RecorderShared::new(0, 1 << 16);
    let running = start(&Stack::new(&lane, Recorder::attach(&recorder, drive)));
    assert!(world.run_until(|| running.is_done()));
    let mut events = Vec::new();
    assert_eq!(recording.take(&mut events), 0);
    events
}

/// Returns the largest distance of two distributions of times (Kolmogorov and Smirnov).
fn distance(one: &[u64], other: &[u64]) -> f64 {
    let share = |sorted: &[u64], ns: u64| {
        sorted.partition_point(|it| *it <= ns) as f64 / sorted.len() as f64
    };
    let apart = |ns: &u64| (share(one, *ns) - share(other, *ns)).abs();
    one.iter().chain(other).map(apart).fold(0.0, f64::max)
}

#[test]
fn a_recording_that_is_replayed_with_its_times_on_the_same_drive_has_its_service_times() {
    let load = Load::new(Order::Random, 4096, DRIVE_BYTES);
    let arrival = load::Arrival::Closed { depth: 8 };
    let load = Load { arrival, reads_percent: 60, limit: Limit::requests(20_000), ..load };
    let first = recorded(|stack| Running::start(stack, load).expect("it fits"));
    let replay = Replay::new(Trace::of(first.clone()), DRIVE_BYTES, 1).expect("room");
    let second = recorded(|stack| {
        let source = Ordered::new(replay.after(1_000_000));
        Running::of(stack, source, RunOptions::depth(256)).expect("it fits")
    });
    let times = |events: &[Event]| {
        let mut times: Vec<u64> = events.iter().filter_map(|event| event.took_ns).collect();
        times.sort_unstable();
        times
    };
    let (first, second) = (times(&first), times(&second));
    assert_eq!((first.len(), second.len()), (20_000, 20_000));
    let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
    let (ratio, apart) = (mean(&second) / mean(&first), distance(&first, &second));
    println!("mean {ratio:.4} of the recorded one, distance {apart:.4}");
    assert!((0.95..1.05).contains(&ratio) && apart < 0.1, "{ratio}, {apart}");
}
