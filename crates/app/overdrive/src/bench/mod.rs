//! `overdrive bench`: the suites of the lab on modelled drives and on real targets, bare or behind
//! the cache.

mod choice;
mod compare;
mod expected;
mod help;
#[cfg(feature = "history")]
mod history;
mod job;
#[cfg(feature = "history")]
mod keeping;
mod live;
mod only;
mod output;
mod prices;
mod spares;
mod tree;

use crate::page_file::PageFile;
use crate::settings::Said;
use block::{CacheSpec, Size};
use daemon::units;
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use suites::{Halt, Job, Listed, Modelled, Plan, Preparation, Rig, Step, Suite, Target};

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
/// The settings of the cache are those of 'overdrive serve', but --dirty-age 0 means no limit. qd1
/// has other defaults: all of the memory may be dirty, without a time limit, and there is no flush
/// target.
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
///   overdrive bench compare history:1 history:2
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
    /// data=PERCENT, to which a compressing drive reduces writes, and dedupe=PERCENT, of which it
    /// stores nothing. For real time: a file, a block device, the name of a served volume,
    /// nbd+unix:///NAME?socket=PATH, null:SIZE or ram:SIZE. For filebench and loadtime also a
    /// directory.
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

    /// Run only this test of corners, fourcorners or qd1, by its name in the table.
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
    #[arg(long, value_name = "FILE", requires = "cache")]
    prices: Option<String>,

    /// Do not store the result; see 'overdrive bench history'.
    #[cfg(feature = "history")]
    #[arg(long)]
    no_history: bool,
}

/// Subcommands other than a run.
#[derive(clap::Subcommand)]
enum After {
    /// List the suites, one per line.
    List,
    Compare(compare::Options),
    #[cfg(feature = "history")]
    History(history::Options),
}

impl After {
    fn run(&self) -> Result<ExitCode, Failure> {
        match *self {
            After::List => {
                help::list();
                Ok(ExitCode::SUCCESS)
            }
            After::Compare(ref options) => compare::run(options),
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

    /// Returns the duration of the timed parts. Those of filebench are steps of a preparation,
    /// which take whole seconds.
    fn time_ns(&self, usual_ns: u64) -> u64 {
        let asked_ns = self.time.map_or(usual_ns, |us| us.saturating_mul(1000));
        match self.suite().is_of_files() {
            true => asked_ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000),
            false => asked_ns,
        }
    }

    /// Returns the plan for a target; `reads_only`: the target must keep its data.
    fn plan(&self, target: Target, spare_percent: u32, reads_only: bool) -> Result<Plan, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        let usual = suites::plan_of(self.suite(), self.era, target).map_err(usage)?;
        let plan = Plan {
            cache: self.cache.map(|memory| self.cache_of(self.suite().cache(memory))),
            state: self.state.clone(),
            preparation: self.prepare.clone().unwrap_or_else(|| usual.preparation.clone()),
            only: self.only.clone(),
            spare_percent,
            time_ns: self.time_ns(usual.time_ns),
            ..usual
        };
        let plan = plan.with_jobs(self.jobs()?);
        let plan = match self.span {
            Some(span) => Plan { span_bytes: Some(span.0), ..plan },
            None => plan,
        };
        let plan = if reads_only { self.reading(plan)? } else { plan };
        let plan = if plan.target.model.is_none() { self.in_real_time(plan) } else { plan };
        plan.check().map_err(usage)?;
        if let Some(span) = self.span.filter(|span| span.0 > plan.target.bytes()) {
            let holds = Size(plan.target.bytes());
            let text = &plan.target.text;
            return Err(usage(format!("--span {span}: {text} has only {holds}")));
        }
        only::check(&plan)?;
        Ok(plan)
    }

    /// Returns the same plan for real time, in which pauses take time. A requested preparation is
    /// left unchanged.
    fn in_real_time(&self, plan: Plan) -> Plan {
        let asked = self.prepare.is_some().then(|| plan.preparation.clone());
        let plan = plan.in_real_time(!live::is_memory(self.target()));
        let preparation = asked.unwrap_or_else(|| plan.preparation.clone());
        Plan { preparation, ..plan }
    }

    fn jobs(&self) -> Result<Vec<Job>, Failure> {
        self.job.jobs(self.suite().profile().name)
    }

    /// Returns the same plan with reads only. A requested preparation that writes is refused.
    fn reading(&self, plan: Plan) -> Result<Plan, Failure> {
        let asked = [("--state", Some(&self.state)), ("--prepare", self.prepare.as_ref())];
        let is_idle =
            |steps: &Preparation| steps.0.iter().all(|step| matches!(step, Step::Idle { .. }));
        let wrong = asked.into_iter().find(|(_, steps)| steps.is_some_and(|it| !is_idle(it)));
        match wrong {
            Some((option, _)) => {
                let message = format!(
                    "{option}: writes to the target, which is only read; omit it, or add \
                     --destroy"
                );
                Err(Failure::new(Exit::Usage, message))
            }
            None => Ok(plan.reading()),
        }
    }

    /// Returns the files that the run reads or works on.
    fn inputs(&self) -> Vec<PathBuf> {
        let target = self.target();
        let model = target.strip_prefix("model:");
        let target = model.and_then(|model| model.split('?').next()).unwrap_or(target);
        let others = [self.job.file(), self.prices.as_deref().map(Path::new)];
        let others = others.into_iter().flatten();
        others.chain([Path::new(target)]).map(Path::to_owned).collect()
    }

