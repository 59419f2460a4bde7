//! Events of a daemon, chosen by the seed.

use crate::lossy::Flushes;
use crate::tally::Tally;
use block::Durability;
use lane::Random;
use std::path::PathBuf;
use std::time::Duration;

/// When a kill or a cut happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Strike {
    /// Milliseconds after the daemon was started.
    After(u64),
    /// Milliseconds after the daemon began to serve.
    Served(u64),
    /// At a request of the backing: its kind, its number, and before, applied, answered or failing.
    At(String),
}

/// How a life of the daemon ends, or an event before a kill ends it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// SIGKILL.
    Kill(Strike),
    /// SIGKILL during a flush of the backing, which fails after that. Often the power is cut soon
    /// after the next daemon serves.
    LostFlush(Strike),
    /// A power cut.
    Cut(Strike),
    /// An operator's flush under load, then a power cut.
    Flush,
    /// No requests until nothing is dirty, then a power cut.
    Quiet,
    /// A kill; the next daemon has the other durability, and the power is cut soon after it serves.
    Change,
    /// SIGTERM under load.
    Stop,
    /// A kill; the next daemon has another size of memory.
    Resize,
    /// An upgrade under load, then a kill.
    Upgrade,
    /// The holder is killed, then the daemon.
    Holder,
    /// A freeze under load, then a kill.
    Freeze,
    /// Compression is switched several times under load, then a kill.
    Switch,
    /// The backing fails; it is repaired, and the error cleared.
    Retry,
    /// The backing fails permanently; dirty data is rescued to a file.
    Rescue,
}

impl Event {
    /// Whether clients may see errors.
    pub fn fails(&self) -> bool {
        matches!(self, Event::Stop | Event::Upgrade | Event::Retry | Event::Rescue)
    }
}

fn strike(random: &mut Random) -> Strike {
    if random.below(10) < 3 {
        let kind = ["write", "write", "flush", "read"][random.below(4) as usize];
        let when = match kind {
            "read" => "before",
            _ => ["before", "applied", "answered"][random.below(3) as usize],
        };
        let most = if kind == "flush" { 6 } else { 120 };
        return Strike::At(format!("{kind} {} {when}", 1 + random.below(most)));
    }
    if random.one_in(5) {
        return Strike::Served(random.below(100));
    }
    Strike::After(match random.below(4) {
        0 => random.below(60),
        1 => random.below(150),
        2 => 50 + random.below(300),
        _ => 100 + random.below(1000),
    })
}

fn lost_flush(random: &mut Random) -> Event {
    Event::LostFlush(Strike::At(format!("flush {} failing", 1 + random.below(4))))
}

/// Durability of a run's daemons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Mode {
    /// `--durability flush`.
    Flush,
    /// `--durability ordered`.
    Ordered,
    /// Chosen whenever no earlier data is retained: one time in three `ordered`. A daemon that
    /// takes over from another one sometimes has the other durability.
    Mixed,
}

impl Mode {
    /// Returns the durability of the next daemon. `before`: the durability of the daemon whose
    /// memory it may take over; None: there is nothing to take over.
    pub fn next(self, random: &mut Random, before: Option<Durability>, last: &Event) -> Durability {
        let (one, other) = (Durability::Flush, Durability::Ordered);
        match (self, before) {
            (_, Some(Durability::Flush)) if *last == Event::Change => other,
            (_, Some(_)) if *last == Event::Change => one,
            (Mode::Flush, _) => one,
            (Mode::Ordered, _) => other,
            (Mode::Mixed, None) => {
                if random.one_in(3) {
                    other
                } else {
                    one
                }
            }
            (Mode::Mixed, Some(before)) => match random.one_in(8) {
                true if before == one => other,
                true => one,
                false => before,
            },
        }
    }
}

/// The one kind of event that a run may be restricted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
#[allow(missing_docs, reason = "the same words as the events")]
pub enum Only {
    Kill,
    LostFlush,
    Cut,
    Flush,
    Quiet,
    Change,
    Stop,
    Resize,
    Upgrade,
    Holder,
    Freeze,
    Switch,
    Retry,
    Rescue,
}

