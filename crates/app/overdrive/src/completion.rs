//! Completion of the command line by a shell: names of volumes, models and suites as they are at
//! that moment.
//!
//! A shell's script runs this program with `COMPLETE=SHELL` in its environment and the words before
//! the cursor; the program prints the candidates for the last word. The same engine writes the
//! scripts (`manual`).

use crate::{Arguments, volumes};
use clap::{Arg, Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;
use daemon::LOG_LEVEL;
use daemon::console::Severity;
use daemon::settings::SETTINGS;
use drives::Model;
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// The variable that names the shell.
const VARIABLE: &str = "COMPLETE";

/// Prints the candidates and ends the program, if a shell has requested them.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Completion by bash of words with colons, which begin the names of models.
const WITH_COLONS: &[u8] = include_bytes!("completion.bash");

/// Returns the script that makes a shell complete the command line of `overdrive`. None: the shell
/// is unknown.
pub(crate) fn script(shell: &str) -> Option<Vec<u8>> {
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let shell = shells.completer(shell)?;
    let name = "overdrive";
    shell.write_registration(VARIABLE, name, name, name, &mut script).ok()?;
    if shell.is("bash") {
        script.extend_from_slice(WITH_COLONS);
    }
    Some(script)
}

/// Returns candidates for the beginning of a word.
type Candidates = fn(&OsStr) -> Vec<CompletionCandidate>;

/// The arguments whose values are names: the command, the argument, and its candidates.
const NAMED: &[(&str, &str, Candidates)] = &[
    ("attach", "backing", backings),
    ("bench", "era", eras),
    ("bench", "prepare", preparations),
    ("bench", "state", preparations),
    ("bench", "target", targets),
    #[cfg(feature = "history")]
    ("bench history", "suite", suite_names),
    ("detach", "name", volume_names),
    ("drive erase", "device", drive_names),
    ("drive health", "name", drives_and_volumes),
    #[cfg(feature = "history")]
    ("drive history", "device", drives_and_volumes),
    ("drive models", "name", model_names),
    ("drive overprovision", "device", drive_names),
    ("drive overprovision", "model", model_names),
    ("drive trim", "target", drives_and_volumes),
    ("mount", "backing", backings),
    ("review", "target", targets),
    ("serve", "backing", backings),
    ("advise", "format", format_names),
    ("sim", "format", format_names),
    ("sim", "policy", policy_names),
    ("trace convert", "format", format_names),
    ("trace convert", "to", output_names),
    ("trace generate", "format", format_names),
    ("trace generate", "name", generated_names),
    ("trace info", "format", format_names),
    ("trace record", "source", volumes_and_paths),
    ("trace replay", "format", format_names),
    ("trace replay", "map", map_names),
    ("trace replay", "state", preparations),
    ("trace replay", "target", targets),
    ("umount", "directory", mount_points),
    ("upgrade", "name", volume_names),
    ("volume clear-error", "name", volume_names),
    ("volume detach", "name", volume_names),
    ("volume flush", "name", volume_names),
    ("volume forget", "name", volume_names),
    ("volume freeze", "name", volume_names),
    #[cfg(feature = "history")]
    ("volume history", "name", volume_names),
    ("volume map", "name", volume_names),
    ("volume pause", "name", volume_names),
    ("volume power-cut", "name", volume_names),
    ("volume resume", "name", volume_names),
    ("volume set", "words", names_and_settings),
    ("volume show", "name", volume_names),
    ("volume stats", "name", volume_names),
];

/// Returns the program's command, with candidates for all names and words.
fn command() -> Command {
    let command = with_words(Arguments::command());
    NAMED.iter().fold(command, |command, (path, argument, candidates)| {
        let path: Vec<&str> = path.split(' ').collect();
        with_candidates(command, &path, argument, *candidates)
    })
}

/// Gives the words in the value names of options, such as `adaptive|off|TIME`, as candidates.
fn with_words(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let words = words_of(&argument);
        if words.is_empty() || !argument.get_possible_values().is_empty() {
            return argument;
        }
        let is_path = value_name(&argument).split('|').any(|part| part == "FILE");
        argument.add(ArgValueCompleter::new(move |letters: &OsStr| {
            let paths = is_path.then(|| PathCompleter::any().complete(letters));
            beginning(&words, letters).into_iter().chain(paths.into_iter().flatten()).collect()
        }))
    });
    command.mut_subcommands(with_words)
}

