//! The plan of a daemon: its volumes, their addresses, and the options with which it serves them.
//!
//! These are plain types. A command or a configuration file makes the plan; `serve` carries it out
//! with the fronts and devices, which use these types as well.

mod address;
mod metrics_address;
mod route;
mod start_values;
mod tls;

use crate::recording::DriveSamples;
use crate::units::WaitTime;
use holder::Approach;
use ring::Polling;
use stack::{Keep, Volume};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub use address::NbdAddress;
pub use metrics_address::MetricsAddress;
pub use route::Route;
pub use start_values::StartValues;
pub use tls::{TlsMode, TlsPlan};

/// A volume to serve.
pub struct Planned {
    /// The export's name. The empty name stands for the first volume of a listener.
    pub name: String,
    /// Its backing as it was written.
    pub backing: String,
    /// The volume, open.
    pub volume: Volume,
}

/// An address to listen at, and its exports.
pub struct Listening {
    /// The address.
    pub address: NbdAddress,
    /// Names of volumes, at least one.
    pub exports: Vec<String>,
}

/// A directory, and the volumes that are files in it.
pub struct Mounting {
    /// The directory. It is created if it is missing.
    pub directory: PathBuf,
    /// Names of volumes, at least one.
    pub exports: Vec<String>,
    /// How it stays mounted when this process is killed. None: it does not.
    pub keep: Option<Keep>,
    /// The block device over its only file, if there is one. Messages name it instead of the
    /// directory.
    pub device: Option<PathBuf>,
    /// How long requests wait for a new daemon after one has ended.
    pub wait_time: WaitTime,
}

/// A volume that is to be a block device.
#[derive(Clone, Debug)]
pub struct Attaching {
    /// Name of the volume and of its device.
    pub volume: String,
    /// How the kernel reaches it. None: the best way that the kernel offers.
    pub via: Option<Route>,
    /// How the device's file stays mounted when this process is killed. None: it does not.
    pub keep: Option<Keep>,
    /// How long requests wait for a new daemon after one has ended.
    pub wait_time: WaitTime,
}

/// A configuration file, and the volume of it that is served.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// Name of the only volume of it to serve. None: all of them.
    pub volume: Option<String>,
}

/// Receives the URIs, files and devices of the volumes once clients can connect.
pub type Ready = Box<dyn FnOnce(&[String])>;

/// The plan of a daemon.
pub struct DaemonPlan {
    /// The volumes; each has a different name.
    pub volumes: Vec<Planned>,
    /// For a reload: the values of each volume that are read only now, by the volume's name.
    pub start_values: BTreeMap<String, StartValues>,
    /// Where they are served. A volume without a listener or a mount cannot be reached.
    pub listeners: Vec<Listening>,
    /// How their clients use TLS.
    pub tls: TlsPlan,
    /// Directories in which they are files.
    pub mounts: Vec<Mounting>,
    /// The volumes that are block devices.
    pub attachments: Vec<Attaching>,
    /// The announcements to holders ([`crate::approach`]).
    pub approaches: Vec<Approach>,
    /// A shell command that runs while the volumes are served, with the first one's `uri` in its
    /// environment.
    pub run: Option<String>,
    /// The runtime directory, for the control socket.
    pub runtime: PathBuf,
    /// The state directory, for lists of hot blocks. None: nothing outlives this process.
    pub state: Option<PathBuf>,
    /// The file in which samples are recorded. None: nothing is recorded.
    pub history: Option<PathBuf>,
    /// How often the drives below the volumes are sampled.
    pub drive_samples: DriveSamples,
    /// Where metrics are served. None: nowhere.
    pub metrics: Option<MetricsAddress>,
    /// Threads that serve clients, at least one: each has its own lane and ring.
    pub threads: usize,
    /// Whether to poll for work before sleeping.
    pub poll: Polling,
    /// Whether to print only errors.
    pub quiet: bool,
    /// The program that an upgrade executes, with the same arguments.
    pub program: Option<PathBuf>,
    /// The configuration file that this program reads. None: its arguments are the configuration.
    pub config: Option<ConfigFile>,
    /// Command with which a user starts this daemon again. Empty: unknown.
    pub again: String,
    /// Called once clients can connect.
    pub ready: Ready,
}
