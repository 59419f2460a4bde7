//! The pool as a block device.

use crate::commit::{After, Blocks, Step};
use crate::decide::{
    Arrange, Content, Core, Decision, Lookup, READ_PIECES, Reservation, WRITE_PIECES,
};
use crate::joined::Joined;
use crate::layout::{MEMBERS_MAX, SLOT_SECTORS};
use crate::member::{MemberStatistics, fastest_ns};
use crate::planted::{Bug, planted};
use crate::release::{TRIMS, Trims};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Block, Buf, Error, Extent, Fua, Kind, Limits, Request, Result, Stack, Stretch};
use lane::{Event, Lane, Lock};

/// Time after which a change is committed without a flush, in nanoseconds.
const COMMIT_AGE_NS: u64 = 1_000_000_000;
/// Number of slots that a status request examines per section.
const STATUS_SLOTS: u32 = 4096;

/// The part of a pool that all lanes share.
pub struct PoolShared {
    pub(crate) core: Lock<Core>,
    /// Notified when a commit, a write, or a release has ended.
    pub(crate) changed: Event,
    /// Notified when no read of the previous turn is in flight.
    pub(crate) quiet: Event,
    pub(crate) limits: Limits,
    /// The journal blocks of the running commit.
    pub(crate) journal: Buf,
    /// The map pages that the running commit writes.
    pub(crate) slice: Buf,
    /// Members whose journal blocks are made durable by FUA (one bit each) instead of by a flush.
    pub(crate) fua: u32,
    /// The first slot of data on each member.
    pub(crate) data_first: u32,
}

impl PoolShared {
    /// Identity, given at the pool's creation; unique.
    pub fn identity(&self) -> u128 {
        self.core.peek(|core| core.pool)
    }

    /// Statistics of each member, in the order of the members.
    pub fn statistics(&self) -> Vec<MemberStatistics> {
        let slot_bytes = u64::from(SLOT_SECTORS) * block::SECTOR;
        self.core.peek(|core| {
            let fastest_ns = fastest_ns(&core.members);
            let each = core.members.iter();
            each.map(|member| member.statistics(slot_bytes, fastest_ns)).collect()
        })
    }

    /// Limits of the pool.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

struct Handle {
    shared: Arc<PoolShared>,
    lane: Lane,
    members: Vec<Stack>,
}

/// One lane's handle on a pool. Clones are the same handle.
#[derive(Clone)]
pub struct Pool(Rc<Handle>);

impl Pool {
    /// Creates the handle of `lane` on the pool, over its members in their order.
    ///
    /// # Panics
    /// If the number of members differs from the pool's.
    pub fn attach(shared: &Arc<PoolShared>, lane: &Lane, members: Vec<Stack>) -> Pool {
        let count = shared.core.peek(|core| core.members.len());
        assert_eq!(members.len(), count, "a pool is attached to all its members");
        Pool(Rc::new(Handle { shared: shared.clone(), lane: lane.clone(), members }))
    }

    /// Runs one section; the turns separate it from sections of the caller and of the members.
    async fn section<R>(&self, decide: impl FnOnce(&mut Core) -> R) -> R {
        self.0.lane.turn().await;
        let decided = self.0.shared.core.with(decide);
        self.0.lane.turn().await;
        decided
    }

    fn notify(&self) {
        self.0.shared.changed.notify();
    }

    /// Returns the extent of `count` places from `place` on, on their member.
    fn extent(&self, place: u32, count: u32) -> Extent {
        let first = u64::from(self.0.shared.data_first) + u64::from(place);
        Extent::new(first * u64::from(SLOT_SECTORS), count * SLOT_SECTORS)
    }

    async fn read(&self, at: Extent, into: Buf) -> Result {
        let (slot, total) = slots(at);
        let mut done = 0;
        while done < total {
            let lookup = self.section(|core| core.look_up(slot + done, total - done)).await;
            let began = self.0.lane.now();
            let failed = self.fetch(&lookup, done, &into).await;
            if lookup.readers.is_some() {
                let took_ns = self.0.lane.now() - began;
                if self.section(|core| core.end_lookup(&lookup, failed, took_ns)).await {
                    self.0.shared.quiet.notify();
                }
            }
            if failed != 0 {
                return Err(Error::new(Kind::Io, "read: a member of the pool has failed"));
            }
            done += lookup.count;
        }
        Ok(())
    }

