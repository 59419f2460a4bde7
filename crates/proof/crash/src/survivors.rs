//! The states that a crash can leave.
//!
//! After a power cut every unit holds its durable version or any one of its later versions,
//! independently of the others; a *choice* is one index per unit. After a kill the disk continues;
//! each write that was in flight lands or does not.

use crate::disk::{Moving, State, UNIT_BYTES};
use crate::stamp;
use crate::subject::Fence;
use lane::Random;

/// One unit that a power cut can leave in more than one version.
struct Open {
    unit: usize,
    /// Its candidates are `first..first + count` of [`Survivors::bytes`].
    first: usize,
    count: usize,
}

/// A set of digests, in a table that is reused.
#[derive(Default)]
struct Seen {
    table: Vec<u64>,
    count: u32,
}

impl Seen {
    /// Empties the set, with room for `limit` digests.
    fn clear(&mut self, limit: u32) {
        self.table.clear();
        self.table.resize((limit as usize * 2).next_power_of_two(), 0);
        self.count = 0;
    }

    /// Inserts a digest. False: it was present.
    fn insert(&mut self, digest: u64) -> bool {
        let digest = digest.max(1);
        let mask = self.table.len() - 1;
        let mut at = digest as usize & mask;
        while self.table[at] != 0 {
            if self.table[at] == digest {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.table[at] = digest;
        self.count += 1;
        true
    }
}

/// All states that a power cut can leave at one moment. It is reused, without allocations per
/// state.
#[derive(Default)]
pub(crate) struct Survivors {
    /// The durable contents.
    base: Vec<u8>,
    unit_bytes: usize,
    open: Vec<Open>,
    bytes: Vec<[u8; UNIT_BYTES]>,
    digests: Vec<u64>,
    /// The current choice: for each open unit an index below its count.
    choice: Vec<usize>,
    /// Digests of the choices made at this moment, if they are drawn.
    seen: Seen,
    drawn: u32,
    limit: u32,
    exhaustive: bool,
    started: bool,
}

impl Survivors {
    /// Collects the candidates of every unit. At most `limit` choices will be returned: all of them
    /// if there are no more, otherwise the corners and a sample, each choice at most once.
    pub(crate) fn collect(&mut self, disk: &State, limit: u32) {
        self.base.clear();
        self.base.extend_from_slice(&disk.durable);
        self.unit_bytes = disk.model.unit_bytes();
        self.open.clear();
        self.bytes.clear();
        self.digests.clear();
        self.seen.clear(limit);
        (self.drawn, self.limit, self.started) = (0, limit, false);
        for unit in 0..disk.pending.len() {
            let late = disk.server.iter().flat_map(|server| &server.late);
            let moving = disk
                .moving
                .iter()
                .chain(late.map(|late| &late.moving))
                .filter(|moving| disk.units_ahead_of(moving).any(|at| at == unit));
            self.collect_unit(disk, unit, moving);
        }
        let product = self.open.iter().try_fold(1u32, |product, open| {
            product.checked_mul(open.count as u32).filter(|&product| product <= limit)
        });
        self.exhaustive = product.is_some();
        self.choice.clear();
        self.choice.resize(self.open.len(), 0);
    }

    fn collect_unit<'a>(
        &mut self,
        disk: &State,
        unit: usize,
        moving: impl Iterator<Item = &'a Moving>,
    ) {
        let first = self.bytes.len();
        for version in disk.pending[unit].iter().filter(|version| !version.lost) {
            self.candidate(unit, first, &version.bytes, version.digest);
        }
        for moving in moving {
            let bytes = disk.with_moving(moving, unit);
            self.candidate(unit, first, &bytes, stamp::digest(&bytes[..self.unit_bytes]));
        }
        let count = self.bytes.len() - first;
        if count > 0 {
            self.open.push(Open { unit, first, count });
        }
    }

    /// Adds a candidate, unless the unit has the same contents already: equal contents are one
    /// state.
    fn candidate(&mut self, unit: usize, first: usize, bytes: &[u8; UNIT_BYTES], digest: u64) {
        if self.bytes.len() == first {
            let mut durable = [0; UNIT_BYTES];
            let start = unit * self.unit_bytes;
            durable[..self.unit_bytes].copy_from_slice(&self.base[start..start + self.unit_bytes]);
            let durable_digest = stamp::digest(&durable[..self.unit_bytes]);
            if durable_digest == digest {
                return;
            }
            self.bytes.push(durable);
            self.digests.push(durable_digest);
        }
        if !self.digests[first..].contains(&digest) {
            self.bytes.push(*bytes);
            self.digests.push(digest);
        }
    }

    /// Moves on to the next choice. False: there is none, or the limit is reached.
    pub(crate) fn next(&mut self, random: &mut Random) -> bool {
        if self.exhaustive {
            return self.next_in_order();
        }
        // Draws from a large space rarely repeat; the attempts are bounded anyway.
        while self.drawn < self.limit * 2 {
            self.draw(random);
            let digest =
                self.choice.iter().fold(0, |digest, &index| stamp::mix(digest, index as u64 + 1));
            if self.seen.count < self.limit && self.seen.insert(digest) {
                return true;
            }
        }
        false
    }

    fn next_in_order(&mut self) -> bool {
        if !self.started {
            self.started = true;
            return true;
        }
        for (index, open) in self.choice.iter_mut().zip(&self.open) {
            *index += 1;
            if *index < open.count {
                return true;
            }
            *index = 0;
        }
        false
    }

    /// Draws the corners first (nothing, everything, each side of the middle), then at random.
    fn draw(&mut self, random: &mut Random) {
        let corner = self.drawn;
        self.drawn += 1;
        // One unit differs from all others, as in most ordering bugs.
        let odd = random.below(self.open.len() as u64) as usize;
        let mostly = random.one_in(2);
        for (position, (index, open)) in self.choice.iter_mut().zip(&self.open).enumerate() {
            let latest = open.count - 1;
            *index = match corner {
                0 => 0,
                1 => latest,
                2 | 3 => {
                    if (position == odd) == (corner == 2) {
                        latest
                    } else {
                        0
                    }
                }
                _ if mostly && position != odd => match corner % 2 {
                    0 => latest,
                    _ => 0,
                },
                _ => random.below(open.count as u64) as usize,
            };
        }
    }

    /// Draws one choice, independent of earlier ones: a corner or a random one.
    fn draw_one(&mut self, random: &mut Random) {
        self.drawn = random.below(16) as u32;
        self.draw(random);
    }

    /// Returns the open units: number, and the candidates' numbers.
    pub(crate) fn open_units(&self) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
        self.open.iter().map(|open| (open.unit, open.first..open.first + open.count))
    }

