//! Published figures: each exists in its suite, and those that run quickly are met.

use drives::Model;
use suites::published::family::{LeftOut, Relatives, left_out};
use suites::published::parameters::{Parameter, is_recollected, parameters_of};
use suites::published::{Class, Figure, Wanted, Worth, figures, figures_of, mark_doubts, measure};
use suites::{Access, Outcome, Plan, Row, Target, find};

#[test]
fn errors_are_shares_of_what_was_published() {
    assert!((Wanted::Near(100.0).error(110.0) - 0.1).abs() < 1e-9);
    assert_eq!(Wanted::Between(3.0, 5.0).error(4.0), 0.0);
    assert!((Wanted::Between(3.0, 5.0).error(6.0) - 0.2).abs() < 1e-9);
    assert!((Wanted::Between(3.0, 5.0).error(1.5) + 0.5).abs() < 1e-9);
    assert_eq!(Wanted::Least(20.0).error(30.0), 0.0);
    assert_eq!(Wanted::Between(3000.0, 5000.0).to_text(), "3000..5000");
}

#[test]
fn every_figure_has_a_plan_that_can_be_run_and_a_source() {
    let all = figures();
    let mut names = std::collections::BTreeSet::new();
    for figure in &all {
        assert_eq!(figure.plan.check(), Ok(()), "{}: {}", figure.drive, figure.what);
        assert!(!figure.source.is_empty() && figure.worth != Worth::Theory);
        assert!(names.insert((figure.drive.clone(), figure.what.clone())), "{} twice", figure.what);
    }
    let predicted =
        |class| all.iter().filter(|it| it.class == class && it.worth == Worth::Predicted).count();
    assert!(predicted(Class::New) >= 4 && predicted(Class::Worn) >= 4);
    assert!(all.iter().any(|it| it.class == Class::Trimmed));
}

#[test]
fn one_at_a_time_an_840_evo_is_what_was_measured() {
    let quick = |figure: &Figure| figure.plan.suite.name == "qd1";
    let figures: Vec<Figure> = figures().into_iter().filter(quick).collect();
    assert!(!figures.is_empty());
    measure(&figures, |figure, found| {
        let error = figure.wanted.error(found.expect("the row is there"));
        // The requirement of these figures: a tenth, and a factor of three for the maximum.
        let low_high =
            if figure.what.ends_with("longest") { (-2.0 / 3.0, 2.0) } else { (-0.1, 0.1) };
        assert!((low_high.0..=low_high.1).contains(&error), "{}: {error:+.3}", figure.what);
    });
}

/// Returns the doubts in rows of a suite on a modelled drive, each with a preparation and a kind of
/// requests.
fn doubts(suite: &str, drive: &str, rows: &[(&str, Access)]) -> Vec<Option<String>> {
    let target = Target::parse(&format!("model:{drive}")).expect("a preset");
    let mut outcome = Outcome::new(&Plan::new(find(suite).expect("a suite").profile(), target));
    outcome.rows = rows
        .iter()
        .map(|(prepared, access)| Row {
            prepared: (*prepared).to_owned(),
            access: Some(*access),
            ..Row::plain("a row", "MB/s", 50.0)
        })
        .collect();
    mark_doubts(&mut outcome);
    outcome.rows.into_iter().map(|row| row.doubt).collect()
}

#[test]
fn a_row_says_where_published_figures_do_not_support_the_model() {
    use Access::{RandomWrites, Reads, SequentialWrites};
    let used = "fill,idle:60s,fill,torture:1800s,fill,idle:60s";
    let rows = [("fill,idle:60s", SequentialWrites), (used, SequentialWrites), (used, Reads)];
    for drive in ["samsung-850-pro-256", "ocz-vector-256"] {
        let [fresh, worn, reads] = &doubts("filebench", drive, &rows)[..] else { panic!("three") };
        // One of the two is known from recollection only, which every row says.
        let is_recollected = drive == "ocz-vector-256";
        for row in [fresh, reads] {
            let says = row.as_deref().is_some_and(|doubt| doubt.contains("recollection"));
            assert_eq!((says, row.is_some()), (is_recollected, is_recollected), "{drive}: {row:?}");
        }
        let worn = worn.as_deref().expect(drive);
        assert!(worn.contains("no published figure of sequential writes"), "{drive}: {worn}");
    }
    // Its sequential writes after random ones were published, and the model meets them.
    assert_eq!(doubts("filebench", "samsung-840-evo-250", &rows), [None, None, None]);
    let known = doubts("corners", "samsung-840-pro-256", &[(used, SequentialWrites)]);
    let known = known[0].as_deref().expect("it is off by more than a factor of two");
    assert!(known.contains("MB/s, but 41.6") && known.contains("ht4u"), "{known}");
    // Consistency wears its drive itself; only one of these two has figures for that.
    assert_eq!(doubts("consistency", "samsung-850-pro-256", &[("fill", RandomWrites)]), [None]);
    assert!(doubts("consistency", "ocz-vector-256", &[("fill", RandomWrites)])[0].is_some());
    // Of this drive one latency when used was published; the rest is a recollection.
    assert!(doubts("qd1", "ocz-vertex-120-early", &[("fill", RandomWrites)])[0].is_some());
}