    /// Reads the pieces of a lookup. Returns a bit for each piece that failed.
    async fn fetch(&self, lookup: &Lookup, done: u32, into: &Buf) -> u32 {
        let mut joined = Joined::<READ_PIECES>::new();
        let mut lost = 0;
        for (index, piece) in lookup.pieces[..lookup.used].iter().enumerate() {
            let first = (done + piece.offset) * SLOT_SECTORS;
            match piece.found {
                Content::Zeros => into.zero_part(first, piece.count * SLOT_SECTORS),
                Content::Lost => lost |= 1 << index,
                Content::Data { member, place } => {
                    let at = self.extent(place, piece.count);
                    let into = into.part(first, at.count);
                    joined.add(index, self.0.members[member].run(Request::Read { at, into }));
                }
            }
        }
        joined.await | lost
    }

    async fn write(&self, at: Extent, from: Buf) -> Result {
        let (slot, total) = slots(at);
        let mut done = 0;
        while done < total {
            let seen = self.0.shared.changed.seen();
            match self.section(|core| core.reserve(total - done)).await {
                Decision::Go(reserved) => {
                    let began = self.0.lane.now();
                    let failures = self.send(&reserved, done, &from).await.count_ones();
                    let took_ns = self.0.lane.now() - began;
                    let publish =
                        |core: &mut Core| core.publish(&reserved, slot + done, failures, took_ns);
                    if self.section(publish).await {
                        done += reserved.count;
                    }
                    self.notify();
                }
                other => self.make_room(other, seen).await?,
            }
        }
        self.arrange_commit().await;
        Ok(())
    }

    /// Writes to the reserved places. Returns a bit for each run that failed.
    async fn send(&self, reserved: &Reservation, done: u32, from: &Buf) -> u32 {
        let mut joined = Joined::<WRITE_PIECES>::new();
        let mut sector = done * SLOT_SECTORS;
        for (index, run) in reserved.runs.iter().filter(|run| run.count > 0).enumerate() {
            let at = self.extent(run.first, run.count);
            let from = from.part(sector, at.count);
            sector += at.count;
            let request = Request::Write { at, from, fua: false };
            joined.add(index, self.0.members[reserved.member].run(request));
        }
        joined.await
    }

    async fn make_room<T>(&self, decision: Decision<T>, seen: u64) -> Result {
        match decision {
            Decision::Go(_) => unreachable!("there is room"),
            Decision::Fail(error) => return Err(error),
            Decision::Wait => self.0.shared.changed.after(seen).await,
            Decision::Commit(target) => {
                if !self.begin_commit(target).await {
                    self.0.shared.changed.after(seen).await;
                }
            }
        }
        Ok(())
    }

    async fn forget(&self, at: Extent) -> Result {
        let (slot, total) = slots(at);
        let mut done = 0;
        while done < total {
            let seen = self.0.shared.changed.seen();
            match self.section(|core| core.forget(slot + done, total - done)).await {
                Decision::Go(count) => {
                    done += count;
                    self.0.lane.rest().await;
                }
                other => self.make_room(other, seen).await?,
            }
        }
        self.arrange_commit().await;
        Ok(())
    }

    /// Arranges that the open batch is committed soon, even without a flush.
    async fn arrange_commit(&self) {
        match self.section(Core::arrange).await {
            Arrange::Nothing => return,
            Arrange::Now(target) => {
                self.begin_commit(target).await;
                return;
            }
            Arrange::Later => (),
        }
        let pool = self.clone();
        let later = async move {
            let lane = &pool.0.lane;
            lane.sleep_until(lane.now().saturating_add(COMMIT_AGE_NS)).await;
            let target = pool.section(Core::disarm).await;
            _ = pool.commit(target, false).await;
        };
        if self.0.lane.spawn(later).is_err() {
            // Without a task slot, the next change arranges it, or a flush does it.
            self.section(Core::disarm).await;
        }
    }

    /// Begins the commit of a batch, and does not wait for its end. Returns false if another commit
    /// is running. The next flush reports losses of this one.
    async fn begin_commit(&self, target: u64) -> bool {
        match self.step(target, false).await {
            Step::Done(_) => true,
            Step::Wait => false,
            Step::Lead(members) => {
                let pool = self.clone();
                if self.0.lane.spawn(async move { pool.lead(members).await }).is_err() {
                    self.lead(members).await;
                }
                true
            }
        }
    }

