//! Admission: whether a block is cached, decided in one function over plain data.
//!
//! ```text
//!   a read that misses          shard/read.rs           admitted, or bypasses the cache
//!   a read on advice            shard/read.rs           the same
//!   a fetch ahead of a stream   shard/readahead.rs      not begun, or the first to be evicted
//!   a block of the hot list     tasks/readahead.rs      not begun; takes free slots only
//!   a write-through             shard/write_through.rs  its copy is admitted, or held for recovery
//!   an absorbed write           shard/write.rs          admitted, or the first to be evicted
//!   the rest of a block         shard/rests.rs          fetched with a part, or not
//! ```
//!
//! Each of them fills in a [`Candidate`] and follows the decision. A new rule is a new
//! [`SkipReason`] and one line in [`Candidate::admission`].

use crate::stats::counters::LiveCounters;
use block::WriteMode;

/// The decision about a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It is admitted.
    Keep,
    /// It is not admitted, or is the first to be evicted.
    Skip(SkipReason),
}

/// The reason why a block is not admitted: the first one that applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SkipReason {
    /// It is a write-through without a copy.
    NoCopy,
    /// The backing may replace its data without a change of this process (C15).
    Unsettled,
    /// The guard bypasses the cache (C12).
    Guard,
    /// The guard bypasses the cache even for blocks that are certain to be read.
    GuardAll,
    /// Its stream is too long to be cached, and it would evict another block.
    LongStream,
    /// The policy does not admit it.
    Policy,
    /// The write mode admits nothing.
    Mode,
    /// It was admitted, but every slot is dirty or in use.
    NoSlot,
    /// To fetch the rest of it costs more than it saves.
    Rest,
}

impl SkipReason {
    /// Counts a request, or for [`SkipReason::NoSlot`] a block, that is not admitted for this
    /// reason.
    pub(crate) fn count(self, counters: &LiveCounters) {
        match self {
            SkipReason::Guard | SkipReason::GuardAll => &counters.bypass_guard,
            SkipReason::LongStream => &counters.bypass_sequential,
            SkipReason::Policy => &counters.bypass_not_admitted,
            SkipReason::NoSlot => &counters.bypass_no_slot,
            SkipReason::Mode | SkipReason::NoCopy | SkipReason::Rest | SkipReason::Unsettled => {
                return;
            }
        }
        .add(1);
    }
}

/// The rules of the guard and the write mode, which hold for all blocks, and that of the backing,
/// which holds for those of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub(crate) write: WriteMode,
    /// The guard bypasses the cache for reads.
    pub(crate) bypasses_reads: bool,
    /// The guard bypasses the cache for blocks that are certain to be read.
    pub(crate) bypasses_sure: bool,
    /// Data that is read must not be kept (`block::Block::may_keep`).
    pub(crate) is_unsettled: bool,
}

impl Rules {
    /// No bypass.
    pub(crate) const KEEP: Rules = Rules {
        write: WriteMode::Back,
        bypasses_reads: false,
        bypasses_sure: false,
        is_unsettled: false,
    };
}

/// Origin of a block that may be admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A read has missed it.
    Read,
    /// It is being fetched on a client's advice.
    Advised,
    /// It is fetched ahead of a stream, or may be fetched on advice.
    Ahead,
    /// The list of hot blocks names it.
    Listed,
    /// It was written through.
    WriteThrough {
        /// Whether the write-through makes a copy: it is small, and a copy is useful.
        copies: bool,
    },
    /// It is in the write buffer.
    Absorbed,
    /// A part of it is admitted after a miss, and the rest may be fetched as well.
    Rest {
        /// Whether that saves more than it costs.
        pays: bool,
    },
}

/// The properties of a block, or of all blocks of a request, that decide its admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) rules: Rules,
    pub(crate) origin: Origin,
    /// It belongs to a stream that is too long to be cached.
    pub(crate) is_long_stream: bool,
    /// Free slots: a block that takes one evicts no other.
    pub(crate) free: u32,
    /// It is already cached, and stays cached.
    pub(crate) is_kept: bool,
    /// The policy's verdict.
    pub(crate) is_wanted: bool,
}

