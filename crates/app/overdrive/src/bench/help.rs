//! `overdrive bench SUITE --help`: the options of that suite; and the list of suites.

use super::choice;
use crate::terminal;
use clap::Command;
use daemon::settings::SETTINGS;
use report::terminal::{Column, Fit, Table};
use serde_json::{Value, json};
use suites::{ALL, Plan, Suite, Target, find, only};

/// Size of a device that has room for all tests of every suite.
const ROOM_BYTES: u64 = 1 << 40;

/// List the suites.
#[derive(clap::Args)]
pub(super) struct ListOptions {
    /// Print one JSON object.
    #[arg(long, short = 'J')]
    json: bool,
}

/// Prints the suites.
pub(super) fn list(options: &ListOptions) {
    let profiles = ALL.iter().map(|suite| suite.profile());
    if options.json {
        let suites = profiles.map(|profile| {
            json!({
                "name": profile.name, "about": profile.about, "takes_state": profile.takes_state,
                "time_ns": profile.time_ns,
            })
        });
        let suites: Vec<Value> = suites.collect();
        daemon::say!("{}", json!({ "schema": "overdrive.bench.suites/1", "suites": suites }));
        return;
    }
    let columns = vec![Column::text("", Fit::Whole), Column::text("", Fit::Wrap(20))];
    let mut table = Table::new(2, columns).without_heads();
    profiles.for_each(|profile| table.push(vec![profile.name.into(), profile.about.into()]));
    terminal::print(table.lines(terminal::width()));
}

/// Returns the program's command; its help is limited to one suite if the command line asks for
/// that.
pub(crate) fn suited(command: Command) -> Command {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    match requested_suite(&words.collect::<Vec<_>>()) {
        Some(suite) => command.mut_subcommand("bench", |bench| of_suite(bench, suite)),
        None => command,
    }
}

/// Returns the suite whose help is requested; None: another help, or none.
fn requested_suite(words: &[String]) -> Option<&'static dyn Suite> {
    let (first, rest) = words.split_first()?;
    let asks = rest.iter().any(|word| word == "-h" || word == "--help");
    let name = rest.iter().find(|word| !word.starts_with('-'))?;
    // 'bench drives SUITE' has its own options: the first word is no suite.
    find(name).filter(|_| asks && first == "bench")
}

/// Hides options that do not apply to a suite, and describes the others in the suite's terms.
fn of_suite(bench: Command, suite: &'static dyn Suite) -> Command {
    let profile = suite.profile();
    let names = names(suite);
    let is_custom = profile.name == "custom";
    let hidden = [
        ("suite", true),
        ("era", suite.eras().is_empty()),
        ("state", !profile.takes_state),
        ("only", names.is_empty() && !is_custom),
        ("time", profile.time_ns == 0),
        ("job", !is_custom),
        ("order", !is_custom),
        ("block", !is_custom),
        ("depth", !is_custom),
        ("reads", !is_custom),
        ("rate", !is_custom),
        ("share", profile.name != "filebench"),
        ("scale", !suite.is_generated()),
        ("export_fio", suite.is_of_files() || suite.is_generated()),
    ];
    let settings = SETTINGS.iter().map(|setting| (setting.key, true));
    let is_there = |name: &str| bench.get_arguments().any(|argument| argument.get_id() == name);
    let hidden = hidden.into_iter().chain(settings);
    let hidden: Vec<&str> =
        hidden.filter(|(name, hides)| *hides && is_there(name)).map(|(name, _)| name).collect();
    let commands: Vec<String> =
        bench.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let bench = hidden
        .into_iter()
        .fold(bench, |bench, name| bench.mut_arg(name, |argument| argument.hide(true)));
    let bench = commands
        .iter()
        .fold(bench, |bench, name| bench.mut_subcommand(name, |command| command.hide(true)));
    bench
        .about(profile.about)
        .long_about(about(suite, &names))
        .override_usage(format!("overdrive bench {} [OPTIONS] <TARGET>", profile.name))
        .mut_arg("span", |argument| argument.help(span_help(suite)))
        .mut_arg("time", |argument| argument.help(time_help(suite)))
        .mut_arg("spare", |argument| match profile.name {
            "consistency" => argument,
            _ => argument
                .help("Leave this percentage of the drive unused, as if it had more spare area"),
        })
        .mut_arg("era", |argument| {
            let help = "Run the test as reviewers did in a year (see above)";
            argument.help(help).long_help(help)
        })
        .mut_arg("state", |argument| {
            let help = "State of the whole drive before the suite: a name, or steps";
            argument.help(help).long_help(format!("{help}.\n\n{}", choice::steps_help()))
        })
        .mut_arg("prepare", |argument| {
            let own = profile.preparation;
            argument.help(format!("Prepare the used part by these steps [default: {own}]"))
        })
        .mut_arg("only", |argument| argument.help("Run only this test (see above)"))
}

