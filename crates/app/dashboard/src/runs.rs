//! Suites on modelled drives: one run at a time, as `overdrive bench` in another process.

use crate::program::{Program, message};
use report::words::figure;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

/// The variable that makes `overdrive bench` write its progress as lines of JSON.
const PROGRESS: &str = "OVERDRIVE_PROGRESS";

/// Longest time of a run; then it ends with its results until then.
pub(crate) const RUN_TIME_MAX: Duration = Duration::from_secs(900);
/// Maximum processor time of a run in seconds; then its process is killed.
const PROCESSOR_S_MAX: u64 = 1800;
/// Maximum size of the cache in front of a modelled drive, in bytes.
pub(crate) const CACHE_BYTES_MAX: u64 = 4 << 30;
/// Longest time of each test, in microseconds of the drive's time.
pub(crate) const TEST_TIME_US_MAX: u64 = 60_000_000;
/// The lowest priority.
const NICE: i32 = 19;

/// Number of the newest stored results among which earlier ones are looked for.
const EARLIER_READ: u32 = 200;
/// Maximum number of earlier results with which a run is compared.
const EARLIER_MAX: usize = 20;

/// A suite on a modelled drive.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Choice {
    pub(crate) suite: String,
    /// The name of the model.
    pub(crate) model: String,
    /// Memory of a cache in front of it; empty: none.
    pub(crate) cache: String,
    /// Time of each test; empty: that of the suite.
    pub(crate) time: String,
}

impl Choice {
    /// Returns the target's name in the history.
    pub(crate) fn target(&self) -> String {
        format!("model:{}", self.model)
    }

    /// Returns the choice in words.
    pub(crate) fn words(&self) -> String {
        let cache = match self.cache.as_str() {
            "" => "without a cache".to_owned(),
            size => format!("with {size} of cache"),
        };
        format!("{} on {}, {cache}", self.suite, self.model)
    }
}

/// A figure of a result.
#[derive(Clone)]
pub(crate) struct Figure {
    pub(crate) test: String,
    pub(crate) value: String,
    pub(crate) unit: String,
    /// The value as a number. None: there is none.
    pub(crate) number: Option<f64>,
}

/// A result.
#[derive(Clone, Default)]
pub(crate) struct Done {
    pub(crate) headline: String,
    pub(crate) figures: Vec<Figure>,
    /// Whether the run was ended before its end.
    pub(crate) is_partial: bool,
    /// The earlier result with which it was compared: its number and time, and the comparison in
    /// lines of text.
    pub(crate) compared: Option<(String, String)>,
    /// The earlier results of the same suite and drive, newest first.
    pub(crate) earlier: Vec<Earlier>,
}

/// An earlier result.
#[derive(Clone, Default)]
pub(crate) struct Earlier {
    /// Its number.
    pub(crate) number: i64,
    /// Its time, in UTC.
    pub(crate) at: String,
    pub(crate) headline: String,
    /// Its figures: test, unit and value.
    pub(crate) figures: Vec<(String, String, f64)>,
}

/// State of the only run.
#[derive(Clone, Default)]
pub(crate) enum Run {
    /// Nothing was run yet.
    #[default]
    None,
    /// It is in progress.
    Running { choice: Choice, stage: String, share: f64 },
    /// It has a result.
    Done { choice: Choice, done: Box<Done> },
    /// It has none; the sentence has the reason.
    Failed { choice: Choice, why: String },
}

/// The runs, and the files with the pages of the latest.
pub(crate) struct Runs {
    run: Mutex<Run>,
    cancel: watch::Sender<u64>,
    changed: Arc<watch::Sender<u64>>,
    directory: PathBuf,
}

/// Name of the page with the result.
const RESULT: &str = "result.html";
/// Name of the page with the comparison.
const COMPARISON: &str = "comparison.html";

