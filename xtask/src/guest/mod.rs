//! `cargo xtask guest`: a command in a machine that QEMU emulates, with Debian's kernel 6.12 and
//! this machine's own files.
//!
//! The host's root is also the guest's, through 9p; changes in the guest are in its memory, and
//! lost with it. So the workspace is at the same path, with its build output. `first.sh` is the
//! guest's first program: it mounts that root and executes this program (`inside.rs`), which reads
//! the request from a virtual serial port, and sends the output of the command and its status
//! through the same port (`wire.rs`).

mod cpio;
mod debian;
mod initramfs;
pub(crate) mod inside;
mod machine;
mod modules;
mod places;
pub(crate) mod system;
mod wire;

use crate::cargo;
use crate::clock::now;
use crate::packages::Purpose;
use crate::{setup, tested};
use anyhow::{Context, bail, ensure};
use debian::Kernel;
use initramfs::Initramfs;
use machine::{Machine, Parts};
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use wire::{Message, Request};

/// The time limit has passed: as timeout(1) returns it.
const EXIT_TIMEOUT: u8 = 124;
/// The guest has failed, not the command: as timeout(1) and env(1) return it.
const EXIT_GUEST: u8 = 125;
/// Something that a guest needs is not available here; a remedy was printed.
const EXIT_MISSING: u8 = 4;

/// Variables with directories that do not exist in a guest.
const LEFT_OUT: [&str; 3] = ["TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of processors.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    smp: u32,
    /// Memory, which also holds all written data.
    #[arg(long, default_value_t = 2048, value_name = "N", value_parser = clap::value_parser!(u32).range(512..))]
    memory_mib: u32,
    /// Time limit; after it the guest is ended, with status 124.
    #[arg(long, default_value_t = 600, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    timeout_seconds: u64,
    /// Load this module first; its parameters follow the name: 'null_blk nr_devices=2', or
    /// null_blk+nr_devices=2.
    #[arg(long = "module", value_name = "NAME")]
    modules: Vec<String>,
    /// A directory of the host that the guest may change, at the same path.
    #[arg(long, value_name = "DIR")]
    write_to: Option<PathBuf>,
    /// Give the guest an NVMe drive of this size, which ends with it; the module 'nvme' drives it.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    nvme_mib: Option<u64>,
    /// Build this package first, optimised; its programs are then found by their names.
    #[arg(long = "build", value_name = "PACKAGE")]
    builds: Vec<String>,
    /// Build this target of a package's tests first, and run it with the command as its arguments:
    /// 'overdrive:serve'.
    #[arg(long, value_name = "PACKAGE:TARGET")]
    test: Option<String>,
    /// Use the program of that target as the tests of a change have built it.
    #[arg(long, requires = "test")]
    as_tested: bool,
    /// If a guest is not possible (no kernel 6.12 in apt's lists), print the reason and succeed,
    /// except under CI.
    #[arg(long)]
    if_possible: bool,
    /// Print the messages of the guest's kernel, on standard error.
    #[arg(long)]
    console: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The command `guest`. Returns the command's status, 124 after the time limit, 125 if the guest
/// has failed, 4 if something that it needs is missing.
pub(crate) fn run(options: &Options) -> ExitCode {
    prepare(options).unwrap_or_else(|error| {
        eprintln!("cargo xtask guest: {error:#}");
        ExitCode::from(EXIT_GUEST)
    })
}

fn prepare(options: &Options) -> anyhow::Result<ExitCode> {
    ensure!(cfg!(target_arch = "x86_64"), "a guest runs programs for x86-64, and these are not");
    let ready = setup::prepare(Purpose::Guest)?;
    if ready != ExitCode::SUCCESS {
        return Ok(missing(options));
    }
    let place = cargo::target().join("guest");
    let kernel = match Kernel::get(&place) {
        Ok(kernel) => kernel,
        Err(error) => {
            eprintln!("cargo xtask guest: {error:#}");
            return Ok(missing(options));
        }
    };
    build(&options.builds)?;
    let test = options.test.as_deref().map(|name| build_test(name, options.as_tested));
    let test = test.transpose()?;
    let request = request(options, test, &kernel)?;
    let program = std::env::current_exe().context("this program has no path")?;
    let initramfs = Initramfs::new(&kernel, &program)?;
    let nvme = options.nvme_mib.map(nvme_image).transpose()?;
    let nvme_path = nvme.as_ref().map(path_of);
    let parts = Parts {
        nvme: nvme_path.as_deref(),
        kernel: &kernel,
        initramfs: &initramfs.path(),
        write_to: request.write_to.as_deref(),
        processors: options.smp,
        memory_mib: options.memory_mib,
    };
    let machine = Machine::start(&parts, &request, options.console)?;
    relay(machine, Duration::from_secs(options.timeout_seconds)).map(ExitCode::from)
}

/// Creates the image of a drive, in memory: it leaves nothing behind.
fn nvme_image(mib: u64) -> anyhow::Result<File> {
    let memory = memfd_create("nvme", MemfdFlags::CLOEXEC);
    let image = File::from(memory.context("no memory for the NVMe drive")?);
    image.set_len(mib << 20).context("no memory for the NVMe drive")?;
    Ok(image)
}

/// Returns a path of an open file for another process.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// Returns the status if a guest is not possible; the reason was printed.
fn missing(options: &Options) -> ExitCode {
    if options.if_possible && std::env::var_os("CI").is_none() {
        println!("skipped: no guest");
        return ExitCode::SUCCESS;
    }
    ExitCode::from(EXIT_MISSING)
}

fn build(packages: &[String]) -> anyhow::Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let build = ["build", "--quiet", "--release"].into_iter().chain(packages);
    let built = cargo::cargo().args(build).current_dir(cargo::root()).status();
    let built = built.context("cannot start cargo")?;
    ensure!(built.success(), "--build: see above");
    Ok(())
}

