//! `overdrive drive`: the machine's drives, their care, and the drives that are modelled.

mod age;
mod erase;
mod health;
#[cfg(feature = "history")]
mod history;
mod list;
mod members;
mod modelled;
mod models;
mod overprovision;
mod past;
mod report;
mod show;
mod target;
mod trim;

use clap::Subcommand;
use stack::Failure;
use std::process::ExitCode;

/// List drives, show their health, care for them, and show the models of drives.
///
/// Examples:
///   overdrive drive list
///   overdrive drive health sda
///   overdrive drive trim /mnt/data
///   overdrive drive overprovision sda
///   overdrive drive erase sda --dry-run
///   overdrive drive models --output name,capacity,nand,year
///   overdrive drive models samsung-840-evo-250 --age
///   overdrive drive models --check mine.toml
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the block devices of this machine, and their users.
    List(list::Options),
    Health(health::Options),
    #[cfg(feature = "history")]
    History(history::Options),
    Trim(trim::Options),
    Overprovision(overprovision::Options),
    Erase(erase::Options),
    /// List the modelled drives; show one of them with all its numbers; check your own file.
    Models(models::Options),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // Some of the commands age a modelled drive.
    host::want_huge_allocations();
    match &arguments.command {
        Command::List(options) => list::run(options),
        Command::Health(options) => health::run(options),
        #[cfg(feature = "history")]
        Command::History(options) => history::run(options),
        Command::Trim(options) => trim::run(options),
        Command::Overprovision(options) => overprovision::run(options),
        Command::Erase(options) => erase::run(options),
        Command::Models(options) => models::run(options),
    }
}
