//! An event: one request, when it came, how long it took and how it ended.

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reading.
    Read,
    /// Writing.
    Write {
        /// Durable when answered.
        fua: bool,
    },
    /// Making durable what was answered before.
    Flush,
    /// Giving contents up.
    Discard,
    /// Storing zeros.
    Zero {
        /// Durable when answered.
        fua: bool,
        /// Space behind it may be given up.
        may_unmap: bool,
    },
    /// Saying what will be read soon.
    Advise,
}

/// A request as it was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When it came, in nanoseconds since some start.
    pub time_ns: u64,
    /// From then until it was answered, in nanoseconds; None: it was not recorded.
    pub took_ns: Option<u64>,
    /// What was asked for.
    pub operation: Operation,
    /// Which device of the recording, by a number of its own.
    pub device: u32,
    /// The first sector of 512 bytes; 0 for a flush.
    pub first: u64,
    /// How many sectors; 0 for a flush, and for nothing else.
    pub sectors: u32,
    /// None: it was served. Otherwise the errno of its failure, 0 where the system has named none.
    pub failed: Option<i32>,
}

/// The 64-bit words that an event takes.
pub const WORDS: usize = 5;

const FUA: u64 = 1 << 8;
const MAY_UNMAP: u64 = 1 << 9;
const FAILED: u64 = 1 << 10;
const ERRNO_SHIFT: u32 = 32;
/// A `took_ns` that was not recorded.
const UNKNOWN: u64 = u64::MAX;

impl Event {
    /// Whether it is a read.
    pub fn is_read(&self) -> bool {
        self.operation == Operation::Read
    }

    /// Whether its extent is one: a flush has none, and nothing reaches beyond the last sector that there can be.
    pub fn is_sound(&self) -> bool {
        match self.operation {
            Operation::Flush => (self.first, self.sectors) == (0, 0),
            _ => self.sectors > 0 && self.first.checked_add(self.sectors.into()).is_some(),
        }
    }

    /// The event as words: a recording's lines, and what a recorder may keep in atomic words.
    ///
    /// ```text
    ///   0  time_ns
    ///   1  took_ns                all ones: unknown
    ///   2  first sector
    ///   3  sectors                low 32 bits; device: high 32 bits
    ///   4  operation              low 8 bits; then FUA, may unmap, failed; errno: high 32 bits
    /// ```
    pub fn to_words(&self) -> [u64; WORDS] {
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        let operation = match self.operation {
            Operation::Read => 0,
            Operation::Write { fua } => 1 | flag(fua, FUA),
            Operation::Flush => 2,
            Operation::Discard => 3,
            Operation::Zero { fua, may_unmap } => 4 | flag(fua, FUA) | flag(may_unmap, MAY_UNMAP),
            Operation::Advise => 5,
        };
        let failed = match self.failed {
            Some(errno) => FAILED | u64::from(errno.cast_unsigned()) << ERRNO_SHIFT,
            None => 0,
        };
        let took = self.took_ns.map_or(UNKNOWN, |ns| ns.min(UNKNOWN - 1));
        let sectors = u64::from(self.sectors) | u64::from(self.device) << 32;
        [self.time_ns, took, self.first, sectors, operation | failed]
    }

    /// What [`Event::to_words`] has written; None: these words are no event.
    pub fn from_words(words: [u64; WORDS]) -> Option<Event> {
        let [time_ns, took, first, sectors, what] = words;
        let (fua, may_unmap) = (what & FUA != 0, what & MAY_UNMAP != 0);
        let operation = match what & 0xff {
            0 => Operation::Read,
            1 => Operation::Write { fua },
            2 => Operation::Flush,
            3 => Operation::Discard,
            4 => Operation::Zero { fua, may_unmap },
            5 => Operation::Advise,
            _ => return None,
        };
        let errno = ((what >> ERRNO_SHIFT) as u32).cast_signed();
        let event = Event {
            time_ns,
            took_ns: (took != UNKNOWN).then_some(took),
            operation,
            device: (sectors >> 32) as u32,
            first,
            sectors: sectors as u32,
            failed: (what & FAILED != 0).then_some(errno),
        };
        // One event has one spelling: a bit that says nothing is not accepted.
        (event.is_sound() && event.to_words() == words).then_some(event)
    }
}
