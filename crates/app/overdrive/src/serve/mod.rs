//! `overdrive serve`: volumes over NBD, as files and as block devices.

mod opening;
mod options;
mod recording;

pub(crate) use options::Options;
pub(crate) use recording::Recording;

use crate::again;
use block::{Size, Spec};
use cache::Counters;
use daemon::config::{self, Config, ConfigVolume};
use daemon::console::Severity;
use daemon::control::losses::Losses;
use daemon::declared;
use daemon::units::WaitTime;
use daemon::{
    Attaching, ConfigFile, DaemonPlan, LOG_LEVEL, Listening, MetricsAddress, Mounting, NbdAddress,
    Planned, Served, StartValues, TlsMode, TlsPlan, units as sizes,
};
use holder::Records;
use opening::open_with_reports;
use ring::Polling;
use stack::{CACHES_MAX, Exit, Failure, Keep, OpenFlags, OpenStep, Volume, retention_key};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Serve a volume over NBD, or as a file, with its hot blocks and small writes in memory.
///
/// The URI for clients, and with --fuse the file, is printed once clients can connect (with --json
/// on stderr). With --run, the shell runs the command with 'uri' and 'unixsocket' in its
/// environment, and with --fuse also 'file'; when the command ends, dirty data is written back, the
/// backing is flushed, and the status of the command is returned. Without --run, SIGINT or SIGTERM
/// ends the service in the same way.
///
/// With --config, every volume of a file is served, or the one that BACKING names. Other options,
/// such as --read-only, then apply to each of these volumes and override the file.
///
/// Examples:
///   overdrive serve disk.img --memory 2G --nbd unix:/run/user/1000/disk.sock
///   overdrive serve --config /etc/overdrive/host.toml
///   overdrive serve disk.img --run 'fio --name=t --ioengine=nbd --uri="$uri" --rw=randread'
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// An image, a block device, ram:SIZE, null:SIZE; nbd://HOST:PORT/EXPORT or
    /// nbd+unix:///EXPORT?socket=PATH, an NBD export; with --read-only also over TLS, by nbds and
    /// ?tls-certificates=DIR;
    /// model:NAME[?size=SIZE&seed=N&state=STATE], a modelled drive; pool:PATH,PATH... (see
    /// 'overdrive pool'); stripe:PATH,PATH...; one of these behind
    /// limit:iops=N,bandwidth=SIZE,burst=TIME: with at most N requests and SIZE bytes per second;
    /// with --config, one of its volumes.
    #[arg(required_unless_present = "config")]
    backing: Option<String>,

    /// Serve the volumes of this file (TOML; see docs/OPTIONS.md).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    options: Options,

    /// Address to listen at: unix:PATH, in an existing directory, or tcp:ADDRESS:PORT with
    /// --tls require and --tls-verify-peer, or with --insecure-tcp.
    #[arg(long)]
    nbd: Option<String>,

    /// Mount a directory in which each volume is a file: for programs that only use files, and for
    /// loop devices (losetup --direct-io=on). It is created if it is missing. Without --nbd, the
    /// volumes are then served only as files.
    #[arg(long, value_name = "DIR", value_parser = sizes::directory)]
    fuse: Option<PathBuf>,

    /// Whether clients at this address use TLS: 'off' they cannot, 'on' they may, 'require' they
    /// must; with --tls-certificates [default: off].
    #[arg(long, value_name = "off|on|require", value_parser = str::parse::<TlsMode>)]
    tls: Option<TlsMode>,

    /// Directory of certificates: ca-cert.pem, server-cert.pem and server-key.pem, and if some are
    /// revoked, ca-crl.pem. Renewed files are read at the next connection.
    #[arg(long, value_name = "DIR", value_parser = sizes::directory)]
    tls_certificates: Option<PathBuf>,

    /// Refuse clients that have no certificate of an authority in ca-cert.pem.
    #[arg(long)]
    tls_verify_peer: bool,

    /// Permit TCP where TLS does not protect all connections: any client that connects can read and
    /// change all data, and others may read what is sent.
    #[arg(long)]
    insecure_tcp: bool,

    /// Serve metrics for Prometheus here, at GET /metrics: a unix socket for this user alone, or a
    /// loopback address for all users of this machine.
    #[arg(long, value_name = "unix:PATH|127.0.0.1:PORT")]
    metrics: Option<String>,

    #[command(flatten)]
    recording: Recording,

    /// Threads that serve clients, each with its own ring: by default one per two processors, at
    /// most 8.
    #[arg(long, value_name = "N", value_parser = daemon::parse_threads)]
    threads: Option<usize>,

    /// Poll for requests before sleeping: 'adaptive' for up to 50 us, while this shortens the wait
    /// of a client with one request at a time and a processor is idle; TIME (at most 50 ms) until
    /// there was no request for that time, which occupies a processor; 'off' never. Default:
    /// adaptive; --poll without TIME: 20 ms.
    #[arg(long, value_name = "adaptive|off|TIME", num_args = 0..=1, default_missing_value = "20ms",
          value_parser = sizes::polling)]
    poll: Option<Polling>,

    /// Level of messages: 'error', 'notice', or 'debug' for each client, each operator's request
    /// and each saved list as well; 'overdrive volume set NAME log_level=LEVEL' changes it.
    /// Default: notice.
    #[arg(long, value_name = "error|notice|debug")]
    log_level: Option<Severity>,

    /// Name of the export.
    #[arg(long)]
    name: Option<String>,

    /// Run this shell command while serving, and return its status.
    #[arg(long, value_name = "CMD")]
    run: Option<String>,

    /// Print the statistics as one JSON object on stdout when the service ends; the URI is then
    /// printed on stderr.
    #[arg(long)]
    json: bool,

    /// Print only errors.
    #[arg(long, short)]
    quiet: bool,
}