fn one(random: &mut Random, only: Only) -> Event {
    match only {
        Only::Kill => Event::Kill(strike(random)),
        Only::LostFlush => lost_flush(random),
        Only::Cut => Event::Cut(strike(random)),
        Only::Flush => Event::Flush,
        Only::Quiet => Event::Quiet,
        Only::Change => Event::Change,
        Only::Stop => Event::Stop,
        Only::Resize => Event::Resize,
        Only::Upgrade => Event::Upgrade,
        Only::Holder => Event::Holder,
        Only::Freeze => Event::Freeze,
        Only::Switch => Event::Switch,
        Only::Retry => Event::Retry,
        Only::Rescue => Event::Rescue,
    }
}

/// Terms of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The `overdrive` program.
    pub program: PathBuf,
    /// Seed of all choices.
    pub seed: u64,
    /// Stop after this time.
    pub time: Option<Duration>,
    /// Stop after this many kills; None with cuts given: no kills.
    pub kills: Option<u64>,
    /// Stop after this many power cuts; None with kills given: no cuts.
    pub cuts: Option<u64>,
    /// Use only this event.
    pub only: Option<Only>,
    /// Durability of the daemons.
    pub mode: Mode,
    /// The write buffers of the daemons, in turn; `default`: their own default. Empty: always that.
    pub dirty_bytes: Vec<String>,
    /// The write modes of the daemons, in turn. Empty: chosen.
    pub write: Vec<String>,
    /// How the daemons compress evicted blocks, in turn. Empty: not at all.
    pub compress: Vec<String>,
    /// Memory of the daemons, in MiB. After [`Event::Resize`], half as much again, or the former
    /// size.
    pub memory_mib: u64,
    /// Serve with this durability, but judge by `mode`: a lie that power cuts must reveal.
    pub serve_as: Option<String>,
    /// Serve without a holder: acknowledged data is then lost with the daemon, which must be
    /// detected.
    pub no_holder: bool,
    /// How many times slower than most this machine is: all time limits are multiplied by this, and
    /// events are delayed by it. At least 1.
    pub slower: u32,
    /// How the backing handles a flush: power cuts must reveal any flush that it does not carry
    /// out.
    pub flushes: Flushes,
}

/// Returns a power cut, before which clients have the time to flush.
fn cut_after_flushes(random: &mut Random) -> Event {
    Event::Cut(Strike::Served(50 + random.below(800)))
}

/// Chooses the next event; `last`: the event before.
pub fn choose(random: &mut Random, options: &RunOptions, tally: &Tally, last: &Event) -> Event {
    if *last == Event::Change {
        return Event::Cut(Strike::Served(random.below(60)));
    }
    let is_after_lost_flush = matches!(last, Event::LostFlush(_));
    if let Some(only) = options.only {
        let cuts = only == Only::LostFlush && is_after_lost_flush && random.below(3) > 0;
        return if cuts { cut_after_flushes(random) } else { one(random, only) };
    }
    let open = |wanted: Option<u64>, other: Option<u64>, done: u64| match (wanted, other) {
        (Some(wanted), _) => done < wanted,
        (None, None) => true,
        (None, Some(_)) => false,
    };
    let kills = open(options.kills, options.cuts, tally.kills);
    let cuts = open(options.cuts, options.kills, tally.cuts);
    if cuts && is_after_lost_flush && random.one_in(2) {
        return cut_after_flushes(random);
    }
    if cuts && (!kills || random.one_in(5)) {
        return match random.below(10) {
            0 => Event::Flush,
            1 => Event::Quiet,
            2 if !options.no_holder && options.mode == Mode::Mixed => Event::Change,
            _ => Event::Cut(strike(random)),
        };
    }
    if !options.compress.is_empty() && random.one_in(12) {
        return Event::Switch;
    }
    match random.below(100) {
        0..3 => Event::Stop,
        3..6 => Event::Resize,
        6..8 if !options.no_holder => Event::Upgrade,
        8..10 if !options.no_holder => Event::Holder,
        10..12 => Event::Freeze,
        12..14 => Event::Retry,
        14..16 => Event::Rescue,
        16..26 => lost_flush(random),
        _ => Event::Kill(strike(random)),
    }
}
