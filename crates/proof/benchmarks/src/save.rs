//! Requests beside a save of a live daemon: hits at a fixed rate while the list of hot blocks and
//! the state of the policy are saved as often as possible, against the same daemon without saves.

use crate::client::Client;
use crate::latencies::{Latencies, Spread};
use crate::overdrive::Overdrive;
use crate::processors::Processors;
use crate::sides::{Pairs, Side, in_turns, verdict};
use crate::warm::LiveArguments;
use anyhow::{Result, ensure};
use lane::Random;
use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

/// Highest ratio of the 99.9th percentiles.
const BESIDE_MAX: f64 = 1.1;
/// Part of the offered rate below which a run is not used.
const REACHED: f64 = 0.98;

/// Runs the comparison.
///
/// # Errors
/// The program was not built, a request fails, or saves do not follow the setting.
pub(crate) fn run(arguments: &LiveArguments) -> Result<()> {
    let overdrive = Overdrive::find(&arguments.program_options)?;
    let processors = Processors::split()?;
    let file = arguments.program_options.file("save");
    // Sparse: all of it is read into memory.
    File::create(file.path())?.set_len(arguments.live_mib << 20)?;
    let backing = file.path().display().to_string();
    let memory = format!("{}M", arguments.live_mib);
    let options = ["--memory", &memory, "--threads", "1", "--guard", "off"];
    let options = [&options[..], &["--warm-save", "100ms"]].concat();
    let server = overdrive.serve(&processors.of_servers(), "save", &backing, &options)?;
    let mut client = server.connect()?;
    client.read_all()?;
    let mut random = Random::new(3);
    let found = in_turns(arguments.live_pairs, |side| {
        one(&overdrive, &mut client, &mut random, side, arguments)
    })?;
    server.stop()?;
    let at = |rank: usize| Pairs::of(&found, |spread: &Spread| spread.quantiles[rank] as f64);
    let tails = at(2);
    let (_, middle, _) = tails.speed();
    println!(
        "{} reads a second beside saves of {} MiB of cached blocks: p99.9 {:.0} us, without saves \
         {:.0} us: {}  target at most {BESIDE_MAX}: {}",
        arguments.live_rate,
        arguments.live_mib,
        tails.a() / 1000.0,
        tails.b() / 1000.0,
        tails.cost_words(),
        verdict(1.0 / middle <= BESIDE_MAX)
    );
    for (rank, name) in ["p50", "p99"].into_iter().enumerate() {
        println!("  {name}: {}", at(rank).cost_words());
    }
    let most = Pairs::of(&found, |spread: &Spread| spread.max as f64 / 1000.0);
    println!("  longest wait: {:.0} us, without saves {:.0} us (medians)", most.a(), most.b());
    Ok(())
}

/// Runs one side: A with saves, B without.
fn one(
    overdrive: &Overdrive,
    client: &mut Client,
    random: &mut Random,
    side: Side,
    arguments: &LiveArguments,
) -> Result<Spread> {
    let warm = if side == Side::A { "warm=list" } else { "warm=off" };
    overdrive.well(&["volume", "set", crate::client::VOLUME, warm])?;
    let (blocks, mut latencies) = (client.blocks(), Latencies::default());
    // A save that has begun ends in this time.
    client.paced(arguments.live_rate, 500, || random.below(blocks))?;
    let before = saved(overdrive.directory())?;
    let paced = client.paced_recorded(
        arguments.live_rate,
        arguments.live_run_ms,
        || random.below(blocks),
        |ns| latencies.record(ns),
    )?;
    let is_saved = saved(overdrive.directory())? != before;
    ensure!(is_saved == (side == Side::A), "{warm}, and saved: {is_saved}");
    let (rate, offered) = (paced.rate(), arguments.live_rate as f64);
    ensure!(rate > REACHED * offered, "only {rate:.0} of {offered:.0} reads a second");
    Ok(latencies.spread())
}

/// Returns the time of the last save, if there was one.
fn saved(directory: &Path) -> Result<Option<SystemTime>> {
    let Ok(files) = std::fs::read_dir(directory.join("state/overdrive/hot")) else {
        return Ok(None);
    };
    let mut newest = None;
    for file in files {
        newest = newest.max(Some(file?.metadata()?.modified()?));
    }
    Ok(newest)
}
