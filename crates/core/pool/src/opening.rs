//! Opens a pool: selects the valid journal, reconstructs the map, and brings all members up to
//! date.
//!
//! 1. Superblocks: checks that these are the members, all of them, in their order.
//! 2. Journals: selects the longest journal of the newest life. It contains all acknowledged
//!    changes, because a commit ends only when it is on all members that have not failed.
//! 3. Map pages: reads the newer good copy of each, then applies the journal's records.
//! 4. Writes the pages that the journal or an interrupted opening has changed to their other homes,
//!    and flushes.
//! 5. Rewrites the whole map on each member that has missed changes (it had failed, or was
//!    missing).
//! 6. Writes a block that begins a new life and needs no earlier blocks, on all members, durably.
//!    Until then, a crash leaves the state that this opening found.
//!
//! A missing member is treated as failed: its data cannot be read.

use crate::bits::Bits;
use crate::create::check_blocks;
use crate::decide::Core;
use crate::format::{First, Superblock, page_sequence};
use crate::found::RecoveredMap;
use crate::journal::Journal;
use crate::layout::{Layout, MEMBERS_MAX, SLOT_SECTORS, slots_of};
use crate::member::{Member, settle_wear};
use crate::planted::{Bug, planted};
use crate::pool::{PoolShared, limits_over};
use crate::refusal::{Reason, Refusal};
use crate::slots::Slots;
use crate::state::State;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use block::{Buf, Discard, Fua, Limits, Stack};
use lane::{Event, Lock};

type Members<'a> = &'a [Option<Stack>];

fn device(member: usize) -> impl Fn(block::Error) -> Refusal {
    move |error| Refusal::of(member, Reason::Device(error))
}

fn present<'a>(members: Members<'a>) -> impl Iterator<Item = (usize, &'a Stack)> {
    let each = members.iter().enumerate();
    each.filter_map(|(number, member)| Some((number, member.as_ref()?)))
}

/// Opens the pool of these members, in their order; None is a missing member.
///
/// Read-only members are not written, and show the last commit.
///
/// # Errors
/// A [`Refusal`]: missing or foreign members, a wrong order, damage, devices' errors.
pub async fn open(members: &[Option<Stack>]) -> Result<Arc<PoolShared>, Refusal> {
    let Superblock { layout, pool, .. } = read_superblocks(members).await?;
    let journals = scan(members, pool, &layout).await?;
    let chosen = choose(&journals).ok_or(Refusal::whole(Reason::NoJournal))?;
    let stale = stale(&journals, chosen)?;
    let (first, end) = journals[chosen].as_ref().and_then(|it| it.chain).expect("it was chosen");
    let mut found = RecoveredMap::new(&layout);
    let others = (0..layout.members).filter(|number| *number != chosen);
    for number in core::iter::once(chosen).chain(others) {
        let Some(member) = members[number].as_ref() else { continue };
        if stale >> number & 1 == 0 {
            found.read_pages(member, pool, &layout, end.life).await.map_err(device(number))?;
        }
    }
    if let Some(page) = found.missing.next(0) {
        return Err(Refusal::whole(Reason::LostPage(page)));
    }
    let member = members[chosen].as_ref().expect("it has a journal");
    let replayed = found.replay(member, &layout, first, end.sequence).await;
    if !replayed.map_err(device(chosen))? {
        return Err(Refusal::whole(Reason::BadMap));
    }
    let life = journals.iter().flatten().map(|journal| journal.life).max().unwrap_or(0) + 1;
    // Newer than any page of any member, including members whose pages were not read.
    let pages = (found.sequence + 1).max(u64::from(life) << 32);
    let state = State::after(end, life, pages, &layout);
    let touched = core::mem::replace(&mut found.touched, Bits::new(0));
    let mut core = core_of(members, layout, pool, found, state)?;
    let limits: Vec<Limits> = present(members).map(|(_, it)| it.limits().clone()).collect();
    let limits = limits_over(core.layout.sectors(), &limits);
    if !limits.read_only {
        write_touched(&mut core, members, stale, &touched).await?;
        for (number, member) in present(members).filter(|(number, _)| stale >> number & 1 == 1) {
            renew(&mut core, member, number).await.map_err(device(number))?;
        }
        core.commit.next_pages();
        begin_life(&mut core, members).await?;
    }
    Ok(shared_of(members, core, limits))
}

