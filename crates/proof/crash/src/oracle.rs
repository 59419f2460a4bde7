//! The oracle: the allowed results of reads now, and (in `verdict.rs`) the allowed states after a
//! crash.
//!
//! It uses only the clients' view: when each operation was sent and when it was answered, as ticks
//! of one clock. An operation is *before* another if it was known to have taken effect (answered,
//! or seen by an answered read) when the other was sent; operations that overlap may be ordered
//! either way until a read decides. Every sector has a list of versions, one per change that
//! touched it, each with the few ticks from which all of that follows.

use crate::disk::{NEVER, State};
use crate::finding::Finding;
use crate::stamp::{self, GRAIN, Operation, Wrong, ZERO};
pub(crate) use crate::version::{Content, Version};
use block::Durability;

/// The versions of every sector, and the clock of the history.
#[derive(Clone)]
pub(crate) struct Oracle {
    pub(crate) sectors: Vec<Vec<Version>>,
    pub(crate) unit_sectors: u32,
    pub(crate) clock: u32,
    /// The minimum promise of a flush, from these ticks on.
    promises: Vec<(u32, Durability)>,
    /// Whether flushes have promised an order, in this life or in one before.
    pub(crate) has_promised_order: bool,
    /// When the last flush was sent that has been answered (`ordered`).
    pub(crate) flushed: u32,
    /// When the last process ended that did not promise an order throughout; 0: there was none.
    unordered_until: u32,
    /// Whether the operator is discarding dirty data.
    pub(crate) discarding: bool,
    /// When that last ended.
    pub(crate) discarded: u32,
    /// Whether the server of the disk has restarted.
    pub(crate) has_restarted: bool,
    /// Ranges that changes of parts of blocks in progress leave unchanged, and write again.
    pub(crate) padding: Vec<Range>,
}

/// Returns the strength of a flush's promise.
fn strength(durability: Durability) -> u32 {
    match durability {
        Durability::Scratch => 0,
        Durability::Ordered => 1,
        Durability::Flush => 2,
    }
}

/// A range of sectors: first and count.
pub(crate) type Range = (u32, u32);

impl Oracle {
    /// Returns the oracle of a disk full of initial stamps.
    pub(crate) fn new(sectors: u32, unit_sectors: u32) -> Oracle {
        let base = vec![Version::base(stamp::INITIAL)];
        Oracle {
            sectors: vec![base; sectors as usize],
            unit_sectors,
            clock: 1,
            promises: vec![(0, Durability::Flush)],
            has_promised_order: false,
            flushed: 0,
            unordered_until: 0,
            discarding: false,
            discarded: 0,
            has_restarted: false,
            padding: Vec::new(),
        }
    }

