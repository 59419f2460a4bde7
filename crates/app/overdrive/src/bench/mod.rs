//! `overdrive bench`: the suites of the lab on modelled drives and on real targets, bare or behind
//! the cache.

mod choice;
mod compare;
mod drives;
pub(crate) mod expected;
mod export;
mod help;
#[cfg(feature = "history")]
mod history;
pub(crate) mod incomplete;
mod job;
pub(crate) mod live;
pub(crate) mod plan;
pub(crate) mod prices;
mod runs;
mod tree;

use crate::page_file::PageFile;
use crate::settings::Said;
use crate::terminal;
use block::Size;
use daemon::units;
use runs::Runs;
use stack::Failure;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use suites::{Outcome, Preparation, Suite, report};

pub(crate) use help::suited;

/// Run a test suite on a modelled drive in virtual time, or on a real target in real time.
///
/// Real targets are files, devices, volumes by their names, and exports of NBD servers. A suite
/// overwrites its target, so --destroy is required; a target that is mounted or in use is refused.
/// With --size a file is made for the duration of the test.
///
/// filebench and loadtime work on the files of a directory: filebench in a separate folder, which
/// is removed at the end, and loadtime only reads. On any other target they replay a recording.
///
/// With --cache, the product's cache engine is placed in front of the target. On a modelled drive
/// each step of its work is charged the time that it takes on this machine. This is measured once
/// and stored; see --prices. The same seed and prices give the same bytes of output.
///
/// The cache has the settings of 'overdrive serve' that are listed below, with the same defaults,
/// but --dirty-age 0 means no limit, and the guard is off by default: it would judge without the
/// pressure on processors that a daemon measures. qd1 has other defaults: all of the memory may be
/// dirty, without a time limit, and there is no flush target.
///
/// Ctrl-C ends a suite with the results so far; the exit status is then 1. It is 5 if filebench
/// could not remove its files, 6 if the target failed, and 7 if --verify found data that differs
/// from the written data.
///
/// Examples:
///   overdrive bench consistency model:samsung-840-evo-250 --report consistency.html
///   overdrive bench qd1 model:samsung-840-evo-250 --cache 1G
///   overdrive bench corners model:samsung-840-evo-250?seed=7 --state steady --json
///   overdrive bench qd1 /mnt/data/test.img --size 8G
///   overdrive bench consistency /dev/sdb --destroy --report sdb.html
///   overdrive bench cdm limit:iops=3000,bandwidth=125M:disk.img --size 8G --cache 1G
///   overdrive bench compare history:1 history:2
///   overdrive bench drives cdm --report drives.html
///   overdrive bench filebench /mnt/data --share 10
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    after: Option<After>,

    /// The test suite.
    #[arg(value_parser = choice::suites(), required = true)]
    suite: Option<&'static dyn Suite>,

    /// model:NAME, or model:FILE.toml for your own drive; ?size=SIZE&seed=NUMBER may follow, and
    /// data=PERCENT, to which a compressing drive reduces writes, and dedupe=PERCENT, the duplicate
    /// part of them, which it does not store. For real time: a file, a block device, the name of a
    /// served volume, nbd+unix:///NAME?socket=PATH, null:SIZE or ram:SIZE. All of these with a
    /// limited rate: limit:iops=N,bandwidth=SIZE,burst=TIME:TARGET. For filebench and loadtime also
    /// a directory.
    #[arg(required = true)]
    target: Option<String>,

    /// Put a cache with this much memory in front of the target.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    cache: Option<Size>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with plots.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    #[arg(
        long,
        value_name = "YEAR",
        help = choice::era_help(),
        long_help = choice::era_long_help(),
    )]
    era: Option<u16>,

    #[arg(
        long,
        value_name = "STEPS",
        default_value = "fresh",
        value_parser = Preparation::parse,
        help = choice::state_help(),
        long_help = choice::state_long_help(),
    )]
    state: Preparation,

    /// Prepare the used part of the drive by these steps instead of the suite's default; see
    /// --state.
    #[arg(long, value_name = "STEPS", value_parser = Preparation::parse)]
    prepare: Option<Preparation>,

    /// For suites that replay a generated trace: multiply its length and the used part of the drive
    /// by X, for example 0.1 [default: 1]
    #[arg(long, value_name = "X")]
    scale: Option<f64>,

    /// Run only this test, by its name in the table. Some suites run only as a whole.
    #[arg(long, value_name = "TEST")]
    only: Option<String>,

    /// Percentage of the drive to leave unused, as additional spare area. For consistency a list,
    /// each value with a separate run: 0,12,25.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "0")]
    spare: Vec<u32>,

    #[arg(long, value_name = "SIZE", value_parser = units::size, help = choice::span_help())]
    span: Option<Size>,

    #[arg(long, value_name = "TIME", value_parser = units::time_us, help = choice::time_help())]
    time: Option<u64>,

    #[command(flatten)]
    job: job::JobOptions,

    #[command(flatten)]
    live: live::LiveOptions,

    #[command(flatten)]
    tree: tree::TreeOptions,

    /// Run nothing; write the loads of the suite as a job file of fio.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cache", "json", "report"])]
    export_fio: Option<PathBuf>,

    #[command(flatten)]
    settings: Said<true>,

    /// Costs of the cache's work: a price list (as in the JSON), or 'measure' to measure them
    /// again.
    #[arg(long, value_name = "measure|FILE", requires = "cache")]
    prices: Option<String>,

    /// Do not store the result; see 'overdrive bench history'.
    #[cfg(feature = "history")]
    #[arg(long)]
    no_history: bool,
}

