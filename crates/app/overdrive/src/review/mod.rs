//! `overdrive review`: the suites on a drive, without the cache, with it, again, and beside other
//! caches, with a verdict.

mod jobs;
mod parts;
mod progress;
mod store;
mod targets;

use crate::bench::prices;
use crate::page_file::PageFile;
use crate::terminal;
use block::Size;
use daemon::units;
use jobs::{Found, Job};
use parts::{Extent, Part};
use progress::Ended;
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;
use store::Store;
use targets::Place;

/// Review a drive: run the suites without the cache, with it, with it again, and without it again.
///
/// The columns are 'bare', 'cold' (the cache is empty at the start of each test), 'warm' (a second
/// run that finds the blocks of the first) and 'again' (without the cache once more, which shows
/// how far the drive itself has changed). A verdict of three sentences comes first; the rules
/// behind it are printed below the tables.
///
/// With --with rapid, a column shows Samsung's cache of 2013 on the same modelled drive, and a
/// table its published figures beside it. With --with page-cache, a column shows the host's page
/// cache on the same file or device.
///
/// A modelled drive is simulated in virtual time. A real target is overwritten, so --destroy is
/// required; --size makes a file for the duration of each suite. An interrupted review continues
/// with the same command.
///
/// Examples:
///   overdrive review model:samsung-840-evo-250 --with rapid --quick
///   overdrive review model:samsung-840-evo-250 --only qd1,cdm --report review.html
///   overdrive review /mnt/data/test.img --size 8G --with page-cache
///   overdrive review /dev/sdb --destroy --full --json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// model:NAME, a file, a block device, nbd+unix:///NAME?socket=PATH, null:SIZE or ram:SIZE.
    target: String,

    /// Further columns.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    with: Vec<With>,

    /// Shorten each test: minutes instead of hours. Each row says so.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Run all suites, also those that take hours.
    #[arg(long)]
    full: bool,

    /// Run only these suites.
    #[arg(long, value_name = "SUITES", value_delimiter = ',')]
    only: Vec<String>,

    /// Memory of the cache.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = units::size)]
    cache: Size,

    /// The modelled drive whose speed is 100 % of the overall score [default: for modelled drives
    /// model:disk-5400-1000, otherwise the target without a cache]
    #[arg(long, value_name = "model:NAME")]
    baseline: Option<String>,

    /// Accept the loss of the target's data.
    #[arg(long)]
    destroy: bool,

    /// Make a file of this size for the duration of each suite.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    size: Option<Size>,

    /// Prices of caching on a modelled drive: a file with a list, or 'measure'.
    #[arg(long, value_name = "measure|FILE")]
    prices: Option<String>,

    /// Drop the results of an interrupted review instead of continuing it.
    #[arg(long)]
    restart: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with charts.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// A column beside those of the product's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum With {
    /// Samsung's cache of 2013, on a modelled drive.
    Rapid,
    /// The host's page cache, on a file or a device.
    PageCache,
}

impl Arguments {
    fn extent(&self) -> Extent {
        match (self.quick, self.full) {
            (true, _) => Extent::Quick,
            (_, true) => Extent::Full,
            _ => Extent::Usual,
        }
    }

    /// Returns the files that the review reads or works on.
    fn inputs(&self) -> Vec<PathBuf> {
        let target = stack::below_limits(&self.target);
        let model = target.strip_prefix("model:").and_then(|model| model.split('?').next());
        let others = self.prices.iter().map(PathBuf::from);
        others.chain([PathBuf::from(model.unwrap_or(target))]).collect()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    host::want_huge_allocations();
    let page = arguments.report.as_deref();
    let page = page.map(|path| PageFile::open(path, &arguments.inputs())).transpose()?;
    let place = Place::of(arguments)?;
    let parts = parts::chosen(arguments.extent(), &arguments.only)?;
    let prices = match place.is_virtual() {
        true => prices::find(arguments.prices.as_deref())?,
        false => lane::Prices::default(),
    };
    let jobs = jobs::all(arguments, &place, &parts, prices)?;
    let mut store = Store::open(&jobs::key(arguments, prices), arguments.restart)?;
    let start_ns = host::now_ns();
    let ended = progress::run(&place, &jobs, &mut store)?;
    let review = assemble(arguments, &place, &jobs, store.found(), &ended, start_ns);
    match arguments.json {
        true => daemon::say!("{}", review::json(&review)),
        false => terminal::print(review::text(&review, terminal::width())),
    }
    if let Some(page) = page {
        page.write(&review::page(&review))?;
    }
    if ended.failure.is_none() {
        store.remove();
    }
    ended.failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Puts the results of all jobs together.
fn assemble(
    arguments: &Arguments,
    place: &Place,
    jobs: &[Job],
    found: &[Found],
    ended: &Ended,
    start_ns: u64,
) -> review::Review {
    let mut names = vec![review::BARE, review::COLD, review::WARM, review::AGAIN];
    for (with, name) in [(With::Rapid, review::RAPID_COLUMN), (With::PageCache, review::PAGE_CACHE)]
    {
        names.extend(arguments.with.contains(&with).then_some(name));
    }
    let rows = |name: &str| {
        let rows = found.iter().flat_map(|it| &it.columns).filter(|(column, _)| column == name);
        rows.flat_map(|(_, rows)| rows.iter().cloned()).collect::<Vec<_>>()
    };
    let column = |name: &&str| review::Column { name: (*name).to_owned(), rows: rows(name) };
    let of_drive = |drive: u64| {
        let column = |name: &str| {
            let rows = rows(&jobs::spread_name(name, drive));
            review::Column { name: name.to_owned(), rows }
        };
        [review::BARE, review::COLD, review::WARM, review::AGAIN].map(column).to_vec()
    };
    let spread = (1..=jobs::SPREAD).map(of_drive);
    let baseline = place
        .baseline()
        .map(|drive| review::Drive { target: drive.to_owned(), rows: rows(jobs::BASELINE) });
    let mut method: Vec<String> = Vec::new();
    for sentence in found.iter().flat_map(|it| &it.method).chain(&ended.method) {
        if !method.contains(sentence) {
            method.push(sentence.clone());
        }
    }
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    review::Review {
        target: arguments.target.clone(),
        title: place.title().to_owned(),
        time: if place.is_virtual() { "virtual" } else { "real" }.to_owned(),
        extent: arguments.extent().word().to_owned(),
        cache_bytes: arguments.cache.0,
        columns: names.iter().map(column).collect(),
        spread: spread.filter(|drive| drive.iter().any(|it| !it.rows.is_empty())).collect(),
        baseline,
        method,
        command: words.collect(),
        facts: place.facts(),
        complete: ended.failure.is_none(),
        runs: runs(jobs, found),
        elapsed_ns: host::now_ns().saturating_sub(start_ns),
    }
}

/// Returns the runs with their expected and measured durations.
fn runs(jobs: &[Job], found: &[Found]) -> Vec<review::Run> {
    let run = |it: &Found| {
        let job = jobs.iter().find(|job| job.name == it.job)?;
        let (name, expected_ns) = (it.job.clone(), job.expected_ns);
        Some(review::Run { name, expected_ns, elapsed_ns: it.elapsed_ns })
    };
    found.iter().filter_map(run).collect()
}

fn usage(message: String) -> Failure {
    Failure::new(Exit::Usage, message)
}

/// Returns the part of a job.
fn name_of(part: &Part) -> &'static str {
    part.suite
}
