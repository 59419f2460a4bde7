//! The judge: the allowed contents of every sector, according to the answers to the clients.
//!
//! Each sector has one writer, which never has two changes of one block in progress, so its history
//! is a list of numbered versions. While a daemon serves, and after a kill, a read returns the
//! newest acknowledged version, or a later one that was sent and not answered. A version that a
//! read has returned stays visible. States after a power cut are judged in `cut.rs`.

pub use crate::change::Change;
use crate::journal::{Act, Journal};
use crate::sector::{FIRST, Sector};
pub use crate::sector::{Low, Version};
use crate::stamp::{self, Found, SECTOR_BYTES, Stamp};
use block::Durability;
use std::collections::VecDeque;
use std::time::Duration;

/// Sectors of a block.
pub const BLOCK_SECTORS: u64 = 8;
/// Minimum interval between recorded times.
const TIMES_APART: Duration = Duration::from_millis(2);

/// A block, as far as is needed to decide whether a read may find it torn.
#[derive(Clone, Copy, Default)]
struct Traffic {
    changes: u64,
    under_way: u32,
    /// Whether nothing has happened to it since it was last read after a restart.
    verified: bool,
}

/// State of a read until it is answered.
pub struct Promise {
    first: u64,
    lows: Vec<Low>,
    /// The number of changes so far of each block that the read touches. None: a change was in
    /// progress.
    changes: Vec<Option<u64>>,
}

/// A broken promise.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Violation {
    /// The promise, as a sentence.
    pub what: String,
    /// The sector.
    pub sector: u64,
    /// The allowed contents.
    pub expected: Vec<String>,
    /// The contents found.
    pub found: String,
    /// Its last events, oldest first.
    pub history: Vec<String>,
}

/// All sectors of a volume.
pub struct Ledger {
    volume: u64,
    pub(crate) sectors: Vec<Sector>,
    blocks: Vec<Traffic>,
    clock: u64,
    number: u64,
    life: u32,
    /// Durability of this life's daemon.
    durability: Durability,
    /// When the newest flush was sent that has made the changes it covers durable.
    pub(crate) flushed_at: u64,
    /// When the newest flush was sent that an `ordered` daemon has answered.
    ordered_at: u64,
    /// Times at some ticks.
    pub(crate) times: VecDeque<(u64, Duration)>,
    /// The last life since the power cut that was ended by a kill.
    pub(crate) killed_life: Option<u32>,
    pub(crate) journal: Journal,
    violations: Vec<Violation>,
}

fn blocks(first: u64, count: u64) -> std::ops::Range<usize> {
    (first / BLOCK_SECTORS) as usize..((first + count).div_ceil(BLOCK_SECTORS)) as usize
}

impl Ledger {
    /// Returns the ledger of a volume of zeros. `volume` is its number in stamps.
    pub fn new(volume: u64, sectors: u64) -> Ledger {
        let sector = || Sector { versions: vec![FIRST], zeros_forgotten: None };
        let traffic = Traffic { verified: true, ..Traffic::default() };
        Ledger {
            volume,
            sectors: (0..sectors).map(|_| sector()).collect(),
            blocks: vec![traffic; blocks(0, sectors).len()],
            clock: 1,
            number: 0,
            life: 0,
            durability: Durability::Flush,
            flushed_at: 0,
            ordered_at: 0,
            times: VecDeque::new(),
            killed_life: None,
            journal: Journal::default(),
            violations: Vec::new(),
        }
    }

    /// Returns the volume's number.
    pub(crate) fn volume(&self) -> u64 {
        self.volume
    }

