//! Striping, as RAID-0 does it: to compare pools with.
//!
//! Chunk `c` lies on member `c mod n`, as its chunk `c / n`. There is nothing to write down and nothing
//! to decide: what a member gets follows from the addresses alone, however slow or worn it is. It is
//! as large as its smallest member allows, and without any one of them all is lost. The members and
//! their order are not written anywhere either: in another order it shows other contents.

use crate::joined::Joined;
use crate::layout::MEMBERS_MAX;
use alloc::vec::Vec;
use block::{Block, Discard, Error, Extent, Fua, Kind, Limits, Request, Result, SECTOR, Stack};

/// Chunks of a read or write that are under way together.
const PIECES: usize = 32;

/// Devices side by side.
pub struct Stripe {
    members: Vec<Stack>,
    chunk_sectors: u64,
    limits: Limits,
}

impl Stripe {
    /// Stripes of `chunk_bytes` a member.
    ///
    /// # Errors
    /// A sentence: too few or too many members, a chunk that does not do, members that are unlike.
    pub fn attach(
        members: Vec<Stack>,
        chunk_bytes: u32,
    ) -> core::result::Result<Stripe, &'static str> {
        let each: Vec<Limits> = members.iter().map(|member| member.limits().clone()).collect();
        let limits = stripe_limits(&each, chunk_bytes)?;
        Ok(Stripe { members, chunk_sectors: u64::from(chunk_bytes) / SECTOR, limits })
    }

    /// The first chunk of an extent: the member, where on it, and how many sectors.
    fn first_chunk(&self, at: Extent) -> (usize, Extent) {
        let (chunk, inside) = (at.first / self.chunk_sectors, at.first % self.chunk_sectors);
        let count = (self.chunk_sectors - inside).min(u64::from(at.count)) as u32;
        let members = self.members.len() as u64;
        let first = chunk / members * self.chunk_sectors + inside;
        ((chunk % members) as usize, Extent::new(first, count))
    }

    /// The part of a member that belongs to `at`: chunks of one member that follow on each other do
    /// so on the member, too.
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

    /// Reads or writes chunk by chunk; `piece` makes the request of one.
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

    /// Sends every member its share; `share` makes the request.
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

/// What a stripe over members of these limits can do.
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
            // Some members could do it and others not: what then reads as zeros would be a puzzle.
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
