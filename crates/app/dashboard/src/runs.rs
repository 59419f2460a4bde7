//! Suites on modelled drives: one run at a time, as `overdrive bench` in another process.

use crate::program::{Program, message};
use report::words::figure;
use serde_json::Value;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// The variable that makes `overdrive bench` write its progress as lines of JSON.
const PROGRESS: &str = "OVERDRIVE_PROGRESS";

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
        let before = newest(program, &choice).await;
        let run = match self.bench(program, &choice).await {
            Ok(result) => {
                let mut done = done_of(&result);
                if let Some((number, at)) = before {
                    done.compared = self.compare(program, &choice, &number, &at).await;
                }
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
            while cancelled.changed().await.is_ok() {
                let pid = pid.and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
                pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::INT));
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
        before: &str,
        at: &str,
    ) -> Option<(String, String)> {
        let (after, _) = newest(program, choice).await.filter(|(number, _)| number != before)?;
        let page = self.comparison_page();
        let (one, two) = (format!("history:{before}"), format!("history:{after}"));
        let arguments = ["bench", "compare", &one, &two, "--report", &page.to_string_lossy()];
        let (text, _) = program.output(&arguments).await.ok()?;
        Some((format!("result {before} of {}", report::circumstances::date(at)), text))
    }
}

fn spawn(mut command: Command) -> Result<Child, String> {
    command.spawn().map_err(|error| format!("The suite could not be started: {error}."))
}

/// Returns the number and the time of the newest stored result of the same suite and target, with
/// or without a cache alike.
async fn newest(program: &Program, choice: &Choice) -> Option<(String, String)> {
    let target = choice.target();
    let arguments = ["bench", "history", "--suite", &choice.suite, "--target", &target, "--json"];
    let stored = program.json(&arguments).await.ok()?;
    let mut runs = stored["runs"].as_array()?.iter().filter(|run| {
        let is_cached = run["cached"].as_bool().unwrap_or(false);
        is_cached != choice.cache.is_empty() && run["complete"] == true
    });
    let run = runs.next()?;
    Some((run["run"].as_i64()?.to_string(), run["at"].as_str()?.to_owned()))
}

fn done_of(result: &Value) -> Done {
    let rows = result["rows"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let figures = rows.map(|row| Figure {
        test: text(&row["test"]),
        value: row["value"].as_f64().map_or_else(String::new, figure),
        unit: text(&row["unit"]),
    });
    Done {
        headline: text(&result["headline"]),
        figures: figures.collect(),
        is_partial: result["complete"] == false,
        compared: None,
    }
}
