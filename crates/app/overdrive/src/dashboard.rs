//! `overdrive dashboard`: pages in a browser.

use crate::volumes;
use dashboard::{Dashboard, Options};
use live::Source;
use stack::{Exit, Failure};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Serve pages for a browser on this machine: all volumes, drives, and suites on modelled drives.
///
/// The first line of the output is the address. A token is required to log in; it is in a file that
/// only this user can read, whose path is printed. With the token the pages show everything; with
/// the admin token they also change settings, and pause, freeze, flush and clear volumes. The
/// tokens are new at each start.
///
/// The process ends with Ctrl-C. The volumes do not depend on it.
///
/// Examples:
///   overdrive dashboard
///   overdrive dashboard --listen 127.0.0.1:8000
///   ssh -L 7780:127.0.0.1:7780 HOST     shows the dashboard of another machine
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Listen at this address of this machine; port 0 is any free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7780")]
    listen: SocketAddr,

    /// Show only the daemon at this control socket.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Read the history in this file instead of the usual one.
    #[arg(long, value_name = "PATH")]
    history: Option<PathBuf>,
}

/// Returns the volumes to show: those of one daemon, or all of this user.
pub(crate) fn source(control: Option<&PathBuf>) -> Source {
    match control {
        Some(path) => Source::One(path.clone()),
        None => Source::All(daemon::runtime_directory(), Box::new(volumes::unserved_with_reasons)),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let broken = |what: &str, error: std::io::Error| {
        Failure::new(Exit::Io, format!("{what} cannot be found: {error}"))
    };
    // Before other threads are started, which inherit the mask.
    let signals = host::signals().map_err(|error| broken("signals", error))?;
    let dashboard = Dashboard::bind(Options {
        listen: arguments.listen,
        source: source(arguments.control.as_ref()),
        runtime: daemon::runtime_directory(),
        program: daemon::program_path().map_err(|error| broken("this program", error))?,
        history: arguments.history.clone(),
        limits: dashboard::Limits::default(),
        pace: Duration::from_secs(1),
    })?;
    let [viewer, admin] = dashboard.token_files();
    daemon::say!("{}", dashboard.url());
    daemon::tell!(
        "overdrive: the token is in {}; the admin token, which permits changes, is in {}",
        viewer.display(),
        admin.display()
    );
    dashboard.serve(|| while !host::is_stopped_within(&signals, Duration::from_secs(3600)) {})?;
    Ok(ExitCode::SUCCESS)
}
