//! `overdrive serve`: one volume over NBD.

use crate::progress::Bytes;
use crate::sizes;
use block::{CacheSpec, DelaySpec, FaultsSpec, Size, WriteMode};
use cache::Counters;
use clap::ValueEnum;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volume::{Exit, Failure, OpenFlags, Plan, ServeOptions, Served, Volume};

/// Serve a volume over NBD, with its hot blocks and small writes in memory.
///
/// The URI for clients is printed once they can connect. With --run, the command runs by the shell
/// with 'uri' and 'unixsocket' in its environment; when it ends, the volume is drained and flushed,
/// and its status is ours. Otherwise SIGINT or SIGTERM ends the service, drained and flushed.
///
/// Examples:
///   overdrive serve disk.img --memory 2G --nbd unix:/run/user/1000/disk.sock
///   overdrive serve disk.img --run 'fio --name=t --ioengine=nbd --uri="$uri" --rw=randread'
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// An image, a block device, ram:SIZE or null:SIZE.
    backing: String,

    /// Memory for cached blocks (4K = 4KiB = 4096, 4KB = 4000); 0: no cache layer at all.
    #[arg(long, default_value = "1G", value_parser = sizes::size)]
    memory: Size,

    /// What happens to writes.
    #[arg(long, value_enum, default_value_t = Write_::Back)]
    write: Write_,

    /// What a flush means.
    #[arg(long, value_enum, default_value_t = Durability::Flush)]
    durability: Durability,

    /// Where to listen: unix:PATH.
    #[arg(long)]
    nbd: Option<String>,

    /// The export's name.
    #[arg(long)]
    name: Option<String>,

    /// Run this shell command while serving; its status becomes ours.
    #[arg(long, value_name = "CMD")]
    run: Option<String>,

    /// Serve an image format (qcow2, VMDK, ...) byte by byte all the same.
    #[arg(long)]
    raw: bool,

    /// Refuse changes.
    #[arg(long)]
    read_only: bool,

    /// Use the host's page cache under the volume instead of direct I/O.
    #[arg(long)]
    buffered: bool,

    /// The most dirty data there may ever be [default: a quarter of the memory].
    #[arg(long, value_name = "SIZE", value_parser = sizes::size)]
    dirty_bytes: Option<Size>,

    /// How long dirty data may wait.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = sizes::time_ms)]
    dirty_age: u64,

    /// How long writing out all dirty data may take, as predicted from what was measured; 0: no
    /// limit.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = sizes::time_ms)]
    flush_target: u64,

    /// How long errors of the backing are retried before the volume fails.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = sizes::time_ms)]
    retry_time: u64,

    /// Make the backing slower, for tests: read=500us,write=500us,flush=500us,servers=4,bandwidth=0.
    #[arg(long, value_name = "LIST", value_parser = sizes::delay)]
    delay: Option<DelaySpec>,

    /// Make the backing fail, for tests: write=N,flush=N,read=N (the first that fails),count=N,errno=N.
    #[arg(long, value_name = "LIST", value_parser = sizes::faults)]
    faults: Option<FaultsSpec>,

    /// Print what was counted as one JSON object on stdout when the service ends.
    #[arg(long)]
    json: bool,

    /// Say nothing but errors.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Write_ {
    /// Absorbed in memory, once a client has shown by a flush that it knows what that means.
    Back,
    /// Absorbed in memory from the first write on.
    BackNow,
    /// Written to the backing, and kept for reading.
    Through,
    /// Nothing is cached, neither reads nor writes.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Durability {
    /// A completed flush or FUA write is on the backing, and the backing was flushed.
    Flush,
}

impl Arguments {
    fn plan(&self) -> Plan {
        let write = match self.write {
            Write_::Back => WriteMode::Back,
            Write_::BackNow => WriteMode::BackNow,
            Write_::Through => WriteMode::Through,
            Write_::None => WriteMode::None,
        };
        let cache = (self.memory.0 > 0).then_some(CacheSpec {
            memory: self.memory,
            write,
            dirty_bytes: self.dirty_bytes,
            dirty_age_ms: self.dirty_age,
            flush_target_ms: self.flush_target,
            retry_time_ms: self.retry_time,
        });
        Plan {
            cache,
            delay: self.delay.clone(),
            faults: self.faults.clone(),
            read_only: self.read_only,
            buffered: self.buffered,
        }
    }