fn value_name(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Returns the words among the alternatives of a value name. A word may have a colon and something
/// else behind it, as in `unix:PATH`.
fn words_of(argument: &Arg) -> Vec<String> {
    let name = value_name(argument);
    if !name.contains('|') {
        return Vec::new();
    }
    let word = |part: &str| {
        let end = part.find(|letter: char| letter.is_ascii_uppercase());
        let word = &part[..end.unwrap_or(part.len())];
        let is_word = end.is_none() || word.ends_with(':');
        is_word.then(|| word.to_owned()).filter(|word| !word.is_empty())
    };
    name.split('|').filter_map(word).collect()
}

fn with_candidates(
    command: Command,
    path: &[&str],
    argument: &str,
    candidates: Candidates,
) -> Command {
    match path.split_first() {
        Some((first, rest)) => command
            .mut_subcommand(first, |command| with_candidates(command, rest, argument, candidates)),
        None => command.mut_arg(argument, |arg| arg.add(ArgValueCompleter::new(candidates))),
    }
}

/// Returns the names that begin with these letters, as candidates.
fn beginning<Name: AsRef<str>>(
    names: impl IntoIterator<Item = Name>,
    letters: &OsStr,
) -> Vec<CompletionCandidate> {
    let Some(letters) = letters.to_str() else { return Vec::new() };
    let names = names.into_iter().filter(|name| name.as_ref().starts_with(letters));
    names.map(|name| CompletionCandidate::new(name.as_ref())).collect()
}

/// Volumes that are served, and those that wait for a daemon.
fn volume_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    let served = volumes::rows().into_iter().map(|row| row.name);
    let waiting = volumes::waiting_volumes().into_iter().map(|one| one.volume);
    let mut names: Vec<String> = served.chain(waiting).collect();
    names.sort();
    names.dedup();
    beginning(names, letters)
}

/// Settings that can change while a volume is served, as `KEY=`, and behind that their words.
fn settings(letters: &OsStr) -> Vec<CompletionCandidate> {
    let live = SETTINGS.iter().filter(|setting| setting.is_live());
    let live = live.map(|setting| (setting.key, setting.values()));
    let all = live.chain([(LOG_LEVEL, Severity::ALL.map(Severity::word).join("|"))]);
    let key = letters.to_str().and_then(|text| text.split_once('=')).map(|(key, _)| key);
    match key {
        None => beginning(all.map(|(key, _)| format!("{key}=")), letters),
        Some(key) => {
            let words = all.filter(|(one, _)| *one == key.replace('-', "_"));
            let words = words.flat_map(|(_, values)| {
                let is_word = |word: &&str| !word.contains(|letter: char| letter.is_uppercase());
                let words = values.split('|').filter(is_word).map(|word| format!("{key}={word}"));
                words.collect::<Vec<_>>()
            });
            beginning(words, letters)
        }
    }
}

fn names_and_settings(letters: &OsStr) -> Vec<CompletionCandidate> {
    volume_names(letters).into_iter().chain(settings(letters)).collect()
}

fn format_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(trace::Format::ALL.map(trace::Format::name), letters)
}

fn generated_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    let paths = PathCompleter::any().complete(letters);
    beginning(suites::generated::Profile::names(), letters).into_iter().chain(paths).collect()
}

fn output_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(traces::convert::Output::ALL.map(traces::convert::Output::name), letters)
}

fn map_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(traces::replay::Map::ALL.map(traces::replay::Map::name), letters)
}

fn policy_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(simulator::Choice::all().map(|choice| choice.name), letters)
}

#[cfg(feature = "history")]
fn suite_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(suites::ALL.iter().map(|suite| suite.profile().name), letters)
}

/// The first years of the reviews that suites can follow.
fn eras(letters: &OsStr) -> Vec<CompletionCandidate> {
    let years = suites::ALL.iter().flat_map(|suite| suite.eras()).map(|era| era.first.to_string());
    let years: BTreeSet<String> = years.collect();
    beginning(years, letters)
}

/// Names of preparations.
fn preparations(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(suites::PRESETS.iter().map(|(name, ..)| name), letters)
}

fn model_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(Model::names(), letters)
}

/// Files and devices, and modelled drives, whose long list appears only after `model:`.
fn backings(letters: &OsStr) -> Vec<CompletionCandidate> {
    let models = "model:";
    match letters.to_str() {
        Some(word) if word.starts_with(models) => {
            beginning(Model::names().map(|name| format!("{models}{name}")), letters)
        }
        _ => {
            let paths = PathCompleter::any().complete(letters);
            beginning([models], letters).into_iter().chain(paths).collect()
        }
    }
}

/// Backings of a suite, and volumes.
fn targets(letters: &OsStr) -> Vec<CompletionCandidate> {
    volume_names(letters).into_iter().chain(backings(letters)).collect()
}

fn volumes_and_paths(letters: &OsStr) -> Vec<CompletionCandidate> {
    let paths = PathCompleter::any().complete(letters);
    volume_names(letters).into_iter().chain(paths).collect()
}

fn drives_and_volumes(letters: &OsStr) -> Vec<CompletionCandidate> {
    let paths = PathCompleter::any().complete(letters);
    volume_names(letters).into_iter().chain(drive_names(letters)).chain(paths).collect()
}

/// Whole devices, by their names in /dev.
fn drive_names(letters: &OsStr) -> Vec<CompletionCandidate> {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    beginning(disks.filter_map(|disk| disk.file_name().into_string().ok()), letters)
}

