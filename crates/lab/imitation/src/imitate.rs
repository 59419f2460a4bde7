//! The imitation of a recorded trace.

use crate::blocks;
use crate::history::{Extent, History, Totals, Use, extent};
use crate::order::{bursts, shuffle};
use crate::read::Recorded;
use lane::Random;
use simulator::{Error, Lru, Watch};
use std::ops::Range;
use trace::recording::Entry;

/// Fewest reads and writes that can be imitated.
pub const REQUESTS_MIN: u64 = 1000;

/// An imitation.
#[derive(Clone, Debug)]
pub struct Imitation {
    /// The requests, in the order of their times.
    pub entries: Vec<Entry>,
    /// Requests within which the order of bursts is new.
    pub window: usize,
    /// Requests whose extent is another one than the recorded request's at the same place.
    pub replaced: u64,
}

/// Windows that are tried first: parts of the trace.
const PARTS: [usize; 3] = [16, 64, 256];
/// Windows that are tried then, in requests. A smaller one would leave the recorded order.
const WINDOWS: [usize; 4] = [256, 128, 64, 32];
/// Sizes of LRU which choose the window, in percent of the footprint.
const LRU_PERCENTS: [u64; 12] = [1, 3, 8, 12, 16, 25, 30, 35, 45, 55, 65, 80];
/// Difference of LRU's miss ratios up to which a window is taken.
const CLOSE: f64 = 0.005;

/// Imitates a trace. All choices follow from the seed.
///
/// # Errors
/// It has too few reads and writes; or the watch interrupts.
pub fn imitate(recorded: &Recorded, seed: u64, watch: &mut dyn Watch) -> Result<Imitation, Error> {
    let entries = &recorded.entries;
    let data = entries.iter().filter(|entry| blocks::moves_data(&entry.event)).count() as u64;
    if data < REQUESTS_MIN {
        let what = format!("has {data} reads and writes");
        let message = format!("{what}; an imitation needs at least {REQUESTS_MIN}");
        return Err(Error::Usage(message));
    }
    let totals = totals(entries);
    let uses = uses(entries, &totals);
    let sizes = Lrus::of(entries);
    let wanted = sizes.miss_ratios(entries);
    let bursts = bursts(entries);
    let mut best: Option<(f64, Imitation)> = None;
    let parts = PARTS.map(|part| entries.len() / part).into_iter();
    let parts = parts.filter(|window| *window > WINDOWS[0]);
    for window in parts.chain(WINDOWS) {
        let trial = Trial { entries, totals: &totals, uses: &uses, window, seed };
        let Some(imitation) = trial.run(bursts.clone(), watch) else {
            return Err(Error::Interrupted);
        };
        let found = sizes.miss_ratios(&imitation.entries);
        let differences = found.iter().zip(&wanted).map(|(one, other)| (one - other).abs());
        let difference = differences.fold(0.0, f64::max);
        if best.as_ref().is_none_or(|(least, _)| difference < *least) {
            best = Some((difference, imitation));
        }
        if difference <= CLOSE {
            break;
        }
    }
    Ok(best.expect("at least one window was tried").1)
}

/// Returns the number of uses of each extent.
fn totals(entries: &[Entry]) -> Totals {
    let mut totals = Totals::new();
    for entry in entries.iter().filter(|entry| blocks::moves_data(&entry.event)) {
        *totals.entry(extent(&entry.event)).or_default() += 1;
    }
    totals
}

/// Returns the use of its extent by each request. None: it moves no data.
fn uses(entries: &[Entry], totals: &Totals) -> Vec<Option<Use>> {
    let (mut history, mut number) = (History::new(totals), 0);
    let each = entries.iter().map(|entry| {
        let event = &entry.event;
        blocks::moves_data(event).then(|| {
            number += 1;
            history.record(number, extent(event), event.operation)
        })
    });
    each.collect()
}

/// LRU caches of the sizes that choose the window.
struct Lrus(Vec<u32>);

