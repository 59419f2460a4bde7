//! The reference of all commands: the help that the program itself prints, from the definitions of
//! its command line. It is made whenever the manual is, so it is never out of date.

use crate::cargo;
use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program as the tests build it, so that it is built already in a run of all checks.
const BUILD: [&str; 4] = ["build", "--quiet", "--package", "overdrive"];

/// A chapter: a command with all commands below it.
pub(super) struct Chapter {
    /// The command, such as `overdrive volume`.
    pub(super) name: String,
    pub(super) text: String,
}

/// Builds the program, and returns the chapters: that of the program itself, then those of its
/// commands.
///
/// # Errors
/// The program cannot be built, or prints no help.
pub(super) fn chapters() -> anyhow::Result<Vec<Chapter>> {
    let built = cargo::cargo().args(BUILD).current_dir(cargo::root()).status();
    ensure!(built.context("cannot start cargo")?.success(), "the program cannot be built");
    let program = cargo::target().join("debug/overdrive");
    let own = help(&program, &[])?;
    let mut chapters = vec![Chapter { name: "overdrive".to_owned(), text: page(&[], &own) }];
    for command in commands(&own) {
        let mut text = String::new();
        add(&program, vec![command.clone()], &mut text)?;
        chapters.push(Chapter { name: format!("overdrive {command}"), text });
    }
    Ok(chapters)
}

/// Adds the help of a command, and of the commands below it.
fn add(program: &PathBuf, words: Vec<String>, text: &mut String) -> anyhow::Result<()> {
    let help = help(program, &words)?;
    *text += &page(&words, &help);
    for command in commands(&help) {
        add(program, [words.clone(), vec![command]].concat(), text)?;
    }
    Ok(())
}

fn help(program: &Path, words: &[String]) -> anyhow::Result<String> {
    let output = Command::new(program).args(words).arg("--help").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && !text.is_empty(), "no help of {}", words.join(" "));
    Ok(text)
}

/// Returns a help as a section, whose heading has the level of the command.
fn page(words: &[String], help: &str) -> String {
    let level = "#".repeat(words.len().max(1));
    let name = [&["overdrive".to_owned()], words].concat().join(" ");
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("{level} {name}\n\n```text\n{}\n```\n\n", lines.join("\n"))
}

/// Returns the names of the commands that a help lists.
fn commands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| !line.is_empty()).filter_map(|line| {
        let rest = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        rest.split_whitespace().next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_help_are_found_and_continued_lines_are_none() {
        let help = "About.\n\nUsage: x <COMMAND>\n\nCommands:\n  one  First\n       line\n  \
                    two-b  Second\n  help  Print\n\nOptions:\n  -h, --help\n";
        assert_eq!(commands(help), ["one", "two-b"]);
        assert!(commands("Usage: x\n\nOptions:\n  -h\n").is_empty());
        let section = page(&["one".to_owned(), "two".to_owned()], "a  \nb");
        assert_eq!(section, "## overdrive one two\n\n```text\na\nb\n```\n\n");
    }
}
