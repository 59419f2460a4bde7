//! An event: one request, with its time, duration and result.

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A read.
    Read,
    /// A write.
    Write {
        /// Durable when answered.
        fua: bool,
    },
    /// Makes earlier answered writes durable.
    Flush,
    /// Discards contents.
    Discard,
    /// Writes zeros.
    Zero {
        /// Durable when answered.
        fua: bool,
        /// The device may release the space.
        may_unmap: bool,
    },
    /// Announces future reads.
    Advise,
}

/// A request as it was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time of its arrival, in nanoseconds since some start.
    pub time_ns: u64,
    /// Time from then until it was answered, in nanoseconds. None: not recorded.
    pub took_ns: Option<u64>,
    /// The operation.
    pub operation: Operation,
    /// The device of the recording, by its number there.
    pub device: u32,
    /// The first sector of 512 bytes; 0 for a flush.
    pub first: u64,
    /// Number of sectors; 0 only for a flush.
    pub sectors: u32,
    /// None: it succeeded. Otherwise the errno of its failure, or 0 if there was none.
    pub failed: Option<i32>,
}

/// Number of 64-bit words of an event.
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

    /// Whether its extent is valid: a flush has none, and no extent ends beyond the last possible
    /// sector.
    pub fn is_sound(&self) -> bool {
        match self.operation {
            Operation::Flush => (self.first, self.sectors) == (0, 0),
            _ => self.sectors > 0 && self.first.checked_add(self.sectors.into()).is_some(),
        }
    }

    /// Returns the event as words: for a recording, and for a recorder that stores them in atomic
    /// words.
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

    /// Reads the words of [`Event::to_words`]. None: these words are not an event.
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
        // Each event has one encoding: unused bits must be zero.
        (event.is_sound() && event.to_words() == words).then_some(event)
    }
}
