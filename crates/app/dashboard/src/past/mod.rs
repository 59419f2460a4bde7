//! The past of volumes and drives, as `overdrive volume history` and `overdrive drive history`
//! print it: charts with sentences, tables, and CSV.
//!
//! The commands run as other processes, with a limit on their number and time. A history that is
//! damaged, of a later program, or on a disk that does not answer costs a page only its charts.

mod drawing;
mod drive;
mod results;
mod volume;

pub(crate) use drive::of_drives;
pub(crate) use results::of_results;
pub(crate) use volume::{Span, of_volume};

use crate::app::App;
use serde_json::Value;
use stack::{Exit, Failure};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest time for which a page waits for a history.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Runs a command that prints a history as one JSON object.
///
/// # Errors
/// The sentence for the page.
async fn read(app: &App, arguments: &[&str]) -> Result<Value, String> {
    read_or_fail(app, arguments).await.map_err(|failure| failure.message)
}

/// The same, with the exit status of the failure.
async fn read_or_fail(app: &App, arguments: &[&str]) -> Result<Value, Failure> {
    let late = || {
        let seconds = TIME_MAX.as_secs();
        let why = format!("The history was not read within {seconds} s; reload the page.");
        Failure::new(Exit::Io, why)
    };
    let reading = async {
        let _permit = app.readers.acquire().await.map_err(|_| late())?;
        let read = app.program.json(arguments).await;
        let words = |failure: &Failure| format!("There is no history: {failure}.");
        read.map_err(|failure| Failure::new(failure.exit, words(&failure)))
    };
    tokio::time::timeout(TIME_MAX, reading).await.unwrap_or_else(|_| Err(late()))
}

/// Returns the seconds since 1970.
fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