async fn read_superblocks(members: Members<'_>) -> Result<Superblock, Refusal> {
    let grain = present(members).next().map(|(_, member)| member.limits().grain);
    let grain = grain.ok_or(Refusal::whole(Reason::NoMembers))?;
    check_blocks(present(members), grain)?;
    let mut first: Option<Superblock> = None;
    for (number, member) in present(members) {
        let refuse = |reason| Err(Refusal::of(number, reason));
        let mut decoded = First::Foreign;
        let look = |_, bytes: &[u8]| {
            decoded = Superblock::decode(bytes, grain);
            true
        };
        Slots::of(member).read(0, 1, look).await.map_err(device(number))?;
        let superblock = match decoded {
            First::Member(superblock) => superblock,
            First::Blank => return refuse(Reason::Blank),
            First::Foreign => return refuse(Reason::Foreign),
            First::Damaged => return refuse(Reason::Damaged),
            First::Version(version) => return refuse(Reason::Version(version)),
        };
        if first.as_ref().is_some_and(|first| first.pool != superblock.pool) {
            return refuse(Reason::OtherPool);
        }
        if superblock.layout.members != members.len() {
            return refuse(Reason::WrongCount(superblock.layout.members));
        }
        if superblock.number != number {
            return refuse(Reason::WrongPlace(superblock.number + 1));
        }
        if slots_of(member.limits()) < superblock.layout.sizes[number] {
            return refuse(Reason::Shrunk);
        }
        first.get_or_insert(superblock);
    }
    Ok(first.expect("a member is there"))
}

async fn scan(
    members: Members<'_>,
    pool: u128,
    layout: &Layout,
) -> Result<Vec<Option<Journal>>, Refusal> {
    let mut journals = Vec::new();
    for (number, member) in members.iter().enumerate() {
        journals.push(match member {
            Some(member) => {
                Some(Journal::scan(member, number, pool, layout).await.map_err(device(number))?)
            }
            None => None,
        });
    }
    Ok(journals)
}

/// Selects the member with the valid journal.
fn choose(journals: &[Option<Journal>]) -> Option<usize> {
    let ends = journals.iter().enumerate().filter_map(|(number, journal)| {
        let (_, end) = journal.as_ref()?.chain?;
        Some((number, (end.life, end.sequence)))
    });
    if planted(Bug::BelieveFailedMember) {
        return ends.map(|(number, _)| number).next();
    }
    // The first of several equal ones.
    let mut chosen = ends.rev().max_by_key(|(_, end)| *end).map(|(number, _)| number)?;
    // The number of a life is counted by the members that it reaches. A member that a power cut has
    // excluded from a life may have the same number as a later life of the others.
    for _ in journals {
        chosen = went_on_without(journals, chosen).unwrap_or(chosen);
    }
    Some(chosen)
}

/// Returns a member that continued without `chosen`, if `chosen` has no record of that or of any
/// later change.
fn went_on_without(journals: &[Option<Journal>], chosen: usize) -> Option<usize> {
    let journal = journals[chosen].as_ref()?;
    let (_, end) = journal.chain?;
    let went_on = |(number, other): (usize, &Option<Journal>)| {
        let (_, its_end) = other.as_ref()?.chain?;
        let alone = its_end.absent >> chosen & 1 == 1 && end.absent >> number & 1 == 0;
        (alone && !journal.contains(&its_end)).then_some((number, (its_end.life, its_end.sequence)))
    };
    let others = journals.iter().enumerate().filter_map(went_on);
    others.max_by_key(|(_, end)| *end).map(|(number, _)| number)
}

/// Returns the members that have missed changes, one bit each.
fn stale(journals: &[Option<Journal>], chosen: usize) -> Result<u32, Refusal> {
    let journal = journals[chosen].as_ref().expect("it was chosen");
    let (_, end) = journal.chain.expect("it was chosen");
    let (mut stale, all) = (0, (1 << journals.len()) - 1);
    for (number, other) in journals.iter().enumerate() {
        let Some(other) = other else { continue };
        let was_absent = end.absent >> number & 1 == 1;
        match other.chain {
            Some((_, its_end)) if journal.contains(&its_end) && !was_absent => continue,
            // No member was present in both histories: it would have carried the changes from one
            // to the other.
            Some((_, its_end)) if (end.absent | its_end.absent) & all == all => {
                return Err(Refusal::of(number, Reason::Split));
            }
            _ => stale |= 1 << number,
        }
    }
    Ok(stale)
}

fn core_of(
    members: Members<'_>,
    layout: Layout,
    pool: u128,
    found: RecoveredMap,
    state: State,
) -> Result<Core, Refusal> {
    let mut all = Vec::new();
    for (number, member) in members.iter().enumerate() {
        let mut its = Member::new(layout.data(number));
        its.written = found.written[number];
        its.failed = member.is_none();
        let discard = member.as_ref().map(|member| member.limits().discard);
        its.can_trim = discard == Some(Discard::Zeroes);
        all.push(its);
    }
    settle_wear(&mut all);
    let core = Core::new(layout, pool, found.map, all, found.home, state);
    core.ok_or(Refusal::whole(Reason::BadMap))
}