    /// Returns the suite's cache, with the requested settings instead of the defaults.
    fn cache_of(&self, mut spec: CacheSpec) -> CacheSpec {
        self.settings.apply(&mut spec);
        if spec.dirty_age_ms == 0 {
            spec.dirty_age_ms = suites::AGE_OFF_MS;
        }
        spec
    }

    /// Returns the plan, and the rig to run it on.
    fn set_up(&self, spare_percent: u32) -> Result<(Plan, Box<dyn Rig>), Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        if !self.target().starts_with("model:") {
            if self.prices.is_some() {
                return Err(usage(
                    "--prices: they are only used in virtual time; omit them for a real target"
                        .to_owned(),
                ));
            }
            let reads_only = self.live.reads_only(self.target(), self.suite(), &self.jobs()?)?;
            let (target, rig) = self.live.open(self.target(), reads_only)?;
            return Ok((self.plan(target, spare_percent, reads_only)?, Box::new(rig)));
        }
        self.live.check_unused()?;
        let target = Target::parse(self.target()).map_err(|error| usage(error.to_string()))?;
        let mut plan = self.plan(target, spare_percent, false)?;
        if let Some(job) = plan.jobs.iter().find(|job| job.has_own_data()) {
            let what =
                "data and dedupe are for targets in real time; write model:NAME?data=PERCENT";
            return Err(usage(format!("load '{}': {what}", job.name())));
        }
        if plan.cache.is_some() {
            plan.prices = prices::find(self.prices.as_deref())?;
        }
        let rig = Modelled::new(&plan.target, plan.prices).map_err(usage)?;
        Ok((plan, Box::new(rig)))
    }
}

/// Writes the loads of a suite as a job file of fio.
fn export(arguments: &Arguments, file: &Path) -> Result<ExitCode, Failure> {
    let text = arguments.target();
    if arguments.suite().is_of_files() {
        let message = format!(
            "--export-fio: {} copies or reads files, which a job of fio cannot do in the same way",
            arguments.suite().profile().name
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    if ["model:", "null:", "ram:"].iter().any(|kind| text.starts_with(kind)) {
        let message = format!("{text}: fio runs on files, devices and exports; name one of these");
        return Err(Failure::new(Exit::Usage, message));
    }
    let (target, place) = arguments.live.look(text)?;
    if let Some(why) = place.misread() {
        let message = format!(
            "--export-fio: {text:?}: fio {why}, and would measure another file; rename it, or name a link to it"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let page = PageFile::open(file, &arguments.inputs())?;
    let reads_only = arguments.live.is_read_only();
    if reads_only {
        arguments.live.reads_only(text, arguments.suite(), &arguments.jobs()?)?;
    }
    let plan = arguments.plan(target, spares::one(arguments)?, reads_only)?;
    let (rig, listing) = Listed::new(plan.target.bytes());
    let (_, ended) = suites::run_on(Box::new(rig), &plan, &mut ());
    ended.map_err(|halt| failure(&plan, &halt))?;
    let usual = arguments.live.content();
    let content = |name: &str| {
        let job = plan.jobs.iter().find(|job| job.name() == name);
        job.map_or(usual, |job| job.content(usual))
    };
    let loads = listing.borrow();
    let loads = loads.iter().map(|(name, load)| (name.clone(), load.clone(), content(name)));
    let loads: Vec<_> = loads.collect();
    page.write(&suites::fio::job_file(plan.suite.name, &place, &loads))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // The tables of a modelled drive are accessed at random.
    host::want_huge_allocations();
    if let Some(after) = &arguments.after {
        return after.run();
    }
    if let Some(file) = &arguments.export_fio {
        return export(arguments, file);
    }
    // Checked before anything is opened or made, so that a mistake changes nothing.
    let report = arguments.report.as_deref();
    let report = report.map(|path| PageFile::open(path, &arguments.inputs())).transpose()?;
    let (outcomes, ended) = match tree::directory(arguments) {
        Some(directory) => tree::run(arguments, directory)?,
        None => spares::run(arguments)?,
    };
    // The results so far are printed, even after a failure; the output need not be read.
    output::print(&outcomes, arguments.json);
    if let Some(report) = report {
        report.write(&suites::report::overlaid(&outcomes))?;
    }
    #[cfg(feature = "history")]
    if !arguments.no_history {
        outcomes.iter().for_each(keeping::keep);
    }
    ended.map(|()| ExitCode::SUCCESS)
}

fn failure(plan: &Plan, halt: &Halt) -> Failure {
    let (exit, what) = match halt {
        Halt::Interrupted => (Exit::Negative, "interrupted; the measurement is not complete"),
        Halt::Unanswered => (Exit::Negative, "the measurement is not complete"),
        Halt::Failed(_) => (Exit::Io, "it failed; the measurement is not complete"),
        Halt::Wrong(_) => (Exit::Integrity, "it returns other data than was written"),
        Halt::Load(_) | Halt::Plan(_) => (Exit::Usage, "it cannot be tested in this way"),
    };
    let message = match halt {
        Halt::Interrupted => format!("{}: {what}", plan.suite.name),
        reason => format!("{}: {what}: {reason}", plan.target.text),
    };
    Failure::new(exit, message)
}