/// Subcommands other than a run.
#[derive(clap::Subcommand)]
enum After {
    List(help::ListOptions),
    Compare(compare::Options),
    Drives(Box<drives::Options>),
    #[cfg(feature = "history")]
    History(history::Options),
}

impl After {
    fn run(&self) -> Result<ExitCode, Failure> {
        match *self {
            After::List(ref options) => {
                help::list(options);
                Ok(ExitCode::SUCCESS)
            }
            After::Compare(ref options) => compare::run(options),
            After::Drives(ref options) => drives::run(options),
            #[cfg(feature = "history")]
            After::History(ref options) => history::run(options),
        }
    }
}

impl Arguments {
    fn suite(&self) -> &'static dyn Suite {
        self.suite.expect("it is required")
    }

    fn target(&self) -> &str {
        self.target.as_deref().expect("it is required")
    }

    /// Returns the files that the run reads or works on.
    fn inputs(&self) -> Vec<PathBuf> {
        let target = stack::below_limits(self.target());
        let model = target.strip_prefix("model:");
        let target = model.and_then(|model| model.split('?').next()).unwrap_or(target);
        let others = [self.job.file(), self.prices.as_deref().map(Path::new)];
        let others = others.into_iter().flatten();
        others.chain([Path::new(target)]).map(Path::to_owned).collect()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // The tables of a modelled drive are accessed at random.
    host::want_huge_allocations();
    if let Some(after) = &arguments.after {
        return after.run();
    }
    if let Some(file) = &arguments.export_fio {
        return export::run(arguments, file);
    }
    // Checked before anything is opened or made, so that a mistake changes nothing.
    let page = arguments.report.as_deref();
    let page = page.map(|path| PageFile::open(path, &arguments.inputs())).transpose()?;
    let Runs { outcomes, ended } = runs::run(arguments)?;
    // The results so far are printed, even after a failure; the output need not be read.
    print(&outcomes, arguments.json);
    if let Some(page) = page {
        page.write(&report::overlaid(&outcomes))?;
    }
    #[cfg(feature = "history")]
    if !arguments.no_history {
        outcomes.iter().for_each(history::keep);
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// Prints a table for each outcome, or one JSON object.
fn print(outcomes: &[Outcome], json: bool) {
    if json {
        return daemon::say!("{}", report::json_of(outcomes));
    }
    for (number, outcome) in outcomes.iter().enumerate() {
        if number > 0 {
            daemon::say!("");
        }
        terminal::print(report::text(outcome, terminal::width()));
    }
}
