//! The options of `overdrive trace replay`.

use crate::bench::live::LiveOptions;
use crate::settings::Said;
use crate::sim;
use block::Size;
use daemon::units;
use std::path::PathBuf;
use suites::Preparation;
use trace::Format;
use traces::replay::Map;

/// Run the requests of a trace on a modelled drive in virtual time, or on a real target.
///
/// Requests start at their recorded times, by one clock: a slow target does not delay later ones.
/// Other times are chosen by --speed, --idle-max, --depth or --dependent. Requests that overlap are
/// answered in their order, if one of them changes data.
///
/// On a real target --destroy is required, or --read-only for the reads alone. The range that the
/// trace uses is written first; see docs/TRACES.md for the method and for each figure.
///
/// Ctrl-C ends it with the results of the part that ran; the exit status is then 1. It is 6 if the
/// target failed, and 7 if --verify found data that differs from the written data.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The trace.
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(super) trace: PathBuf,

    /// A target as for 'overdrive bench': model:NAME, a file, a block device, the name of a served
    /// volume, nbd+unix:///NAME?socket=PATH, null:SIZE or ram:SIZE.
    pub(super) target: String,

    #[arg(long, value_name = "F", value_parser = sim::format, help = sim::format_help())]
    pub(super) format: Option<Format>,

    /// Only requests of these devices, by their names in the trace.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) device: Vec<String>,

    /// Run this number of times faster than recorded, for example 0.5 or 10.
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(super) speed: Option<f64>,

    /// Shorten each idle time of the recording to at most TIME, as DriveBench 2.0 does.
    #[arg(long, value_name = "TIME", value_parser = units::time_us)]
    pub(super) idle_max: Option<u64>,

    /// Without times: as fast as possible, with N requests in flight, as DriveBench 1.0 does.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=2048),
        conflicts_with_all = ["speed", "idle_max", "dependent"]
    )]
    pub(super) depth: Option<u32>,

    /// Without times: a request starts when all requests are answered that had been answered before
    /// it in the recording; reads wait for reads, others for all.
    #[arg(long, conflicts_with_all = ["speed", "idle_max"])]
    pub(super) dependent: bool,

    /// Mapping to a target of another size: wrap (addresses modulo its size), scale (regions of 1
    /// MiB in proportion), clip (requests beyond its end are left out). Required if the trace does
    /// not fit.
    #[arg(long, value_name = "MAP", value_parser = map)]
    pub(super) map: Option<Map>,

    /// State of the drive before: a name, or steps as for 'overdrive bench' [default: filled for a
    /// modelled drive, otherwise fresh]
    #[arg(long, value_name = "STEPS", value_parser = Preparation::parse)]
    pub(super) state: Option<Preparation>,

    /// Put a cache with this much memory in front of the target.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(super) cache: Option<Size>,

    /// Costs of caching: a price list, or 'measure' to measure them again; see 'overdrive
    /// bench'.
    #[arg(long, value_name = "measure|FILE", requires = "cache")]
    pub(super) prices: Option<String>,

    #[command(flatten)]
    pub(super) live: LiveOptions,

    #[command(flatten)]
    pub(super) settings: Said<true>,

    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: Option<f64> = text.parse().ok().filter(|speed| (1e-6..=1e6).contains(speed));
    speed.ok_or_else(|| "write a number from 0.000001 to 1000000".to_owned())
}

fn map(text: &str) -> Result<Map, String> {
    let names = || {
        format!("there is no such mapping; choose one of {}", Map::ALL.map(Map::name).join(", "))
    };
    Map::by_name(text).ok_or_else(names)
}

impl Options {
    /// Returns the options of the replay itself.
    pub(super) fn of_replay(&self) -> replay::Options {
        replay::Options {
            trace: self.trace.clone(),
            format: self.format,
            devices: self.device.clone(),
            speed: self.speed,
            idle_us_max: self.idle_max,
            depth: self.depth,
            dependent: self.dependent,
            map: self.map,
        }
    }
}
