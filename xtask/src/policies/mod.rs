//! `cargo xtask policies`: compares the policies with libcachesim, an independent implementation,
//! miss for miss.
//!
//! Libcachesim is installed from the Python package index into a separate environment below
//! `target`. An example of the crate `policy` generates the traces from a seed and counts this
//! project's misses; `misses.py` counts those of libcachesim.

use crate::cargo;
use anyhow::{Context, ensure};
use clap::Args;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Version of libcachesim for the comparison. The files of the policies describe its differences
/// from the papers, which must be checked again for another version.
const VERSION: &str = "0.3.5";
/// The script that runs with it.
const SCRIPT: &str = include_str!("misses.py");
const OURS: [&str; 8] =
    ["run", "--quiet", "--release", "--package", "policy", "--example", "misses", "--"];

/// Options of `policies`.
#[derive(Args)]
pub(crate) struct Options {
    /// Seed of the traces.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// The command `policies`.
///
/// # Errors
/// Libcachesim is not available, or one of the two halves fails.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let place = cargo::root().join("target/policies");
    let python = libcachesim(&place)?;
    let traces = place.join("traces");
    std::fs::create_dir_all(&traces).with_context(|| format!("cannot make {traces:?}"))?;
    let ours = ours(&traces, options.seed)?;
    let theirs = theirs(&python, &traces, &ours)?;
    let rows = rows(&ours, &theirs)?;
    let mut all_agree = true;
    for row in &rows {
        println!("{}", row.line());
        all_agree &= row.agrees();
    }
    println!(
        "{} comparisons with libcachesim {VERSION}, seed {}: {}",
        rows.len(),
        options.seed,
        if all_agree { "all agree miss for miss" } else { "NOT ALL AGREE" }
    );
    Ok(ExitCode::from(u8::from(!all_agree)))
}

/// Returns the interpreter of an environment with libcachesim; creates it if necessary.
fn libcachesim(place: &Path) -> anyhow::Result<PathBuf> {
    let environment = place.join(format!("libcachesim-{VERSION}"));
    let python = environment.join("bin/python");
    let has = |python: &Path| {
        let mut import = Command::new(python);
        import.args(["-c", "import libcachesim"]).stdout(Stdio::null()).stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    if has(&python) {
        return Ok(python);
    }
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).output();
    ensure!(
        made.is_ok_and(|made| made.status.success()),
        "python3 cannot make an environment in {}; install python3-venv (on Debian and Ubuntu), \
         then run `cargo xtask policies` again",
        environment.display()
    );
    // Of its dependencies, only numpy is imported, and not used here: any version is sufficient.
    let installed = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--retries", "2", "--only-binary", ":all:"])
        .args([&format!("libcachesim=={VERSION}"), "numpy"])
        .stdin(Stdio::null())
        .output()
        .context("cannot start pip")?;
    let said = String::from_utf8_lossy(&installed.stderr);
    ensure!(
        installed.status.success() && has(&python),
        "pip cannot install libcachesim {VERSION} and numpy from the Python package index ({}); let it \
         reach one (PIP_INDEX_URL names another, PIP_FIND_LINKS a directory with both wheels), then \
         run `cargo xtask policies` again",
        said.lines().rfind(|line| line.contains("ERROR")).unwrap_or("no reason given").trim()
    );
    Ok(python)
}

fn ours(traces: &Path, seed: u64) -> anyhow::Result<String> {
    let output = cargo::cargo()
        .args(OURS)
        .arg(traces)
        .arg(seed.to_string())
        .current_dir(cargo::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "our own half has failed; see above");
    String::from_utf8(output.stdout).context("our own half prints text")
}

fn theirs(python: &Path, traces: &Path, ours: &str) -> anyhow::Result<String> {
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(traces)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start python")?;
    let mut input = child.stdin.take().context("it was asked for")?;
    // A few kilobytes, for which the pipe has room.
    input.write_all(ours.as_bytes()).context("python does not read what to run")?;
    drop(input);
    let output = child.wait_with_output().context("python cannot be waited for")?;
    ensure!(output.status.success(), "the half with libcachesim has failed; see above");
    String::from_utf8(output.stdout).context("python prints numbers")
}

/// One comparison.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    /// Trace, slots and policy.
    what: String,
    /// This project's misses, according to the paper.
    paper: u64,
    /// This project's misses, with libcachesim's differences.
    ours: u64,
    libcachesim: u64,
}

impl Row {
    fn agrees(&self) -> bool {
        self.ours == self.libcachesim
    }

    fn line(&self) -> String {
        let Row { what, paper, ours, libcachesim } = self;
        let verdict = if self.agrees() { "agrees" } else { "DIFFERS" };
        let mut line = format!("{verdict:<7} {what:<22} {ours:>6} misses");
        if !self.agrees() {
            line += &format!(", libcachesim {libcachesim}");
        }
        if paper != ours {
            line += &format!(", as the paper has it {paper}");
        }
        line
    }
}

fn rows(ours: &str, theirs: &str) -> anyhow::Result<Vec<Row>> {
    ensure!(
        ours.lines().count() == theirs.lines().count() && !ours.is_empty(),
        "{} lines of ours, {} of libcachesim's; both halves must say the same number",
        ours.lines().count(),
        theirs.lines().count()
    );
    let row = |(line, libcachesim): (&str, &str)| {
        let words: Vec<&str> = line.split(' ').collect();
        let [trace, slots, policy, paper, ours] = words[..] else {
            anyhow::bail!("{line:?} has not five words");
        };
        Ok(Row {
            what: format!("{policy} {slots} {trace}"),
            paper: paper.parse()?,
            ours: ours.parse()?,
            libcachesim: libcachesim.parse()?,
        })
    };
    ours.lines().zip(theirs.lines()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_each_half_is_a_row_and_a_difference_is_seen() {
        let found = rows("zipf 200 lru 7 7\nzipf 200 lirs 9 8\n", "7\n9\n").expect("two rows");
        assert_eq!(found[0].line(), "agrees  lru 200 zipf                7 misses");
        assert!(found[0].agrees() && !found[1].agrees(), "the paper's number is not compared");
        assert_eq!(
            found[1].line(),
            "DIFFERS lirs 200 zipf               8 misses, libcachesim 9, as the paper has it 9"
        );
        assert!(rows("zipf 200 lru 7 7\n", "").is_err());
        assert!(rows("", "").is_err());
        assert!(rows("zipf 200 lru 7\n", "7\n").is_err());
        assert!(rows("zipf 200 lru 7 7\n", "none\n").is_err());
    }
}
