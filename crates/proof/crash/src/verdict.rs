//! The oracle after a crash: allowed and forbidden states.

use crate::disk::{NEVER, State};
use crate::finding::Finding;
use crate::oracle::{Oracle, Version, decode, note_lost, only_version};
use crate::stamp::{self, GRAIN, INITIAL, Operation, ZERO};

/// Evidence about the order of epochs in one unit after a power cut: it proves that `proves` had
/// begun to reach the disk, and shows that all changes of epochs before `misses` have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// The newest epoch with a change that is present; 0: none.
    pub(crate) proves: u32,
    /// The oldest epoch with a change that is missing; [`NEVER`]: none.
    pub(crate) misses: u32,
    /// `ordered`: a change is present that was sent after the answer of a flush, which was sent at
    /// this tick.
    pub(crate) after: u32,
    /// `ordered`: when the first missing change was completed; [`NEVER`]: none is missing.
    pub(crate) missing: u32,
    /// When the last present change was sent.
    pub(crate) sent: u32,
    /// `ordered`: when the first missing FUA write was answered; [`NEVER`]: none is missing.
    pub(crate) missing_fua: u32,
}

impl Epochs {
    pub(crate) const NONE: Epochs =
        Epochs { proves: 0, misses: NEVER, after: 0, missing: NEVER, sent: 0, missing_fua: NEVER };

    pub(crate) fn combine(self, other: Epochs) -> Epochs {
        Epochs {
            proves: self.proves.max(other.proves),
            misses: self.misses.min(other.misses),
            after: self.after.max(other.after),
            missing: self.missing.min(other.missing),
            sent: self.sent.max(other.sent),
            missing_fua: self.missing_fua.min(other.missing_fua),
        }
    }

    /// Checks C2: no change of a later epoch is present before all of an earlier one are. In
    /// `ordered` mode this is also checked from the clients' view, independent of the engine's
    /// epochs.
    pub(crate) fn check(self) -> Result<(), Finding> {
        if self.missing < self.after {
            let text = format!(
                "something is left that was sent after a flush that was sent at {}, but not what was \
                 completed at {}, before that",
                self.after, self.missing
            );
            return Err(Finding::new("C2", text));
        }
        if self.missing_fua < self.sent {
            let text = format!(
                "something is left that was sent at {}, but not the FUA write that was answered at {}",
                self.sent, self.missing_fua
            );
            return Err(Finding::new("C2", text));
        }
        if self.proves <= self.misses {
            return Ok(());
        }
        Err(Finding::new(
            "C2",
            format!(
                "data of epoch {} reached the disk although data of epoch {} is missing",
                self.proves, self.misses
            ),
        ))
    }
}

impl Oracle {
    /// Judges one unit after a power cut, by the promises until now.
    pub(crate) fn judge_unit(&self, unit: u32, bytes: &[u8]) -> Result<Epochs, Finding> {
        let first = unit * self.unit_sectors;
        let mut shown = [INITIAL; 8];
        let mut epochs = Epochs::NONE;
        for (index, stamp) in bytes.chunks_exact(GRAIN).enumerate() {
            let sector = first + index as u32;
            shown[index] = decode(stamp, sector)?;
            epochs = epochs.combine(self.judge_sector(sector, shown[index])?);
        }
        self.check_torn(first, &shown[..bytes.len() / GRAIN])?;
        Ok(epochs)
    }

    /// Checks C1 for one sector: no version may be left that a durable change has replaced.
    pub(crate) fn judge_sector(
        &self,
        sector: u32,
        operation: Operation,
    ) -> Result<Epochs, Finding> {
        let versions = &self.sectors[sector as usize];
        // Zeros may belong to several changes: the most favourable one counts.
        let mut kindest: Option<Epochs> = None;
        for version in versions.iter().filter(|version| version.shows(operation)) {
            let Some(epochs) = epochs_of(versions, version) else {
                continue;
            };
            kindest = Some(kindest.map_or(epochs, |other| Epochs {
                proves: other.proves.min(epochs.proves),
                misses: other.misses.max(epochs.misses),
                after: other.after.min(epochs.after),
                missing: other.missing.max(epochs.missing),
                sent: other.sent.min(epochs.sent),
                missing_fua: other.missing_fua.max(epochs.missing_fua),
            }));
        }
        kindest.ok_or_else(|| self.loss_finding(sector, operation))
    }

