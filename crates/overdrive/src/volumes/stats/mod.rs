//! `overdrive volume stats`: what was counted, for people and for machines.

mod details;
mod verdict;
mod watch;

use super::{find, no_daemon, roll};
use cache::{Counters, Histograms};
use daemon::control::statistics::Statistics;
use daemon::control::words::Ask;
use daemon::control::{Daemon, Roll};
use daemon::units;
pub(super) use daemon::units::nanoseconds as time;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// What a volume has counted and measured: a verdict in words, then lines, with --all every counter.
///
/// Sampled figures, means and times that are summed over requests are marked as such. Examples:
///   overdrive volume stats              all volumes of this user
///   overdrive volume stats db --watch   what happens each second, until Ctrl-C
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    /// The volume; without it all of them.
    name: Option<String>,
    /// Print one JSON object; with --watch one a line.
    #[arg(long)]
    json: bool,
    /// Print every counter, too.
    #[arg(long)]
    all: bool,
    /// Print rates every so many seconds (1), until the volumes have gone or Ctrl-C.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = seconds, conflicts_with = "all")]
    watch: Option<Duration>,
    /// Say what each number means; no volume is needed for that.
    #[arg(long)]
    explain: bool,
}

/// `2`, `0.5`, or a time with its unit.
fn seconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}': seconds from 0.05 to 86400, as 1, 0.5 or 200ms");
    let time = match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number).map_err(|_| bad())?,
        Err(_) => Duration::from_micros(units::time_us(text)?),
    };
    let range = Duration::from_millis(50)..=Duration::from_secs(86_400);
    if range.contains(&time) { Ok(time) } else { Err(bad()) }
}

pub(super) fn run(control: Option<&PathBuf>, options: &Options) -> Result<ExitCode, Failure> {
    if options.explain {
        explain();
        return Ok(ExitCode::SUCCESS);
    }
    let mut chosen = chosen(control, options.name.as_deref())?;
    if let Some(time) = options.watch {
        watch::run(chosen, time, options.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.json {
        // As it is told: the daemon may be newer, and know more.
        let told = chosen.iter_mut().map(Chosen::ask).collect::<Result<Vec<_>, _>>()?;
        match &told[..] {
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

/// A volume, and a connection to its daemon.
struct Chosen {
    daemon: Daemon,
    volume: String,
}

impl Chosen {
    fn ask(&mut self) -> Result<Value, Failure> {
        self.daemon.ask(&Ask::Stats { volume: self.volume.clone() })
    }

    fn look(&mut self) -> Result<Statistics, Failure> {
        self.daemon.statistics(&self.volume)
    }
}

/// The volume of this name, or all there are.
fn chosen(control: Option<&PathBuf>, name: Option<&str>) -> Result<Vec<Chosen>, Failure> {
    if name.is_some() {
        let target = find(control, name)?;
        return Ok(vec![Chosen { daemon: target.daemon, volume: target.row.name }]);
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
            // One that ends in this moment has none any more.
            if let Ok(daemon) = daemon.beside() {
                chosen.push(Chosen { daemon, volume: row.name });
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

fn explain() {
    for (name, unit, gauge, meaning) in Counters::explained() {
        let kind = if gauge { "now" } else { "since the start" };
        daemon::say!("{name} ({unit}, {kind}): {meaning}");
    }
    for (name, _, meaning) in Histograms::explained() {
        daemon::say!("{name} (latencies): {meaning}");
    }
}

fn print(stats: &Statistics, all: bool) {
    daemon::say!("{}", stats.volume);
    for sentence in verdict::of(stats) {
        daemon::say!("  {sentence}");
    }
    daemon::say!("");
    details::print(stats, all);
    daemon::say!("");
}
