//! `overdrive bench drives`: a suite on many modelled drives, sorted.

mod charts;
mod page;
mod run;
mod text;

use super::{choice, incomplete};
use crate::page_file::PageFile;
use crate::terminal;
use block::Size;
use daemon::units;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use suites::{Plan, Preparation, Suite, Target, report};

/// Run a suite on all modelled drives, or on a list of them, and sort the drives by each test.
///
/// Two drives are tested at the same time. Ctrl-C prints the drives that are complete, with exit
/// status 1; --resume continues from such a result. A drive that cannot run the suite is named with
/// the reason.
///
/// Examples:
///   overdrive bench drives cdm --report drives.html
///   overdrive bench drives qd1 --models samsung-840-evo-250,intel-x25-m-g2-160 --json
///   overdrive bench drives cdm --own samsung-840-evo-250 --only "RND4K Q1T1 read"
///   overdrive bench drives filebench --json --resume part.json > all.json
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// The test suite.
    #[arg(value_parser = choice::suites())]
    suite: &'static dyn Suite,

    /// Models as in 'overdrive drive models', or paths of your own files [default: all presets]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    models: Vec<String>,

    /// The model that is highlighted; it is added to the list if it is missing.
    #[arg(long, value_name = "NAME")]
    own: Option<String>,

    /// Run only this test, by its name in the table. Some suites run only as a whole.
    #[arg(long, value_name = "TEST")]
    only: Option<String>,

    /// Run the test as reviewers did in this year.
    #[arg(long, value_name = "YEAR")]
    era: Option<u16>,

    /// State of the whole drive before the suite: a name, or steps.
    #[arg(long, value_name = "STEPS", default_value = "fresh", value_parser = Preparation::parse)]
    state: Preparation,

    /// Use only the first SIZE bytes of each drive.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    span: Option<Size>,

    /// Duration of the timed parts.
    #[arg(long, value_name = "TIME", value_parser = units::time_us)]
    time: Option<u64>,

    /// Take the drives of an earlier result of the same tests from its JSON or its page.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also write a page with plots.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// The schema of the JSON. Keys are only ever added.
const SCHEMA: &str = "overdrive.bench.drives/1";

impl Options {
    /// Returns the models in the order of the list, each once.
    fn names(&self) -> Vec<String> {
        let mut names = self.models.clone();
        if names.is_empty() {
            names.extend(drives::Model::names().map(str::to_owned));
        }
        names.extend(self.own.clone());
        let mut seen = Vec::new();
        names.retain(|name| {
            let is_new = !seen.contains(name);
            seen.push(name.clone());
            is_new
        });
        names
    }

    /// Returns the plan of the suite on a model.
    fn plan(&self, name: &str) -> Result<Plan, String> {
        let target = Target::parse(&format!("model:{name}")).map_err(|error| error.to_string())?;
        let usual = match self.era {
            None => Plan::new(self.suite.profile(), target),
            Some(year) => suites::plan_in(self.suite, year, target)?,
        };
        let time_ns = self.time.map_or(usual.time_ns, |us| us.saturating_mul(1000));
        let span_bytes = self.span.map(|span| span.0).or(usual.span_bytes);
        let plan = Plan {
            state: self.state.clone(),
            only: self.only.clone(),
            time_ns,
            span_bytes,
            ..usual
        };
        plan.check()?;
        match self.span.filter(|span| span.0 > plan.target.bytes()) {
            Some(span) => Err(format!("--span {span}: it has only {}", Size(plan.target.bytes()))),
            None => Ok(plan),
        }
    }

    /// Returns what distinguishes these tests from others of the same suite.
    fn tests(&self) -> Value {
        json!({
            "suite": self.suite.profile().name,
            "era": self.era,
            "only": self.only,
            "state": self.state.to_string(),
            "span_bytes": self.span.map(|span| span.0),
            "test_time_ns": self.time.map(|us| us.saturating_mul(1000)),
        })
    }

    /// Returns the drives of the earlier result.
    ///
    /// # Errors
    /// It cannot be read, or has other tests.
    fn earlier(&self) -> Result<Vec<Value>, Failure> {
        let Some(path) = &self.resume else { return Ok(Vec::new()) };
        let place = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Exit::Io, format!("--resume {place}: {error}")))?;
        let data = ::report::page::raw_data(&text).unwrap_or(&text);
        let wrong = |what: &str| Failure::new(Exit::Integrity, format!("--resume {place}: {what}"));
        let object: Value = serde_json::from_str(data).map_err(|_| wrong("is no JSON object"))?;
        if object["schema"] != SCHEMA {
            return Err(wrong(&format!("is not a result of 'bench drives' ({SCHEMA})")));
        }
        if object["tests"] != self.tests() {
            return Err(wrong(
                "has other tests; give the same suite and options, or omit --resume",
            ));
        }
        Ok(object["drives"].as_array().cloned().unwrap_or_default())
    }
}

/// Checks everything that can be wrong before the first run.
fn check(options: &Options, names: &[String]) -> Result<(), Failure> {
    let usage = |what: String| Failure::new(Exit::Usage, what);
    for name in names {
        Target::parse(&format!("model:{name}")).map_err(|error| usage(error.to_string()))?;
    }
    if options.suite.profile().name == "custom" {
        return Err(usage("custom: has no loads of its own; name another suite".to_owned()));
    }
    let Some(first) = names.first() else { return Ok(()) };
    if let Some(year) = options.era {
        let target = Target::parse(&format!("model:{first}")).expect("just parsed");
        suites::plan_in(options.suite, year, target).map_err(usage)?;
    }
    match (&options.only, options.plan(first)) {
        (Some(only), Ok(plan)) => suites::only::check(&plan, only).map_err(usage),
        _ => Ok(()),
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let names = options.names();
    check(options, &names)?;
    let inputs: Vec<PathBuf> = options.resume.iter().cloned().collect();
    let page = options.report.as_deref();
    let page = page.map(|path: &Path| PageFile::open(path, &inputs)).transpose()?;
    let mut found = options.earlier()?;
    found.retain(|drive| names.iter().any(|name| drive["model"] == name.as_str()));
    let ran = run::all(options, &names, &mut found)?;
    let result = object(options, &names, found, &ran);
    match options.json {
        true => daemon::say!("{result}"),
        false => terminal::print(text::text(&result, terminal::width())),
    }
    if let Some(page) = page {
        page.write(&page::page(&result))?;
    }
    match ran.is_interrupted {
        true => {
            let name = options.suite.profile().name;
            let what = "interrupted; the drives until then are shown, and --resume continues";
            Err(Failure::new(Exit::Negative, format!("{name}: {what}")))
        }
        false => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the result as one object.
fn object(options: &Options, names: &[String], found: Vec<Value>, ran: &run::Ran) -> Value {
    let is_there = |name: &&String| found.iter().any(|drive| drive["model"] == name.as_str());
    let failed = |name: &&String| ran.failed.iter().any(|(failed, _)| failed == *name);
    let missing: Vec<&String> =
        names.iter().filter(|name| !is_there(name) && !failed(name)).collect();
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    json!({
        "schema": SCHEMA,
        "suite": options.suite.profile().name,
        "suite_title": suites::title(options.suite.profile().name),
        "about": options.suite.profile().about,
        "tests": options.tests(),
        "own": options.own,
        "complete": missing.is_empty(),
        "missing": missing,
        "failed": ran.failed.iter().map(|(name, why)| json!({"model": name, "reason": why})).collect::<Vec<_>>(),
        "drives": found,
        "command": words,
        "versions": { "overdrive": env!("CARGO_PKG_VERSION") },
    })
}
