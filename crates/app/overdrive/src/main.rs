//! The `overdrive` command.

mod advise;
mod again;
mod bench;
mod columns;
mod completion;
mod config;
mod dashboard;
mod demo;
mod device;
mod doctor;
mod drive;
mod manual;
#[cfg(test)]
mod outputs;
mod page_file;
mod pool;
mod progress;
mod review;
#[cfg(feature = "history")]
mod samples;
mod serve;
mod settings;
mod sim;
mod supervisors;
mod sweep;
mod terminal;
mod tools;
mod top;
mod trace;
mod volumes;
mod watch;
mod words;

use clap::{Parser, Subcommand};
use stack::Failure;
use std::path::PathBuf;
use std::process::ExitCode;
#[cfg(feature = "history")]
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: host::HugeAllocator = host::HugeAllocator;

/// A DRAM cache for block storage, and a lab that measures when it helps.
///
/// Exit status: 0 ok, 1 negative result, 2 usage, 3 no daemon, 4 permission, 5 busy or locked, 6
/// device I/O error, 7 data integrity failure.
#[derive(Parser)]
#[command(name = "overdrive", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Arguments>),
    Attach(Box<device::AttachArguments>),
    Detach(device::DetachArguments),
    Mount(Box<device::MountArguments>),
    Umount(device::UmountArguments),
    Volume(volumes::Arguments),
    Config(config::Arguments),
    Upgrade(volumes::UpgradeArguments),
    Drive(drive::Arguments),
    Bench(Box<bench::Arguments>),
    Review(Box<review::Arguments>),
    Sim(sim::Arguments),
    Sweep(sweep::Arguments),
    Trace(trace::Arguments),
    Advise(advise::Arguments),
    Pool(pool::Arguments),
    Top(top::Arguments),
    Dashboard(dashboard::Arguments),
    Demo(demo::Arguments),
    Doctor(doctor::Arguments),
    #[command(hide = true)]
    Supervise(device::SuperviseArguments),
    /// Make a call that waits for a device, for the daemon that serves the device; only a daemon
    /// starts this.
    #[command(hide = true, name = daemon::DEVICE_CALL)]
    DeviceCall {
        /// The daemon's process.
        daemon: i32,
        /// The call to make.
        call: String,
    },
    /// Map the files of a volume, for its daemon; only a daemon starts this.
    #[command(hide = true, name = daemon::MAP_FILES)]
    MapFiles {
        /// The daemon's process.
        daemon: i32,
        /// The daemon's control socket.
        control: PathBuf,
        /// The volume.
        volume: String,
        /// Rules for files.
        rules: String,
        /// Size of the volume's cache, in bytes.
        memory_bytes: u64,
    },
    /// Make the calls that a confined daemon cannot make; only a daemon starts this.
    #[command(hide = true, name = daemon::BROKER)]
    Broker {
        /// The daemon's mounts, as JSON.
        directories: Option<String>,
    },
    /// Sample the health of drives, for their daemon; only a daemon starts this.
    #[cfg(feature = "history")]
    #[command(hide = true, name = daemon::SAMPLE_DRIVES)]
    SampleDrives {
        /// The daemon's process.
        daemon: i32,
        /// Time between two samples, in milliseconds.
        every_ms: u64,
        /// The file of the history.
        file: PathBuf,
        /// The drives.
        drives: Vec<PathBuf>,
    },
    /// Retain a volume's memory for its daemon; only a daemon starts this.
    #[command(hide = true)]
    Hold,
    #[command(hide = true)]
    Manual(manual::Options),
}

fn main() -> ExitCode {
    completion::answer_shell();
    host::ignore_file_size_signal();
    daemon::console::fit_messages(terminal::fit_message);
    daemon::find_former();
    if std::env::var_os(device::LOG).is_some() {
        host::begin_log();
    }
    let result = match words::parse::<Arguments>(bench::suited).command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Attach(arguments) => device::attach(&arguments),
        Command::Detach(arguments) => device::detach(&arguments),
        Command::Mount(arguments) => device::mount(&arguments),
        Command::Umount(arguments) => device::umount(&arguments),
        Command::Supervise(arguments) => device::supervise(&arguments),
        Command::Volume(arguments) => volumes::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Upgrade(arguments) => volumes::upgrade(&arguments),
        Command::Drive(arguments) => drive::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Review(arguments) => review::run(&arguments),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Pool(arguments) => pool::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Dashboard(arguments) => dashboard::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::DeviceCall { daemon, call } => {
            daemon::device_call(daemon, &call).map(|()| ExitCode::SUCCESS)
        }
        Command::MapFiles { daemon, control, volume, rules, memory_bytes } => {
            daemon::map_files(daemon, &control, &volume, &rules, memory_bytes)
                .map(|()| ExitCode::SUCCESS)
        }
        Command::Broker { directories } => {
            daemon::run_broker(directories.as_deref()).map(|()| ExitCode::SUCCESS)
        }
        #[cfg(feature = "history")]
        Command::SampleDrives { daemon, every_ms, file, drives } => {
            daemon::sample_drives(daemon, Duration::from_millis(every_ms), &file, drives)
                .map(|()| ExitCode::SUCCESS)
        }
        Command::Manual(options) => manual::write(&options),
        Command::Hold => {
            host::begin_journal();
            host::begin_daemon();
            Ok(holder::hold())
        }
    };
    let status = result.unwrap_or_else(|failure| {
        daemon::resume_former(failure.exit, &failure.message);
        daemon::resume_again(failure.exit, &failure.message);
        print_failure(&failure)
    });
    match daemon::console::check_output() {
        Err(failure) if status == ExitCode::SUCCESS => print_failure(&failure),
        _ => status,
    }
}

/// Prints the sentence to stderr, and returns the status.
fn print_failure(failure: &Failure) -> ExitCode {
    if !failure.message.is_empty() {
        daemon::complain!("overdrive: {failure}");
    }
    ExitCode::from(failure.exit as u8)
}