/// Builds a target of a package's tests. Returns its program.
fn build_test(name: &str, as_tested: bool) -> anyhow::Result<PathBuf> {
    let (package, target) = name.split_once(':').context("--test: write PACKAGE:TARGET")?;
    if as_tested {
        return tested::program(target, true);
    }
    let arguments = ["test", "--quiet", "--no-run", "--message-format", "json"];
    let mut cargo = cargo::cargo();
    cargo.args(arguments).args(["--package", package, "--test", target]);
    let built = cargo.current_dir(cargo::root()).stderr(Stdio::inherit()).output();
    let built = built.context("cannot start cargo")?;
    ensure!(built.status.success(), "--test: see above");
    let lines = String::from_utf8_lossy(&built.stdout);
    let program = lines.lines().find_map(|line| program_of(line, target));
    program.with_context(|| format!("--test {name}: there is no such target"))
}

/// Returns the program in a message of cargo, if it is the program of this target's tests.
fn program_of(message: &str, target: &str) -> Option<PathBuf> {
    let (program, message) = cargo::test_program(message)?;
    (message["target"]["name"] == target).then_some(program)
}

/// Returns the request: the command, or that of the test, with this process's environment and
/// directory.
fn request(options: &Options, test: Option<PathBuf>, kernel: &Kernel) -> anyhow::Result<Request> {
    let directory = std::env::current_dir().context("there is no current directory")?;
    let write_to = options.write_to.as_ref().map(|place| {
        let found = place.canonicalize().ok().filter(|found| found.is_dir());
        found.with_context(|| format!("--write-to {}: is no directory", place.display()))
    });
    let programs = cargo::target().join("release");
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let inherited = std::env::vars_os()
        .filter(|(name, _)| name != "PATH" && !LEFT_OUT.iter().any(|left_out| name == left_out));
    Ok(Request {
        command: test.map(OsString::from).into_iter().chain(options.command.clone()).collect(),
        environment: inherited.chain([("PATH".into(), path)]).collect(),
        kept: vec![cargo::root().to_owned(), cargo::target(), directory.clone()],
        directory,
        write_to: write_to.transpose()?,
        module_place: kernel.modules.clone(),
        modules: options.modules.clone(),
    })
}

/// Prints the guest's output, until the guest reports the end of the command, or the time limit has
/// passed.
fn relay(machine: Machine, time: Duration) -> anyhow::Result<u8> {
    let start = now();
    // Unbuffered: the standard library's streams wait for the end of a line.
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let mut errors = File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    loop {
        match machine.messages.recv_timeout(time.saturating_sub(start.elapsed())) {
            Ok(Message::Output(bytes)) => output.write_all(&bytes)?,
            Ok(Message::Errors(bytes)) => errors.write_all(&bytes)?,
            Ok(Message::Ended(status)) => return Ok(status),
            Ok(Message::Failed(why)) => bail!("in the guest: {why}"),
            Err(RecvTimeoutError::Timeout) => {
                eprintln!(
                    "cargo xtask guest: not ended after {} s (--timeout-seconds)\n{}",
                    time.as_secs(),
                    machine.end()
                );
                return Ok(EXIT_TIMEOUT);
            }
            Err(RecvTimeoutError::Disconnected) => {
                let said = machine.end();
                let panicked = said.contains("Kernel panic");
                let what = if panicked { "its kernel panicked" } else { "it ended by itself" };
                bail!("the guest has failed: {what}\n{said}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_test_is_found_in_what_cargo_says() {
        let message = r#"{"reason":"compiler-artifact","target":{"name":"serve"},"profile":{"test":true},
            "executable":"/target/debug/deps/serve-1"}"#;
        assert_eq!(program_of(message, "serve"), Some(PathBuf::from("/target/debug/deps/serve-1")));
        assert_eq!(program_of(message, "sim"), None);
        assert_eq!(program_of(&message.replace("true", "false"), "serve"), None, "a library");
        assert_eq!(program_of("Compiling ...", "serve"), None);
    }
}