    /// Returns the number of the chosen candidate for every open unit.
    pub(crate) fn chosen_candidates(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.iter().zip(&self.choice).map(|(open, index)| open.first + index)
    }

    /// Returns the bytes of a candidate.
    pub(crate) fn candidate_bytes(&self, candidate: usize) -> &[u8] {
        &self.bytes[candidate][..self.unit_bytes]
    }

    /// Returns the number of candidates over all open units.
    pub(crate) fn candidates(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the durable contents of the disk.
    pub(crate) fn base(&self) -> &[u8] {
        &self.base
    }

    /// Writes the chosen contents of the open units over `image`, which holds the base elsewhere.
    pub(crate) fn render(&self, image: &mut [u8]) {
        for (open, index) in self.open.iter().zip(&self.choice) {
            let start = open.unit * self.unit_bytes;
            image[start..start + self.unit_bytes]
                .copy_from_slice(self.candidate_bytes(open.first + index));
        }
    }

    /// Returns the choice as text: `unit:index of count`.
    pub(crate) fn describe(&self) -> String {
        let parts = self.open.iter().zip(&self.choice);
        let parts =
            parts.map(|(open, index)| format!("{}:{}/{}", open.unit, index, open.count - 1));
        parts.collect::<Vec<_>>().join(" ")
    }
}

impl State {
    /// Returns a number that increases with every change of the states that a crash could leave.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns a state after a power cut now: one of the many possible contents of the disk, drawn
    /// at random.
    pub fn after_power_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut survivors = Survivors::default();
        survivors.collect(self, 1);
        survivors.draw_one(random);
        let mut image = survivors.base.clone();
        survivors.render(&mut image);
        image
    }
}

/// Returns the number of writes in flight, at most 16, that may land or not after a kill.
pub(crate) fn landings(disk: &State) -> u32 {
    let unit_sectors = disk.model.unit_sectors;
    let open = disk.moving.iter().filter(|moving| !moving.is_applied(unit_sectors));
    open.count().min(16) as u32
}

/// Returns the disk as the next process finds it: writes in flight land if their bit is set in
/// `landed`. The others never will if the fence covers them; otherwise they may land at any later
/// time. `now_ns`: the time of the kill.
pub(crate) fn after_kill(from: &State, into: &mut State, landed: u32, fence: Fence, now_ns: u64) {
    into.copy_contents(from);
    if into.server.is_some() {
        return after_kill_on_link(from, into, landed, now_ns);
    }
    let unit_sectors = into.model.unit_sectors;
    let mut bit = 0;
    for moving in &from.moving {
        let applied = moving.is_applied(unit_sectors);
        let lands = !applied && landed >> bit & 1 == 1;
        bit += u32::from(!applied);
        if lands {
            into.land(&mut moving.clone());
            continue;
        }
        // The applied part is in the disk's cache, and no process will receive its answer any more.
        into.complete_applied(moving.change);
        if !applied && !fence.holds(moving.ring) {
            into.late.push(moving.clone());
        }
    }
    into.end_flushes(from.faults.late_flush);
}

/// Same as [`after_kill`], for the disk of a server, whose clock continues in a world that begins.
fn after_kill_on_link(from: &State, into: &mut State, landed: u32, now_ns: u64) {
    into.moving.clone_from(&from.moving);
    let mut bits = (0..32).map(|bit| landed >> bit & 1 == 1);
    into.end_process_on_link(now_ns, |_| bits.next().unwrap_or(false));
    let server = into.server();
    server.move_clock(server.clock_ns(now_ns), 0);
}
