//! The figures of the project: benchmarks that compare two things in one run and print the ratio.
//!
//! `cargo xtask bench NAME`. Machines are noisy: the two sides of every comparison alternate
//! (A B B A ...), and the ratio is the median over the pairs, with its spread. Virtual-time figures
//! are exact but for the processor's own time.

mod adaptive;
mod client;
mod contestant;
mod copy;
mod device;
mod engine;
mod fio;
mod guard;
mod idle;
mod lab;
mod latencies;
mod metadata;
mod misses;
mod model;
mod mounted;
mod overdrive;
mod policy;
mod poll;
mod prices;
mod program;
mod readahead;
mod record;
mod restart;
mod rivals;
mod routes;
mod saturate;
mod server;
mod sides;
mod sim;
mod slow;
mod suites;
mod threads;
mod trace;
mod virtual_time;
mod write;
mod zipf;

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
    /// The write side in virtual time, over a modelled 840 EVO, against the bare drive.
    Write(write::Arguments),
    /// Bytes of metadata a slot.
    Metadata,
    /// Modelled drives: how many requests a second of the processor simulates, and how late a served
    /// one answers.
    Model(model::Arguments),
    /// Misses through the server, against the same server without a cache layer.
    Misses(misses::Arguments),
    /// Never slower with every processor busy: with a cache that cannot help, against none; over a slow
    /// backing from cold, against `--guard off` and none.
    Guard(guard::Arguments),
    /// Hits through the server against nbdkit: processor time at fixed loads, one at a time, peak.
    Server(server::Arguments),
    /// What a daemon costs that has nothing to do, without clients and with an idle one.
    Idle(idle::Arguments),
    /// Hits with several threads against one, a pipelining client for each.
    Threads(threads::Arguments),
    /// Polling against none: adaptive, as it is by default, with nbdkit beside it; `serve --poll`, by fio and
    /// by a client that never sleeps; and what the ring's wait costs.
    Poll(poll::Arguments),
    /// A slow backing under a zipf load, against the same server without a cache and against what
    /// the best fixed choice of blocks would give.
    Slow(slow::Arguments),
    /// More than a file takes: a trace at its own pace and fio at depth 128, against the same server
    /// without a cache.
    Saturate(saturate::Arguments),
    /// Copying files on ext4 in a volume over a file, against the same server without a cache and
    /// against the page cache.
    Copy(copy::Arguments),
    /// A volume as a block device: hits against other servers of files under loop devices, verified writes, and what attach,
    /// kill and detach take.
    Device(device::Arguments),
    /// The suites on modelled drives: QD1 writes against the ideal, what a consistency run
    /// takes, modelled requests a second.
    Suites(suites::Arguments),
    /// The lab's load against fio's: the same jobs over NBD to a server that keeps nothing, and to a file.
    Lab(lab::Arguments),
    /// Block accesses a second that one core simulates, for every policy; or how far samples are from the whole.
    Sim(sim::Arguments),
    /// The policy that is served: against the others and the optimum, under scans, its live curve, and whether the
    /// cache misses where its simulation does.
    Policy(policy::Arguments),
    /// Streams of reads with readahead against without, in virtual time: of every order, beside random reads, and while a
    /// file is copied.
    Readahead(readahead::Arguments),
    /// From kill -9 to the first answer of the next server, with much dirty.
    Restart(restart::Arguments),
    /// Hits through block devices: by ublk against a ublk device that keeps nothing, and against the kernel's NBD client.
    Routes(routes::Arguments),
    /// Makes the recordings that filebench and loadtime replay where there is no file system. As root.
    Record(record::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().figure {
        Figure::Engine(arguments) => engine::run(&arguments),
        Figure::Virtual(arguments) => virtual_time::run(&arguments),
        Figure::Prices(arguments) => prices::run(&arguments),
        Figure::Write(arguments) => write::run(&arguments),
        Figure::Metadata => metadata::run(),
        Figure::Model(arguments) => model::run(&arguments),
        Figure::Misses(arguments) => misses::run(&arguments),
        Figure::Guard(arguments) => guard::run(&arguments),
        Figure::Server(arguments) => server::run(&arguments),
        Figure::Idle(arguments) => idle::run(&arguments),
        Figure::Threads(arguments) => threads::run(&arguments),
        Figure::Poll(arguments) => poll::run(&arguments),
        Figure::Slow(arguments) => slow::run(&arguments),
        Figure::Saturate(arguments) => saturate::run(&arguments),
        Figure::Copy(arguments) => copy::run(&arguments),
        Figure::Device(arguments) => device::run(&arguments),
        Figure::Suites(arguments) => suites::run(&arguments),
        Figure::Lab(arguments) => lab::run(&arguments),
        Figure::Sim(arguments) => sim::run(&arguments),
        Figure::Policy(arguments) => policy::run(&arguments),
        Figure::Readahead(arguments) => readahead::run(&arguments),
        Figure::Restart(arguments) => restart::run(&arguments),
        Figure::Routes(arguments) => routes::run(&arguments),
        Figure::Record(arguments) => record::run(&arguments),
    }
}
