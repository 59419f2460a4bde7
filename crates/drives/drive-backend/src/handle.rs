//! One lane's handle on a modelled drive.

use crate::device::Command;
use crate::shared::Shared;
use crate::store::SLOT_SECTORS;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Block, Discard, Error, Extent, Kind, Limits, Request, Result, Stretch};
use lane::Lane;

/// The error of commands that were under way when the power was cut.
const CUT: Error = Error::new(Kind::Io, "finish the request: the drive lost its power");
/// Sectors of one trim command: 256 MiB, so that no section takes long.
const TRIM_SECTORS: u64 = 1 << 19;
/// Sectors of one write of zeros: 1 MiB, as hosts split them.
const ZERO_SECTORS: u64 = 1 << 11;

/// A lane's handle on a modelled drive: each command is answered at the time that the model gives,
/// or as soon after that as the lane reads its clock.
///
/// A FUA write is a write and a flush, as hosts do it on SATA. A discard trims whole slots of 4
/// KiB; the rest of its range is written with zeros, so that all of it reads as zeros.
pub struct Modelled {
    shared: Arc<Shared>,
    lane: Lane,
}

impl Modelled {
    /// Returns the drive for `lane`.
    pub fn attach(shared: &Arc<Shared>, lane: &Lane) -> Modelled {
        Modelled { shared: shared.clone(), lane: lane.clone() }
    }

    /// Runs one command: a section, then a wait.
    async fn command(&self, command: Command<'_>) -> Result {
        self.lane.turn().await;
        let begun = self.shared.begin(self.lane.now(), &command);
        self.lane.turn().await;
        let begun = begun?;
        self.lane.sleep_until(begun.end).await;
        if self.shared.end(self.lane.now(), &begun) { Ok(()) } else { Err(CUT) }
    }

    async fn zero(&self, at: Extent) -> Result {
        for at in cut(at, ZERO_SECTORS) {
            self.command(Command::Write { at, from: None }).await?;
        }
        Ok(())
    }

    async fn discard(&self, at: Extent) -> Result {
        let first = at.first.next_multiple_of(SLOT_SECTORS).min(at.end());
        let end = (at.end() / SLOT_SECTORS * SLOT_SECTORS).max(first);
        let extent = |first, end| Extent::new(first, (end - first) as u32);
        for at in cut(extent(at.first, first), ZERO_SECTORS) {
            self.command(Command::Write { at, from: None }).await?;
        }
        for at in cut(extent(first, end), TRIM_SECTORS) {
            self.command(Command::Trim { at }).await?;
        }
        for at in cut(extent(end, at.end()), ZERO_SECTORS) {
            self.command(Command::Write { at, from: None }).await?;
        }
        Ok(())
    }

    async fn flush_if(&self, wanted: bool) -> Result {
        if wanted { self.command(Command::Flush).await } else { Ok(()) }
    }
}

/// Splits an extent at multiples of `sectors`; an empty one has no parts.
fn cut(at: Extent, sectors: u64) -> impl Iterator<Item = Extent> {
    let mut next = at.first;
    core::iter::from_fn(move || {
        (next < at.end()).then(|| {
            let end = (next / sectors + 1) * sectors;
            let part = Extent::new(next, (end.min(at.end()) - next) as u32);
            next = part.end();
            part
        })
    })
}

impl Block for Modelled {
    fn limits(&self) -> &Limits {
        self.shared.limits()
    }

    async fn run(&self, request: Request) -> Result {
        let trims = self.limits().discard == Discard::Zeroes;
        match request {
            Request::Read { at, into } => self.command(Command::Read { at, into: &into }).await,
            Request::Write { at, from, fua } => {
                self.command(Command::Write { at, from: Some(&from) }).await?;
                self.flush_if(fua).await
            }
            Request::Flush => self.command(Command::Flush).await,
            Request::Discard { at } if trims => self.discard(at).await,
            Request::Discard { .. } | Request::Advise { .. } => Ok(()),
            Request::Zero { at, fua, may_unmap } => {
                if trims && may_unmap {
                    self.discard(at).await?
                } else {
                    self.zero(at).await?
                }
                self.flush_if(fua).await
            }
        }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.lane.turn().await;
        let known = self.shared.status(at);
        self.lane.turn().await;
        Ok(known)
    }
}
