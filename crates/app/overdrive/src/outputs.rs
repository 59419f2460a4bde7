//! Tests of the outputs that commands declare.

use crate::Arguments;
use clap::{Command, CommandFactory};

/// Commands without a table and without `--json`, each with the reason.
const WITHOUT_JSON: [(&str, &str); 7] = [
    ("attach", "prints the path of the device"),
    ("dashboard", "prints its address"),
    ("detach", "prints one line"),
    ("mount", "prints one line"),
    ("pool create", "prints one line"),
    ("umount", "prints nothing, or one line"),
    ("upgrade", "prints one line"),
];

/// Adds the path of each visible command that does something, and whether it has `--json`.
fn add_leaves(command: &Command, path: &str, found: &mut Vec<(String, bool)>) {
    let mut has_commands = false;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        has_commands = true;
        let path = format!("{path} {}", command.get_name());
        add_leaves(command, path.trim_start(), found);
    }
    // `bench` runs a suite, and has commands as well.
    if !has_commands || command.get_positionals().next().is_some() {
        let has_json = command.get_arguments().any(|one| one.get_long() == Some("json"));
        found.push((path.to_owned(), has_json));
    }
}

#[test]
fn every_command_that_prints_a_table_prints_json() {
    let mut leaves = Vec::new();
    add_leaves(&Arguments::command(), "", &mut leaves);
    assert!(leaves.len() > 25, "{leaves:?}");
    assert!(leaves.contains(&("bench".to_owned(), true)), "{leaves:?}");
    let mut without: Vec<&str> =
        leaves.iter().filter(|(_, has_json)| !has_json).map(|(path, _)| path.as_str()).collect();
    without.sort_unstable();
    let declared = WITHOUT_JSON.map(|(path, _)| path);
    assert_eq!(without, declared, "add --json, or the reason why there is none");
}