/// Directories at which the devices of volumes are mounted.
fn mount_points(letters: &OsStr) -> Vec<CompletionCandidate> {
    beginning(volumes::rows().iter().flat_map(volumes::mount_points), letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::engine::complete;

    /// Returns the candidates for the last of these words.
    fn candidates(line: &[&str]) -> Vec<String> {
        let words = line.iter().map(std::ffi::OsString::from).collect();
        let found = complete(&mut command(), words, line.len() - 1, None).expect("it completes");
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn suites_and_models_are_completed() {
        assert!(candidates(&["overdrive", "bench", "consist"]).contains(&"consistency".to_owned()));
        let models = candidates(&["overdrive", "drive", "models", "samsung-840"]);
        assert!(models.contains(&"samsung-840-evo-250".to_owned()), "{models:?}");
        let models = candidates(&["overdrive", "serve", "model:samsung-840"]);
        assert!(models.contains(&"model:samsung-840-evo-250".to_owned()), "{models:?}");
        assert!(candidates(&["overdrive", "attach", "mod"]).contains(&"model:".to_owned()));
    }

    #[test]
    fn commands_are_completed_and_hidden_ones_are_not() {
        assert_eq!(candidates(&["overdrive", "up"]), ["upgrade"]);
        let commands = candidates(&["overdrive", ""]);
        assert!(commands.contains(&"attach".to_owned()), "{commands:?}");
        assert!(!commands.contains(&"hold".to_owned()), "{commands:?}");
    }

    #[test]
    fn every_argument_that_is_named_like_a_volume_has_candidates() {
        fn check(command: &Command, path: &str) {
            for argument in command.get_positionals().filter(|one| one.get_id() == "name") {
                let has = argument.get::<ArgValueCompleter>().is_some();
                assert!(has || command.is_hide_set(), "{path}: {}", argument.get_id());
            }
            for command in command.get_subcommands() {
                check(command, &format!("{path} {}", command.get_name()));
            }
        }
        check(&command(), "overdrive");
    }

    #[test]
    fn each_shell_has_a_script_that_runs_the_installed_program() {
        for shell in ["bash", "zsh", "fish"] {
            let script = String::from_utf8(script(shell).expect("it is known")).expect("text");
            assert!(script.contains("COMPLETE=\"") || script.contains(shell), "{script}");
            assert!(!script.contains("target/"), "{script}");
        }
        assert!(script("command.com").is_none());
    }

    /// Returns each visible option that has a value, with its command.
    fn options(command: &Command, path: &str, found: &mut Vec<(String, Arg)>) {
        let with_value = command.get_arguments().filter(|one| one.get_action().takes_values());
        let visible = with_value.filter(|one| one.get_long().is_some() && !one.is_hide_set());
        found.extend(visible.map(|one| (path.to_owned(), one.clone())));
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            options(command, &format!("{path} {}", command.get_name()), found);
        }
    }

    #[test]
    fn options_whose_help_lists_words_have_them_as_candidates() {
        let mut all = Vec::new();
        options(&command(), "overdrive", &mut all);
        let mut checked = 0;
        for (path, argument) in all {
            let long = format!("--{}", argument.get_long().expect("only those"));
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let quoted = help.split('\'').skip(1).step_by(2).map(str::to_owned);
            let is_word = |word: &String| word.chars().all(|letter| letter.is_ascii_lowercase());
            let possible = argument.get_possible_values();
            let possible = possible.iter().map(|value| value.get_name().to_owned());
            let words =
                words_of(&argument).into_iter().chain(possible).chain(quoted.filter(is_word));
            // 'serve' in the help of --policy is the command.
            let words: Vec<String> = words.filter(|word| word != "serve").collect();
            let line: Vec<&str> = path.split(' ').chain([long.as_str(), ""]).collect();
            let found = if words.is_empty() { Vec::new() } else { candidates(&line) };
            for word in &words {
                assert!(found.contains(word), "{path} {long}: no {word} in {found:?}");
            }
            checked += words.len();
        }
        assert!(checked > 100, "{checked}");
    }

    #[test]
    fn names_in_lists_and_settings_are_completed() {
        let found = |line: &str| candidates(&line.split(' ').collect::<Vec<_>>());
        assert!(found("overdrive serve --log-level ").contains(&"debug".to_owned()));
        assert_eq!(found("overdrive attach --via u"), ["ublk"]);
        assert_eq!(found("overdrive serve --readahead "), ["on", "off"]);
        assert_eq!(found("overdrive serve --guard of"), ["off"]);
        assert_eq!(found("overdrive serve --metrics u"), ["unix:"]);
        assert_eq!(found("overdrive sim --policy lru,w-tinylfu-"), ["lru,w-tinylfu-10"]);
        assert_eq!(found("overdrive sim --format alib"), ["alibaba"]);
        assert!(found("overdrive bench --state ").contains(&"steady".to_owned()));
        assert!(found("overdrive bench --era 201").contains(&"2015".to_owned()));
        assert_eq!(found("overdrive volume set gua"), ["guard="]);
        assert_eq!(found("overdrive volume set db guard=o"), ["guard=on", "guard=off"]);
        assert!(found("overdrive volume set write=").contains(&"write=back-now".to_owned()));
        assert_eq!(found("overdrive volume set log_level=d"), ["log_level=debug"]);
        assert!(found("overdrive volume set memory").is_empty(), "it cannot be set");
    }
}
