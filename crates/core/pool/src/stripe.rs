//! Striping as in RAID-0, for comparison with pools.
//!
//! Chunk `c` is on member `c mod n`, as its chunk `c / n`. There is no metadata and no decision:
//! addresses alone determine the member, however slow or worn it is. The smallest member limits the
//! size, and the loss of any member loses everything. The members and their order are not recorded
//! either: in another order a stripe shows other contents.

use crate::joined::Joined;
use crate::layout::MEMBERS_MAX;
use alloc::vec::Vec;
use block::{Block, Discard, Error, Extent, Fua, Kind, Limits, Request, Result, SECTOR, Stack};

/// Maximum number of chunks of a read or write in flight.
const PIECES: usize = 32;

/// Striped devices.
pub struct Stripe {
    members: Vec<Stack>,
    chunk_sectors: u64,
    limits: Limits,
}

impl Stripe {
    /// Creates a stripe with chunks of `chunk_bytes` bytes.
    ///
    /// # Errors
    /// A sentence: there are too few or too many members, the chunk size is unsuitable, or the
    /// members differ.
    pub fn attach(
        members: Vec<Stack>,
        chunk_bytes: u32,
    ) -> core::result::Result<Stripe, &'static str> {
        let each: Vec<Limits> = members.iter().map(|member| member.limits().clone()).collect();
        let limits = stripe_limits(&each, chunk_bytes)?;
        Ok(Stripe { members, chunk_sectors: u64::from(chunk_bytes) / SECTOR, limits })
    }

    /// Returns the first chunk of an extent: its member, and its extent on the member.
    fn first_chunk(&self, at: Extent) -> (usize, Extent) {
        let (chunk, inside) = (at.first / self.chunk_sectors, at.first % self.chunk_sectors);
        let count = (self.chunk_sectors - inside).min(u64::from(at.count)) as u32;
        let members = self.members.len() as u64;
        let first = chunk / members * self.chunk_sectors + inside;
        ((chunk % members) as usize, Extent::new(first, count))
    }

    /// Returns the part of a member that belongs to `at`: consecutive chunks of one member are
    /// adjacent on it.
    fn share(&self, member: usize, at: Extent) -> Option<Extent> {
        let members = self.members.len() as u64;
        let before = |sector: u64| {
            let (chunk, inside) = (sector / self.chunk_sectors, sector % self.chunk_sectors);
            let (row, column) = (chunk / members, chunk % members);
            let partly = match column.cmp(&(member as u64)) {
                core::cmp::Ordering::Less => 0,
                core::cmp::Ordering::Equal => inside,
                core::cmp::Ordering::Greater => self.chunk_sectors,
            };
            row * self.chunk_sectors + partly
        };
        let (first, end) = (before(at.first), before(at.end()));
        (first < end).then(|| Extent::new(first, (end - first) as u32))
    }

    /// Reads or writes chunk by chunk; `piece` creates the request of a chunk.
    async fn by_chunks(&self, at: Extent, piece: impl Fn(u32, Extent) -> Request) -> Result {
        let mut done = 0;
        while done < at.count {
            let mut joined = Joined::<PIECES>::new();
            for index in 0..PIECES {
                if done == at.count {
                    break;
                }
                let rest = Extent::new(at.first + u64::from(done), at.count - done);
                let (member, there) = self.first_chunk(rest);
                joined.add(index, self.members[member].run(piece(done, there)));
                done += there.count;
            }
            failed(joined.await)?;
        }
        Ok(())
    }

    /// Sends every member its share; `share` creates the request.
    async fn by_members(&self, share: impl Fn(usize) -> Option<Request>) -> Result {
        let mut joined = Joined::<MEMBERS_MAX>::new();
        for (number, member) in self.members.iter().enumerate() {
            if let Some(request) = share(number) {
                joined.add(number, member.run(request));
            }
        }
        failed(joined.await)
    }
}

fn failed(bits: u32) -> Result {
    match bits {
        0 => Ok(()),
        _ => Err(Error::new(Kind::Io, "use a member of the stripe")),
    }
}

/// Returns the limits of a stripe over members with these limits.
///
/// # Errors
/// See [`Stripe::attach`].
pub fn stripe_limits(
    members: &[Limits],
    chunk_bytes: u32,
) -> core::result::Result<Limits, &'static str> {
    if members.len() < 2 || members.len() > MEMBERS_MAX {
        return Err("a stripe has 2 to 16 members");
    }
    if !chunk_bytes.is_power_of_two() || !(4096..=16 << 20).contains(&chunk_bytes) {
        return Err("a chunk is a power of two from 4 KiB to 16 MiB");
    }
    let all = |is: fn(&Limits) -> bool| members.iter().all(is);
    let any = |is: fn(&Limits) -> bool| members.iter().any(is);
    let most = |of: fn(&Limits) -> u32| members.iter().map(of).max().unwrap_or(0);
    let least = members.iter().map(|limits| limits.sectors).min().unwrap_or(0);
    let chunks = least / (u64::from(chunk_bytes) / SECTOR);
    if chunks == 0 || most(|limits| limits.block_logical_bytes) > chunk_bytes {
        return Err("a member of the stripe is smaller than a chunk");
    }
    if any(|limits| limits.io_max_bytes < 4096)
        || members.iter().any(|limits| limits.grain != members[0].grain)
    {
        return Err("the members of the stripe are unlike each other");
    }
    let io_max = members.iter().map(|limits| limits.io_max_bytes).min().unwrap_or(0);
    Ok(Limits {
        sectors: chunks * (u64::from(chunk_bytes) / SECTOR) * members.len() as u64,
        block_logical_bytes: most(|limits| limits.block_logical_bytes),
        block_physical_bytes: most(|limits| limits.block_physical_bytes).min(chunk_bytes),
        io_best_bytes: chunk_bytes.max(most(|limits| limits.io_best_bytes)),
        io_max_bytes: io_max,
        flush_needed: any(|limits| limits.flush_needed),
        loses_with_connection: any(|limits| limits.loses_with_connection),
        fua: match () {
            () if all(|limits| limits.fua == Fua::Native) => Fua::Native,
            () if any(|limits| limits.fua == Fua::None) => Fua::None,
            () => Fua::Emulated,
        },
        discard: match all(|limits| limits.discard == Discard::Zeroes) {
            true => Discard::Zeroes,
            false => Discard::Ignored,
        },
        zero_fast: all(|limits| limits.zero_fast),
        rotational: any(|limits| limits.rotational),
        read_only: any(|limits| limits.read_only),
        unaligned: false,
        grain: members[0].grain,
    })
}

impl Block for Stripe {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        match request {
            Request::Read { at, into } => {
                let piece =
                    |done, at: Extent| Request::Read { at, into: into.part(done, at.count) };
                self.by_chunks(at, piece).await
            }
            Request::Write { at, from, fua } => {
                let piece = |done, at: Extent| {
                    let from = from.part(done, at.count);
                    Request::Write { at, from, fua }
                };
                self.by_chunks(at, piece).await
            }
            Request::Flush => self.by_members(|_| Some(Request::Flush)).await,
            // If only some members support it, the range would partly read as zeros.
            Request::Discard { .. } if self.limits.discard == Discard::Ignored => Ok(()),
            Request::Advise { .. } => Ok(()),
            Request::Discard { at } => {
                let share = |member| Some(Request::Discard { at: self.share(member, at)? });
                self.by_members(share).await
            }
            Request::Zero { at, fua, may_unmap } => {
                let share =
                    |member| Some(Request::Zero { at: self.share(member, at)?, fua, may_unmap });
                self.by_members(share).await
            }
        }
    }
}