    pub(crate) fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock
    }

    /// Notes that a process begins, whose flushes have this promise. Requests sent before will not
    /// be answered any more.
    pub(crate) fn begin_process(&mut self, durability: Durability) {
        if !self.has_ordered_throughout() {
            self.unordered_until = self.clock;
        }
        self.promises.clear();
        self.promises.push((0, durability));
        self.has_promised_order |= durability == Durability::Ordered;
    }

    /// Returns the promise of a flush now.
    pub(crate) fn durability(&self) -> Durability {
        self.promises.last().expect("a process begins with one").1
    }

    /// Notes that flushes have their former promise or this one from now on.
    pub(crate) fn may_promise(&mut self, durability: Durability) {
        self.has_promised_order |= durability == Durability::Ordered;
        if strength(durability) < strength(self.durability()) {
            self.promises(durability);
        }
    }

    /// Notes that flushes have this promise from now on.
    pub(crate) fn promises(&mut self, durability: Durability) {
        self.promises.push((self.clock, durability));
        self.has_promised_order |= durability == Durability::Ordered;
    }

    /// Returns the weakest promise from the tick `sent` until now, and whether it applied all the
    /// time.
    fn weakest_promise_since(&self, sent: u32) -> (Durability, bool) {
        let after = self.promises.partition_point(|(since, _)| *since <= sent);
        let all = self.promises[after.max(1) - 1..].iter().map(|(_, durability)| *durability);
        let least = all.clone().min_by_key(|&durability| strength(durability));
        let least = least.expect("a process begins with one");
        (least, all.clone().all(|durability| durability == least))
    }

    fn versions_in(&mut self, (first, count): Range) -> impl Iterator<Item = &mut Vec<Version>> {
        self.sectors[first as usize..(first + count) as usize].iter_mut()
    }

    /// Notes that a change was sent.
    pub(crate) fn record_change(&mut self, operation: Operation, content: Content, range: Range) {
        let sent = self.tick();
        let after = self.flushed;
        for sector in range.0..range.0 + range.1 {
            let carried = self.padding.iter().any(|padding| holds(padding, sector));
            let version = Version { after, carried, ..Version::new(operation, content, sent) };
            self.sectors[sector as usize].push(version);
        }
    }

    /// Notes that a change sent at `sent` came behind another of its connection, sent at `first`:
    /// where they overlap it takes effect later.
    pub(crate) fn comes_behind(&mut self, range: Range, sent: u32, first: u32) {
        let own = self.versions_in(range).flatten().filter(|version| version.sent == sent);
        own.for_each(|version| version.behind = first);
    }

    /// Notes that a change of parts of blocks was sent, which will rewrite the contents of these
    /// sectors.
    pub(crate) fn begin_padding(&mut self, padding: Range) {
        self.padding.push(padding);
        self.versions_in(padding).flatten().for_each(|version| version.carried = true);
    }

    /// Notes that it was answered.
    pub(crate) fn end_padding(&mut self, padding: Range) {
        let index = self.padding.iter().position(|other| *other == padding);
        index.map(|index| self.padding.swap_remove(index));
    }

    /// Notes that a change was answered: with success, or with an error, which leaves its effect
    /// open.
    pub(crate) fn record_change_answer(
        &mut self,
        operation: Operation,
        range: Range,
        good: bool,
        fua: bool,
        sent: u32,
    ) {
        let now = self.tick();
        // While the durability changes, an FUA write may have either.
        let (durability, throughout) = self.weakest_promise_since(sent);
        let is = |meaning| fua && throughout && durability == meaning;
        let (durable, ordered) = (is(Durability::Flush), is(Durability::Ordered));
        let mut flushed = 0;
        let has_restarted = self.has_restarted;
        for versions in self.versions_in(range) {
            let own = versions.iter_mut().rfind(|version| version.operation == operation);
            let own = own.expect("an answer follows a request");
            if !good {
                own.refused = now;
                continue;
            }
            own.answered = now;
            if own.dropped {
                continue;
            }
            own.effective = own.effective.min(now);
            own.durable |= durable;
            // An FUA write is a write with a flush of the changes completed when it was sent, and
            // of itself.
            own.fua = ordered;
            flushed = if ordered { own.sent } else { 0 };
            if own.lost && has_restarted {
                // The server has lost it before the client had the answer.
                continue;
            }
            let own = *own;
            let older = versions.iter_mut().filter(|version| own.replaces(version));
            older.for_each(|version| version.end_at(now));
        }
        self.flushed = self.flushed.max(flushed);
    }

    /// Notes that a part of a change was admitted to the write buffer, in this epoch.
    pub(crate) fn record_admission(&mut self, operation: Operation, range: Range, epoch: u32) {
        for versions in self.versions_in(range) {
            let own = versions.iter_mut().rfind(|version| version.operation == operation);
            if let Some(own) = own {
                own.epoch = epoch;
                own.buffered = true;
            }
        }
    }

    /// Notes that a flush sent at `sent` was answered with success: it covers the changes answered
    /// before that.
    pub(crate) fn record_flush_answer(&mut self, sent: u32) {
        self.tick();
        match self.weakest_promise_since(sent).0 {
            Durability::Flush => {}
            Durability::Ordered => return self.flushed = self.flushed.max(sent),
            Durability::Scratch => return,
        }
        let versions = self.sectors.iter_mut().flatten();
        versions
            .filter(|version| version.is_covered_by(sent) && !version.excused)
            .filter(|version| !version.may_be_gone())
            .for_each(|version| version.durable = true);
    }

    /// Notes that the operator clears the error of a volume whose disk has failed a flush:
    /// write-throughs before that may be lost, and with them the versions they had replaced. Data
    /// in the buffer must still be preserved.
    pub(crate) fn record_error_clearing(&mut self) {
        let now = self.tick();
        for versions in &mut self.sectors {
            if is_loose(versions) {
                for version in versions.iter_mut().filter(|version| !version.durable) {
                    debug_assert!(version.sent < now, "a tick is later than all before it");
                    (version.excused, version.epoch) = (true, 0);
                }
            }
        }
    }

    /// A process has taken over. `in_flush`: a flush was under way at a kill. Versions that it has
    /// lost hold back no later epoch. `in_doubt`: the process reports the loss; otherwise it still
    /// has all of it, or newer data in its place.
    pub(crate) fn is_taken_over(&mut self, in_flush: bool, in_doubt: bool) {
        for version in self.sectors.iter_mut().flatten() {
            if version.lost && in_flush {
                version.epoch = 0;
            }
            // A report excuses what the server has lost: no memory has to hold it.
            version.lost &= in_doubt || self.has_restarted && version.excused;
        }
    }

    /// The server has restarted, and may have lost changes that no flush covers. Where no buffer
    /// holds them, reads return the server's contents until the loss is reported: "the next flush
    /// fails, once, because the server may have lost them; C8 holds for these changes" (C15).
    pub(crate) fn record_restart(&mut self, disk: &State, dropped: &[(u32, [u8; GRAIN])]) {
        self.tick();
        self.has_restarted = true;
        let is_unordered = !self.has_ordered_throughout() || self.flushed < self.unordered_until;
        for (sector, stamp) in dropped {
            let Ok(operation) = stamp::decode(stamp, *sector) else { continue };
            let versions = &mut self.sectors[*sector as usize];
            if loose_versions(versions).any(|version| version.shows(operation)) {
                note_lost(versions);
                if is_unordered {
                    release_settled(versions);
                }
            }
            note_excused_lost(versions, operation);
            if stamp::decode(disk.sector(*sector).0, *sector) != Ok(operation) {
                let own = versions.iter_mut().filter(|version| version.shows(operation));
                own.for_each(|version| version.is_dropped_by_server |= !version.durable);
            }
        }
        for (sector, versions) in (0..).zip(&mut self.sectors) {
            let newest = versions.iter().rfind(|version| version.effective != NEVER);
            let Ok(shown) = stamp::decode(disk.sector(sector).0, sector) else { continue };
            if newest.is_some_and(|newest| newest.lost || newest.may_be_gone()) {
                let shown = versions.iter_mut().filter(|version| version.shows(shown));
                shown.for_each(Version::revive);
            }
        }
    }

    /// Notes that a change which a restart of the server had lost is sent again. "If its connection
    /// ends before, the request is sent again with the same bytes" (C15): what a read has shown of
    /// an unanswered change before the restart says nothing about its place among later changes.
    pub(crate) fn record_resending(&mut self, sector: u32, operation: Operation) {
        if !self.has_restarted {
            return;
        }
        let versions = self.sectors[sector as usize].iter_mut();
        for version in versions.filter(|version| version.shows(operation)) {
            let is_open = version.answered == NEVER && version.settled == NEVER;
            if version.lost && is_open {
                version.seen = NEVER;
            }
            version.lost = false;
        }
    }

    /// Whether a failed flush may have lost a change that no buffer holds.
    pub(crate) fn has_loose(&self) -> bool {
        self.sectors.iter().any(|versions| is_loose(versions))
    }

    /// Whether flushes have promised an order since the process began, and nothing else.
    pub(crate) fn has_ordered_throughout(&self) -> bool {
        self.promises.iter().all(|(_, durability)| *durability == Durability::Ordered)
    }

    /// A client's flush has failed because the process is in doubt: no later one covers what the
    /// flush under way at the kill has lost.
    pub(crate) fn record_loss_report(&mut self) {
        self.tick();
        let lost = self.sectors.iter_mut().flatten().filter(|version| version.lost);
        lost.for_each(|version| (version.excused, version.epoch) = (true, 0));
    }

    /// Whether a failed flush has taken a version from the disk that no buffer holds. Only the
    /// process that received the error can report this loss, and no later one can.
    pub(crate) fn is_lost(&self, disk: &State) -> bool {
        (0..)
            .zip(&self.sectors)
            .any(|(sector, versions)| disk.has_lost(sector) && is_loose(versions))
    }

    /// Notes that a read sent at `sent` was answered with these stamps.
    pub(crate) fn record_read_answer(
        &mut self,
        sent: u32,
        (first, count): Range,
        stamps: &[u8],
    ) -> Result<(), Finding> {
        let now = self.tick();
        let mut shown = Vec::with_capacity(count as usize);
        for (sector, bytes) in (first..).zip(stamps.chunks_exact(GRAIN)) {
            let operation = decode(bytes, sector)?;
            if !self.is_unsettled(sent) {
                self.check_read(sector, operation, sent)?;
            }
            shown.push(operation);
        }
        if self.is_unsettled(sent) {
            return Ok(());
        }
        self.check_units(first, &shown, "C10")?;
        for (sector, &operation) in (first..).zip(&shown) {
            self.decide(sector, operation, sent, now);
        }
        Ok(())
    }

    /// Whether dirty data was discarded since this tick: block by block, so that old and new data
    /// are mixed.
    pub(crate) fn is_unsettled(&self, sent: u32) -> bool {
        self.discarding || sent < self.discarded
    }

    /// Notes that dirty data has been discarded: the disk shows the contents.
    pub(crate) fn record_discard_dirty(&mut self, disk: &State) {
        let now = self.tick();
        (self.discarding, self.discarded) = (false, now);
        let padding = &self.padding;
        for (sector, versions) in (0..).zip(&mut self.sectors) {
            let shown = stamp::decode(disk.sector(sector).0, sector).ok();
            // A change of another part of this block may have read it before, and write it again.
            let is_carried = padding.iter().any(|padding| holds(padding, sector));
            for version in versions {
                let is_shown = shown.is_some_and(|shown| version.shows(shown));
                let answered = version.answered.min(version.refused).min(version.effective);
                let was_done = answered != NEVER || version.buffered;
                if is_shown {
                    version.dead = NEVER;
                }
                // Zeros may belong to another change: changes still in progress decide nothing.
                if is_shown && was_done {
                    if !is_carried {
                        version.effective = version.effective.min(now);
                    }
                } else if was_done {
                    if !is_carried {
                        version.end_at(now);
                    }
                    version.dropped |= !version.durable;
                }
                if !version.durable {
                    version.excused = true;
                    (version.epoch, version.buffered) = (0, false);
                }
            }
        }
    }

    /// Checks that a sector is zero as the status requested at `sent` reports: it was, at some
    /// moment since.
    pub(crate) fn check_zero(&self, sector: u32, sent: u32) -> Result<(), Finding> {
        let versions = &self.sectors[sector as usize];
        let was_zero = versions.iter().any(|version| version.shows(ZERO) && version.dead > sent);
        if was_zero || self.is_unsettled(sent) {
            return Ok(());
        }
        Err(Finding::new(
            "C14",
            format!("a status asked for at {sent} calls sector {sector} zero, which it was not"),
        ))
    }

    fn check_read(&self, sector: u32, operation: Operation, sent: u32) -> Result<(), Finding> {
        let versions = &self.sectors[sector as usize];
        let mut named = versions.iter().filter(|version| version.shows(operation)).peekable();
        if named.peek().is_none() {
            return Err(self.unknown_version_finding(sector, operation));
        }
        if named.any(|version| version.dead > sent) {
            return Ok(());
        }
        Err(Finding::new(
            "C10",
            format!(
                "a read of sector {sector} sent at {sent} returned {}, which was already replaced",
                self.name(sector, operation)
            ),
        ))
    }

    /// Returns the finding for a version that was never written to this sector.
    pub(crate) fn unknown_version_finding(&self, sector: u32, operation: Operation) -> Finding {
        Finding::new(
            if operation == ZERO { "C14" } else { "C4" },
            format!(
                "sector {sector} holds {}, which never wrote there",
                self.name(sector, operation)
            ),
        )
    }

    /// Decides, from a read, the order that concurrent changes left open.
    fn decide(&mut self, sector: u32, operation: Operation, sent: u32, now: u32) {
        // A change in progress that carries discarded data brings it back when it is written.
        if self.discarded != 0 && self.padding.iter().any(|padding| holds(padding, sector)) {
            return;
        }
        let versions = &mut self.sectors[sector as usize];
        let Some(index) = only_version(versions, operation) else {
            return; // zeros that may be of several changes
        };
        // Memory may have shown it, and the disk may have lost it: older contents may follow.
        if versions[index].lost && self.has_restarted || versions[index].may_be_gone() {
            return;
        }
        let own = &mut versions[index];
        own.seen = own.seen.min(now);
        own.effective = own.effective.min(now);
        own.reread = own.reread.max(sent);
        if own.content == Content::ZerosOrOlder {
            own.content = Content::Zeros;
        }
        let own = *own;
        for (other, version) in versions.iter_mut().enumerate() {
            // A change that the server has lost may come back, from memory's copy.
            if other == index || version.lost && self.has_restarted || version.may_be_gone() {
                continue;
            }
            if own.replaces(version) || (own.settled != NEVER && version.settled != NEVER) {
                version.end_at(now);
            }
            // Stable: a completed discard that is not seen has changed nothing, for good.
            let passed_over = version.content == Content::ZerosOrOlder
                && version.answered < sent
                && own.effective < version.sent;
            if passed_over {
                version.void = true;
                version.end_at(now);
            }
        }
    }

    /// Checks that a block is consistent: a read that shows a change in one of its sectors must
    /// show, in the others, at least all changes before that one.
    pub(crate) fn check_units(
        &self,
        first: u32,
        shown: &[Operation],
        clause: &str,
    ) -> Result<(), Finding> {
        let unit = self.unit_sectors;
        if unit == 1 || shown.iter().all(|operation| *operation == shown[0]) {
            return Ok(());
        }
        let end = first + shown.len() as u32;
        let mut start = first;
        while start < end {
            let next = (start / unit * unit + unit).min(end);
            let part = &shown[(start - first) as usize..(next - first) as usize];
            if part.iter().any(|operation| *operation != part[0]) {
                self.check_unit(start, part, clause)?;
            }
            start = next;
        }
        Ok(())
    }

    fn check_unit(&self, first: u32, shown: &[Operation], clause: &str) -> Result<(), Finding> {
        // The versions that are certain, found once: each is compared with all others.
        let mut certain: [Option<&Version>; 8] = [None; 8];
        for ((sector, &operation), certain) in (first..).zip(shown).zip(&mut certain) {
            let versions = &self.sectors[sector as usize];
            *certain = only_version(versions, operation).map(|index| &versions[index]);
        }
        for ((sector, &operation), seen) in (first..).zip(shown).zip(&certain) {
            let Some(seen) = seen else {
                continue;
            };
            let others = (first..).zip(shown).zip(&certain);
            for ((other, &theirs), older) in others.filter(|((other, _), _)| *other != sector) {
                let Some(older) = older else {
                    continue;
                };
                let versions = &self.sectors[other as usize];
                let missing = versions.iter().find(|version| {
                    let needed =
                        version.operation == seen.operation || version.effective < seen.sent;
                    let may_be_lost = version.lost && self.has_restarted;
                    let certain = version.content != Content::ZerosOrOlder
                        && !version.dropped
                        && !may_be_lost
                        && !version.may_be_gone();
                    needed
                        && certain
                        && older.effective < version.sent
                        && version.operation != theirs
                });
                if let Some(missing) = missing {
                    return Err(Finding::new(
                        clause,
                        format!(
                            "a block shows {} in sector {sector}, but {} in sector {other}, where \
                             operation {} was needed",
                            self.name(sector, operation),
                            self.name(other, theirs),
                            missing.operation
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns a version as text.
    pub(crate) fn name(&self, sector: u32, operation: Operation) -> String {
        let what = match operation {
            stamp::INITIAL => "the first contents".to_string(),
            ZERO => "zeros".to_string(),
            other => format!("operation {other}"),
        };
        let versions = &self.sectors[sector as usize];
        match versions.iter().rfind(|version| version.shows(operation)) {
            Some(version) if version.sent > 0 => {
                format!("{what} (sent at {}{})", version.sent, describe_end(version))
            }
            _ => what,
        }
    }
}

fn holds((first, count): &Range, sector: u32) -> bool {
    (*first..first + count).contains(&sector)
}

/// The versions that are neither durable nor held in a buffer.
pub(crate) fn loose_versions(versions: &[Version]) -> impl Iterator<Item = &Version> {
    versions.iter().filter(|version| {
        let is_it = !version.durable && !version.excused && !version.is_held();
        // Older contents that a read has shown after a loss replace nothing: they show the loss.
        let shows_loss = |later: &Version| version.lost && version.was_sent_after(later);
        let replaces = |later: &Version| later.replaces(version) && !shows_loss(later);
        is_it && !versions.iter().any(|later| later.durable && replaces(later))
    })
}

/// Marks the versions of one sector that the disk may have lost: those that no buffer holds, and
/// buffered ones that they may have overtaken. Versions that were buffered later are still owed.
pub(crate) fn note_lost(versions: &mut [Version]) {
    let loose: Vec<Version> = loose_versions(versions).copied().collect();
    let is_later = |version: &Version| loose.iter().all(|loose| version.replaces(loose));
    let may_be_lost =
        |version: &&mut Version| !version.durable && (!version.is_held() || !is_later(version));
    if !loose.is_empty() {
        versions.iter_mut().filter(may_be_lost).for_each(|version| version.lost = true);
    }
}

/// Marks the versions of one sector that the server has lost with this operation, if a report has
/// excused it: its own, and those that it may have overtaken, as in [`note_lost`]. A change that
/// was in progress at the report may have overtaken a later one that the report does not excuse.
pub(crate) fn note_excused_lost(versions: &mut [Version], operation: Operation) {
    let is_own = |version: &Version| version.excused && version.shows(operation);
    let own = versions.iter().filter(|version| !version.durable && is_own(version));
    let Some(last) = own.max_by_key(|version| version.sent).copied() else { return };
    let own_or_overtaken = |version: &Version| is_own(version) || !version.replaces(&last);
    let lost = versions.iter_mut().filter(|version| !version.durable);
    lost.filter(|version| own_or_overtaken(version)).for_each(|version| version.lost = true);
}

/// Releases later epochs from lost versions of a process that has ended: "write-throughs that were
/// lost by a flush under way at a kill, and the changes that they had overtaken, hold back no later
/// epoch" (C2). Over a link, the server may lose them later than the process ends.
pub(crate) fn release_settled(versions: &mut [Version]) {
    let settled = versions.iter_mut().filter(|version| version.lost && version.settled != NEVER);
    settled.for_each(|version| version.epoch = 0);
}

fn is_loose(versions: &[Version]) -> bool {
    loose_versions(versions).next().is_some()
}

fn describe_end(version: &Version) -> String {
    let mut text = match version.answered {
        NEVER => ", not answered".to_string(),
        tick => format!(", answered at {tick}"),
    };
    if version.epoch > 0 {
        text += &format!(", buffered in epoch {}", version.epoch);
    }
    text
}

/// Returns the version that `operation` must be, if there is only one.
pub(crate) fn only_version(versions: &[Version], operation: Operation) -> Option<usize> {
    let mut named = versions.iter().enumerate().filter(|(_, version)| version.shows(operation));
    let (index, _) = named.next()?;
    named.next().is_none().then_some(index)
}

/// Reads a stamp found in `sector`; an invalid one breaks C4.
pub(crate) fn decode(bytes: &[u8], sector: u32) -> Result<Operation, Finding> {
    stamp::decode(bytes, sector).map_err(|wrong| {
        let what = match wrong {
            Wrong::Foreign { operation, sector } => {
                format!("what operation {operation} wrote to sector {sector}")
            }
            Wrong::Garbage => format!("no stamp at all: {bytes:02x?}"),
        };
        Finding::new("C4", format!("sector {sector} holds {what}"))
    })
}
