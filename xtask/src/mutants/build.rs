//! A copy of the workspace with the mutants in it, and the programs built from it.

use super::list::{Mutant, PACKAGES, SOURCES};
use super::weave::{self, Woven};
use crate::cargo;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that selects a mutant.
pub(crate) const CHOICE: &str = "OVERDRIVE_MUTANT";

/// Module that the copies of the crates have in addition to their own.
const ACTIVE: &str = r#"
pub(crate) mod mutant {
    extern crate std;
    use core::sync::atomic::{AtomicU32, Ordering};

    static ACTIVE: AtomicU32 = AtomicU32::new(u32::MAX);

    #[inline]
    pub(crate) fn active() -> u32 {
        match ACTIVE.load(Ordering::Relaxed) {
            u32::MAX => first(),
            known => known,
        }
    }

    #[cold]
    fn first() -> u32 {
        let number = std::env::var("OVERDRIVE_MUTANT").ok().and_then(|text| text.parse().ok());
        ACTIVE.store(number.unwrap_or(0), Ordering::Relaxed);
        number.unwrap_or(0)
    }
}
"#;

/// Maximum number of searches for errors; a compiler that has found some stops before it has found
/// all.
const ROUNDS: u32 = 16;

/// Optimised, but quick to build; with the checks of `cargo test`: overflow and debug assertions.
const PROFILE: [&str; 6] = [
    "--config",
    "profile.dev.opt-level=2",
    "--config",
    "profile.dev.debug=false",
    "--config",
    "profile.dev.incremental=false",
];

/// The laboratory as it is normally built, without those checks: its simulated disks may take
/// practically unlimited time.
const UNCHECKED: [&str; 4] = [
    "--config",
    "profile.dev.overflow-checks=false",
    "--config",
    "profile.dev.debug-assertions=false",
];

/// A program that should detect mutants.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// `unit tests of` a crate, a test file's name, or `laboratory`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Result of building the copy.
pub(crate) struct Built {
    pub(crate) tests: Vec<Program>,
    pub(crate) laboratory: Program,
    /// Working directory of the tests.
    pub(crate) home: PathBuf,
    /// Mutants that do not compile.
    pub(crate) unviable: BTreeSet<u32>,
    /// Mutants that cannot be selected at run time: see [`Woven::untried`].
    pub(crate) untried: BTreeSet<u32>,
    /// Mutants in code that only planted bugs run.
    pub(crate) planted: BTreeSet<u32>,
}

/// The copy of the workspace.
struct Copy {
    tree: PathBuf,
    target: PathBuf,
}

/// Builds one program of each kind with all of these mutants in it.
///
/// # Errors
/// The copy cannot be written, or does not compile whatever is left out.
pub(crate) fn build(mutants: &[Mutant]) -> anyhow::Result<Built> {
    let place = place()?;
    let copy = Copy { tree: place.join("tree"), target: place.join("build") };
    let libraries = PACKAGES.map(|package| format!("{SOURCES}{package}/src/lib.rs"));
    let mut own: BTreeSet<PathBuf> =
        mutants.iter().map(|mutant| cargo::root().join(SOURCES).join(&mutant.file)).collect();
    own.extend(libraries.iter().map(|library| cargo::root().join(library)));
    copy_tree(cargo::root(), &copy.tree, &own)?;
    for library in libraries {
        let text = fs::read_to_string(cargo::root().join(&library))? + ACTIVE;
        write_if_new(&copy.tree.join(library), text.as_bytes())?;
    }
    let mut unviable = BTreeSet::new();
    let (untried, planted) = copy.make_viable(mutants, &mut unviable)?;
    let tests = copy.tests()?;
    let laboratory = copy.laboratory()?;
    let home = copy.tree.join(SOURCES).join(PACKAGES[0]);
    Ok(Built { tests, laboratory, home, unviable, untried, planted })
}

impl Copy {
    fn cargo(&self, command: &str) -> Command {
        let mut cargo = cargo::cargo();
        cargo.arg(command).args(PROFILE).args(["--message-format", "json", "--quiet"]);
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        // A mutant may violate lints: only tests should detect it.
        cargo.env("RUSTFLAGS", "--cap-lints=allow").stdin(Stdio::null());
        cargo
    }

