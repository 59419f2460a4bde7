//! The options of `overdrive trace generate`.

use crate::sim;
use std::path::PathBuf;
use trace::Format;

/// Generate a trace that was never published, or one that is like a recorded one.
///
/// With NAME, the trace has the properties that reviews published about theirs: drivebench1,
/// drivebench2, heavy, light, destroyer, pcmark, or those of a file of your own (FILE.toml). The
/// table shows for each property the published or assumed value and that of the generated trace.
/// The exit status is 1 if a published one is missed by more than half a point.
///
/// With --like, it has the requests of a trace in another order, with the same sizes, times,
/// depths and reuse. The table shows the miss ratios of caches on both. The exit status is 1 if
/// they differ by more than 0.03.
///
/// The output is a recording, which all commands read; without OUTPUT only the table is printed.
/// See docs/TRACES.md for the method.
#[derive(clap::Args)]
#[command(override_usage = "overdrive trace generate [OPTIONS] <NAME> [OUTPUT]
       overdrive trace generate [OPTIONS] --like <TRACE> [OUTPUT]")]
pub(crate) struct Options {
    /// The name of the trace, or FILE.toml.
    #[arg(value_hint = clap::ValueHint::AnyPath, required_unless_present = "like")]
    pub(super) name: Option<String>,

    /// The new file, which must not exist; '-' for the standard output. It is compressed if its
    /// name ends with .zst.
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    /// Imitate this trace.
    #[arg(long, value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    pub(super) like: Option<PathBuf>,

    /// Multiply the numbers of requests and bytes, the duration and the used part of the disk by X,
    /// for example 0.1 [default: 1]
    #[arg(long, value_name = "X", conflicts_with = "like")]
    pub(super) scale: Option<f64>,

    /// Only this workload of the trace.
    #[arg(long, value_name = "W", conflicts_with = "like")]
    pub(super) workload: Option<String>,

    /// The seed of all random choices.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,

    #[arg(
        long,
        value_name = "F",
        value_parser = sim::format,
        help = sim::format_help(),
        requires = "like"
    )]
    pub(super) format: Option<Format>,

    /// With --like: only requests of these devices, by their names in the trace.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "like")]
    pub(super) device: Vec<String>,

    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}
