//! Completion of the command line by a shell: names of volumes, models and suites as they are at
//! that moment.
//!
//! A shell's script runs this program with `COMPLETE=SHELL` in its environment and the words before
//! the cursor; the program prints the candidates for the last word. The same engine writes the
//! scripts (`manual`).

use crate::{Arguments, volumes};
use clap::{Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;
use drives::Model;
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
const NAMED: [(&str, &str, Candidates); 20] = [
    ("attach", "backing", backings),
    ("bench", "target", targets),
    ("detach", "name", volume_names),
    ("drive health", "name", drives_and_volumes),
    ("drive models", "name", model_names),
    ("mount", "backing", backings),
    ("serve", "backing", backings),
    ("umount", "directory", mount_points),
    ("upgrade", "name", volume_names),
    ("volume clear-error", "name", volume_names),
    ("volume detach", "name", volume_names),
    ("volume flush", "name", volume_names),
    ("volume forget", "name", volume_names),
    ("volume freeze", "name", volume_names),
    ("volume pause", "name", volume_names),
    ("volume power-cut", "name", volume_names),
    ("volume resume", "name", volume_names),
    ("volume set", "words", volume_names),
    ("volume show", "name", volume_names),
    ("volume stats", "name", volume_names),
];

/// Returns the program's command, with candidates for all names.
fn command() -> Command {
    NAMED.into_iter().fold(Arguments::command(), |command, (path, argument, candidates)| {
        let path: Vec<&str> = path.split(' ').collect();
        with_candidates(command, &path, argument, candidates)
    })
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

fn drives_and_volumes(letters: &OsStr) -> Vec<CompletionCandidate> {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = disks.filter_map(|disk| disk.file_name().into_string().ok());
    let paths = PathCompleter::any().complete(letters);
    volume_names(letters).into_iter().chain(beginning(names, letters)).chain(paths).collect()
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
}
