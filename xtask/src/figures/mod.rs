//! `cargo xtask figures`: repeats the measurements that a program can make, and writes the results
//! into docs/FIGURES.md.
//!
//! Only the measured column of these rows is rewritten, and only if all numbers of the row are
//! found.

mod readings;
mod table;

use crate::cargo;
use anyhow::{Context, ensure};
use readings::{READINGS, Reading};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use table::{Page, Row};

/// Options of `cargo xtask figures`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only the commands that contain this text, such as `bench engine`.
    #[arg(long)]
    only: Option<String>,
}

fn path() -> PathBuf {
    cargo::root().join("docs/FIGURES.md")
}

fn page() -> anyhow::Result<Page> {
    let text = std::fs::read_to_string(path()).context("cannot read docs/FIGURES.md")?;
    Page::read(&text)
}

/// Returns the reading of this row, if there is one and it is selected.
fn reading(row: &Row, options: &Options) -> Option<&'static Reading> {
    let is_asked = options.only.as_ref().is_none_or(|only| row.command.contains(only));
    READINGS.iter().find(|reading| reading.figure == row.figure).filter(|_| is_asked)
}

/// Runs a command of the table, which begins with `cargo`, and returns its output. A benchmark that
/// misses its goal may fail: its output is used nevertheless.
fn print_of(command: &str) -> anyhow::Result<String> {
    let mut words = command.split(' ');
    ensure!(words.next() == Some("cargo"), "'{command}' does not begin with cargo");
    let output = cargo::cargo()
        .args(words)
        .current_dir(cargo::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo; is it in PATH?")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command `figures`. The exit status is 1 if a row with a reading could not be read.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut page = page()?;
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    let (mut left, mut failed) = (Vec::new(), false);
    for row in &mut page.rows {
        let Some(reading) = reading(row, options) else {
            left.push(format!("{}: {}", row.figure, row.command));
            continue;
        };
        if !printed.contains_key(&row.command) {
            eprintln!("running {}", row.command);
            printed.insert(row.command.clone(), print_of(&row.command)?);
        }
        match reading.measured(&printed[&row.command]) {
            Ok(measured) => {
                println!("{}: {} before, {measured} now", row.figure, row.measured);
                row.measured = measured;
            }
            Err(error) => {
                eprintln!("{}: left as it was, {error:#}", row.figure);
                failed = true;
            }
        }
    }
    std::fs::write(path(), page.text()).context("cannot write docs/FIGURES.md")?;
    println!("left as they were, {} rows:", left.len());
    for row in left {
        println!("  {row}");
    }
    Ok(ExitCode::from(u8::from(failed)))
}

#[cfg(test)]
mod tests {
    use super::{READINGS, page};
    use crate::Cli;
    use crate::cargo::root;
    use clap::CommandFactory;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    /// Returns the names of the commands in an enum of a source file, as clap derives them.
    fn commands(file: &str, name: &str) -> BTreeSet<String> {
        let text = std::fs::read_to_string(root().join(file)).expect("a source");
        let parsed = syn::parse_file(&text).expect("Rust");
        let found = parsed.items.into_iter().find_map(|item| match item {
            syn::Item::Enum(item) if item.ident == name => Some(item),
            _ => None,
        });
        let variants = found.expect("the enum of the commands").variants;
        variants.iter().map(|variant| variant.ident.to_string().to_lowercase()).collect()
    }

    /// Returns a directory of this crate, in any folder of `crates/`.
    fn directory_of(package: &str, directory: &str) -> PathBuf {
        let folders = std::fs::read_dir(root().join("crates")).expect("the crates");
        let mut crates = folders.map(|folder| folder.expect("a folder").path().join(package));
        crates.find(|path| path.exists()).unwrap_or_default().join(directory)
    }

    /// Returns the fault of a command in the table: a name in it does not exist.
    fn fault(command: &str) -> Option<String> {
        let words: Vec<&str> =
            command.split(' ').skip_while(|word| word.starts_with("OVERDRIVE_")).collect();
        let known = |names: BTreeSet<String>, name: &str| {
            (!names.contains(name)).then(|| format!("'{name}' is unknown, in '{command}'"))
        };
        match words[..] {
            ["cargo", "xtask", "bench", name, ..] => {
                known(commands("crates/proof/benchmarks/src/main.rs", "Figure"), name)
            }
            ["cargo", "xtask", name, ..] => {
                let cli = Cli::command();
                known(cli.get_subcommands().map(|sub| sub.get_name().to_owned()).collect(), name)
            }
            ["cargo", "run", "--release", "-p", package, "--example", name, ..] => {
                let examples = directory_of(package, "examples");
                let file = examples.join(format!("{name}.rs"));
                let directory = examples.join(name).join("main.rs");
                (!file.exists() && !directory.exists())
                    .then(|| format!("no example '{name}', in '{command}'"))
            }
            ["cargo", "test", "--package", package, "--test", name, ..] => {
                let tests = directory_of(package, "tests");
                (!tests.join(name).exists()).then(|| format!("no test '{name}', in '{command}'"))
            }
            ["overdrive", "bench", name, ..] => {
                let suite = root().join("crates/lab/suites/src/suite").join(format!("{name}.rs"));
                (!suite.exists()).then(|| format!("no suite '{name}', in '{command}'"))
            }
            _ => Some(format!("'{command}' is none of the commands that are known")),
        }
    }

    #[test]
    fn the_page_can_be_read_and_each_command_names_what_exists() {
        let page = page().expect("docs/FIGURES.md");
        let faults: Vec<String> = page.rows.iter().filter_map(|row| fault(&row.command)).collect();
        assert_eq!(faults, [""; 0]);
        let figures: BTreeSet<&str> = page.rows.iter().map(|row| row.figure.as_str()).collect();
        assert_eq!(figures.len(), page.rows.len(), "a figure has one row");
        let same = figures.iter().filter(|figure| figure.starts_with("the same"));
        assert_eq!(same.count(), 0, "each row can be read alone");
    }

    #[test]
    fn each_reading_has_a_row_whose_command_is_one_of_ours() {
        let page = page().expect("docs/FIGURES.md");
        for reading in &READINGS {
            let row = page.rows.iter().find(|row| row.figure == reading.figure);
            let row = row.unwrap_or_else(|| panic!("no row is called '{}'", reading.figure));
            assert!(row.command.starts_with("cargo xtask "), "{}", row.command);
            assert_eq!(reading.measured.matches("{}").count(), reading.numbers.len());
        }
    }

    #[test]
    fn commands_that_name_nothing_are_faults() {
        for command in [
            "cargo xtask bench nothing",
            "cargo xtask nothing",
            "cargo run --release -p drives --example nothing",
            "overdrive bench nothing",
            "make coffee",
        ] {
            assert!(fault(command).is_some(), "{command}");
        }
        assert_eq!(fault("cargo xtask bench virtual --mib 64"), None);
    }
}