    /// Returns its size in sectors.
    pub fn len(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// Whether it has no sector.
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Notes that a daemon with this durability begins to serve: requests that an earlier one has
    /// not answered will not be answered any more.
    pub fn begin_life(&mut self, durability: Durability) {
        self.life += 1;
        self.durability = durability;
        self.blocks.iter_mut().for_each(|block| block.under_way = 0);
    }

    /// Notes an event that concerns every sector.
    pub fn note(&mut self, words: &str) {
        self.journal.push(self.life, Act::Event(words.to_owned()));
    }

    /// Notes that the daemon of this life was killed.
    pub fn killed(&mut self) {
        self.killed_life = Some(self.life);
        self.note("killed");
    }

    /// Notes that the daemon of this life was killed, and that a flush of the backing then failed
    /// unnoticed.
    pub fn lost_flush(&mut self) {
        self.note("a flush of the backing was under way, and fails");
    }

    /// Notes a daemon's declaration that a flush was in progress when an earlier one was killed:
    /// changes that were sent before the kill, and are not known to be durable, may be lost even
    /// after later flushes. False: no daemon was killed, and a violation was noted.
    pub fn excuse(&mut self) -> bool {
        let Some(life) = self.killed_life else {
            self.accuse("a daemon is in doubt about a flush, and none was killed".to_owned());
            return false;
        };
        let flushed_at = self.flushed_at;
        for sector in &mut self.sectors {
            sector.settle(flushed_at);
            sector.excuse(life);
        }
        self.note("in doubt about a flush before the kill");
        true
    }

    /// Whether a change of any of these blocks is in progress.
    pub fn is_busy(&self, first: u64, count: u64) -> bool {
        self.blocks[blocks(first, count)].iter().any(|block| block.under_way > 0)
    }

    /// Notes that a change is about to be sent; `stamps` receives its contents, unless it writes
    /// zeros.
    pub fn send_change(
        &mut self,
        first: u64,
        count: u32,
        fua: bool,
        stamps: Option<(&mut Vec<u8>, u32)>,
    ) -> Change {
        self.number += 1;
        let change = Change { number: self.number, first, count, fua, sent: self.tick() };
        let zeros = stamps.is_none();
        let version = Version {
            number: change.number,
            zeros,
            acknowledged: false,
            life: self.life,
            sent: change.sent,
            after: self.ordered_at,
            ..FIRST
        };
        let flushed_at = self.flushed_at;
        for sector in &mut self.sectors[first as usize..][..count as usize] {
            sector.settle(flushed_at);
            sector.versions.push(version);
        }
        for block in &mut self.blocks[blocks(first, u64::from(count))] {
            block.changes += 1;
            block.under_way += 1;
            block.verified = false;
        }
        if let Some((bytes, writer)) = stamps {
            let start = bytes.len();
            bytes.resize(start + count as usize * SECTOR_BYTES, 0);
            for (index, bytes) in bytes[start..].chunks_exact_mut(SECTOR_BYTES).enumerate() {
                let sector = first + index as u64;
                let (volume, number) = (self.volume, change.number);
                Stamp { volume, sector, number, first, count, writer }.fill(bytes);
            }
        }
        self.journal.push(self.life, Act::Sent { change, zeros });
        change
    }

    /// Notes that a change was answered: with success, or with an error, after which it may or may
    /// not have happened.
    pub fn answer_change(&mut self, change: &Change, well: bool) {
        let now = self.tick();
        for block in &mut self.blocks[blocks(change.first, u64::from(change.count))] {
            block.under_way = block.under_way.saturating_sub(1);
        }
        self.journal.push(self.life, Act::Answered { change: *change, well });
        if !well {
            return;
        }
        for sector in &mut self.sectors[change.first as usize..][..change.count as usize] {
            let place = sector.versions.iter().position(|version| version.number == change.number);
            let Some(place) = place else { continue };
            let version = &mut sector.versions[place];
            (version.acknowledged, version.at) = (true, now);
            match self.durability {
                Durability::Flush if change.fua => sector.forget_before(place),
                Durability::Ordered => version.barrier = change.fua,
                Durability::Flush | Durability::Scratch => {}
            }
        }
        if change.fua && self.durability == Durability::Ordered {
            self.ordered_at = self.ordered_at.max(change.sent);
        }
    }

    /// Notes that a flush is about to be sent.
    pub fn send_flush(&mut self) -> u64 {
        self.tick()
    }

    /// Notes that the flush that was sent at this tick was answered with success.
    pub fn answer_flush(&mut self, sent_at: u64) {
        match self.durability {
            Durability::Flush => self.flushed_at = self.flushed_at.max(sent_at),
            Durability::Ordered => self.ordered_at = self.ordered_at.max(sent_at),
            Durability::Scratch => {}
        }
        self.journal.push(self.life, Act::Flushed { number: self.number });
    }

    /// Notes that all changes acknowledged before this tick of [`Ledger::send_flush`] are durable,
    /// in either durability: an operator's command has reported it.
    pub fn durable(&mut self, sent_at: u64) {
        self.flushed_at = self.flushed_at.max(sent_at);
    }

    /// Notes that all acknowledged changes are durable: a daemon has reported it.
    pub fn all_durable(&mut self) {
        self.flushed_at = self.tick();
    }

    /// Notes the time since the start of the run.
    pub fn pass_time(&mut self, time: Duration) {
        if self.times.back().is_none_or(|&(_, last)| time > last + TIMES_APART) {
            let now = self.tick();
            self.times.push_back((now, time));
        }
    }

    /// Notes that a read is about to be sent.
    pub fn send_read(&mut self, first: u64, count: u32) -> Promise {
        let flushed_at = self.flushed_at;
        let lows = self.sectors[first as usize..][..count as usize].iter_mut().map(|sector| {
            sector.settle(flushed_at);
            let newest = sector.newest();
            Low { number: newest.number, zeros: newest.zeros }
        });
        let lows = lows.collect();
        let traffic = self.blocks[blocks(first, u64::from(count))].iter();
        let changes = traffic.map(|block| (block.under_way == 0).then_some(block.changes));
        Promise { first, lows, changes: changes.collect() }
    }

    /// Judges the result of a read. False: a violation was noted.
    pub fn answer_read(&mut self, promise: &Promise, bytes: &[u8]) -> bool {
        let now = self.tick();
        let found: Vec<Found> = bytes.chunks_exact(SECTOR_BYTES).map(stamp::read).collect();
        let (life, volume) = (self.life, self.volume);
        for (index, (found, &low)) in found.iter().zip(&promise.lows).enumerate() {
            let number = promise.first + index as u64;
            let sector = &mut self.sectors[number as usize];
            if !sector.allows(low, number, volume, found) {
                self.violated("a sector holds what it must not", number, low, found);
                return false;
            }
            sector.pin(found, life, now);
        }
        self.judge_blocks(promise, &found)
    }

    /// Judges whether blocks that were written whole, and were not changed during the read, are
    /// whole.
    fn judge_blocks(&mut self, promise: &Promise, found: &[Found]) -> bool {
        let range = blocks(promise.first, found.len() as u64);
        for (block, changes) in range.zip(&promise.changes) {
            let quiet = *changes == Some(self.blocks[block].changes);
            let first = block as u64 * BLOCK_SECTORS;
            let Some(start) = first.checked_sub(promise.first).map(|start| start as usize) else {
                continue;
            };
            let Some(sectors) = found.get(start..start + BLOCK_SECTORS as usize) else { continue };
            if !quiet {
                continue;
            }
            self.blocks[block].verified = true;
            if let Some(torn) = self.torn(first, sectors) {
                let low = promise.lows[start + torn];
                let what = "a block that one write covered is torn";
                self.violated(what, first + torn as u64, low, &sectors[torn]);
                return false;
            }
        }
        true
    }

    /// Returns the sector of a block that is older than a write of this whole block, of which
    /// another sector is present.
    pub(crate) fn torn(&self, first: u64, sectors: &[Found]) -> Option<usize> {
        let whole = sectors.iter().filter_map(|found| match found {
            Found::Stamp(stamp)
                if stamp.first == first && u64::from(stamp.count) == BLOCK_SECTORS =>
            {
                Some(stamp.number)
            }
            _ => None,
        });
        let newest = whole.max()?;
        sectors.iter().enumerate().position(|(index, found)| match found {
            Found::Stamp(stamp) => stamp.number < newest,
            Found::Zeros => {
                let sector = &self.sectors[first as usize + index];
                let later = |version: &Version| version.zeros && version.number > newest;
                !sector.versions.iter().any(later)
                    && sector.zeros_forgotten.is_none_or(|number| number < newest)
            }
            Found::Torn(_) | Found::Garbage => false,
        })
    }

    /// Requires that all blocks are read again.
    pub fn doubt(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.verified = false);
    }