impl Arguments {
    /// Returns the config of a command line without a config file: one volume.
    fn single(&self, backing: &str) -> Result<Config, Failure> {
        let name = self.name.clone().unwrap_or_else(|| name_of(backing));
        let mode = self.tls.unwrap_or_default();
        let tls = TlsPlan::new(mode, self.tls_certificates.clone(), self.tls_verify_peer)
            .map_err(|why| Failure::new(Exit::Usage, why))?;
        let permits_tcp = self.insecure_tcp || tls.protects_all();
        let nbd = match &self.nbd {
            Some(text) => Some(NbdAddress::parse(text, permits_tcp)?),
            None if self.fuse.is_some() => None,
            None => Some(NbdAddress::Unix(daemon::runtime_directory().join(file_name(&name)))),
        };
        let volume = ConfigVolume { nbd, ..ConfigVolume::new(&name, backing) };
        let fuse = self.fuse.clone();
        Ok(Config { tls, fuse, volumes: vec![volume], ..Config::default() })
    }

    /// Returns the volumes to serve, with the options of the command line applied.
    fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => self.file(path)?,
            None => self.single(self.backing.as_deref().unwrap_or_default())?,
        };
        config.volumes.iter_mut().for_each(|volume| self.options.apply(volume));
        if let Some(text) = &self.metrics {
            config.metrics = Some(MetricsAddress::parse(text, self.insecure_tcp)?);
        }
        self.recording.apply(&mut config);
        Ok(config)
    }

    /// Returns the keys of the config file that options replace.
    fn replaced(&self) -> Vec<&'static str> {
        if self.config.is_none() {
            return Vec::new();
        }
        let given = [
            ("metrics", self.metrics.is_some()),
            ("threads", self.threads.is_some()),
            ("poll", self.poll.is_some()),
            (LOG_LEVEL, self.log_level.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key);
        given.chain(self.recording.replaced()).chain(self.options.replaced()).collect()
    }

    /// Returns the config in the file.
    fn file(&self, path: &Path) -> Result<Config, Failure> {
        let is_said = [
            ("--nbd", self.nbd.is_some()),
            ("--fuse", self.fuse.is_some()),
            ("--insecure-tcp", self.insecure_tcp),
            ("--tls", self.tls.is_some()),
            ("--tls-certificates", self.tls_certificates.is_some()),
            ("--tls-verify-peer", self.tls_verify_peer),
            ("--name", self.name.is_some()),
        ];
        if let Some((option, _)) = is_said.iter().find(|(_, is_said)| *is_said) {
            let message = format!("{option} belongs in the file that --config names");
            return Err(Failure::new(Exit::Usage, message));
        }
        let mut config = config::read(path)?;
        // The file declares the volumes: their clients may have written anything, including the
        // signature of an image format.
        config.volumes.iter_mut().for_each(|volume| volume.raw = true);
        if let Some(wanted) = &self.backing {
            config.volumes.retain(|volume| volume.name == *wanted);
        }
        if config.volumes.is_empty() {
            let wanted = self.backing.as_deref().unwrap_or_default();
            let message = format!("{}: has no [volume.{wanted}]", path.display());
            return Err(Failure::new(Exit::Negative, message));
        }
        let is_reached = |volume: &ConfigVolume| volume.nbd.is_some() || volume.attach;
        if config.fuse.is_none() && config.nbd.is_none() && !config.volumes.iter().all(is_reached) {
            let stem = name_of(&path.to_string_lossy());
            config.nbd = Some(NbdAddress::Unix(daemon::runtime_directory().join(file_name(&stem))));
        }
        Ok(config)
    }
}

