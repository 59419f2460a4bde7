//! The list of suites, their help, and their eras.

use crate::common::{json_and_errors, run, target};

#[test]
fn a_suite_runs_as_it_did_in_a_year() {
    let home = tempfile::tempdir().expect("a directory");
    let target = target();
    let arguments =
        ["cdm", &target, "--era", "2013", "--time", "20ms", "--only", "512K read", "--json"];
    let (object, errors) = json_and_errors(&run(home.path(), &arguments));
    assert_eq!(object["era"], 2013, "{errors}");
    assert_eq!(object["rows"][1]["test"], "512K read");
    let help = run(home.path(), &["--help"]).stdout;
    let help = String::from_utf8_lossy(&help);
    assert!(help.contains("--era <YEAR>") && help.contains("2010 to 2014"), "{help}");
}

#[test]
fn the_suites_are_listed_and_each_has_a_help_of_its_own() {
    let home = tempfile::tempdir().expect("a directory");
    let list = run(home.path(), &["list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 15 && names.contains(&"cdm") && names.contains(&"loadtime"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 110), "{list}");
    let help = run(home.path(), &["cdm", "--help"]);
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for word in ["CrystalDiskMark 8", "RND4K Q32T1 read", "--era", "Usage: overdrive bench cdm"] {
        assert!(help.contains(word), "no '{word}' in {help}");
    }
    for other in ["fourcorners", "--job", "--dirty-age", "--share"] {
        assert!(!help.contains(other), "'{other}' in {help}");
    }
}