    async fn step(&self, target: u64, reports: bool) -> Step {
        let step = |core: &mut Core| {
            let step = core.step(target, reports);
            if matches!(step, Step::Lead(_)) {
                core.copy_slice(&self.0.shared.slice);
            }
            step
        };
        self.section(step).await
    }

    async fn flush(&self) -> Result {
        if planted(Bug::AnswerBeforeJournal) {
            self.flush_members(u32::MAX).await;
            return Ok(());
        }
        let target = self.section(|core| core.flush_target()).await;
        self.commit(target, true).await
    }

    async fn commit(&self, target: u64, reports: bool) -> Result {
        let shared = &self.0.shared;
        loop {
            let seen = shared.changed.seen();
            match self.step(target, reports).await {
                Step::Done(result) => return result,
                Step::Wait => shared.changed.after(seen).await,
                Step::Lead(members) => self.lead(members).await,
            }
        }
    }

    /// Leads a commit: flushes these members (one bit each), writes the journal, and starts the
    /// work that remains.
    async fn lead(&self, members: u32) {
        let shared = &self.0.shared;
        let members = if planted(Bug::JournalBeforeData) { 0 } else { members };
        let failed = self.flush_members(members).await;
        let blocks = self.section(|core| core.end_flush(failed, &shared.journal)).await;
        let failed = self.write_journal(&blocks).await;
        let After { tidy, release } = self.section(|core| core.end_commit(failed)).await;
        self.notify();
        if tidy {
            let pool = self.clone();
            if self.0.lane.spawn(async move { pool.tidy().await }).is_err() {
                self.tidy().await;
            }
        }
        if release {
            let pool = self.clone();
            if self.0.lane.spawn(async move { pool.release().await }).is_err() {
                self.release().await;
            }
        }
    }

    /// Flushes members (one bit each). Returns a bit for each that failed.
    async fn flush_members(&self, members: u32) -> u32 {
        let mut joined = Joined::<MEMBERS_MAX>::new();
        for (number, member) in self.0.members.iter().enumerate() {
            if members >> number & 1 == 1 {
                joined.add(number, member.run(Request::Flush));
            }
        }
        joined.await
    }

    async fn write_journal(&self, blocks: &Blocks) -> u32 {
        let mut joined = Joined::<MEMBERS_MAX>::new();
        if blocks.count == 0 {
            return 0;
        }
        let journal = self.0.shared.core.peek(|core| core.layout.journal);
        let before_end = blocks.count.min(journal - blocks.position);
        let parts = [(blocks.position, 0, before_end), (0, before_end, blocks.count - before_end)];
        for (number, member) in self.0.members.iter().enumerate() {
            if blocks.members >> number & 1 == 0 {
                continue;
            }
            let (member, from) = (member.clone(), self.0.shared.journal.clone());
            let fua = self.0.shared.fua >> number & 1 == 1;
            let write = async move {
                for (position, first, count) in parts {
                    if count > 0 {
                        write_slots(&member, 1 + position, &from, first, count, fua).await?;
                    }
                }
                if fua { Ok(()) } else { member.run(Request::Flush).await }
            };
            joined.add(number, self.0.lane.pin(write));
        }
        joined.await
    }

    /// Writes the map pages that the preceding commit has copied.
    async fn tidy(&self) {
        let shared = &self.0.shared;
        let (mut from, mut failed) = (0, 0);
        loop {
            let next = |core: &mut Core| {
                let run = core.slice_run(from);
                run.map(|(page, count, home)| {
                    (core.layout.page_slot(page, home), count, core.page_members())
                })
            };
            let Some((slot, count, members)) = self.section(next).await else { break };
            let mut joined = Joined::<MEMBERS_MAX>::new();
            for (number, member) in self.0.members.iter().enumerate() {
                if (members & !failed) >> number & 1 == 1 {
                    let (member, pages) = (member.clone(), shared.slice.clone());
                    let first = from as u32;
                    let write = async move {
                        write_slots(&member, slot, &pages, first, count, false).await
                    };
                    joined.add(number, self.0.lane.pin(write));
                }
            }
            failed |= joined.await;
            from += count as usize;
        }
        self.section(|core| core.end_tidy(failed)).await;
        self.notify();
    }

