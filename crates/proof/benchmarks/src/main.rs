//! The figures of the project: benchmarks that compare two things in one run and print the ratio.
//!
//! `cargo xtask bench NAME`. Machines are noisy: the two sides of every comparison alternate
//! (A B B A ...), and the ratio is the median over the pairs, with its spread. Virtual-time figures
//! are exact but for the processor's own time.

mod adaptive;
mod admission;
mod boot;
mod cached_pool;
mod client;
mod compress;
mod contestant;
mod copy;
mod dashboard;
mod device;
mod engine;
mod far;
mod fio;
mod guard;
mod health;
mod idle;
mod lab;
mod latencies;
mod link;
mod map;
mod metadata;
mod misses;
mod model;
mod mounted;
mod overdrive;
mod packing;
mod peers;
mod policy;
mod poll;
mod prices;
mod processors;
mod program;
mod readahead;
mod record;
mod recording;
mod restart;
mod rider;
mod rivals;
mod routes;
mod saturate;
mod save;
mod scrape;
mod server;
mod sides;
mod sim;
mod slow;
mod suites;
mod takeover;
mod threads;
mod tls;
mod trace;
mod virtual_time;
mod warm;
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
    /// A 4 KiB hit compared with a bare copy from a random slot of the same pages.
    Engine(engine::Arguments),
    /// The engine over a null device in virtual time, without data: nanoseconds per hit and miss.
    Virtual(virtual_time::Arguments),
    /// A miss that is admitted, with data, in virtual time: compared with a layer that only copies.
    Admission(admission::Arguments),
    /// The cost of the engine's work on this machine: the price list of timed worlds.
    Prices(prices::Arguments),
    /// The write side in virtual time, over a modelled 840 EVO, compared with the bare drive.
    Write(write::Arguments),
    /// Bytes of metadata per slot.
    Metadata,
    /// Compressed blocks: how many more blocks of files the same memory holds, with all metadata;
    /// times of the codec, compared with the commands `lz4` and `zstd`.
    Packing(packing::Arguments),
    /// The map from blocks to files: processor time and memory for a million files, read from an
    /// image and by FIEMAP; whether both are equal; the time of a lookup. As root.
    Map(map::Arguments),
    /// Modelled drives: simulated requests per second of processor time, and the lateness of a
    /// served drive's answers.
    Model(model::Arguments),
    /// Misses through the server, compared with the same server without a cache layer.
    Misses(misses::Arguments),
    /// Never slower with every processor busy: a cache that cannot help, compared with none; over a
    /// slow backing from cold, compared with `--guard off` and none.
    Guard(guard::Arguments),
    /// A scrape of the metrics of a hundred volumes: time, size, processor time.
    Scrape(scrape::Arguments),
    /// The dashboard with twenty volumes and two weeks of history: sizes and times of its pages;
    /// the daemon's processor time for statistics each second.
    Dashboard(dashboard::Arguments),
    /// The time of `overdrive drive health` beyond the drive's own answer
    Health(health::Arguments),
    /// Hits through the server compared with nbdkit: processor time at fixed loads, one at a time,
    /// peak.
    Server(server::Arguments),
    /// The cost of an idle daemon, without clients and with an idle one.
    Idle(idle::Arguments),
    /// Hits with several threads compared with one, with a pipelining client for each.
    Threads(threads::Arguments),
    /// Polling compared with none: adaptive, the default, also compared with nbdkit;
    /// `serve --poll`, with fio and with a client that never sleeps; and the cost of the ring's
    /// wait.
    Poll(poll::Arguments),
    /// A slow backing under a zipf load, compared with the same server without a cache and with the
    /// best fixed choice of blocks.
    Slow(slow::Arguments),
    /// An NBD export behind a link of 1 ms, compared with the bare link: a zipf load, and a stream
    /// that starts cold.
    Link(link::Arguments),
    /// Hits over TLS compared with nbdkit's: the same cipher and client.
    Tls(tls::Arguments),
    /// More load than a file can serve: a trace at its own pace and fio at depth 128, compared with
    /// the same server without a cache.
    Saturate(saturate::Arguments),
    /// Copying files on ext4 in a volume over a file, compared with the same server without a cache
    /// and with the page cache.
    Copy(copy::Arguments),
    /// A volume as a block device: hits compared with other servers of files under loop devices,
    /// verified writes, and the times of attach, kill and detach.
    Device(device::Arguments),
    /// The suites on modelled drives: QD1 writes compared with the ideal, the time of a consistency
    /// run, modelled requests per second.
    Suites(suites::Arguments),
    /// The lab's load compared with fio's: the same jobs over NBD to a server that stores nothing,
    /// and to a file.
    Lab(lab::Arguments),
    /// Block accesses per second that one core simulates, for every policy; or the error of
    /// samples.
    Sim(sim::Arguments),
    /// Evicted blocks that stay in memory compressed: the processor time of hits and misses, and
    /// the hit ratio, compared with no compression.
    Compress(compress::Arguments),
    /// The default policy: compared with the others and the optimum, under scans, its live curve,
    /// and whether the cache misses as its simulation does.
    Policy(policy::Arguments),
    /// Streams of reads with readahead compared with none, in virtual time: of every order, next to
    /// random reads, and while a file is copied.
    Readahead(readahead::Arguments),
    /// Backings with long round trips, in virtual time: the part of a link's rate that streams of
    /// reads and of writes, and a list of hot blocks reach.
    Far(far::Arguments),
    /// Time from kill -9 to the first answer of the next server, with much dirty data.
    Restart(restart::Arguments),
    /// Takeovers of cached blocks, and the list of hot blocks over a restart, in virtual time: hits
    /// of the first second and of the first minute, waits of clients beside the list; and the
    /// processor time of saving and loading it.
    Warm(warm::Arguments),
    /// Hits through block devices: by ublk compared with a ublk device that stores nothing, and
    /// with the kernel's NBD client.
    Routes(routes::Arguments),
    /// Overdrive compared with the page cache, QEMU's cache=writeback, bcache, dm-cache and
    /// dm-writecache: the same memory over the same slow device, in a guest.
    Peers(peers::Arguments),
    /// Makes the recordings that filebench and loadtime replay where there is no file system. As
    /// root.
    Record(record::Arguments),
    /// The recorder of a served volume: hits with it, compared with none, and its memory; service
    /// times of a recording, and of its replay on the same volume.
    Recording(recording::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().figure {
        Figure::Engine(arguments) => engine::run(&arguments),
        Figure::Virtual(arguments) => virtual_time::run(&arguments),
        Figure::Admission(arguments) => admission::run(&arguments),
        Figure::Prices(arguments) => prices::run(&arguments),
        Figure::Write(arguments) => write::run(&arguments),
        Figure::Metadata => metadata::run(),
        Figure::Packing(arguments) => packing::run(&arguments),
        Figure::Map(arguments) => map::run_all(&arguments),
        Figure::Model(arguments) => model::run(&arguments),
        Figure::Misses(arguments) => misses::run(&arguments),
        Figure::Scrape(arguments) => scrape::run(&arguments),
        Figure::Dashboard(arguments) => dashboard::run(&arguments),
        Figure::Health(arguments) => health::run(&arguments),
        Figure::Guard(arguments) => guard::run(&arguments),
        Figure::Server(arguments) => server::run(&arguments),
        Figure::Idle(arguments) => idle::run(&arguments),
        Figure::Threads(arguments) => threads::run(&arguments),
        Figure::Poll(arguments) => poll::run(&arguments),
        Figure::Slow(arguments) => slow::run(&arguments),
        Figure::Link(arguments) => link::run(&arguments),
        Figure::Tls(arguments) => tls::run(&arguments),
        Figure::Saturate(arguments) => saturate::run(&arguments),
        Figure::Copy(arguments) => copy::run(&arguments),
        Figure::Device(arguments) => device::run(&arguments),
        Figure::Suites(arguments) => suites::run(&arguments),
        Figure::Lab(arguments) => lab::run(&arguments),
        Figure::Sim(arguments) => sim::run(&arguments),
        Figure::Compress(arguments) => compress::run(&arguments),
        Figure::Policy(arguments) => policy::run(&arguments),
        Figure::Readahead(arguments) => readahead::run(&arguments),
        Figure::Far(arguments) => far::run(&arguments),
        Figure::Restart(arguments) => restart::run(&arguments),
        Figure::Warm(arguments) => run_warm(&arguments),
        Figure::Routes(arguments) => routes::run(&arguments),
        Figure::Peers(arguments) => peers::run(&arguments),
        Figure::Record(arguments) => record::run(&arguments),
        Figure::Recording(arguments) => recording::run(&arguments),
    }
}

/// Runs the parts of the figure `warm`.
fn run_warm(arguments: &warm::Arguments) -> anyhow::Result<()> {
    if arguments.live.only_live {
        return save::run(&arguments.live);
    }
    let loads = warm::loads(arguments)?;
    takeover::run(&loads)?;
    if arguments.only_takeover {
        return Ok(());
    }
    warm::run(arguments, &loads)?;
    boot::run()?;
    save::run(&arguments.live)
}