/// Returns a volume's name, from its backing's.
pub(crate) fn name_of(backing: &str) -> String {
    if let Some(name) = stack::export_name(backing) {
        return name.replace(':', "-");
    }
    // Without the parameters of this instance: limits, and those of a modelled drive.
    let backing = stack::below_limits(backing);
    let drive = backing.strip_prefix("model:").and_then(|rest| rest.split('?').next());
    let backing = drive.unwrap_or(backing);
    let (kind, backing) = match backing.split_once(':') {
        Some((kind @ ("pool" | "stripe"), list)) => {
            (Some(kind), list.split(',').next().unwrap_or(list))
        }
        _ => (None, backing),
    };
    let stem = Path::new(backing).file_stem().map(|stem| stem.to_string_lossy());
    let stem = stem.map_or("volume".into(), |stem| stem.replace(':', "-"));
    kind.map_or(stem.clone(), |kind| format!("{kind}-{stem}"))
}

fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }
    };
    format!("{}.{}.sock", name.chars().map(plain).take(40).collect::<String>(), std::process::id())
}

/// Returns the listeners, with their volumes: one listener per address.
fn listeners(config: &Config) -> Vec<Listening> {
    let mut listeners: Vec<Listening> = Vec::new();
    for volume in &config.volumes {
        let Some(address) = volume.nbd.as_ref().or(config.nbd.as_ref()) else { continue };
        match listeners.iter_mut().find(|listening| listening.address == *address) {
            Some(listening) => listening.exports.push(volume.name.clone()),
            None => {
                let exports = vec![volume.name.clone()];
                listeners.push(Listening { address: address.clone(), exports });
            }
        }
    }
    listeners
}

/// Returns the mounts, with their volumes.
fn mounts(config: &Config) -> Vec<Mounting> {
    let Some(directory) = config.fuse.clone() else { return Vec::new() };
    let exports = config.volumes.iter().map(|volume| volume.name.clone()).collect();
    let keep = config.volumes.iter().any(|volume| volume.holder).then(keep);
    let wait_times = config.volumes.iter().map(|volume| volume.wait_time);
    let wait_time = wait_times.reduce(WaitTime::longer).unwrap_or_default();
    vec![Mounting { directory, exports, keep, device: None, wait_time }]
}

/// Returns the volumes that are block devices.
fn attachments(config: &Config) -> Vec<Attaching> {
    let attached = config.volumes.iter().filter(|volume| volume.attach);
    let attaching = |volume: &ConfigVolume| Attaching {
        volume: volume.name.clone(),
        via: volume.via,
        keep: volume.holder.then(keep),
        wait_time: volume.wait_time,
    };
    attached.map(attaching).collect()
}

/// Returns how memory is retained. This link leads to the running program even if its file is moved
/// or replaced.
fn keep() -> Keep {
    Keep { runtime: daemon::runtime_directory(), program: PathBuf::from("/proc/self/exe") }
}