    fn name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let stem = Path::new(&self.backing).file_stem().map(|stem| stem.to_string_lossy());
        stem.map_or("volume".into(), |stem| stem.replace(':', "-"))
    }

    fn socket(&self, name: &str) -> Result<PathBuf, Failure> {
        let Some(place) = &self.nbd else {
            return Ok(private_directory().join(file_name(name)));
        };
        if let Some(path) = place.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(PathBuf::from(path));
        }
        let message = if place == "unix:" {
            "--nbd unix: needs a path; write unix:PATH".to_owned()
        } else {
            format!(
                "--nbd {place}: this version serves unix sockets only; write unix:PATH and carry \
                 it further with ssh -L if it must cross a network"
            )
        };
        Err(Failure::new(Exit::Usage, message))
    }
}

fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }
    };
    format!("{}.{}.sock", name.chars().map(plain).take(40).collect::<String>(), std::process::id())
}

/// Where sockets go unless told: a directory that only this user can enter.
fn private_directory() -> PathBuf {
    let user = rustix::process::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("overdrive"),
        None if user.is_root() => PathBuf::from("/run/overdrive"),
        None => std::env::temp_dir().join(format!("overdrive-{}", user.as_raw())),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Durability::Flush = arguments.durability;
    let name = arguments.name();
    let socket = arguments.socket(&name)?;
    let spec = volume::target(&arguments.backing, &arguments.plan())?;
    let bar = Bytes::new("memory");
    let flags = OpenFlags { raw: arguments.raw, lanes: 1 };
    let volume = Volume::open(spec, flags, &mut |done, all| bar.set(done, all))?;
    bar.finish();
    let quiet = arguments.quiet;
    if !quiet {
        volume.notes().iter().for_each(|note| eprintln!("overdrive: {note}"));
    }
    let captive = arguments.run.is_some();
    let ready = move |uri: &str| {
        // A captive command has the URI in its environment, and stdout is its own.
        if !captive {
            let mut out = std::io::stdout().lock();
            // Nobody need read it: a closed pipe is no reason to stop serving.
            let _ = writeln!(out, "{uri}");
            #[allow(clippy::disallowed_methods, reason = "stdout, not a file")]
            let _ = out.flush();
        }
    };
    let options = ServeOptions { name, socket, run: arguments.run, ready: Box::new(ready) };
    let served = volume::serve(&volume, options)?;
    if arguments.json {
        println!("{}", json(&arguments.backing, &served));
    } else if !quiet && let Some(counters) = &served.counters {
        eprintln!("overdrive: {}", summary(counters));
    }
    Ok(ExitCode::from(served.captive.map_or(0, |captive| captive.status)))
}

/// What users ask first: did it help, and is everything safe.
fn summary(counters: &Counters) -> String {
    let reads = counters.read_hits + counters.read_misses;
    let hits = 100.0 * counters.read_hits as f64 / reads.max(1) as f64;
    let requested = counters.blocks_requested * 4096;
    let saved = counters.blocks_saved * 4096;
    format!(
        "{reads} reads, {hits:.1} % from memory; {} asked to be written, {} absorbed, {} of it \
         overwritten before it had to be written; all of it is on the backing",
        Size(requested),
        Size(counters.blocks_absorbed * 4096),
        Size(saved),
    )
}

fn json(backing: &str, served: &Served) -> serde_json::Value {
    let mut counters = serde_json::Map::new();
    if let Some(counted) = &served.counters {
        counted.each(|name, value| {
            counters.insert(name.to_owned(), value.into());
        });
    }
    serde_json::json!({
        "schema": "overdrive.served/1",
        "backing": backing,
        "served_ns": served.served_ns,
        "captive_status": served.captive.map(|captive| captive.status),
        "counters": counters,
    })
}