    /// Notes that all blocks were read.
    pub(crate) fn all_verified(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.verified = true);
    }

    /// Returns the next block from `from` on that was not read since it was last changed.
    pub fn unverified(&self, from: u64) -> Option<u64> {
        let rest = self.blocks.get(from as usize..)?;
        rest.iter().position(|block| !block.verified).map(|place| from + place as u64)
    }

    /// Judges a whole image, like a read of all sectors.
    pub fn judge_image(&mut self, image: &[u8]) -> bool {
        let count = self.sectors.len() as u32;
        let promise = self.send_read(0, count);
        self.answer_read(&promise, image)
    }

    pub(crate) fn violated(&mut self, what: &str, sector: u64, low: Low, found: &Found) {
        let lowest = Version { number: low.number, zeros: low.zeros, ..FIRST };
        let listed = self.sectors[sector as usize].versions.iter().copied();
        let later = listed.filter(|version| version.number > low.number);
        let expected = std::iter::once(lowest).chain(later).map(|version| words(&version));
        self.violations.push(Violation {
            what: what.to_owned(),
            sector,
            expected: expected.collect(),
            found: format!("{found:?}"),
            history: self.journal.of(sector),
        });
    }

    /// Notes a violation that these sectors show together.
    pub(crate) fn violated_by(&mut self, what: String, sectors: [u64; 2]) {
        let histories = sectors.iter().flat_map(|&sector| {
            let title = format!("sector {sector}:");
            std::iter::once(title).chain(self.journal.of(sector))
        });
        let history = histories.collect();
        let found = format!("sectors {sectors:?}");
        let expected = Vec::new();
        self.violations.push(Violation { what, sector: sectors[0], expected, found, history });
    }

    /// Notes a violation that no read has shown.
    pub fn accuse(&mut self, what: String) {
        let history = self.journal.last_events();
        self.violations.push(Violation {
            what,
            sector: 0,
            expected: Vec::new(),
            found: String::new(),
            history,
        });
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

fn words(version: &Version) -> String {
    let what = if version.zeros { "zeros" } else { "data" };
    let how = if version.acknowledged { "acknowledged" } else { "sent" };
    format!("{what} of change {} ({how})", version.number)
}