    fn loss_finding(&self, sector: u32, operation: Operation) -> Finding {
        let versions = &self.sectors[sector as usize];
        let Some(version) = versions.iter().rfind(|version| version.shows(operation)) else {
            return self.unknown_version_finding(sector, operation);
        };
        let durable = versions.iter().rfind(|later| later.durable && later.replaces(version));
        let durable = durable.map_or(operation, |later| later.operation);
        Finding::new(
            "C1",
            format!(
                "sector {sector} holds {} although {} was durable",
                self.name(sector, operation),
                self.name(sector, durable)
            ),
        )
    }

    /// Checks, for `ordered`, that all changes covered by a flush are on the medium.
    pub(crate) fn check_flushed(&self, disk: &State) -> Result<(), Finding> {
        for sector in 0..self.sectors.len() as u32 {
            let durable = decode(disk.sector(sector).1, sector)?;
            let Epochs { missing, missing_fua, .. } = self.judge_sector(sector, durable)?;
            if missing < self.flushed || missing_fua != NEVER {
                let text = format!(
                    "sector {sector} has {} on the medium, although what was completed at {} was \
                     flushed and has had its time",
                    self.name(sector, durable),
                    missing.min(missing_fua)
                );
                return Err(Finding::new("C6", text));
            }
        }
        Ok(())
    }

