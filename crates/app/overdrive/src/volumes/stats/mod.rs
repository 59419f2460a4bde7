//! `overdrive volume stats`: statistics, for users and as JSON.

mod details;
mod watch;

use super::{Target, find, find_waiting, no_daemon, roll};
use crate::supervisors::supervisor_of;
use crate::terminal;
use cache::{Counters, Histograms};
use daemon::control::statistics::Statistics;
use daemon::control::words::{Ask, State};
use daemon::control::{Daemon, Roll, pause};
use daemon::units;
pub(super) use daemon::units::nanoseconds as time;
use report::terminal::Line;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Show a volume's statistics: a verdict in words, then lines, with --all every counter.
///
/// Sampled figures, means and times that are summed over requests are marked as such. Examples:
///   overdrive volume stats              all volumes of this user
///   overdrive volume stats db --watch   rates every second, until Ctrl-C
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// The volume; by default all volumes.
    name: Option<String>,
    /// Print one JSON object; with --watch one per line.
    #[arg(long)]
    json: bool,
    /// Print every counter, too.
    #[arg(long)]
    all: bool,
    /// Print rates at this interval, in seconds, until the volumes have ended or Ctrl-C
    /// [default: 1].
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = seconds, conflicts_with = "all")]
    watch: Option<Duration>,
    /// Explain each number; this needs no volume.
    #[arg(long)]
    explain: bool,
}

/// Parses `2`, `0.5`, or a time with its unit.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}': write seconds from 0.05 to 86400, like 1, 0.5 or 200ms");
    let time = match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number).map_err(|_| bad())?,
        Err(_) => Duration::from_micros(units::time_us(text)?),
    };
    let range = Duration::from_millis(50)..=Duration::from_secs(86_400);
    if range.contains(&time) { Ok(time) } else { Err(bad()) }
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    if options.explain {
        explain(options.json);
        return Ok(ExitCode::SUCCESS);
    }
    let mut chosen = chosen(control, options.name.as_deref())?;
    if let Some(time) = options.watch {
        watch::run(control, chosen, time, options.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.json {
        // Printed as received: the daemon may be newer, and report more.
        let answers = chosen.iter_mut().map(Chosen::ask).collect::<Result<Vec<_>, _>>()?;
        match &answers[..] {
            [one] => daemon::say!("{one}"),
            all => {
                let schema = "overdrive.volumes-stats/1";
                daemon::say!("{}", json!({ "schema": schema, "volumes": all }));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let all = chosen.iter_mut().map(Chosen::look).collect::<Result<Vec<_>, _>>()?;
    all.iter().for_each(|stats| print(stats, options.all));
    Ok(ExitCode::SUCCESS)
}

/// Longest wait for the daemon that replaces another one.
const RECONNECT_TIME: Duration = Duration::from_secs(60);

/// Whether a process exists and has not ended.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !stat.is_empty() && !state.starts_with(['Z', 'X'])
}

/// A volume, and a connection to its daemon.
struct Chosen {
    daemon: Daemon,
    volume: String,
    /// The daemon's process.
    pid: u32,
}

impl Chosen {
    fn ask(&mut self) -> Result<Value, Failure> {
        self.daemon.ask(&Ask::Stats { volume: self.volume.clone() })
    }

    /// Whether the daemon is only absent for a while: it is being replaced by an upgrade, or will
    /// be restarted.
    fn may_come_back(&self) -> bool {
        is_alive(self.pid)
            || find_waiting(&self.volume).is_some()
            || supervisor_of(&self.volume).is_some()
    }

    /// Connects to the daemon that serves the volume by now, if one is expected, and waits for one
    /// answer.
    ///
    /// # Errors
    /// `failure`, if no daemon appears.
    fn reconnect(
        &mut self,
        control: Option<&PathBuf>,
        failure: Failure,
    ) -> Result<Statistics, Failure> {
        // A daemon would refuse the same request again.
        if failure.exit != Exit::NoDaemon {
            return Err(failure);
        }
        #[allow(clippy::disallowed_methods, reason = "a command, without a lane")]
        let begun = Instant::now();
        while begun.elapsed() < RECONNECT_TIME {
            let found = find(control, Some(&self.volume));
            if let Ok(Target { mut daemon, row }) = found
                && row.state != State::Ending
                && let Ok(stats) = daemon.statistics(&self.volume)
            {
                *self = Chosen { daemon, volume: row.name, pid: row.pid };
                return Ok(stats);
            }
            if !self.may_come_back() {
                break;
            }
            pause();
        }
        Err(failure)
    }

    fn look(&mut self) -> Result<Statistics, Failure> {
        self.daemon.statistics(&self.volume)
    }
}

/// Returns the volume of this name, or all volumes.
fn chosen(control: Option<&PathBuf>, name: Option<&str>) -> Result<Vec<Chosen>, Failure> {
    if name.is_some() {
        let target = find(control, name)?;
        let Target { daemon, row } = target;
        return Ok(vec![Chosen { daemon, volume: row.name, pid: row.pid }]);
    }
    let Roll { answered, silent } = roll(control)?;
    if let Some(silent) = silent.first() {
        return Err(silent.failure());
    }
    if answered.is_empty() {
        return Err(no_daemon());
    }
    let mut chosen = Vec::new();
    for (daemon, rows) in answered {
        for row in rows {
            // A daemon that is just ending has no volume any more.
            if let Ok(daemon) = daemon.open_another() {
                chosen.push(Chosen { daemon, volume: row.name, pid: row.pid });
            }
        }
    }
    if chosen.is_empty() {
        return Err(Failure::new(
            Exit::Negative,
            "no volume is served; see 'overdrive volume list'",
        ));
    }
    chosen.sort_by(|one, two| one.volume.cmp(&two.volume));
    Ok(chosen)
}

/// Prints the meaning of each number.
fn explain(is_json: bool) {
    let counters = Counters::explained();
    let latencies = Histograms::explained();
    if is_json {
        let counter = |(name, unit, gauge, meaning)| json!({ "name": name, "unit": unit, "now": gauge, "meaning": meaning });
        let latency =
            |(name, label, meaning)| json!({ "name": name, "label": label, "meaning": meaning });
        let (counters, latencies): (Vec<_>, Vec<_>) =
            (counters.map(counter).collect(), latencies.map(latency).collect());
        let schema = "overdrive.volume-stats-explained/1";
        return daemon::say!(
            "{}",
            json!({ "schema": schema, "counters": counters, "latencies": latencies })
        );
    }
    for (name, unit, gauge, meaning) in counters {
        let kind = if gauge { "now" } else { "since the start" };
        let line = Line::heading(name).with(format!(" ({unit}, {kind}): {meaning}"));
        terminal::print_wrapped(&line, 2);
    }
    for (name, _, meaning) in latencies {
        let line = Line::heading(name).with(format!(" (latencies): {meaning}"));
        terminal::print_wrapped(&line, 2);
    }
}

fn print(stats: &Statistics, all: bool) {
    terminal::print([Line::heading(&stats.volume)]);
    for sentence in advice::of_volume(stats) {
        terminal::print_wrapped(&Line::from(format!("  {sentence}")), 2);
    }
    daemon::say!("");
    terminal::print(details::lines(stats, all, terminal::width()));
    daemon::say!("");
}
