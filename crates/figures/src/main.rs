//! The figures of the project: benchmarks that compare two things in one run and print the ratio.
//!
//! `cargo xtask bench NAME`. Machines are noisy: the two sides of every comparison alternate
//! (A B B A ...), and the ratio is the median over the pairs, with its spread. Virtual-time figures
//! are exact but for the processor's own time.

mod engine;
mod metadata;
mod prices;
mod server;
mod sides;
mod virtual_time;

use clap::{Parser, Subcommand};

/// The figures of Overdrive, each measured against its own baseline in one run.
#[derive(Parser)]
#[command(name = "cargo xtask bench", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    figure: Figure,
}

#[derive(Subcommand)]
enum Figure {
    /// A 4 KiB hit against a bare copy from a random slot of the same pages.
    Engine(engine::Arguments),
    /// The engine over a null device in virtual time, without data: nanoseconds a hit and a miss.
    Virtual(virtual_time::Arguments),
    /// What the engine's work costs on this machine: the price list of timed worlds.
    Prices(prices::Arguments),
    /// Bytes of metadata a slot.
    Metadata,
    /// Misses through the server, against the same server without a cache layer.
    Misses(server::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().figure {
        Figure::Engine(arguments) => engine::run(&arguments),
        Figure::Virtual(arguments) => virtual_time::run(&arguments),
        Figure::Prices(arguments) => prices::run(&arguments),
        Figure::Metadata => metadata::run(),
        Figure::Misses(arguments) => server::run(&arguments),
    }
}
