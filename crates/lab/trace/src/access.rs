//! An access: one request of a trace, in bytes.

/// Which way the data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
    /// Neither: a flush, a discard, zeros, advice, and what a format has beside reads and writes.
    Other,
}

/// A request as a reader found it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// When it came, in nanoseconds since some start; 0 where the format has no times.
    pub time_ns: u64,
    /// Which device: its place in [`Devices`](crate::Devices).
    pub device: u32,
    /// Which way the data goes.
    pub direction: Direction,
    /// Its first byte.
    pub first_byte: u64,
    /// How many bytes; 0 covers nothing.
    pub bytes: u64,
}

/// The longest read or write that is taken for one: 1 GiB. A longer one is what damage looks like, and would be
/// worth hundreds of thousands of blocks.
pub const BYTES_MAX: u64 = 1 << 30;
/// Where every request ends at the latest: 1 EiB.
pub const END_MAX: u64 = 1 << 60;
/// The sectors of the formats that count in them.
const SECTOR_BYTES: u64 = 512;

/// A request before it has a time and a device.
pub(crate) struct Extent {
    first_byte: u64,
    bytes: u64,
}

impl Extent {
    /// An extent in bytes.
    pub(crate) fn of_bytes(first_byte: u64, bytes: u64) -> Result<Extent, &'static str> {
        let end = first_byte.checked_add(bytes).filter(|end| *end <= END_MAX);
        end.map(|_| Extent { first_byte, bytes }).ok_or("it reaches beyond 1 EiB")
    }

    /// An extent that begins at a sector.
    pub(crate) fn of_sector(sector: u64, bytes: u64) -> Result<Extent, &'static str> {
        let first_byte = sector.checked_mul(SECTOR_BYTES).ok_or("it reaches beyond 1 EiB")?;
        Extent::of_bytes(first_byte, bytes)
    }

    /// An extent in sectors.
    pub(crate) fn of_sectors(sector: u64, sectors: u64) -> Result<Extent, &'static str> {
        let bytes = sectors.checked_mul(SECTOR_BYTES).ok_or("it reaches beyond 1 EiB")?;
        Extent::of_sector(sector, bytes)
    }

    /// The access to it.
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
            return Err("it is longer than 1 GiB");
        }
        Ok(Access { time_ns, device, direction, first_byte, bytes })
    }
}
