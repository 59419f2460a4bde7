//! `overdrive trace`: recorded traces, their properties and their formats.

mod convert;
mod generate;
mod generate_like;
mod generate_named;
mod generate_options;
mod generate_output;
mod info;
mod info_page;
mod info_text;
pub(crate) mod record;
mod replay;
mod replay_options;
mod replay_text;

use clap::Subcommand;
use simulator::Error;
use stack::{Exit, Failure};
use std::process::ExitCode;

/// Record traces, show their properties, convert, replay and generate them.
///
/// Examples:
///   overdrive trace record db db.trace.zst --for 1h
///   overdrive trace record /dev/nvme0n1 day.trace.zst --for 24h
///   overdrive trace info week.csv.zst
///   overdrive trace info vm.vscsi.xz --report vm.html
///   overdrive trace convert vm.vscsi.xz vm.trace.zst
///   overdrive trace convert vm.vscsi.xz vm.log --to fio-3
///   overdrive trace replay week.csv.zst model:samsung-840-evo-250 --idle-max 25ms
///   overdrive trace replay vm.vscsi.xz /dev/sdb --destroy
///   overdrive trace generate destroyer destroyer.trace.zst --scale 0.1
///   overdrive trace generate --like vm.vscsi.xz other.trace.zst
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(record::Options),
    Info(info::Options),
    Convert(convert::Options),
    Replay(replay_options::Options),
    Generate(generate_options::Options),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Record(options) => record::run(options),
        Command::Info(options) => info::run(options),
        Command::Convert(options) => convert::run(options),
        Command::Replay(options) => replay::run(options),
        Command::Generate(options) => generate::run(options),
    }
}

/// Returns the failure of a command that has read a trace.
fn failure(error: Error) -> Failure {
    match error {
        Error::Interrupted => Failure::new(Exit::Negative, "interrupted before any request"),
        error => crate::sim::failure(error),
    }
}
