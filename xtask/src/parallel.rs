//! `cargo xtask parallel`: `cargo test`, but with several test programs at a time. Most tests of
//! the daemon wait for processes, so one program alone leaves the processors idle.
//!
//! Cargo builds the programs and names them; this file starts them as cargo does, in the directory
//! of their package. The output of a program is printed when the program ends, in one piece. Cargo
//! itself runs the tests of the documentation at the end, if there are any.

use crate::clock::{self, Cost};
use crate::tested::{self, PRODUCT};
use crate::{cargo, doctests};
use anyhow::Context;
use clap::Args;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Programs that take longest, in the order in which they start. All others follow.
const LONGEST: [&str; 8] =
    ["serve", "liars", "engine", "bench", "waits", "suites", "holder", "equal"];

/// A program whose tests run in two parts at the same time, and the modules of the second part. Its
/// tests mostly wait for processes. Tests in `serve` that must not run at the same time share a
/// lock of their process: all of them are in the first part.
const PARTS: (&str, [&str; 22]) = (
    "serve",
    [
        "link_down::",
        "lives::",
        "mapping::",
        "metrics::",
        "model::",
        "network::",
        "operator::",
        "ordered::",
        "ordered_databases::",
        "output::",
        "pools::",
        "pressure::",
        "recorded::",
        "rescue::",
        "retained::",
        "samples::",
        "settings::",
        "silence::",
        "threads::",
        "tls::",
        "upgrade::",
        "written::",
    ],
);

/// Programs that run after all others, one at a time: they measure the time or the memory of the
/// machine.
const ALONE: [&str; 0] = [];

/// The harness prints this about a test that takes long, which may hang.
const LONG: &str = " has been running for over ";

/// Options of `parallel`.
#[derive(Args)]
pub(crate) struct Options {
    /// Number of programs at a time.
    #[arg(long, value_name = "N", default_value_t = 3)]
    jobs: u32,
    /// Arguments of `cargo test`, then `--` and arguments of every test program. Without arguments
    /// of `cargo test`: all crates that use the engine as in the product.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

/// How each program is run.
struct Harness<'a> {
    arguments: &'a [String],
    /// Whether the product was built with the tests.
    has_product: bool,
}

/// A program of tests.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Program {
    package: String,
    target: String,
    /// Whether these are the unit tests of a library, which may have documentation with tests.
    is_library: bool,
    /// The directory of the package, in which cargo runs its tests.
    directory: PathBuf,
    path: PathBuf,
    /// The part of its tests that runs.
    part: Part,
}

/// A part of a program's tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Whole,
    /// All but the modules in [`PARTS`].
    First,
    /// The modules in [`PARTS`].
    Second,
}

impl Part {
    /// Returns the arguments of the harness that select this part.
    fn arguments(self) -> Vec<&'static str> {
        let modules = PARTS.1.into_iter();
        match self {
            Part::Whole => Vec::new(),
            Part::First => modules.flat_map(|module| ["--skip", module]).collect(),
            Part::Second => modules.collect(),
        }
    }
}

/// The command `parallel`.
///
/// # Errors
/// Cargo or a program cannot be started, or the output of cargo cannot be read.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut parts = options.arguments.splitn(2, |argument| argument == "--");
    let selection = parts.next().unwrap_or_default();
    let harness = parts.next().unwrap_or_default();
    let mut selection: Vec<&str> = selection.iter().map(String::as_str).collect();
    if selection.is_empty() {
        selection = tested::SELECTION.to_vec();
    }
    let Some(messages) = tested::build(&selection)? else { return Ok(ExitCode::FAILURE) };
    let programs: VecDeque<Program> = messages.lines().filter_map(program_of).collect();
    let has_product = tested::find(&messages, PRODUCT, false).is_some();
    let libraries = programs.iter().filter(|program| program.is_library);
    let libraries: Vec<PathBuf> = libraries.map(|library| library.directory.clone()).collect();
    let (alone, others) = in_order(in_parts(programs, harness));
    let harness = Harness { arguments: harness, has_product };
    let mut failed = run_all(others, options.jobs, &harness)?;
    failed.extend(run_all(alone, 1, &harness)?);
    if doctests::are_in(&libraries)? && !doctests::run(&selection)? {
        failed.push("--doc".to_owned());
    }
    for program in &failed {
        println!("Failed: {program}");
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns the program of tests that this message of cargo names.
fn program_of(message: &str) -> Option<Program> {
    let (path, message) = cargo::test_program(message)?;
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Program {
        package: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        target: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
        is_library: message["target"]["kind"][0] == "lib",
        directory: directory.to_owned(),
        path,
        part: Part::Whole,
    })
}

