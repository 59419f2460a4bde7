//! `overdrive manual`: the manual pages of all commands and the shells' completions, as files for a
//! package.

mod facts;
mod page;

use crate::{Arguments, completion, words};
use clap::{Command, CommandFactory};
use stack::{Exit, Failure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the manual pages (DIR/man1) and the completions (DIR/bash, DIR/zsh, DIR/fish).
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The directory, which is created.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Date of the pages, such as 2026-11-26.
    #[arg(long, value_name = "DATE", default_value = "")]
    date: String,
}

/// The file of each shell's completion, as the shell looks for it.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "bash/overdrive"), ("zsh", "zsh/_overdrive"), ("fish", "fish/overdrive.fish")];

/// The command.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(options: &Options) -> Result<ExitCode, Failure> {
    for command in documented() {
        let name = format!("man1/{}.1", page::name(&command));
        put(&options.directory, &name, page::text(command, &options.date).as_bytes())?;
    }
    for (shell, name) in COMPLETIONS {
        let script = completion::script(shell).expect("the shell is known");
        put(&options.directory, name, &script)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn put(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = directory.join(name);
    let parent = path.parent().expect("it is in a directory");
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes));
    let explain = |error| format!("{}: cannot be written: {error}", path.display());
    written.map_err(|error| Failure::new(Exit::Permission, explain(error)))
}

/// Returns the program's command and all its visible subcommands, at any depth.
fn documented() -> Vec<Command> {
    fn add(command: &Command, all: &mut Vec<Command>) {
        all.push(command.clone());
        for command in page::visible(command) {
            add(command, all);
        }
    }
    let mut command = words::reflowed(Arguments::command().disable_help_subcommand(true));
    command.build();
    let mut all = Vec::new();
    add(&command, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pages, by their names.
    fn pages() -> Vec<(String, String)> {
        let all = documented().into_iter();
        all.map(|command| (page::name(&command), page::text(command, "2026-11-26"))).collect()
    }

    #[test]
    fn every_command_has_a_page_with_all_sections() {
        let pages = pages();
        for name in ["overdrive", "overdrive-attach", "overdrive-volume-clear-error"] {
            assert!(pages.iter().any(|(page, _)| page == name), "{name}");
        }
        assert!(!pages.iter().any(|(name, _)| name.contains("hold") || name.contains("manual")));
        for (name, page) in &pages {
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"] {
                // A heading of several words is quoted.
                let headings = [format!("\n.SH {section}\n"), format!("\n.SH \"{section}\"\n")];
                let has = headings.iter().any(|heading| page.contains(heading));
                assert!(has, "{name}: {section}");
            }
        }
    }

    #[test]
    fn a_page_refers_to_pages_that_exist() {
        let pages = pages();
        let mut count = 0;
        for (name, page) in &pages {
            let words = page.split(|letter: char| letter.is_whitespace() || letter == ',');
            for word in words.filter(|word| word.contains("overdrive") && word.contains("(1)")) {
                let word = word.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
                let referred = word.split("(1)").next().expect("a first part");
                assert!(pages.iter().any(|(page, _)| page == referred), "{name}: {word}");
                count += 1;
            }
        }
        assert!(count > pages.len(), "{count}");
    }

    #[test]
    fn facts_are_about_commands_that_exist() {
        let names: Vec<String> = documented().iter().map(page::name).collect();
        for prefix in facts::prefixes() {
            assert!(names.iter().any(|name| name == prefix), "{prefix}");
        }
    }

    #[test]
    fn examples_keep_their_lines() {
        let pages = pages();
        let (_, attach) = pages.iter().find(|(name, _)| name == "overdrive-attach").expect("it is");
        let (_, examples) = attach.split_once("EXAMPLES").expect("it has examples");
        assert!(examples.contains(".nf\n"), "{examples}");
        assert!(!attach.contains("Examples:"), "{attach}");
    }
}
