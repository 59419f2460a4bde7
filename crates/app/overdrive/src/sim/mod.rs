//! `overdrive sim`: simulated caches of several policies and sizes on a recorded trace.

#[cfg(test)]
mod examples;
mod output;
mod page;
mod table;

use crate::page_file::PageFile;
use crate::progress::Stages;
use crate::watch::Watch;
use clap::ValueEnum;
use simulator::{Choice, Compress, Error, Memory, Plan, Rate, Sample};
use stack::{Exit, Failure};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use trace::Format;

/// Simulate caches on a recorded trace, and show the share of its accesses that each would miss.
///
/// All policies and sizes are simulated in one pass over the file, on all processors. Requests
/// count by the blocks of 4 KiB that they touch. The file may be compressed by gzip, xz or zstd;
/// its format is detected from its content, except for five columns of numbers, whose last one is
/// ambiguous: name the format of such a file. See docs/SIMULATION.md.
///
/// Ctrl-C ends it with the results so far; the exit status is then 1.
///
/// Examples:
///   overdrive sim --trace vm.vscsi.xz --memory 64M,256M,1G
///   overdrive sim --trace vm.vscsi.xz --memory 1%,3%,10% --policy lru,sieve,opt --report vm.html
///   overdrive sim --trace tpcc.trace --format mqsim --memory 1G --device 4,13
///   overdrive sim --trace vm.vscsi.xz --memory 1%,10% --compress auto-of:/dev/vg/vm
///   overdrive sim --trace vm.vscsi.xz --memory 1G --map vm.map
///   overdrive sim --trace week.csv.zst --memory 1%,3%,10%,20% --policy lru,sieve,opt --sample 0.01
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// The trace.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    #[arg(long, value_name = "F", value_parser = format, help = format_help())]
    format: Option<Format>,

    /// Sizes of the cache: 64M,1G, or percent of the distinct blocks in the trace: 1%,10%.
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    memory: Vec<Memory>,

    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "default",
          value_parser = policy, help = policy_help())]
    policy: Vec<Choice>,

    /// Only requests of these devices, by their names in the trace.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    device: Vec<String>,

    /// Requests that count.
    #[arg(long, value_enum, default_value_t = Count::All)]
    count: Count,

    /// Split each cache into N shards of equal size, by regions of 4 MiB, as a served cache is.
    #[arg(long, value_name = "N", default_value = "1")]
    shards: NonZeroU32,

    /// Simulate on N threads; by default on all processors.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Simulate a sample: this share of the blocks, such as 0.1, in caches reduced by the same
    /// factor. All miss ratios are then estimates. 'auto': the largest of 1, 1/2, 1/4, ... with
    /// which all caches take at most 256 MiB. By default all blocks are simulated.
    #[arg(long, value_name = "auto|RATE")]
    sample: Option<Sample>,

    /// Also simulate each cache with compression, in the same memory: with this mean ratio of the
    /// blocks, such as 2.5, or with the ratios of 4,096 blocks spread over a file or device. Only
    /// for policies of 'serve'.
    #[arg(long, value_name = "RATIO|auto-of:FILE")]
    compress: Option<Compress>,

    /// Also simulate each cache with a map of the files: sorted lines 'FIRST_BLOCK BLOCKS CLASS',
    /// in blocks of 4 KiB. Only for policies of 'serve', and for one device. The classes are in
    /// docs/SIMULATION.md.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with a plot, the figures and the method.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Count {
    /// Reads and writes.
    All,
    /// Reads.
    Reads,
}

pub(crate) fn format(text: &str) -> Result<Format, String> {
    let names = Format::ALL.into_iter().map(Format::name);
    Format::by_name(text).ok_or_else(|| stack::unknown("format", text, names))
}

fn formats() -> String {
    Format::ALL.map(Format::name).join(", ")
}

pub(crate) fn format_help() -> String {
    format!("The trace's format, if it cannot be detected from its content: {}", formats())
}

fn policies() -> String {
    Choice::all().map(|choice| choice.name).collect::<Vec<_>>().join(", ")
}

fn policy(text: &str) -> Result<Choice, String> {
    let names = Choice::all().map(|choice| choice.name).collect::<Vec<_>>();
    Choice::by_name(text).ok_or_else(|| stack::unknown("policy", text, names.iter().copied()))
}

fn policy_help() -> String {
    format!(
        "Policies: {}; 'default' is the policy of 'serve' ({}), 'opt' is the optimum, with \
         knowledge of the future",
        policies(),
        simulator::DEFAULT.name()
    )
}

impl Arguments {
    fn plan(&self) -> Result<Plan, Failure> {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let compress = self.compress.as_ref().map(Compress::sizes).transpose().map_err(failure)?;
        let hints = self.map.as_deref().map(simulator::read_hints).transpose().map_err(failure)?;
        Ok(Plan {
            path: self.trace.clone(),
            format: self.format,
            memories: self.memory.clone(),
            policies: self.policy.clone(),
            devices: self.device.clone(),
            reads_only: self.count == Count::Reads,
            shards: self.shards.get(),
            threads: self.threads.map_or_else(processors, usize::from),
            sample: self.sample.unwrap_or(Sample::Fixed(Rate::ALL)),
            compress: compress.map(Arc::new),
            hints: hints.map(Arc::new),
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let plan = arguments.plan()?;
    let report = arguments.report.as_deref();
    let trace = std::slice::from_ref(&arguments.trace);
    let report = report.map(|path| PageFile::open(path, trace)).transpose()?;
    let mut watch = Watch::new(Stages::with_time_left())?;
    let ended = simulator::run(&plan, &mut watch);
    watch.finish();
    let outcome = ended.map_err(failure)?;
    output::print(&plan, &outcome, arguments.json);
    if let Some(report) = report {
        report.write(&page::page(&plan, &outcome))?;
    }
    if outcome.is_complete {
        return Ok(ExitCode::SUCCESS);
    }
    let message =
        format!("{}: interrupted; the figures are for its beginning", plan.path.display());
    Err(Failure::new(Exit::Negative, message))
}

/// Returns the failure of a command that has read a trace.
pub(crate) fn failure(error: Error) -> Failure {
    let exit = match &error {
        Error::Usage(_) => Exit::Usage,
        Error::NotFound(_) | Error::Interrupted => Exit::Negative,
        Error::Permission(_) => Exit::Permission,
        Error::Io(_) => Exit::Io,
        Error::Malformed(_) => Exit::Integrity,
    };
    Failure::new(exit, error.to_string())
}

#[cfg(test)]
mod tests {
    use cache::Settings;
    use simulator::{BLOCK_BYTES, STORED_BYTES_MAX};

    #[test]
    fn the_simulated_limit_is_the_one_of_the_engine() {
        let percent = u64::from(Settings::default().compressed_percent_max);
        assert_eq!(u64::from(STORED_BYTES_MAX), BLOCK_BYTES * percent / 100);
    }
}
