//! An access: one request of a trace, in bytes.

use crate::event::Operation;

/// Direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// Neither: a flush, a discard, zeros, advice, and other operations of a format.
    Other,
}

/// A request as read from a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Time of its arrival, in nanoseconds since some start; 0 if the format has no times.
    pub time_ns: u64,
    /// Index of its device in [`Devices`](crate::Devices).
    pub device: u32,
    /// Direction of the data.
    pub direction: Direction,
    /// Its first byte.
    pub first_byte: u64,
    /// Number of bytes; 0 covers nothing.
    pub bytes: u64,
    /// Facts that only some formats have.
    pub details: Details,
}

/// Facts about a request that only some formats have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Details {
    /// The operation, if the format distinguishes more than directions.
    pub operation: Option<Operation>,
    /// Time from the arrival until it was answered, in nanoseconds.
    pub took_ns: Option<u64>,
    /// Time from the arrival until it was sent to the device, in nanoseconds.
    pub sent_ns: Option<u64>,
    /// Index of its process in [`Processes`](crate::Processes).
    pub process: Option<u32>,
    /// Marks of the request.
    pub marks: Marks,
}

/// Marks of a request, as the kernel of a recorded device sets them. Bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Marks(pub u32);

impl Marks {
    /// A process waits for it.
    pub const SYNC: u32 = 1;
    /// It belongs to a file system's metadata.
    pub const META: u32 = 1 << 1;
    /// It reads ahead.
    pub const AHEAD: u32 = 1 << 2;
    /// The device is flushed before it.
    pub const PREFLUSH: u32 = 1 << 3;
    /// All known bits.
    pub(crate) const ALL: u32 = (1 << 4) - 1;
}

impl Access {
    /// Returns the operation. None: the format only shows that it is neither a read nor a write.
    pub fn operation(&self) -> Option<Operation> {
        self.details.operation.or(match self.direction {
            Direction::Read => Some(Operation::Read),
            Direction::Write => Some(Operation::Write { fua: false }),
            Direction::Other => None,
        })
    }

    /// Returns the access with this operation.
    pub(crate) fn of(mut self, operation: Operation) -> Access {
        self.details.operation = Some(operation);
        self
    }

    /// Returns the access with the time until its answer.
    pub(crate) fn took(mut self, ns: Option<u64>) -> Access {
        self.details.took_ns = ns;
        self
    }
}

/// Maximum length of a read or write: 1 GiB. A longer one is a sign of damage, and would count as
/// hundreds of thousands of blocks.
pub const BYTES_MAX: u64 = 1 << 30;
/// Maximum end of a request: 1 EiB.
pub const END_MAX: u64 = 1 << 60;
/// The sector size of the formats that count in sectors.
const SECTOR_BYTES: u64 = 512;

/// The extent of a request, before its time and device are known.
pub(crate) struct Extent {
    first_byte: u64,
    bytes: u64,
}

impl Extent {
    /// Returns an extent in bytes.
    pub(crate) fn of_bytes(first_byte: u64, bytes: u64) -> Result<Extent, &'static str> {
        let end = first_byte.checked_add(bytes).filter(|end| *end <= END_MAX);
        end.map(|_| Extent { first_byte, bytes }).ok_or("the request reaches beyond 1 EiB")
    }

    /// Returns an extent that begins at a sector.
    pub(crate) fn of_sector(sector: u64, bytes: u64) -> Result<Extent, &'static str> {
        let first_byte =
            sector.checked_mul(SECTOR_BYTES).ok_or("the request reaches beyond 1 EiB")?;
        Extent::of_bytes(first_byte, bytes)
    }

    /// Returns an extent in sectors.
    pub(crate) fn of_sectors(sector: u64, sectors: u64) -> Result<Extent, &'static str> {
        Extent::of_blocks(sector, sectors, SECTOR_BYTES)
    }

    /// Returns an extent in blocks of this size.
    pub(crate) fn of_blocks(
        first: u64,
        blocks: u64,
        block_bytes: u64,
    ) -> Result<Extent, &'static str> {
        let bytes =
            |blocks: u64| blocks.checked_mul(block_bytes).ok_or("the request reaches beyond 1 EiB");
        Extent::of_bytes(bytes(first)?, bytes(blocks)?)
    }

    /// Returns the access to it.
    ///
    /// # Errors
    /// It is longer than a read or write can be.
    pub(crate) fn access(
        self,
        time_ns: u64,
        device: u32,
        direction: Direction,
    ) -> Result<Access, &'static str> {
        let Extent { first_byte, bytes } = self;
        if direction != Direction::Other && bytes > BYTES_MAX {
            return Err("the request is longer than 1 GiB");
        }
        let details = Details::default();
        Ok(Access { time_ns, device, direction, first_byte, bytes, details })
    }
}