impl Runs {
    /// Makes a directory for the pages, which is removed with the tokens. That of an earlier
    /// dashboard, which was killed, is replaced.
    pub(crate) fn new(directory: PathBuf, changed: Arc<watch::Sender<u64>>) -> io::Result<Runs> {
        match std::fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&directory)?;
        let (cancel, _) = watch::channel(0);
        Ok(Runs { run: Mutex::default(), cancel, changed, directory })
    }

    /// Returns the file for the map of a volume.
    pub(crate) fn map_page(&self) -> PathBuf {
        self.directory.join("map.html")
    }

    fn lock(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the run.
    pub(crate) fn run(&self) -> Run {
        self.lock().clone()
    }

    fn set(&self, run: Run) {
        *self.lock() = run;
        self.changed.send_modify(|count| *count += 1);
    }

    /// Returns the page with the result.
    pub(crate) fn result_page(&self) -> PathBuf {
        self.directory.join(RESULT)
    }

    /// Returns the page with the comparison.
    pub(crate) fn comparison_page(&self) -> PathBuf {
        self.directory.join(COMPARISON)
    }

    /// Ends the run; its results until now are shown.
    pub(crate) fn end(&self) {
        self.cancel.send_modify(|count| *count += 1);
    }

    /// Begins a run. False: one is in progress.
    pub(crate) fn begin(&self, choice: &Choice) -> bool {
        let mut run = self.lock();
        if matches!(*run, Run::Running { .. }) {
            return false;
        }
        for page in [self.result_page(), self.comparison_page()] {
            let _ = std::fs::remove_file(page);
        }
        *run = Run::Running { choice: choice.clone(), stage: "starting".to_owned(), share: 0.0 };
        true
    }

    /// Carries out the run that was begun.
    pub(crate) async fn carry_out(&self, program: &Program, choice: Choice) {
        let earlier = earlier(program, &choice).await;
        let run = match self.bench(program, &choice).await {
            Ok(result) => {
                let mut done = done_of(&result);
                if let Some(newest) = earlier.first() {
                    done.compared = self.compare(program, &choice, newest).await;
                }
                done.earlier = earlier;
                Run::Done { choice, done: Box::new(done) }
            }
            Err(why) => Run::Failed { choice, why },
        };
        self.set(run);
    }

    /// Runs the suite; returns its JSON.
    async fn bench(&self, program: &Program, choice: &Choice) -> Result<Value, String> {
        let page = self.result_page();
        let (target, page) = (choice.target(), page.to_string_lossy());
        let mut arguments = vec!["bench", &choice.suite, &target, "--json", "--report", &page];
        for (option, value) in [("--cache", &choice.cache), ("--time", &choice.time)] {
            if !value.is_empty() {
                arguments.extend([option, value]);
            }
        }
        let mut command = program.command(&arguments);
        command.env(PROGRESS, "json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command)?;
        child.id().into_iter().for_each(restrain);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut text = String::new();
        let output = async {
            if let Some(mut stdout) = stdout {
                let _ = stdout.read_to_string(&mut text).await;
            }
        };
        let mut said = String::new();
        let progress = async {
            let Some(stderr) = stderr else { return };
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<Value>(&line) {
                    Ok(step) if step.is_object() => self.set(Run::Running {
                        choice: choice.clone(),
                        stage: step["stage"].as_str().unwrap_or_default().to_owned(),
                        share: step["share"].as_f64().unwrap_or(0.0).clamp(0.0, 1.0),
                    }),
                    _ => said = line,
                }
            }
        };
        let pid = child.id();
        let mut cancelled = self.cancel.subscribe();
        let cancel = async {
            // The command ends with its results until now, as with Ctrl-C.
            while !matches!(timeout(RUN_TIME_MAX, cancelled.changed()).await, Ok(Err(_))) {
                let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
                pid.map(|pid| kill_process(pid, Signal::INT));
            }
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(output, progress) } => {}
            () = cancel => {}
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        match serde_json::from_str::<Value>(&text) {
            Ok(result) if result.is_object() => Ok(result),
            _ if said.is_empty() => Err(format!("The run ended without a result ({status}).")),
            _ => Err(message(&said)),
        }
    }

    /// Compares the newest result with an earlier one. Returns that one in words, and the
    /// comparison as text.
    async fn compare(
        &self,
        program: &Program,
        choice: &Choice,
        before: &Earlier,
    ) -> Option<(String, String)> {
        let all = earlier(program, choice).await;
        let after = all.first().filter(|after| after.number != before.number)?;
        let page = self.comparison_page();
        let (one, two) =
            (format!("history:{}", before.number), format!("history:{}", after.number));
        let arguments = ["bench", "compare", &one, &two, "--report", &page.to_string_lossy()];
        let (text, _) = program.output(&arguments).await.ok()?;
        let date = report::circumstances::date(&before.at);
        Some((format!("result {} of {date}", before.number), text))
    }
}

/// Restrains a run, which a viewer without the admin token may start, to one processor at the
/// lowest priority, and a total time. If memory is short, the kernel ends it before all others.
fn restrain(pid: u32) {
    let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
    let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
    let _ = setpriority_process(Some(pid), NICE);
    let most = Rlimit { current: Some(PROCESSOR_S_MAX), maximum: Some(PROCESSOR_S_MAX) };
    let _ = prlimit(Some(pid), Resource::Cpu, most);
    let Ok(permitted) = sched_getaffinity(Some(pid)) else { return };
    let last = (0..CpuSet::MAX_CPU).rev().find(|number| permitted.is_set(*number));
    let mut one = CpuSet::new();
    last.into_iter().for_each(|number| one.set(number));
    let _ = sched_setaffinity(Some(pid), &one);
}

fn spawn(mut command: Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("The suite could not be started: {error}."))
}

/// Returns the stored complete results of the same suite and target, with or without a cache alike,
/// newest first.
async fn earlier(program: &Program, choice: &Choice) -> Vec<Earlier> {
    let target = choice.target();
    let newest = EARLIER_READ.to_string();
    let arguments = [
        "bench",
        "history",
        "--suite",
        &choice.suite,
        "--target",
        &target,
        "--newest",
        &newest,
        "--json",
    ];
    let stored = program.json(&arguments).await.unwrap_or_default();
    let runs = stored["runs"].as_array().into_iter().flatten();
    let is_alike = |run: &&Value| {
        let is_cached = run["cached"].as_bool().unwrap_or(false);
        // The option selects targets that contain the text.
        is_cached != choice.cache.is_empty() && run["complete"] == true && run["target"] == *target
    };
    runs.filter(is_alike).filter_map(earlier_of).take(EARLIER_MAX).collect()
}

fn earlier_of(run: &Value) -> Option<Earlier> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures = run["figures"].as_array().into_iter().flatten();
    let figures = figures
        .filter_map(|it| Some((text(&it["test"]), text(&it["unit"]), it["value"].as_f64()?)));
    Some(Earlier {
        number: run["run"].as_i64()?,
        at: run["at"].as_str()?.to_owned(),
        headline: text(&run["headline"]),
        figures: figures.collect(),
    })
}

fn done_of(result: &Value) -> Done {
    let rows = result["rows"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures = rows.map(|row| Figure {
        test: text(&row["test"]),
        value: row["value"].as_f64().map_or_else(String::new, figure),
        unit: text(&row["unit"]),
        number: row["value"].as_f64(),
    });
    Done {
        headline: text(&result["headline"]),
        figures: figures.collect(),
        is_partial: result["complete"] == false,
        compared: None,
        earlier: Vec::new(),
    }
}