    /// Checks C4: a change is present in all of a unit that it wrote to, or in none of it.
    fn check_torn(&self, first: u32, shown: &[Operation]) -> Result<(), Finding> {
        if shown.iter().all(|operation| *operation == shown[0]) {
            return Ok(());
        }
        for (sector, &operation) in (first..).zip(shown) {
            if operation == ZERO || operation == INITIAL {
                continue;
            }
            // If it was sent twice, it may be from the first time.
            let mine = self.sectors[sector as usize].iter();
            let sent = mine.filter(|version| version.operation == operation).map(|own| own.sent);
            let Some(sent) = sent.min() else { continue };
            for (other, &theirs) in (first..).zip(shown) {
                if theirs == operation {
                    continue;
                }
                let versions = &self.sectors[other as usize];
                let is_own = |own: &&Version| own.operation == operation && own.sent == sent;
                let own = versions.iter().find(is_own);
                let seen = only_version(versions, theirs).map(|index| versions[index]);
                if let (Some(own), Some(seen)) = (own, seen)
                    && seen.effective < own.sent
                {
                    return Err(Finding::new(
                        "C4",
                        format!(
                            "operation {operation} is torn: it is in sector {sector}, but sector \
                             {other} still holds {}",
                            self.name(other, theirs)
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Judges the data read after a kill, when memory and disk survive: all answered changes are
    /// present.
    pub(crate) fn judge_survived(&self, stamps: &[u8]) -> Result<(), Finding> {
        let mut shown = Vec::with_capacity(stamps.len() / GRAIN);
        for (sector, bytes) in (0..).zip(stamps.chunks_exact(GRAIN)) {
            let operation = decode(bytes, sector)?;
            self.judge_alive(sector, operation)?;
            shown.push(operation);
        }
        self.check_units(0, &shown, "C4")
    }

    fn judge_alive(&self, sector: u32, operation: Operation) -> Result<(), Finding> {
        let versions = &self.sectors[sector as usize];
        let mut named = versions.iter().filter(|version| version.shows(operation)).peekable();
        if named.peek().is_none() {
            return Err(self.unknown_version_finding(sector, operation));
        }
        if named.any(|version| version.dead == NEVER) {
            return Ok(());
        }
        let newest = versions.iter().rfind(|version| version.dead == NEVER);
        let newest = newest.map_or(INITIAL, |version| version.operation);
        Err(Finding::new(
            "C5",
            format!(
                "after a kill sector {sector} holds {}, where {} was answered or read",
                self.name(sector, operation),
                self.name(sector, newest)
            ),
        ))
    }

    /// Judges the data read after a kill that also damaged the memory: it may be old, but never
    /// wrong.
    pub(crate) fn judge_genuine(&self, stamps: &[u8]) -> Result<(), Finding> {
        for (sector, bytes) in (0..).zip(stamps.chunks_exact(GRAIN)) {
            let operation = decode(bytes, sector)?;
            let mut versions = self.sectors[sector as usize].iter();
            if !versions.any(|version| version.shows(operation)) {
                return Err(self.unknown_version_finding(sector, operation));
            }
        }
        Ok(())
    }

    /// Returns the oracle of the run that follows a kill: unanswered requests never will be
    /// answered.
    ///
    /// The next process goes on with the epochs that it finds in memory: what was open is open,
    /// what was closing is before it; their numbers move on by 2^16. What `disk` has durably, or
    /// newer, owes nothing any more. Of the operations in `doubt` it is not known whether the
    /// buffer got them.
    pub(crate) fn after_kill(&self, disk: &State, doubt: &[Operation]) -> Oracle {
        let mut next = self.clone();
        next.padding.clear();
        let now = next.tick();
        for (sector, versions) in (0..).zip(&mut next.sectors) {
            let durable = stamp::decode(disk.sector(sector).1, sector).ok();
            // Of several changes that left zeros, the last serves as well as any.
            let there =
                versions.iter().rfind(|version| durable.is_some_and(|it| version.shows(it)));
            let there = there.copied();
            if !self.has_ordered_throughout() && disk.has_lost(sector) {
                note_lost(versions);
            }
            let late: Vec<Operation> = disk
                .late_stamps(sector)
                .filter_map(|stamp| stamp::decode(&stamp, sector).ok())
                .collect();
            for version in versions {
                // A server may still execute it, before all that is sent later (C15).
                let is_late = late.iter().any(|&late| version.shows(late));
                match is_late && version.answered == NEVER {
                    true => version.refused = version.refused.min(now),
                    false => version.settled = version.settled.min(now),
                }
                if doubt.contains(&version.operation) {
                    version.epoch = 0;
                }
                let owed = there.is_none_or(|there| version.replaces(&there));
                version.epoch = match version.epoch {
                    0 => 0,
                    epoch if owed => (epoch & 0xffff) + (1 << 16),
                    _ => 0,
                };
            }
        }
        next
    }

    /// Returns the oracle of the run that follows a power cut: the remaining versions are the only
    /// ones, and durable.
    pub(crate) fn after_power_cut(&self, stamps: &[u8]) -> Result<Oracle, Finding> {
        let mut next = Oracle::new(self.sectors.len() as u32, self.unit_sectors);
        for (sector, bytes) in (0..).zip(stamps.chunks_exact(GRAIN)) {
            let operation = decode(bytes, sector)?;
            next.sectors[sector as usize] = vec![Version::base(operation)];
        }
        next.clock = self.clock + 1;
        Ok(next)
    }
}

/// Returns the epochs that a remaining version proves; `None`: a durable one has replaced it.
fn epochs_of(versions: &[Version], version: &Version) -> Option<Epochs> {
    let (after, sent) = (version.after, version.sent);
    let mut epochs = Epochs { proves: version.proves(), after, sent, ..Epochs::NONE };
    for later in versions.iter().filter(|later| later.replaces(version)) {
        if later.durable {
            return None;
        }
        if later.epoch > 0 {
            epochs.misses = epochs.misses.min(later.epoch);
        }
        if !later.excused && !later.dropped {
            epochs.missing = epochs.missing.min(later.answered);
            if later.fua {
                epochs.missing_fua = epochs.missing_fua.min(later.answered);
            }
        }
    }
    Some(epochs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{Content, note_excused_lost, release_settled};
    use block::Durability;

    const BUFFERED_EPOCH: u32 = 5;

    fn write_through_version(operation: Operation) -> Version {
        Version { effective: operation, ..Version::new(operation, Content::Stamp, operation) }
    }

    fn buffered_version(operation: Operation) -> Version {
        Version { epoch: BUFFERED_EPOCH, buffered: true, ..write_through_version(operation) }
    }

    /// The epochs after a takeover of changes of one sector, in the order of their operations.
    fn epochs(changes: [Version; 3], in_flush: bool) -> [u32; 3] {
        let mut oracle = Oracle::new(1, 1);
        oracle.sectors[0].extend(changes);
        note_lost(&mut oracle.sectors[0]);
        oracle.is_taken_over(in_flush, false);
        [1, 2, 3].map(|index| oracle.sectors[0][index].epoch)
    }

    #[test]
    fn a_loss_excuses_what_it_had_overtaken_and_nothing_that_was_buffered_later() {
        let changes = [buffered_version(10), write_through_version(20), buffered_version(30)];
        let owed = [BUFFERED_EPOCH, 0, BUFFERED_EPOCH];
        let excused = [0, 0, BUFFERED_EPOCH];
        assert_eq!(epochs(changes, true), excused);
        assert_eq!(epochs(changes, false), owed, "no flush was under way");
        let all_buffered = [buffered_version(10), buffered_version(20), buffered_version(30)];
        assert_eq!(epochs(all_buffered, true), [BUFFERED_EPOCH; 3]);
    }

    #[test]
    fn a_flush_that_fails_in_doubt_excuses_nothing_that_the_disk_has_not_lost() {
        let mut oracle = Oracle::new(2, 1);
        oracle.sectors[0].push(write_through_version(10));
        note_lost(&mut oracle.sectors[0]);
        oracle.sectors[1].push(write_through_version(20));
        oracle.is_taken_over(true, true);
        oracle.record_loss_report();
        assert!(oracle.sectors[0][1].excused && !oracle.sectors[1][1].excused);
        assert!(!oracle.sectors[0][0].excused, "it was durable");
    }

    #[test]
    fn a_server_that_loses_changes_of_a_dead_process_releases_what_they_had_overtaken() {
        let changes = [buffered_version(10), write_through_version(20), buffered_version(30)];
        let epochs_of_process = |is_dead: bool| {
            let mut versions = changes.to_vec();
            if is_dead {
                versions.iter_mut().for_each(|version| version.settled = 40);
            }
            note_lost(&mut versions);
            release_settled(&mut versions);
            versions.iter().map(|version| version.epoch).collect::<Vec<_>>()
        };
        assert_eq!(epochs_of_process(true), [0, 0, BUFFERED_EPOCH]);
        assert_eq!(epochs_of_process(false), [BUFFERED_EPOCH, 0, BUFFERED_EPOCH]);
    }

    #[test]
    fn a_change_that_a_report_excuses_stays_lost_after_a_restart_of_the_server() {
        for has_restarted in [false, true] {
            let mut oracle = Oracle::new(1, 1);
            oracle.has_restarted = has_restarted;
            let reported = Version { lost: true, excused: true, ..write_through_version(10) };
            let unreported = Version { lost: true, ..write_through_version(20) };
            oracle.sectors[0].extend([reported, unreported]);
            oracle.is_taken_over(false, false);
            let is_lost = [1, 2].map(|index| oracle.sectors[0][index].lost);
            assert_eq!(is_lost, [has_restarted, false]);
        }
    }

    #[test]
    fn an_excused_change_that_a_server_loses_takes_with_it_what_it_may_have_overtaken() {
        let acknowledged = Version { answered: 25, effective: 25, ..buffered_version(10) };
        let lost = Version { effective: NEVER, refused: 30, ..write_through_version(20) };
        let later = Version { answered: 45, effective: 45, ..buffered_version(40) };
        let excused = |version: Version| Version { excused: true, ..version };
        let mut versions = [acknowledged, lost, later].map(excused);
        note_excused_lost(&mut versions, 20);
        assert_eq!(versions.map(|version| version.lost), [true, true, false]);
        let mut versions = [acknowledged, lost, later];
        note_excused_lost(&mut versions, 20);
        assert_eq!(versions.map(|version| version.lost), [false; 3], "no report excuses them");
    }

    #[test]
    fn a_change_in_progress_at_a_report_may_have_overtaken_one_that_came_after_the_report() {
        let in_progress =
            Version { effective: NEVER, settled: 50, excused: true, ..write_through_version(20) };
        let beside = Version { answered: 45, effective: 45, ..buffered_version(40) };
        let later = Version { answered: 65, effective: 65, ..buffered_version(60) };
        let mut versions = [in_progress, beside, later];
        note_excused_lost(&mut versions, 20);
        assert_eq!(versions.map(|version| version.lost), [true, true, false]);
    }

    #[test]
    fn older_contents_that_a_read_shows_after_a_loss_do_not_hide_it() {
        let mut oracle = Oracle::new(1, 1);
        oracle.sectors[0].push(Version { seen: 20, ..write_through_version(10) });
        oracle.sectors[0][0].reread = 30;
        assert!(!oracle.has_loose(), "a durable version replaces it");
        oracle.sectors[0][1].lost = true;
        assert!(oracle.has_loose());
    }

    #[test]
    fn an_order_is_promised_throughout_from_the_first_moment_to_the_last() {
        let mut oracle = Oracle::new(1, 1);
        assert!(!oracle.has_ordered_throughout());
        oracle.begin_process(Durability::Ordered);
        assert!(oracle.has_ordered_throughout());
        oracle.promises(Durability::Flush);
        oracle.promises(Durability::Ordered);
        assert!(!oracle.has_ordered_throughout());
    }

    #[test]
    fn a_change_that_a_restart_has_lost_may_be_seen_again_once_it_is_sent_again() {
        let (seen_at, read_at) = (20, 30);
        let mut oracle = Oracle::new(1, 1);
        oracle.has_restarted = true;
        oracle.sectors[0].push(Version { seen: seen_at, lost: true, ..write_through_version(10) });
        oracle.sectors[0][0].reread = read_at;
        assert!(oracle.judge_sector(0, 10).is_err(), "a later read has shown older contents");
        let mut gone = oracle.clone();
        gone.sectors[0][1].settled = seen_at;
        oracle.record_resending(0, 10);
        assert!(oracle.judge_sector(0, 10).is_ok());
        gone.record_resending(0, 10);
        assert!(gone.judge_sector(0, 10).is_err(), "its process had shown it and died");
    }
}
