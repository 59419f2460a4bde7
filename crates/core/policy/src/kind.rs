//! The policies by name.

/// A policy. The file that implements it describes its rules and parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Least recently used: evicts the slot that was not read for longest (R. L. Mattson et al.,
    /// "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970).
    Lru,
    /// Evicts the slot that was admitted first (L. A. Belady, "A study of replacement algorithms
    /// for a virtual-storage computer", IBM Systems Journal 5(2), 1966).
    Fifo,
    /// Second chance: evicts the first slot that was not read since the hand passed it (F. J.
    /// Corbato, "A Paging Experiment with the Multics System", MIT Project MAC, 1968).
    Clock,
    /// 2Q, the full version with 25 % `A1in` and 50 % `A1out` (T. Johnson and D. Shasha, "2Q: A Low
    /// Overhead High Performance Buffer Management Replacement Algorithm", VLDB 1994).
    TwoQ,
    /// ARC (N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST
    /// 2003).
    Arc,
    /// LIRS with 1 % of the slots for HIR blocks (S. Jiang and X. Zhang, "LIRS: An Efficient Low
    /// Inter-reference Recency Set Replacement Policy to Improve Buffer Cache Performance",
    /// SIGMETRICS 2002).
    Lirs,
    /// S3-FIFO with a small queue of 10 % (J. Yang et al., "FIFO Queues are All You Need for Cache
    /// Eviction", SOSP 2023).
    S3Fifo,
    /// SIEVE: evicts the oldest slot that was not read since a hand last passed it (Y. Zhang et
    /// al., "SIEVE is Simpler than LRU", NSDI 2024).
    Sieve,
    /// W-TinyLFU with a window of 1 % (G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly
    /// Efficient Cache Admission Policy", ACM Transactions on Storage 13(4), 2017).
    WTinyLfu,
    /// W-TinyLFU with a window of 10 %.
    WTinyLfu10,
    /// A window before a CLOCK, whose share is chosen while the cache works: the project's own
    /// policy (`window.rs`, `arbiter.rs`).
    Adaptive,
}

impl Kind {
    /// All policies, in display order.
    pub const ALL: [Kind; 11] = [
        Kind::Lru,
        Kind::Fifo,
        Kind::Clock,
        Kind::TwoQ,
        Kind::Arc,
        Kind::Lirs,
        Kind::S3Fifo,
        Kind::Sieve,
        Kind::WTinyLfu,
        Kind::WTinyLfu10,
        Kind::Adaptive,
    ];

    /// The name that users give and see: lower case, with hyphens.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Lru => "lru",
            Kind::Fifo => "fifo",
            Kind::Clock => "clock",
            Kind::TwoQ => "2q",
            Kind::Arc => "arc",
            Kind::Lirs => "lirs",
            Kind::S3Fifo => "s3-fifo",
            Kind::Sieve => "sieve",
            Kind::WTinyLfu => "w-tinylfu",
            Kind::WTinyLfu10 => "w-tinylfu-10",
            Kind::Adaptive => "adaptive",
        }
    }

    /// Returns the policy with this name, exactly as [`Kind::name`] returns it.
    pub fn by_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Names of the lists of clean slots, in the order of [`Policy::lists`](crate::Policy::lists).
    /// Empty if the policy does not work on slots.
    pub const fn queues(self) -> &'static [&'static str] {
        match self {
            Kind::Lru | Kind::Fifo | Kind::Clock | Kind::Sieve => &["all"],
            Kind::TwoQ => &["in", "main"],
            Kind::S3Fifo => &["small", "main"],
            Kind::WTinyLfu | Kind::WTinyLfu10 => &["window", "probation", "protected"],
            Kind::Adaptive => &["window-young", "window-old", "main"],
            Kind::Arc | Kind::Lirs => &[],
        }
    }

    /// Whether a cache can be served with this policy: it works on slots, and needs so little
    /// memory that a slot has at most 32 bytes of metadata (29.6 without the policy). FIFO and LRU
    /// need none, CLOCK and SIEVE one bit, W-TinyLFU 2.25 bytes, the project's own policy 2.3 (half
    /// a byte of state, and 1.8 of ghosts). The ghosts of 2Q would need 17 bytes per slot, those of
    /// S3-FIFO 30, and ARC and LIRS need even more.
    pub const fn is_served(self) -> bool {
        match self {
            Kind::Lru | Kind::Fifo | Kind::Clock => true,
            Kind::Sieve | Kind::WTinyLfu | Kind::WTinyLfu10 | Kind::Adaptive => true,
            Kind::TwoQ | Kind::S3Fifo | Kind::Arc | Kind::Lirs => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_only() {
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{kind:?} stands where it is declared");
            assert_eq!(Kind::by_name(kind.name()), Some(kind));
        }
        assert_eq!(Kind::by_name("LRU"), None);
        assert_eq!(Kind::by_name(""), None);
    }
}