    /// Leaves out mutants that do not compile, step by step.
    fn make_viable(
        &self,
        mutants: &[Mutant],
        unviable: &mut BTreeSet<u32>,
    ) -> anyhow::Result<LeftOut> {
        for round in 1..=ROUNDS {
            let (left_out, ranges) = self.weave(mutants, unviable)?;
            eprintln!("[build] round {round}: {} mutants do not compile so far", unviable.len());
            let mut check = self.cargo("check");
            check.args(packages());
            let (good, messages) = run(check)?;
            if good {
                return Ok(left_out);
            }
            let before = unviable.len();
            let mut strange = Vec::new();
            for message in errors(&messages) {
                match guilty(message, &ranges) {
                    Some(id) => _ = unviable.insert(id),
                    None => strange.push(message["rendered"].as_str().unwrap_or_default()),
                }
            }
            if unviable.len() == before {
                bail!(
                    "the copy does not compile, and no mutant is to blame:\n{}",
                    strange.concat()
                );
            }
        }
        bail!("after {ROUNDS} rounds there are still mutants that do not compile")
    }

    /// Writes the sources with all mutants except these. Returns the mutants that are not tried and
    /// those of planted bugs, and the lines of each mutant in its file.
    fn weave(
        &self,
        mutants: &[Mutant],
        unviable: &mut BTreeSet<u32>,
    ) -> anyhow::Result<(LeftOut, Lines)> {
        let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        for mutant in mutants.iter().filter(|mutant| !unviable.contains(&mutant.id)) {
            files.entry(&mutant.file).or_default().push(mutant);
        }
        let (mut left_out, mut all_lines) = ((BTreeSet::new(), BTreeSet::new()), Lines::new());
        for (file, mutants) in files {
            let path = cargo::root().join(SOURCES).join(file);
            let source = fs::read_to_string(&path)?;
            let woven = weave::weave(&source, &mutants);
            let woven = woven.with_context(|| path.display().to_string())?;
            let Woven { text, untried, planted, unviable: refused, lost } = woven;
            let lost: Vec<_> = mutants.iter().filter(|it| lost.contains(&it.id)).collect();
            if let Some(first) = lost.first() {
                bail!(
                    "{} mutants have no place in {file}, the first: {}",
                    lost.len(),
                    first.title()
                );
            }
            write_if_new(&self.tree.join(SOURCES).join(file), text.as_bytes())?;
            left_out.0.extend(untried);
            left_out.1.extend(planted);
            unviable.extend(refused);
            all_lines.insert(format!("{SOURCES}{file}"), weave::lines(&text));
        }
        Ok((left_out, all_lines))
    }

    fn tests(&self) -> anyhow::Result<Vec<Program>> {
        eprintln!("[build] the tests");
        let mut test = self.cargo("test");
        test.args(["--no-run", "--lib", "--tests"]);
        let (good, messages) = run(test.args(packages()))?;
        ensure!(good, "the tests with the mutants do not compile:\n{}", rendered(&messages));
        let programs: Vec<Program> = executables(&messages)
            .map(|(target, path)| {
                let unit = target["kind"][0] == "lib";
                let name = target["name"].as_str().unwrap_or_default();
                let name = if unit { format!("unit tests of {name}") } else { name.to_owned() };
                Program { name, path }
            })
            .collect();
        let enough = programs.len() > PACKAGES.len();
        ensure!(enough, "cargo names no test programs of {}", PACKAGES.join(" and "));
        Ok(programs)
    }

    fn laboratory(&self) -> anyhow::Result<Program> {
        eprintln!("[build] the crash laboratory");
        let mut build = self.cargo("build");
        build.args(UNCHECKED).args(["--package", "crash", "--bin", "crash-laboratory"]);
        let (good, messages) = run(build)?;
        ensure!(good, "the laboratory with the mutants does not compile:\n{}", rendered(&messages));
        let mut programs = executables(&messages);
        let (_, path) = programs.next().context("cargo names no laboratory")?;
        Ok(Program { name: "laboratory".to_owned(), path })
    }
}