/// Splits the program with two parts, if the arguments of the harness select no tests.
fn in_parts(programs: VecDeque<Program>, harness: &[String]) -> VecDeque<Program> {
    let is_option = |argument: &String| {
        argument.starts_with('-') || argument.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !harness.iter().all(is_option) {
        return programs;
    }
    let parts = |program: Program| match program.target == PARTS.0 {
        true => [Part::First, Part::Second].map(|part| Program { part, ..program.clone() }).into(),
        false => vec![program],
    };
    programs.into_iter().flat_map(parts).collect()
}

/// Splits off the programs that run alone, and puts the longest of the others first.
fn in_order(programs: VecDeque<Program>) -> (VecDeque<Program>, VecDeque<Program>) {
    let (alone, mut others): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| ALONE.contains(&program.target.as_str()));
    others.sort_by_key(|program| {
        LONGEST.iter().position(|name| program.target == *name).unwrap_or(LONGEST.len())
    });
    (alone.into(), others.into())
}

/// Runs all programs, `jobs` of them at a time. Returns the names of those that failed.
fn run_all(
    programs: VecDeque<Program>,
    jobs: u32,
    harness: &Harness,
) -> anyhow::Result<Vec<String>> {
    let left = Mutex::new(programs);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        let job = || {
            let mut failed = Vec::new();
            while let Some(program) = next() {
                let ended = program.run(harness)?;
                program.print(&ended)?;
                if !ended.status.success() {
                    failed.push(program.name());
                }
            }
            anyhow::Ok(failed)
        };
        let jobs: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(job)).collect();
        let mut failed = Vec::new();
        for job in jobs {
            failed.extend(job.join().expect("a job does not panic")?);
        }
        Ok(failed)
    })
}

/// A program that has ended.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    errors: Vec<u8>,
    cost: Cost,
}

impl Program {
    fn name(&self) -> String {
        let part = match self.part {
            Part::Whole => "",
            Part::First => ", first part",
            Part::Second => ", second part",
        };
        format!("{}:{}{part}", self.package, self.target)
    }

    /// Runs the program to its end.
    fn run(&self, harness: &Harness) -> anyhow::Result<Ended> {
        let mut command = Command::new(&self.path);
        command.args(self.part.arguments()).args(harness.arguments);
        command.current_dir(&self.directory);
        if harness.has_product {
            command.env(tested::BUILT, "1");
        }
        command.env("CARGO", cargo::cargo().get_program());
        command.env("CARGO_MANIFEST_DIR", &self.directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = clock::now();
        let mut child =
            command.spawn().with_context(|| format!("cannot start {}", self.path.display()))?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (output, errors) = thread::scope(|scope| {
            let errors = scope.spawn(|| read(errors));
            (self.read_output(output), errors.join().expect("a reader does not panic"))
        });
        let processor = clock::processor_of_ended(&child)?;
        let status = child.wait().context("cannot wait for a program of tests")?;
        let cost = Cost { time: start.elapsed(), processor };
        Ok(Ended { status, output, errors, cost })
    }

    fn print(&self, ended: &Ended) -> anyhow::Result<()> {
        // Locked, so that the output of another program does not come between.
        let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
        err.write_all(&ended.errors)?;
        writeln!(out, "     Ran {}, which took {}", self.name(), ended.cost)?;
        out.write_all(&ended.output)?;
        if !ended.status.success() {
            writeln!(out, "{} failed: {}", self.name(), ended.status)?;
        }
        Ok(())
    }

    /// Reads the output of the program to its end. Shows at once which tests take long: if one
    /// hangs, nothing else is printed.
    fn read_output(&self, from: Option<impl Read>) -> Vec<u8> {
        let mut whole = Vec::new();
        let Some(from) = from else { return whole };
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line);
            if text.contains(LONG) {
                eprintln!("{}: {text}", self.name());
            }
            whole.extend(line);
            whole.push(b'\n');
        }
        whole
    }
}

