//! The daemon as a library: volumes that are served, their sockets, requests of an operator, and
//! their life from opening to the last flush. The crate `stack` builds the served stacks.
//!
//! ```text
//!   config.toml  --config-->  specs  --open-->  volumes (crate `stack`)
//!
//! plan/ what is to be served: volumes, addresses and options, as plain types
//! serve/ volumes on a lane: signals, a captive command, the end
//! front/ protocols for clients: the trait, NBD, FUSE and ublk
//! device/ volumes as block devices of this machine
//! metrics/ the text of a scrape for Prometheus, and its HTTP
//! control/ requests of an operator, their answers, and the client that sends them
//! confine/ rights that the process gives up once it serves
//! mapping/ a process that maps the files of a volume
//! broker/ a process that keeps some of them for its daemon
//! drive_samples/ a process that samples the health of the drives below the volumes
//! ```
#![forbid(unsafe_code)]

mod broker;
pub mod config;
mod confine;
#[macro_use]
pub mod console;
pub mod control;
pub mod declared;
mod descriptors;
mod device;
mod draft;
#[cfg(feature = "history")]
mod drive_samples;
mod exec_values;
mod former;
mod front;
mod hot_lists;
mod lanes;
mod log_level;
mod mapping;
mod metrics;
mod plan;
mod protect;
mod recording;
mod rescue;
mod rights;
mod runtime;
pub mod section;
mod serve;
mod setting;
pub mod settings;
mod state;
mod threads;
pub mod units;

pub use broker::BROKER;
pub use descriptors::allow_descriptors;
pub use device::{
    DEVICE_CALL, DEVICES, Orphan, WaitingVolume, check_name, device_call, orphan, run_broker,
    sweep_faces, waiting_volumes,
};
#[cfg(feature = "history")]
pub use drive_samples::{SAMPLE_DRIVES, drive_identity, drive_sample, sample_drives};
pub use former::{find_former, program_path, program_to_upgrade_to, resume_again, resume_former};
pub use front::find_inherited;
pub use log_level::LOG_LEVEL;
pub use mapping::{MAP_FILES, MapSummary, MappedSystem, VolumeReader, map_files};
pub use plan::{
    Attaching, ConfigFile, DaemonPlan, Listening, MetricsAddress, Mounting, NbdAddress, Planned,
    Ready, Route, StartValues, TlsMode, TlsPlan,
};
pub use protect::protect_process;
pub use recording::{DriveSamples, HistoryFile, history_file, history_to_record};
pub use rescue::{MemoryUser, Rescued, check_rescue_place, rescue};
pub use runtime::{check as check_runtime, runtime_directory, sweep};
pub use serve::{Captive, Served, ServedVolume, approach, serve};
pub use state::state_directory;
pub use threads::{THREADS_MAX, parse_threads, threads_default};
