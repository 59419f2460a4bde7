//! `overdrive attach`: a volume as a block device, served in the background.

use super::new_config::NewConfig;
use super::{need_root, supervise};
use crate::serve::{self, Options, Recording, ServeOptions, name_of};
use daemon::config::{Config, ConfigVolume, DIRECTORY};
use daemon::console::Severity;
use daemon::{MetricsAddress, Route, units};
use ring::Polling;
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a volume a block device of this machine: /dev/overdrive/NAME.
///
/// The volume is served in the background, and the daemon is restarted if it is killed, until
/// 'overdrive detach NAME'. The device's path is printed. The device announces a volatile write
/// cache, as a disk does: unless --durability is changed, synced data is on the backing.
///
/// No holder retains the memory of a pool, of a stripe with a cache, or with --no-holder: if the
/// daemon of such a device is killed, all requests fail until the device is detached and attached
/// again.
///
/// Examples:
///   overdrive attach disk.img --memory 2G && mount /dev/overdrive/disk /mnt
///   overdrive attach /dev/sdb --name db --durability ordered
///   overdrive attach /srv/db.img --memory 2G --save && systemctl enable overdrive-device@db
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) volume: Volume,

    /// Serve in this process, until a signal ends it.
    #[arg(long)]
    foreground: bool,

    /// Once the volume is attached, also write this configuration file, with format = "raw" and all
    /// options; by default /etc/overdrive/NAME.toml, which overdrive-device@NAME.service serves at
    /// boot.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "")]
    save: Option<PathBuf>,
}

impl Arguments {
    /// Returns the file to write. None: none was requested.
    fn file(&self) -> Option<PathBuf> {
        let file = self.save.as_ref()?;
        let name = format!("{}.toml", self.volume.name());
        let is_default = file.as_os_str().is_empty();
        Some(if is_default { Path::new(DIRECTORY).join(name) } else { file.clone() })
    }
}

/// The volume, and how it is served.
#[derive(clap::Args)]
pub(super) struct Volume {
    /// An image, a block device, or another backing of 'overdrive serve'.
    backing: String,

    /// Name of the device; by default the name of the backing.
    #[arg(long)]
    name: Option<String>,

    /// How the kernel reaches the volume: 'ublk', its driver for devices in programs; 'fuse', a
    /// FUSE file under a loop device with direct I/O; 'nbd', its NBD client. By default the first
    /// of them that the kernel supports.
    #[arg(long, value_name = "ublk|fuse|nbd", value_parser = Route::parse)]
    via: Option<Route>,

    #[command(flatten)]
    options: Options,

    /// Serve metrics for Prometheus here, as for 'overdrive serve'.
    #[arg(long, value_name = "unix:PATH|127.0.0.1:PORT")]
    metrics: Option<String>,

    #[command(flatten)]
    recording: Recording,

    /// Threads that serve the volume, as for 'overdrive serve'.
    #[arg(long, value_name = "N", value_parser = daemon::parse_threads)]
    threads: Option<usize>,

    /// Poll for requests before sleeping, as for 'overdrive serve'.
    #[arg(long, value_name = "adaptive|off|TIME", num_args = 0..=1, default_missing_value = "20ms",
          value_parser = units::polling)]
    poll: Option<Polling>,

    /// Level of messages, as for 'overdrive serve'.
    #[arg(long, value_name = "error|notice|debug")]
    log_level: Option<Severity>,
}

impl Volume {
    pub(super) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| name_of(&self.backing))
    }

    /// Returns the path of its device.
    pub(super) fn device(&self) -> PathBuf {
        Path::new(daemon::DEVICES).join(self.name())
    }

    /// Returns where its metrics are served.
    fn metrics(&self) -> Result<Option<MetricsAddress>, Failure> {
        self.metrics.as_deref().map(|text| MetricsAddress::parse(text, false)).transpose()
    }

    /// Checks everything that can be checked before a daemon is started.
    fn check(&self, what: &str) -> Result<(), Failure> {
        need_root(what)?;
        self.metrics()?;
        daemon::check_name(&self.name())
    }

    /// Serves it in this process.
    pub(super) fn serve(&self) -> Result<ExitCode, Failure> {
        self.check("attach")?;
        serve::serve(self.config()?, ServeOptions::default())
    }

    /// Returns the configuration with which it is served.
    fn config(&self) -> Result<Config, Failure> {
        let mut volume = ConfigVolume::new(&self.name(), &self.backing);
        self.options.apply(&mut volume);
        volume.attach = true;
        volume.via = self.via;
        let (threads, poll) = (self.threads, self.poll);
        let (metrics, volumes) = (self.metrics()?, vec![volume]);
        let log_level = self.log_level;
        let mut config = Config { metrics, threads, poll, log_level, volumes, ..Config::default() };
        self.recording.apply(&mut config);
        Ok(config)
    }

    /// Starts this command line in the background with `--foreground`, and waits until the volume
    /// is a device.
    pub(super) fn start(&self, what: &str) -> Result<(), Failure> {
        self.check(what)?;
        match supervise::start(&self.name())? {
            supervise::Started::Ready => Ok(()),
            // Its own messages are shown, with the reason.
            supervise::Started::Ended { exit, has_said: true } => {
                Err(Failure::already_printed(exit))
            }
            supervise::Started::Ended { exit, has_said: false } => {
                let message =
                    format!("{}: is not attached: its daemon ended immediately", self.name());
                Err(Failure::new(exit, message))
            }
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // A background process has the command line of its parent, which writes the file.
    if arguments.foreground && (arguments.save.is_none() || supervise::is_background()) {
        return arguments.volume.serve();
    }
    if arguments.foreground {
        let message = "--save: not with --foreground; attach in the background";
        return Err(Failure::new(Exit::Usage, message));
    }
    let volume = &arguments.volume;
    volume.check("attach")?;
    // Prepared and checked before the device is made.
    let file = arguments.file();
    let file = file.map(|file| NewConfig::prepare(&file, &volume.config()?)).transpose()?;
    volume.start("attach")?;
    daemon::say!("{}", volume.device().display());
    if let Some(saved) = file.map(NewConfig::commit).transpose()? {
        daemon::tell!("overdrive: {saved}");
    }
    Ok(ExitCode::SUCCESS)
}