fn read(from: Option<impl Read>) -> Vec<u8> {
    let mut whole = Vec::new();
    if let Some(mut from) = from {
        // After an error, the part that was read is shown as well.
        _ = from.read_to_end(&mut whole);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(target: &str, kind: &str, test: bool) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": "/work/crates/app/overdrive/Cargo.toml",
            "target": { "name": target, "kind": [kind] },
            "profile": { "test": test },
            "executable": format!("/work/target/{target}"),
        })
        .to_string()
    }

    #[test]
    fn programs_of_tests_are_found_and_the_longest_start_first() {
        let messages = [
            message("overdrive", "bin", false),
            message("short", "lib", true),
            message("bench", "test", true),
            message("serve", "test", true),
        ];
        let mut programs: VecDeque<Program> =
            messages.iter().filter_map(|message| program_of(message)).collect();
        assert_eq!(programs[0].name(), "overdrive:short");
        assert_eq!(programs[0].directory, Path::new("/work/crates/app/overdrive"));
        assert!(programs[0].is_library && !programs[1].is_library);
        let filtered = in_parts(programs.clone(), &["tls::".to_owned()]);
        assert_eq!(filtered, programs, "the user's choice of tests is run once");
        let (alone, others) = in_order(std::mem::take(&mut programs));
        let order: Vec<&str> = others.iter().map(|program| program.target.as_str()).collect();
        assert_eq!((order.as_slice(), alone.len()), (["serve", "bench", "short"].as_slice(), 0));
        let options = ["--show-output", "--test-threads", "4"].map(str::to_owned);
        let parts = in_parts(others, &options);
        let names: Vec<String> = parts.iter().map(Program::name).collect();
        let serve = "overdrive:serve";
        let (first, second) = (format!("{serve}, first part"), format!("{serve}, second part"));
        assert_eq!(names, [first.as_str(), &second, "overdrive:bench", "overdrive:short"]);
    }

    #[test]
    fn each_test_is_in_one_part_and_tests_with_a_lock_in_the_first() {
        let tests = cargo::root().join("crates/app/overdrive/tests/serve");
        let text = std::fs::read_to_string(tests.join("main.rs")).expect("the tests");
        for module in PARTS.1 {
            let name = module.strip_suffix("::").expect("a module");
            assert!(text.contains(&format!("\nmod {name};\n")), "{name} is no module");
            let others = PARTS.1.iter().filter(|other| other.ends_with(module));
            assert_eq!(others.count(), 1, "{module} selects another module's tests too");
            let text = std::fs::read_to_string(tests.join(format!("{name}.rs")));
            let text = text.expect("a file");
            for lock in ["no_namespaces", "no_mounts", "have_mounts"] {
                assert!(!text.contains(lock), "{name} needs the lock");
            }
        }
    }

    #[test]
    fn a_program_runs_in_its_directory_and_its_status_and_output_are_kept() {
        let run = |path: &str, argument: &str| {
            let program = Program {
                package: "a".to_owned(),
                target: "b".to_owned(),
                is_library: false,
                directory: "/".into(),
                path: path.into(),
                part: Part::Whole,
            };
            let arguments = ["-c".to_owned(), argument.to_owned()];
            program.run(&Harness { arguments: &arguments, has_product: true })
        };
        let script = "pwd; echo $OVERDRIVE_TEST_BUILT; echo no >&2; exit 3";
        let ended = run("sh", script).expect("it starts");
        assert_eq!(ended.status.code(), Some(3));
        let expected = (&b"/\n1\n"[..], &b"no\n"[..]);
        assert_eq!((ended.output.as_slice(), ended.errors.as_slice()), expected);
        assert!(run("/nowhere/program", "").is_err());
    }
}