impl Candidate {
    /// A block without any other known property.
    pub(crate) fn new(rules: Rules, origin: Origin) -> Candidate {
        let (is_long_stream, is_kept, is_wanted) = (false, false, true);
        Candidate { rules, origin, is_long_stream, free: 0, is_kept, is_wanted }
    }

    /// Whether its stream alone forbids that it evicts another block. Such blocks are not reported
    /// to the policy either.
    #[inline]
    pub(crate) fn would_pollute(&self) -> bool {
        self.is_long_stream && self.free == 0 && !self.is_kept
    }

    /// Returns the reason if the guard bypasses the cache for it.
    fn is_bypassed(&self) -> Option<SkipReason> {
        let Rules { bypasses_reads, bypasses_sure, .. } = self.rules;
        let reason = match bypasses_sure {
            true => SkipReason::GuardAll,
            false => SkipReason::Guard,
        };
        let is_bypassed = match self.origin {
            Origin::Read | Origin::Listed | Origin::Rest { .. } | Origin::WriteThrough { .. } => {
                bypasses_reads
            }
            // It is certain to be read, so the bypass of reads alone does not apply to it.
            Origin::Advised => bypasses_reads && bypasses_sure,
            Origin::Ahead => bypasses_sure,
            Origin::Absorbed => false,
        };
        is_bypassed.then_some(reason)
    }

    /// Decides whether it is admitted.
    #[inline]
    pub(crate) fn admission(&self) -> Admission {
        let keeps_none = self.rules.write == WriteMode::None;
        if self.origin == (Origin::WriteThrough { copies: false }) {
            return Admission::Skip(SkipReason::NoCopy);
        }
        if self.rules.is_unsettled {
            return Admission::Skip(SkipReason::Unsettled);
        }
        // Where the mode admits nothing, a bypass saves nothing.
        if let Some(reason) = self.is_bypassed().filter(|_| !keeps_none) {
            return Admission::Skip(reason);
        }
        if self.would_pollute() {
            return Admission::Skip(SkipReason::LongStream);
        }
        if !self.is_wanted {
            return Admission::Skip(SkipReason::Policy);
        }
        if keeps_none {
            return Admission::Skip(SkipReason::Mode);
        }
        if self.origin == (Origin::Rest { pays: false }) {
            return Admission::Skip(SkipReason::Rest);
        }
        Admission::Keep
    }

