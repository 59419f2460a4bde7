//! The guest's first process: runs the host's request, sends the result and turns the machine off.

use super::places;
use super::wire::{Message, PORT, Request};
use crate::clock::now;
use crate::packages::find;
use anyhow::{Context, ensure};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, kill_process_group, setrlimit, wait,
};
use rustix::system::{RebootCommand, reboot};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// Maximum time until the port appears, also while other programs take the host's processors.
const PORT_TIME: Duration = Duration::from_secs(120);

/// Maximum time until killed processes have closed the command's output.
const GOING_TIME: Duration = Duration::from_secs(10);

/// Maximum number of descriptors of a process; a kernel allows its first process 4096.
const DESCRIPTORS_MAX: u64 = 1 << 19;

/// The command `guest-init`.
///
/// # Errors
/// This is not a guest. The machine then ends, and the host prints its last lines.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    ensure!(getpid() == Pid::INIT, "this is what 'cargo xtask guest' runs in the guest");
    places::system()?;
    let port = open_port()?;
    let request = Request::receive(BufReader::new(&port))?;
    let outcome = serve(&request, &port);
    rustix::fs::sync();
    let message = outcome.unwrap_or_else(|error| Message::Failed(format!("{error:#}")));
    message.send(&port).context(PORT)?;
    reboot(RebootCommand::PowerOff).context("cannot turn the machine off")?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the port, which appears a moment after its driver.
#[allow(clippy::disallowed_methods, reason = "no lane here: a driver is waited for")]
fn open_port() -> anyhow::Result<File> {
    let start = now();
    loop {
        match File::options().read(true).write(true).open(PORT) {
            Err(error) if error.kind() == ErrorKind::NotFound && start.elapsed() < PORT_TIME => {}
            other => return other.context(PORT),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn serve(request: &Request, port: &File) -> anyhow::Result<Message> {
    places::of(request)?;
    for module in &request.modules {
        load(module)?;
    }
    let descriptors = Rlimit { current: Some(1024), maximum: Some(DESCRIPTORS_MAX) };
    setrlimit(Resource::Nofile, descriptors).context("cannot raise the number of descriptors")?;
    run_command(request, port)
}

/// Loads a module, with its name and its parameters, separated by spaces or plus signs.
fn load(module: &str) -> anyhow::Result<()> {
    let program = find("modprobe").context("modprobe is missing; install kmod on the host")?;
    let mut modprobe = Command::new(program);
    let output = modprobe.arg("--").args(module.split([' ', '+'])).output();
    let output = output.context("cannot start modprobe")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "--module {module}: {}", said.trim());
    Ok(())
}

/// Runs the command, and sends its output. The returned message contains its status, as in a shell.
fn run_command(request: &Request, port: &File) -> anyhow::Result<Message> {
    let (program, arguments) = request.command.split_first().context("no command was sent")?;
    let started = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(request.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&request.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let why = format!("cannot start {}: {error}\n", program.display());
            Message::Errors(why.into_bytes()).send(port)?;
            return Ok(Message::Ended(if error.kind() == ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    let (sender, ended) = channel();
    let output = child.stdout.take().context("a pipe")?;
    let errors = child.stderr.take().context("a pipe")?;
    pass(output, port.try_clone()?, Message::Output, sender.clone());
    pass(errors, port.try_clone()?, Message::Errors, sender);
    let status = reap(Pid::from_child(&child))?;
    // Sent by the first process of a kernel, this kills all other processes.
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
    for _ in 0..2 {
        // A process that cannot be killed keeps its end of the pipe.
        let _ = ended.recv_timeout(GOING_TIME);
    }
    Ok(Message::Ended(status))
}

/// Sends the output, until no more can come.
fn pass(
    mut from: impl Read + Send + 'static,
    port: File,
    kind: fn(Vec<u8>) -> Message,
    ended: Sender<()>,
) {
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if kind(bytes[..count].to_vec()).send(&port).is_err() {
                break;
            }
        }
        let _ = ended.send(());
    });
}

/// Waits for the end of this child, and reaps all orphans until then. Returns its status, or 128
/// plus the number of the signal.
fn reap(child: Pid) -> anyhow::Result<u8> {
    loop {
        let (pid, status) = match wait(WaitOptions::empty()) {
            Ok(Some(ended)) => ended,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for the command"),
        };
        if pid == child {
            let killed = status.terminating_signal().map(|signal| 128 + signal);
            return Ok(status
                .exit_status()
                .or(killed)
                .and_then(|it| it.try_into().ok())
                .unwrap_or(255));
        }
    }
}