impl Lrus {
    fn of(entries: &[Entry]) -> Lrus {
        let footprint = blocks::footprint(&blocks::of_all(entries));
        let slots =
            |percent: u64| u32::try_from(footprint * percent / 100).unwrap_or(u32::MAX >> 1).max(1);
        Lrus(LRU_PERCENTS.map(slots).to_vec())
    }

    fn miss_ratios(&self, entries: &[Entry]) -> Vec<f64> {
        let (mut lru, mut count) = (Lru::new(&self.0), 0u64);
        for entry in entries {
            for block in blocks::of_event(&entry.event) {
                lru.access(block);
                count += 1;
            }
        }
        let misses = self.0.iter().filter_map(|size| lru.misses(*size));
        misses.map(|misses| misses as f64 / count.max(1) as f64).collect()
    }
}

/// An imitation with one window.
struct Trial<'a> {
    entries: &'a [Entry],
    totals: &'a Totals,
    uses: &'a [Option<Use>],
    window: usize,
    seed: u64,
}

/// A request that has its extent.
#[derive(Clone, Copy)]
struct Placed {
    /// Its place in the recording.
    index: usize,
    /// The number of the request that used the extent before.
    last: u64,
}

/// Requests between two calls of the watch.
const LOOKED: usize = 1 << 16;

impl Trial<'_> {
    /// Returns the imitation. None: the watch has interrupted it.
    fn run(&self, mut bursts: Vec<Range<usize>>, watch: &mut dyn Watch) -> Option<Imitation> {
        shuffle(&mut bursts, self.window, &mut Random::new(self.seed));
        let mut history = History::new(self.totals);
        let mut made: Vec<Entry> = Vec::with_capacity(self.entries.len());
        let (mut number, mut replaced) = (0, 0);
        let mut before: Option<Placed> = None;
        let mut last_ns = self.entries.first().map_or(0, |entry| entry.event.time_ns);
        for burst in bursts {
            let gap_ns = self.gap_ns(burst.start);
            let begin_ns = self.entries[burst.start].event.time_ns;
            let start_ns = last_ns + gap_ns;
            for index in burst {
                let mut entry = self.entries[index];
                entry.event.time_ns = start_ns + (entry.event.time_ns - begin_ns);
                last_ns = entry.event.time_ns;
                if let Some(used) = self.uses[index] {
                    number += 1;
                    let own = extent(&entry.event);
                    let chosen = match used {
                        Use::First => own,
                        Use::Again(class, distance) => self
                            .following(&history, index, before)
                            .or_else(|| history.find(number, class, distance))
                            .unwrap_or(own),
                    };
                    before = history.last_use(chosen).map(|last| Placed { index, last });
                    replaced += u64::from(chosen != own);
                    (entry.event.device, entry.event.first, entry.event.sectors) = chosen;
                    history.record(number, chosen, entry.event.operation);
                }
                made.push(entry);
                let share = made.len() as f64 / self.entries.len() as f64;
                if made.len().is_multiple_of(LOOKED) && !watch.look("imitation", share) {
                    return None;
                }
            }
        }
        Some(Imitation { entries: made, window: self.window, replaced })
    }

    /// Returns the extent that was used directly after that of the request before, if so it was in
    /// the recording. So blocks that are read together, as a file's, are read together again.
    fn following(
        &self,
        history: &History<'_>,
        index: usize,
        before: Option<Placed>,
    ) -> Option<Extent> {
        let before = before.filter(|before| before.index + 1 == index)?;
        let (Some(Use::Again(_, distance)), Some(Use::Again(class, same))) =
            (self.uses[before.index], self.uses[index])
        else {
            return None;
        };
        (distance == same).then(|| history.used_at(before.last + 1, class))?
    }

    /// Returns the time between the request before this one and this one.
    fn gap_ns(&self, index: usize) -> u64 {
        let time_ns = |index: usize| self.entries[index].event.time_ns;
        index.checked_sub(1).map_or(0, |before| time_ns(index) - time_ns(before))
    }
}