    /// Whether it is admitted.
    #[inline]
    pub(crate) fn is_admitted(&self) -> bool {
        self.admission() == Admission::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WriteMode::{Back, BackNow, None as Nothing, Through};
    use alloc::string::String;
    use alloc::vec::Vec;

    const BOTH: [bool; 2] = [false, true];
    const READ: Origin = Origin::Read;
    const COPY: Origin = Origin::WriteThrough { copies: true };
    const NO_COPY: Origin = Origin::WriteThrough { copies: false };

    /// For each origin and each setting of the guard (bypasses neither, reads, blocks certain to be
    /// read, both): the decision about a block that the policy admits, about one that it does not
    /// admit, and about the same two in a stream that is too long. K: admitted; otherwise the
    /// reason's letter.
    const TABLE: [(Origin, [&str; 4]); 9] = [
        (READ, ["KPLL", "GGGG", "KPLL", "AAAA"]),
        (Origin::Advised, ["KPLL", "KPLL", "KPLL", "AAAA"]),
        (Origin::Ahead, ["KPLL", "KPLL", "AAAA", "AAAA"]),
        (Origin::Listed, ["KPLL", "GGGG", "KPLL", "AAAA"]),
        (COPY, ["KPLL", "GGGG", "KPLL", "AAAA"]),
        (NO_COPY, ["NNNN", "NNNN", "NNNN", "NNNN"]),
        (Origin::Absorbed, ["KPLL", "KPLL", "KPLL", "KPLL"]),
        (Origin::Rest { pays: true }, ["KPLL", "GGGG", "KPLL", "AAAA"]),
        (Origin::Rest { pays: false }, ["RPLL", "GGGG", "RPLL", "AAAA"]),
    ];

    fn letter(admission: Admission) -> char {
        match admission {
            Admission::Keep => 'K',
            Admission::Skip(SkipReason::NoCopy) => 'N',
            Admission::Skip(SkipReason::Unsettled) => 'U',
            Admission::Skip(SkipReason::Guard) => 'G',
            Admission::Skip(SkipReason::GuardAll) => 'A',
            Admission::Skip(SkipReason::LongStream) => 'L',
            Admission::Skip(SkipReason::Policy) => 'P',
            Admission::Skip(SkipReason::Mode) => 'M',
            Admission::Skip(SkipReason::NoSlot) => 'S',
            Admission::Skip(SkipReason::Rest) => 'R',
        }
    }

    /// Returns the decisions about every candidate of an origin under one setting of the guard and
    /// the mode, in the order of a row of the table: with each combination that makes a stream too
    /// long, and each that does not.
    fn row(rules: Rules, origin: Origin) -> String {
        let mut row = String::new();
        for (pollutes, is_wanted) in [(false, true), (false, false), (true, true), (true, false)] {
            let mut seen = Vec::new();
            for is_long_stream in BOTH {
                for (free, is_kept) in [(0, false), (0, true), (7, false), (7, true)] {
                    let all = Candidate { is_long_stream, free, is_kept, is_wanted, rules, origin };
                    if all.would_pollute() == pollutes {
                        seen.push(letter(all.admission()));
                    }
                }
            }
            assert_eq!(seen.len(), if pollutes { 1 } else { 7 });
            assert!(seen.iter().all(|one| *one == seen[0]), "{origin:?}: {seen:?}");
            row.push(seen[0]);
        }
        row
    }

    #[test]
    fn every_combination_has_one_answer_and_one_reason() {
        for (origin, expected) in TABLE {
            for (number, expected) in expected.into_iter().enumerate() {
                let (bypasses_reads, bypasses_sure) = (number & 1 != 0, number & 2 != 0);
                for write in [Back, BackNow, Through, Nothing] {
                    let rules = Rules { write, bypasses_reads, bypasses_sure, is_unsettled: false };
                    let expected = match (write, origin) {
                        (Nothing, NO_COPY) => "NNNN",
                        (Nothing, _) => "MPLL",
                        _ => expected,
                    };
                    assert_eq!(row(rules, origin), expected, "{origin:?} under {rules:?}");
                }
            }
        }
    }

    #[test]
    fn unsettled_data_is_never_admitted() {
        for (origin, _) in TABLE.iter().filter(|(origin, _)| *origin != NO_COPY) {
            let rules = Rules { is_unsettled: true, ..Rules::KEEP };
            assert_eq!(row(rules, *origin), "UUUU", "{origin:?}");
        }
    }

    #[test]
    fn each_reason_has_its_counter() {
        let counted = |reason: SkipReason| {
            let live = LiveCounters::default();
            reason.count(&live);
            let counters = live.snapshot();
            let of_policy = [counters.bypass_not_admitted, counters.bypass_no_slot];
            [counters.bypass_guard, counters.bypass_sequential, of_policy[0], of_policy[1]]
        };
        assert_eq!(counted(SkipReason::Guard), [1, 0, 0, 0]);
        assert_eq!(counted(SkipReason::GuardAll), [1, 0, 0, 0]);
        assert_eq!(counted(SkipReason::LongStream), [0, 1, 0, 0]);
        assert_eq!(counted(SkipReason::Policy), [0, 0, 1, 0]);
        assert_eq!(counted(SkipReason::NoSlot), [0, 0, 0, 1]);
        assert_eq!(counted(SkipReason::Mode), [0; 4]);
        assert_eq!(counted(SkipReason::NoCopy), [0; 4]);
        assert_eq!(counted(SkipReason::Unsettled), [0; 4]);
        assert_eq!(counted(SkipReason::Rest), [0; 4]);
    }
}