    /// Frees older places, until none is waiting.
    async fn release(&self) {
        let shared = &self.0.shared;
        while let Some(turn) = self.section(Core::release_begin).await {
            loop {
                let seen = shared.quiet.seen();
                if self.section(|core| core.is_quiet(turn)).await {
                    break;
                }
                shared.quiet.after(seen).await;
            }
            loop {
                let mut trims: Trims = [None; TRIMS];
                let more = self.section(|core| core.release_some(&mut trims)).await;
                if trims[0].is_some() {
                    let failed = self.trim(&trims).await;
                    self.section(|core| core.end_trims(&trims, failed)).await;
                }
                self.notify();
                if !more {
                    break;
                }
                self.0.lane.rest().await;
            }
        }
        // Wakes tasks that wait for a place: this task frees no more.
        self.notify();
    }

    /// Sends discards to the members. Returns a bit for each that failed.
    async fn trim(&self, trims: &Trims) -> u32 {
        let mut joined = Joined::<TRIMS>::new();
        for (index, (number, run)) in trims.iter().flatten().enumerate() {
            let wrong = usize::from(planted(Bug::TrimWrongOwner));
            let member = &self.0.members[(number + wrong) % self.0.members.len()];
            let at = self.extent(run.first, run.count);
            joined.add(index, member.run(Request::Discard { at }));
        }
        joined.await
    }
}

/// Writes slots of a buffer to consecutive slots of a member, in requests within its limits.
async fn write_slots(
    member: &Stack,
    slot: u32,
    from: &Buf,
    first: u32,
    count: u32,
    fua: bool,
) -> Result {
    let most = (member.limits().io_max_bytes / (SLOT_SECTORS * block::SECTOR as u32)).max(1);
    let mut done = 0;
    while done < count {
        let length = most.min(count - done);
        let at = Extent::new(u64::from(slot + done) * 8, length * SLOT_SECTORS);
        let from = from.part((first + done) * SLOT_SECTORS, at.count);
        member.run(Request::Write { at, from, fua }).await?;
        done += length;
    }
    Ok(())
}

/// Returns the first slot of an extent, and the number of slots.
fn slots(at: Extent) -> (u32, u32) {
    ((at.first / u64::from(SLOT_SECTORS)) as u32, at.count / SLOT_SECTORS)
}

impl Block for Pool {
    fn limits(&self) -> &Limits {
        &self.0.shared.limits
    }

    async fn run(&self, request: Request) -> Result {
        let fua = match request {
            Request::Read { at, into } => return self.read(at, into).await,
            Request::Flush => return self.flush().await,
            Request::Advise { .. } => return Ok(()),
            Request::Write { at, from, fua } => {
                self.write(at, from).await?;
                fua
            }
            Request::Discard { at } => {
                self.forget(at).await?;
                false
            }
            Request::Zero { at, fua, .. } => {
                self.forget(at).await?;
                fua
            }
        };
        if fua { self.flush().await } else { Ok(()) }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let slot = (at.first / u64::from(SLOT_SECTORS)) as u32;
        let before = (at.first % u64::from(SLOT_SECTORS)) as u32;
        let total = (before + at.count).div_ceil(SLOT_SECTORS);
        let mut stretches = Vec::new();
        let mut done = 0;
        while done < total {
            let most = (total - done).min(STATUS_SLOTS);
            let (found, count) = self.section(|core| core.piece(slot + done, most)).await;
            let skipped = if done == 0 { before } else { 0 };
            let sectors = u64::from(count) * u64::from(SLOT_SECTORS) - u64::from(skipped);
            let zero = found == Content::Zeros;
            Stretch::push(&mut stretches, Stretch { sectors, hole: zero, zero });
            done += count;
        }
        Ok(stretches)
    }
}

/// Returns the limits of a pool over members with these limits.
pub(crate) fn limits_over(sectors: u64, members: &[Limits]) -> Limits {
    let largest = members.iter().map(|limits| limits.io_best_bytes).max();
    let smallest = members.iter().map(|limits| limits.io_max_bytes).min();
    let slot_bytes = SLOT_SECTORS * block::SECTOR as u32;
    Limits {
        block_logical_bytes: slot_bytes,
        block_physical_bytes: slot_bytes,
        io_best_bytes: largest.unwrap_or(0).max(slot_bytes),
        io_max_bytes: (smallest.unwrap_or(0) / slot_bytes).max(1) * slot_bytes,
        flush_needed: true,
        fua: Fua::Emulated,
        rotational: members.iter().any(|limits| limits.rotational),
        read_only: members.iter().any(|limits| limits.read_only),
        ..Limits::plain(sectors, members[0].grain)
    }
}