#[test]
fn a_source_names_the_figure_that_set_its_parameter() {
    let model = |name: &str| Model::preset(name).expect("a preset");
    let all: Vec<(Model, Vec<Parameter>)> = Model::names()
        .map(|name| (model(name), parameters_of(&model(name), &figures_of(name))))
        .collect();
    let set = |name: &str, key: &str| {
        let (_, parameters) = all.iter().find(|(model, _)| model.name == name).expect("a preset");
        parameters.iter().find(|it| it.key == key).expect("a parameter").figures.clone()
    };
    let pro = "samsung-840-pro-256";
    assert_eq!(set(pro, "firmware.write_latency_us"), ["random_write_qd1_iops"]);
    assert!(set(pro, "nand.channels").is_empty() && set(pro, "firmware.relocate_us").is_empty());
    // Its worn row was used to choose this, so it tests nothing.
    let worn = set("ocz-vertex-120", "firmware.relocate_us");
    assert!(worn.iter().any(|what| what.contains("random:100%")), "{worn:?}");
    let left = left_out(&model(pro), &all, Relatives::Others).expect("a sound model");
    let (_, own, value, from) = left
        .replaced
        .iter()
        .find(|(key, ..)| key == "firmware.write_latency_us")
        .expect("a figure of its own has set it");
    // No other size of it has a value of its own, so Samsung's others on its interface have: 13.3,
    // 22.3 and 6.3 us, each of which counts once.
    assert!(own == "11" && (*value - 13.3).abs() < 1e-9, "{value} of {from}");
    assert!(from.contains("samsung-840-250") && from.contains("samsung-850-pro"), "{from}");
    let fact = |key: &str| left.model.facts.iter().find(|fact| fact.key == key).cloned();
    assert!(fact("firmware.write_latency_us").is_some_and(|fact| fact.source == "its family"));
    assert_eq!(
        fact("nand.dies"),
        model(pro).facts.iter().find(|it| it.key == "nand.dies").cloned()
    );
    assert!(is_recollected(&model("ocz-vector-256")) && !is_recollected(&model(pro)));
}

#[test]
fn a_family_s_values_are_scaled_to_the_drive() {
    let presets = Model::names().filter_map(Model::preset);
    let all: Vec<(Model, Vec<Parameter>)> = presets
        .map(|model| (model.clone(), parameters_of(&model, &figures_of(&model.name))))
        .collect();
    let left_from = |drive: &str, relatives| -> LeftOut {
        let model = Model::preset(drive).expect("a preset");
        left_out(&model, &all, relatives).expect("a sound model")
    };
    let left = |drive: &str| left_from(drive, Relatives::Others);
    let value = |drive: &str, key: &str| {
        let left = left(drive);
        let found = left.replaced.iter().find(|(known, ..)| known == key).map(|it| it.2);
        found.unwrap_or_else(|| panic!("{drive}: {key} is not replaced"))
    };
    let is = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found}, expected {expected}");
    };
    // Two controllers of the others' four. The 960 GB model inherits the value, which counts once.
    is(value("ocz-revodrive-350-240", "firmware.write_us"), 5.8 * 2.0);
    is(value("ocz-revodrive-350-240", "limits.write_mb_s"), 1720.0 / 2.0);
    // The area is the same share of the flash in three of the four other sizes.
    is(value("samsung-840-evo-250", "slc.static_bytes"), 3e9);
    // Two bits a cell: no 840, and no EVO, whose values would be 860 and 890.
    is(value("samsung-840-pro-128", "nand.program_us"), 606.0);
    // The only other drives with its protocol have a link of twice the rate.
    let limits = 1090.0_f64 * 820.0 / 1640.0;
    is(value("plextor-m6e-256", "limits.read_mb_s"), limits);
    // The 840 EVO's 19 us were derived from the 840's own 25.
    let latency = value("samsung-840-250", "firmware.read_latency_us");
    is(latency, (21.0_f64 * 16.0).sqrt());
    // The only other value was derived from this one, so the figure is not predicted.
    let kept = left("ocz-revodrive-350-480").kept;
    let kept: Vec<&str> = kept.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(kept, ["limits.native_write_mb_s"]);
    // Without the sizes of its own line it has no relatives, and others have some.
    assert!(left_from("ocz-revodrive-350-240", Relatives::OtherLines).replaced.is_empty());
    let others = left_from("intel-x25-m-g2-80", Relatives::OtherLines).replaced;
    let write = others.iter().find(|(key, ..)| key == "firmware.write_us").expect("that of G1");
    is(write.2, 91.0);
}

#[test]
fn a_drive_of_known_power_has_the_energy_of_a_suite() {
    let energy = |drive: &str| {
        let target = Target::parse(&format!("model:{drive}")).expect("a preset");
        let only = Some("random 4 KiB write, QD1".to_owned());
        let usual = Plan::new(find("qd1").expect("a suite").profile(), target);
        let plan = Plan { only, time_ns: 1_000_000_000, span_bytes: Some(1 << 28), ..usual };
        let (outcome, _) = suites::run(&plan, &mut ());
        let row = outcome.rows.iter().find(|row| row.unit == "J").map(|row| row.value);
        assert_eq!(row, outcome.joules);
        assert_eq!(suites::report::json(&outcome)["drive"]["joules"].is_number(), row.is_some());
        assert_eq!(
            suites::report::json(&outcome)["drive"]["version"].as_str().map(str::len),
            Some(8)
        );
        row.map(|joules| joules / (outcome.elapsed_ns as f64 / 1e9))
    };
    let watts = energy("samsung-xp941-256").expect("its power is published");
    // It is idle for most of the time.
    assert!((0.08..2.9).contains(&watts), "{watts} W");
    assert_eq!(energy("samsung-840-evo-250"), None);
}
