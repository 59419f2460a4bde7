//! The suites as reviewers ran them in other years.

use crate::{SECOND, drive, plan, run, small, state, suite, tests, value};
use suites::{Halt, Outcome, Plan, Preparation, report};

/// Returns the suite in a year on the small drive, with parts of this length.
fn in_year(name: &str, year: u16, time_ns: u64) -> Plan {
    let usual = suites::plan_in(suite(name), year, small()).expect("an era");
    let span_bytes = usual.span_bytes.map(|_| 128 << 20);
    Plan { time_ns, span_bytes, ..usual }
}

#[test]
fn every_era_is_reported_and_a_year_without_one_is_refused() {
    let page = include_str!("../../../../../docs/SUITES.md");
    for suite in suites::ALL {
        let name = suite.profile().name;
        for era in suite.eras() {
            let line = format!("\n| `{name}` | {era} | ");
            assert!(page.contains(&line), "{line} in the table of eras");
            assert_eq!(era.profile.name, name);
            let plan = suites::plan_in(*suite, era.first, small()).expect("an era");
            assert_eq!((plan.era, plan.suite), (Some(era.first), era.profile));
            assert_eq!(plan.time_ns, era.profile.time_ns);
        }
        let refused = suites::plan_in(*suite, 1999, small()).expect_err("no era");
        assert!(refused.starts_with("--era 1999: ") && refused.contains(name), "{refused}");
        let years: Vec<u16> = suite.eras().iter().flat_map(|it| [it.first, it.last]).collect();
        assert!(years.is_sorted(), "{name}: {years:?}");
    }
    let (outcome, ended) = suites::run(&Plan { era: Some(1999), ..plan("trim") }, &mut ());
    assert!(matches!(ended, Err(Halt::Plan(_))) && outcome.rows.is_empty(), "{ended:?}");
}

#[test]
fn without_an_era_a_suite_is_that_of_the_years_it_has_always_been() {
    for (name, year) in [("fourcorners", 2012), ("consistency", 2013), ("atto", 2010)] {
        let usual = plan(name);
        let dated = Plan { era: Some(year), ..usual.clone() };
        let (usual, dated) = (run(&usual), run(&dated));
        let values = |outcome: &Outcome| -> Vec<(String, f64)> {
            outcome.rows.iter().map(|row| (row.test.clone(), row.value)).collect()
        };
        assert_eq!(values(&usual), values(&dated), "{name}");
        assert!(usual.method[0].starts_with("The drive was purged"), "{:?}", usual.method);
        assert!(dated.method[0].starts_with("The test is that of 20"), "{:?}", dated.method);
        assert_eq!(report::json(&dated)["era"], year);
        assert!(report::json(&usual)["era"].is_null());
    }
}

#[test]
fn fourcorners_of_2009_reads_all_of_the_drive_and_of_2015_has_depths_and_mixes() {
    let early = run(&in_year("fourcorners", 2009, SECOND / 10));
    assert_eq!(
        tests(&early),
        [
            "random 4 KiB write, QD3",
            "random 4 KiB read, QD3",
            "sequential 2 MiB write, QD1",
            "sequential 2 MiB read, QD1"
        ]
    );
    // Written before it is read, but not before it is written at random.
    let prepared: Vec<&str> = early.rows.iter().map(|row| row.prepared.as_str()).collect();
    assert_eq!(prepared, ["fresh", "fill", "fill", "fill"]);
    let filled = Plan { state: state("filled"), ..in_year("fourcorners", 2009, SECOND / 10) };
    assert_eq!(run(&filled).rows[1].prepared, "fill", "once is enough");
    let late = run(&in_year("fourcorners", 2015, SECOND / 10));
    assert_eq!(late.rows.len(), 6 + 6 + 6 + 2, "{:?}", tests(&late));
    let read = |depth: u32| value(&late, &format!("random 4 KiB read, QD{depth}"));
    assert!(read(32) > 2.0 * read(1), "{} and {}", read(1), read(32));
    assert!(value(&late, "60 % reads, random 4 KiB, QD3") > 0.0);
    let usual = suites::plan_in(suite("fourcorners"), 2015, small()).expect("an era");
    assert_eq!((usual.span_bytes, usual.time_ns), (Some(16 << 30), 180 * SECOND));
}

#[test]
fn cdm_of_2013_has_its_own_tests_and_block() {
    let outcome = run(&in_year("cdm", 2013, SECOND / 10));
    assert_eq!(outcome.rows.len(), 16, "{:?}", tests(&outcome));
    let text = report::text(&outcome, None).to_string();
    for line in [
        "           Sequential Read : ",
        "         Random Read 512KB : ",
        "    Random Read 4KB (QD=1) : ",
        "  Random Write 4KB (QD=32) : ",
    ] {
        let found = text.lines().find(|found| found.starts_with(line));
        let found = found.unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(
            found.contains(" MB/s") && found.contains("IOPS") == line.contains("4KB"),
            "{found}"
        );
    }
    assert!(text.contains("CrystalDiskMark 3") && !text.contains("CrystalDiskMark 8"), "{text}");
}

#[test]
fn trim_of_2009_writes_at_random_and_of_2011_passes_over_all_of_it() {
    let early = run(&in_year("trim", 2009, 20 * SECOND));
    let run_of = |name: &str| value(&early, &format!("{name}: random 4 KiB write, QD16"));
    let (first, second, after) = (run_of("run 1"), run_of("run 2"), run_of("after TRIM"));
    assert!(second < 0.8 * first && after > second, "{first}, {second}, {after}");
    assert!(early.series.is_empty() && report::page(&early).contains("<svg"));
    let preparation = Preparation::parse("fill,torture:20s,trim").expect("sound");
    let late = run(&Plan { preparation, ..in_year("trim", 2011, 0) });
    for series in &late.series {
        let bytes = series.values.len() as f64 * series.step * 1e9;
        assert!((bytes / late.plan.span() as f64 - 1.0).abs() < 0.02, "{}", series.name);
    }
    assert_eq!(late.series.len(), 3);
}

#[test]
fn consistency_of_2015_averages_its_last_seconds() {
    let outcome =
        run(&Plan { target: drive("slow"), ..in_year("consistency", 2015, 450 * SECOND) });
    let rates = &outcome.series[0].values;
    assert_eq!(rates.len(), 450);
    let mean = rates[50..].iter().sum::<f64>() / 400.0;
    assert!((value(&outcome, "last 400 s, mean of a second") - mean).abs() < 1e-9 * mean);
    let over = value(&outcome, "last 400 s, mean over standard deviation");
    let deviation = value(&outcome, "last 400 s, standard deviation of a second");
    assert!((over * deviation / mean - 1.0).abs() < 1e-9, "{over}");
    let page = report::page(&outcome);
    assert!(page.contains("last 400 s, linear") && !page.contains("from 1,400 s, linear"));
    assert!(page.contains("In the last 400 s it answers "));
}

#[test]
fn atto_of_2018_goes_on_and_iometer_of_2001_goes_deeper() {
    let late = run(&in_year("atto", 2020, SECOND / 100));
    let limit = run(&plan("atto")).rows.len();
    assert!(late.rows.len() > limit, "{:?}", tests(&late));
    assert!(late.rows.iter().any(|row| row.test == "read, 32 MiB"), "{:?}", tests(&late));
    assert!(late.method.join(" ").contains("supports no transfers above"), "{:?}", late.method);
    let early = run(&in_year("iometer", 2001, SECOND / 10));
    assert_eq!(early.rows.len(), 4 * 5, "{:?}", tests(&early));
    assert!(value(&early, "web server, QD256") > value(&early, "web server, QD1"));
}