/// Returns the number of volumes with a cache.
///
/// # Errors
/// Usage: a daemon serves fewer; nothing was opened.
fn count_caches(volumes: &[ConfigVolume]) -> Result<usize, Failure> {
    let caches = volumes.iter().filter(|volume| volume.cache.memory > Size(0)).count();
    if caches > CACHES_MAX {
        let message = format!(
            "these are {caches} volumes with a cache, too many for one daemon: it serves \
             {CACHES_MAX}; move the others into another file, for another daemon"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(caches)
}

fn open(volumes: Vec<ConfigVolume>, quiet: bool) -> Result<Vec<Planned>, Failure> {
    let caches = count_caches(&volumes)?;
    let mut planned = Vec::new();
    for wanted in volumes {
        let spec = wanted.spec()?;
        let ConfigVolume { name, backing, raw, read_only, holder, attach, .. } = wanted;
        let keep = holder.then(keep);
        let device = attach.then(|| name.clone());
        let records = Some(Records::of(&daemon::runtime_directory()));
        let flags = OpenFlags { name: name.clone(), raw, read_only, device, keep, records, caches };
        let open = |progress: &mut dyn FnMut(OpenStep)| Volume::open(spec, flags, progress);
        let volume = open_with_reports(&backing, quiet, open)?;
        if !quiet {
            volume.notes().iter().for_each(|note| daemon::tell!("overdrive: {note}"));
        }
        planned.push(Planned { name, backing, volume });
    }
    Ok(planned)
}

/// Locks memory: from now on nothing that writeback requires is swapped out, or read from a disk
/// that may be our own (C5).
fn lock_memory(volumes: &[Planned], quiet: bool) {
    let writes_back = |planned: &Planned| match planned.volume.spec() {
        Spec::Cache { cache, .. } => cache.write.absorbs(),
        _ => false,
    };
    if !volumes.iter().any(writes_back) {
        return;
    }
    if let Err(error) = host::lock_process()
        && !quiet
    {
        daemon::complain!("overdrive: {error}");
    }
}

/// Options of the process that serves a config.
#[derive(Default)]
pub(crate) struct ServeOptions {
    /// The configuration file, if the config comes from one.
    pub(crate) file: Option<ConfigFile>,
    pub(crate) threads: Option<usize>,
    pub(crate) poll: Option<Polling>,
    pub(crate) log_level: Option<Severity>,
    pub(crate) run: Option<String>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Keys of the config file that options have replaced.
    pub(crate) replaced: Vec<&'static str>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    host::begin_journal();
    let config = arguments.config()?;
    let replaced = arguments.replaced();
    let Arguments {
        config: file, backing: volume, threads, poll, log_level, run, json, quiet, ..
    } = arguments;
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let file = file.map(|path| ConfigFile { path: absolute(path), volume });
    serve(config, ServeOptions { file, threads, poll, log_level, run, json, quiet, replaced })
}

/// Returns the values of each volume that are read only at the start, by the volume's name.
fn start_values(config: &Config, replaced: &[&str]) -> BTreeMap<String, StartValues> {
    let runtime = daemon::runtime_directory();
    let of_volume = |volume: &ConfigVolume| {
        let replaced = replaced.iter().map(|key| (*key).to_owned()).collect();
        let values = StartValues { replaced, ..declared::start_values(config, volume, &runtime) };
        (volume.name.clone(), values)
    };
    config.volumes.iter().map(of_volume).collect()
}

/// Serves until the end is requested.
///
/// # Errors
/// Those of opening, and of [`daemon::serve`].
pub(crate) fn serve(mut config: Config, options: ServeOptions) -> Result<ExitCode, Failure> {
    host::begin_journal();
    let ServeOptions { file, threads, poll, log_level, run, json, quiet, replaced } = options;
    log_level.or(config.log_level).into_iter().for_each(host::set_log_level);
    config.threads = threads.or(config.threads);
    config.poll = poll.or(config.poll);
    let start_values = start_values(&config, &replaced);
    let poll = config.poll.unwrap_or(Polling::Adaptive);
    let (listeners, mounts) = (listeners(&config), mounts(&config));
    let attachments = attachments(&config);
    let threads = config.threads.unwrap_or_else(daemon::threads_default);
    // Opening a volume may start a holder, which must not inherit the listeners.
    daemon::find_inherited();
    daemon::allow_descriptors(config.volumes.len(), listeners.len(), threads)?;
    daemon::protect_process();
    let retained = config.volumes.iter().filter(|volume| volume.holder);
    let keys = retained.filter_map(|volume| retention_key(&volume.spec().ok()?));
    let approaches = daemon::approach(&mounts, &attachments, keys, &daemon::runtime_directory());
    let volumes = open(config.volumes, quiet)?;
    let lanes_max = volumes.iter().filter_map(|planned| planned.volume.lanes_max());
    let threads = lanes_max.fold(threads, usize::min);
    lock_memory(&volumes, quiet);
    // A captive command has the URI in its environment, and stdout belongs to the command.
    let captive = run.is_some();
    let ready = move |uris: &[String]| {
        match captive {
            true => return,
            false if json && quiet => {}
            false if json => uris.iter().for_each(|uri| daemon::tell!("{uri}")),
            false => print(uris),
        }
        // Until now this was a command, whose messages are read immediately.
        host::begin_daemon();
    };
    let plan = DaemonPlan {
        volumes,
        start_values,
        listeners,
        tls: config.tls,
        mounts,
        attachments,
        approaches,
        run,
        runtime: daemon::runtime_directory(),
        state: daemon::state_directory(),
        history: daemon::history_to_record(config.history.as_ref()),
        drive_samples: config.drive_samples.unwrap_or_default(),
        metrics: config.metrics,
        threads,
        poll,
        quiet,
        again: again::command(),
        program: daemon::program_to_upgrade_to(),
        config: file,
        ready: Box::new(ready),
    };
    let served = daemon::serve(plan)?;
    if json {
        daemon::say!("{}", json_of(&served));
    } else if !quiet {
        let counted = served.volumes.iter().filter_map(|volume| Some((volume, volume.counters?)));
        for (volume, counters) in counted {
            let name =
                if served.volumes.len() > 1 { format!("{}: ", volume.name) } else { "".into() };
            daemon::tell!("overdrive: {name}{}", summary(&counters, &volume.losses));
        }
    }
    Ok(ExitCode::from(served.captive.map_or(0, |captive| captive.status)))
}

/// Prints the addresses for clients.
fn print(uris: &[String]) {
    let mut out = std::io::stdout().lock();
    // The output need not be read: a closed pipe is no reason to stop serving.
    uris.iter().for_each(|uri| drop(writeln!(out, "{uri}")));
    #[allow(clippy::disallowed_methods, reason = "stdout, not a file")]
    let _ = out.flush();
}

/// Returns a summary: the benefit of the cache, and the safety of the data.
fn summary(counters: &Counters, losses: &Losses) -> String {
    let reads = counters.read_hits + counters.read_misses;
    let hits = 100.0 * counters.read_hits as f64 / reads.max(1) as f64;
    let saved = counters.blocks_saved * 4096;
    format!(
        "{reads} reads, {hits:.1} % from memory; {} written by clients, {} absorbed, {} of that \
         overwritten before writeback; {}",
        Size(counters.asked_write_bytes),
        Size(counters.blocks_absorbed * 4096),
        Size(saved),
        losses.outcome("the backing"),
    )
}

fn counters(counted: Option<&Counters>) -> serde_json::Value {
    counted.map_or(serde_json::json!({}), |counted| serde_json::json!(counted))
}

fn json_of(served: &Served) -> serde_json::Value {
    let first = served.volumes.first();
    let volumes: Vec<_> = served
        .volumes
        .iter()
        .map(|volume| {
            serde_json::json!({
                "name": volume.name,
                "backing": volume.backing,
                "uri": volume.uri,
                "counters": counters(volume.counters.as_ref()),
                "losses": volume.losses,
            })
        })
        .collect();
    serde_json::json!({
        "schema": "overdrive.served/1",
        // Those of the first volume, as in versions with one volume.
        "backing": first.map(|volume| &volume.backing),
        "counters": counters(first.and_then(|volume| volume.counters.as_ref())),
        "served_ns": served.served_ns,
        "poll_spent_ns": served.poll_spent_ns,
        "poll_vain_ns": served.poll_vain_ns,
        "captive_status": served.captive.map(|captive| captive.status),
        "volumes": volumes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};

    #[test]
    fn a_volume_has_the_name_of_its_backing() {
        for (backing, name) in [
            ("/srv/db.img", "db"),
            ("limit:iops=300,burst=10s:/srv/db.img", "db"),
            ("limit:iops=2:limit:iops=1:pool:/srv/a.img,/srv/b.img", "pool-a"),
            ("limit:bandwidth=1M:model:samsung-840-evo-250?size=1G", "samsung-840-evo-250"),
            ("ram:1G", "ram-1G"),
            ("nbd://host/db", "db"),
            ("limit:iops=1:nbd://10.0.0.1:99/", "10.0.0.1"),
        ] {
            assert_eq!(name_of(backing), name);
        }
    }

    /// Checks each option that does not belong to a volume together with a config file.
    #[test]
    fn beside_a_config_file_every_option_is_obeyed_or_refused() {
        let long = |command: Command| -> Vec<String> {
            let all = command.get_arguments().filter_map(|one| one.get_long()).map(str::to_owned);
            all.filter(|long| long != "help").collect()
        };
        let of_volumes = long(Options::augment_args(Command::new("serve")));
        let mut others = long(Arguments::augment_args(Command::new("serve")));
        others.retain(|long| !of_volumes.contains(long));
        others.sort();
        let (obeyed, refused) = (
            [
                "config",
                "drive-samples",
                "history",
                "json",
                "log-level",
                "metrics",
                "poll",
                "quiet",
                "run",
                "threads",
            ],
            ["fuse", "insecure-tcp", "name", "nbd", "tls", "tls-certificates", "tls-verify-peer"],
        );
        let mut known = [&obeyed[..], &refused].concat();
        known.sort_unstable();
        assert_eq!(others, known);
    }
}
