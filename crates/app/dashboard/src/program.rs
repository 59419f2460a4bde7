//! This program as another process: its documented commands, and their JSON.
//!
//! A command that hangs in the kernel, uses much memory or crashes does not affect the pages.

use serde_json::Value;
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

/// Longest time for a command that answers soon. smartctl itself has a limit below it.
const TIME_MAX: Duration = Duration::from_secs(40);
/// Maximum size of an answer, in bytes.
const OUTPUT_BYTES_MAX: usize = 32 << 20;

/// The program.
#[derive(Clone)]
pub(crate) struct Program {
    path: PathBuf,
    /// The file of the history, if it is not the usual one.
    history: Option<PathBuf>,
}

/// The variable with the file of the history, for commands.
const HISTORY: &str = "OVERDRIVE_HISTORY";

impl Program {
    pub(crate) fn new(path: PathBuf, history: Option<PathBuf>) -> Program {
        Program { path, history }
    }

    /// Returns a command of it that ends with this process's interest in it.
    pub(crate) fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = std::process::Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null());
        if let Some(history) = &self.history {
            command.env(HISTORY, history);
        }
        host::make_ordinary(&mut command);
        let mut command = tokio::process::Command::from(command);
        command.kill_on_drop(true);
        command
    }

    /// Runs a command, and returns its standard output and whether its status was 0.
    ///
    /// # Errors
    /// It printed nothing: the sentence that it printed as an error. It took too long.
    pub(crate) async fn output(&self, arguments: &[&str]) -> Result<(String, bool), Failure> {
        let name = arguments.join(" ");
        let failed = |why: String| Failure::new(Exit::Io, format!("overdrive {name}: {why}"));
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = match tokio::time::timeout(TIME_MAX, command.output()).await {
            Ok(output) => output.map_err(|error| failed(error.to_string()))?,
            Err(_) => {
                let seconds = TIME_MAX.as_secs();
                return Err(failed(format!("no answer within {seconds} s; try again later")));
            }
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.trim().is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            let exit = Exit::of(output.status.code().unwrap_or(0).try_into().unwrap_or(6));
            return Err(Failure::new(exit, message(&said)));
        }
        if text.len() > OUTPUT_BYTES_MAX {
            return Err(failed("its output is too large".to_owned()));
        }
        Ok((text, output.status.success()))
    }

    /// Runs a command that prints one JSON object.
    ///
    /// # Errors
    /// As [`Program::output`]; it printed something else.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let (text, _) = self.output(arguments).await?;
        serde_json::from_str(&text).map_err(|error| {
            let name = arguments.join(" ");
            Failure::new(Exit::Io, format!("overdrive {name}: its output is no JSON: {error}"))
        })
    }
}

/// Returns the last message of a command, without the program's name.
pub(crate) fn message(said: &str) -> String {
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    last.trim_start_matches("overdrive: ").to_owned()
}