/// Gives a member that has missed changes the whole map and an empty journal. First writes a block
/// that records this: a partly erased journal would be read as a different one.
async fn renew(core: &mut Core, member: &Stack, number: usize) -> block::Result {
    let layout = core.layout.clone();
    let mut slots = Slots::of(member);
    let position = core.commit.next_position(&layout);
    slots.write(1 + position, 1, |_, slot| core.write_renewal(number, slot)).await?;
    slots.flush().await?;
    slots.write(1, position, |_, slot| slot.zero()).await?;
    let behind = layout.journal - position - 1;
    slots.write(1 + position + 1, behind, |_, slot| slot.zero()).await?;
    slots.flush().await?;
    // Only to the home of the newest copy on all other members; the next copy goes to the other
    // home.
    for home in [0, 1] {
        let first = layout.page_slot(0, home);
        let copy = |at: u32, slot: &Buf| match usize::from(core.home[(at - first) as usize]) == home
        {
            true => core.copy_page(at - first, slot),
            false => slot.zero(),
        };
        slots.write(first, layout.pages, copy).await?;
    }
    slots.flush().await
}

/// Writes the changed pages to their other homes. If a member's only good copy is there (before a
/// power cut, another copy was selected), first writes a copy to the current home.
async fn write_touched(
    core: &mut Core,
    members: Members<'_>,
    stale: u32,
    touched: &Bits,
) -> Result<(), Refusal> {
    for (number, member) in present(members).filter(|(number, _)| stale >> number & 1 == 0) {
        let in_other_home = in_other_home(core, member, touched).await.map_err(device(number))?;
        if in_other_home.count() > 0 {
            write_pages(core, member, &in_other_home, false).await.map_err(device(number))?;
        }
        write_pages(core, member, touched, true).await.map_err(device(number))?;
    }
    let mut next = touched.next(0);
    while let Some(page) = next {
        core.home[page as usize] = !core.home[page as usize];
        next = touched.next(page + 1);
    }
    core.commit.next_pages();
    Ok(())
}

/// Returns the next run of adjacent pages: the first page, their number, and their home.
fn next_run(core: &Core, pages: &Bits, from: u32) -> Option<(u32, u32, usize)> {
    let page = pages.next(from)?;
    let home = core.home[page as usize];
    let alike = |ahead: &u32| {
        let page = page + ahead;
        pages.has(page) && core.home[page as usize] == home
    };
    let most = core.layout.pages - page;
    Some((page, (0..most).take_while(alike).count() as u32, usize::from(home)))
}

/// Returns the pages whose newest good copy on this member is in the other home than in the pool.
async fn in_other_home(core: &Core, member: &Stack, pages: &Bits) -> block::Result<Bits> {
    let mut in_other_home = Bits::new(core.layout.pages);
    let mut slots = Slots::of(member);
    let mut sequences = vec![None; core.layout.pages as usize];
    let mut from = 0;
    while let Some((page, count, home)) = next_run(core, pages, from) {
        for at_home in [true, false] {
            let first = core.layout.page_slot(page, if at_home { home } else { 1 - home });
            let look = |at: u32, bytes: &[u8]| {
                let page = page + at - first;
                let sequence = page_sequence(bytes, core.pool, page);
                if at_home {
                    sequences[page as usize] = sequence;
                } else if sequence > sequences[page as usize] {
                    in_other_home.set(page);
                }
                true
            };
            slots.read(first, count, look).await?;
        }
        from = page + count;
    }
    Ok(in_other_home)
}

/// Writes the current pages to a member, durably: to their other homes, or to their homes.
async fn write_pages(core: &mut Core, member: &Stack, pages: &Bits, other: bool) -> block::Result {
    let mut slots = Slots::of(member);
    let mut from = 0;
    while let Some((page, count, home)) = next_run(core, pages, from) {
        let first = core.layout.page_slot(page, if other { 1 - home } else { home });
        let copy = |at: u32, slot: &Buf| core.copy_page(page + at - first, slot);
        slots.write(first, count, copy).await?;
        from = page + count;
    }
    slots.flush().await
}

/// Begins a new life that needs no earlier blocks of the journal.
async fn begin_life(core: &mut Core, members: Members<'_>) -> Result<(), Refusal> {
    let block = Buf::new(SLOT_SECTORS, core.layout.grain);
    core.write_block(&[], &block);
    let position = core.commit.newest.sequence % u64::from(core.layout.journal);
    for (number, member) in present(members) {
        let mut slots = Slots::of(member);
        let copy = |_, slot: &Buf| slot.copy_from_buf(&block);
        slots.write(1 + position as u32, 1, copy).await.map_err(device(number))?;
        slots.flush().await.map_err(device(number))?;
    }
    Ok(())
}

fn shared_of(members: Members<'_>, core: Core, limits: Limits) -> Arc<PoolShared> {
    let layout = &core.layout;
    let native = present(members).filter(|(_, member)| member.limits().fua == Fua::Native);
    debug_assert!(layout.members <= MEMBERS_MAX);
    Arc::new(PoolShared {
        changed: Event::new(),
        quiet: Event::new(),
        limits,
        journal: Buf::new(layout.commit_blocks() * SLOT_SECTORS, layout.grain),
        slice: Buf::new(layout.slice_max() * SLOT_SECTORS, layout.grain),
        fua: native.fold(0, |bits, (number, _)| bits | 1 << number),
        data_first: layout.data_first(),
        core: Lock::new(core),
    })
}