/// Returns the names that `--only` accepts.
fn names(suite: &'static dyn Suite) -> Vec<String> {
    // The names of custom loads are in a file.
    if suite.profile().name == "custom" {
        return Vec::new();
    }
    only::names(&Plan::new(suite.profile(), Target::of_rig("any", ROOM_BYTES, 1)))
}

fn about(suite: &'static dyn Suite, names: &[String]) -> String {
    let profile = suite.profile();
    let name = profile.name;
    let mut text = format!("{}.\n\n", profile.about);
    if !names.is_empty() {
        text += &format!("Tests, for --only: {}.\n\n", only::listing(names));
    }
    let eras = suite.eras();
    if !eras.is_empty() {
        let lines = eras.iter().map(|era| format!("\n  {:<13} {}", era.to_string(), era.about));
        text += &format!("In other years (--era):{}\n\n", lines.collect::<String>());
    }
    text += &format!(
        "With --cache, the settings of the cache are options as well; 'overdrive bench --help' \
         lists them. docs/SUITES.md describes each suite.\n\nExamples:\n  overdrive bench {name} \
         model:samsung-840-evo-250\n"
    );
    text += &match suite.is_of_files() {
        true => format!("  overdrive bench {name} /mnt/data"),
        false => format!(
            "  overdrive bench {name} /mnt/data/test.img --size 8G\n  \
             overdrive bench {name} /dev/sdX --destroy"
        ),
    };
    text
}

fn span_help(suite: &dyn Suite) -> String {
    let usual = suite.profile().span_bytes.map(|bytes| block::Size(bytes).to_string());
    let usual = usual.unwrap_or_else(|| "all".to_owned());
    format!("Use only the first SIZE bytes of the target [default: {usual}]")
}

fn time_help(suite: &dyn Suite) -> String {
    let seconds = suite.profile().time_ns / 1_000_000_000;
    format!("Duration of each timed part [default: {seconds}s]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_help_of_a_suite_is_asked_for_by_its_name() {
        let name = |line: &str| requested_suite(&words(line)).map(|suite| suite.profile().name);
        assert_eq!(name("bench cdm --help"), Some("cdm"));
        assert_eq!(name("bench --json CDM null:1G -h"), Some("cdm"));
        assert_eq!(name("bench cdm null:1G"), None);
        assert_eq!(name("bench --help"), None);
        assert_eq!(name("bench history --suite cdm --help"), None);
        assert_eq!(name("sim cdm --help"), None);
    }

    #[test]
    fn each_suite_has_a_help_of_its_own() {
        for suite in ALL {
            let bench = super::super::Arguments::augment_args(Command::new("bench"));
            let help = of_suite(bench, *suite).render_long_help().to_string();
            let name = suite.profile().name;
            assert!(help.contains(suite.profile().about), "{name}: {help}");
            assert!(!help.contains("corners,"), "{name}: other suites are not listed: {help}");
            assert_eq!(help.contains("--reads"), name == "custom", "{name}: {help}");
            assert_eq!(help.contains("--era"), !suite.eras().is_empty(), "{name}: {help}");
            assert!(!help.contains("--dirty-age") && !help.contains("compare"), "{name}: {help}");
        }
        let cdm = find("cdm").expect("a suite");
        assert!(names(cdm).contains(&"RND4K Q1T1 write".to_owned()));
        assert!(names(find("as-ssd").expect("a suite")).is_empty());
    }
}