/// Cargo's arguments for the crates, as the laboratory uses them.
fn packages() -> impl Iterator<Item = &'static str> {
    let named = PACKAGES.into_iter().flat_map(|package| ["--package", package]);
    named.chain(["--features", "cache/laboratory"])
}

/// Mutants that are not tried, and those of planted bugs.
type LeftOut = (BTreeSet<u32>, BTreeSet<u32>);

/// The lines of each mutant, by file.
type Lines = BTreeMap<String, Vec<(u32, Range<usize>)>>;

/// Runs cargo until it ends. Returns whether it succeeded, and its messages.
fn run(mut command: impl std::borrow::BorrowMut<Command>) -> anyhow::Result<(bool, Vec<Value>)> {
    let output = command.borrow_mut().output().context("cannot start cargo; is it in PATH?")?;
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let messages: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let good = output.status.success();
    if !good && errors(&messages).next().is_none() {
        bail!("cargo failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((good, messages))
}

fn errors(messages: &[Value]) -> impl Iterator<Item = &Value> {
    let of_compiler = messages.iter().filter(|it| it["reason"] == "compiler-message");
    let errors = of_compiler.map(|it| &it["message"]).filter(|it| it["level"] == "error");
    // The last one only counts the others.
    errors.filter(|it| it["spans"].as_array().is_some_and(|spans| !spans.is_empty()))
}

fn rendered(messages: &[Value]) -> String {
    errors(messages).filter_map(|it| it["rendered"].as_str()).take(5).collect()
}

fn executables(messages: &[Value]) -> impl Iterator<Item = (&Value, PathBuf)> {
    let artifacts = messages.iter().filter(|it| it["reason"] == "compiler-artifact");
    artifacts.filter_map(|it| Some((&it["target"], PathBuf::from(it["executable"].as_str()?))))
}

/// Returns the mutant that contains an error: by the error's location, or else by a location in its
/// explanation.
fn guilty(message: &Value, lines: &Lines) -> Option<u32> {
    let spans = message["spans"].as_array()?;
    let find = |primary: bool| {
        let spans = spans.iter().filter(move |span| span["is_primary"] == primary);
        spans.filter_map(|span| {
            let line = span["line_start"].as_u64()? as usize;
            let mutants = lines.get(span["file_name"].as_str()?)?;
            mutants.iter().find(|(_, lines)| lines.contains(&line)).map(|(id, _)| *id)
        })
    };
    let (first, second) = (find(true).next(), find(false).next());
    first.or(second)
}

/// Directory of the copy and its build output.
fn place() -> anyhow::Result<PathBuf> {
    let place = cargo::target().join("mutants");
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    Ok(place)
}

/// Copies changed files, except `own`, so that cargo rebuilds only these. Removes files that are
/// gone: a moved module would otherwise exist twice.
fn copy_tree(from: &Path, to: &Path, own: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let to = to.join(&name);
        if kind.is_dir() && name != "target" && name != ".git" {
            copy_tree(&entry.path(), &to, own)?;
        } else if kind.is_file() && name != ".git" && !own.contains(&entry.path()) {
            write_if_new(&to, &fs::read(entry.path())?)?;
        }
    }
    remove_gone(from, to)
}

/// Removes files of the copy that do not exist in its original.
fn remove_gone(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(to).with_context(|| format!("cannot read {}", to.display()))? {
        let entry = entry?;
        if from.join(entry.file_name()).exists() {
            continue;
        }
        let removed = match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        removed.with_context(|| format!("cannot remove {}", entry.path().display()))?;
    }
    Ok(())
}

fn write_if_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_gone_goes_from_the_copy_too() {
        let place = tempfile::tempdir().expect("room for a few files");
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        let put = |name: &str| {
            let path = from.join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("ours");
            fs::write(path, name).expect("ours");
        };
        put("room/one.rs");
        put("two.rs");
        copy_tree(&from, &to, &BTreeSet::new()).expect("it is copied");
        fs::remove_dir_all(from.join("room")).expect("ours");
        put("room.rs");
        copy_tree(&from, &to, &BTreeSet::new()).expect("it is copied again");
        assert!(to.join("room.rs").is_file() && to.join("two.rs").is_file());
        assert!(!to.join("room").exists());
    }
}
