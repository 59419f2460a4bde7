//! The plan of a history's clients, drawn before it begins: the schedule cannot change it.

use crate::pending::{Kind, Pending};
use crate::setup::{Setup, WINDOW_SHARES};
use block::{Compress, Durability, WriteMode};
use cache::Changes;
use lane::Random;

/// A change that a client sends to some sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// One action of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Sends an operation to these sectors and waits for the answer.
    Operate { kind: Kind, first: u32, count: u32 },
    /// Sends two changes that overlap, the second before the first is answered, and waits for both
    /// answers.
    Pair(Change, Change),
    /// Sends a request again that was not answered before the process died.
    Again(Pending),
    /// Clears the error of a failed volume.
    ClearError,
    /// Discards the dirty data of a failed volume.
    DiscardDirty,
    /// Disconnects, and connects again.
    Reconnect,
    /// Changes the write mode.
    SetMode(WriteMode),
    /// Changes settings while clients continue.
    Set(Changes),
    /// Makes the guard turn bypass on or off.
    Aside { reads: bool, writes: bool },
    /// Makes the arbiter give the policy's window another share, in 1024ths.
    WindowShare(u32),
    /// Has a list of hot blocks read back, whose blocks follow from this seed.
    Warm(u64),
    /// Sets hints about files, which follow from this seed, or removes them.
    Hints(u64),
    /// Advises that it will read these sectors, and waits for the answer, whatever it is.
    Advise { first: u32, count: u32 },
}

impl Act {
    /// Returns the kind of operation that it sends, if it sends one.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Act::Operate { kind, .. } | Act::Again(Pending { kind, .. }) => Some(*kind),
            _ => None,
        }
    }

    /// Returns the maximum number of buffers that it uses.
    pub(crate) fn operations(&self) -> u32 {
        if matches!(self, Act::Pair(..)) { 2 } else { 1 }
    }
}

/// A pause, and the action after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) pause_ns: u64,
    pub(crate) act: Act,
}

/// Returns the steps of every client. Requests to be sent `again` come first, each by a separate
/// client.
pub(crate) fn draw(setup: &Setup, again: &[Pending], random: &mut Random) -> Vec<Vec<Step>> {
    let mut plans = vec![Vec::new(); again.len().max(setup.clients as usize)];
    for (plan, pending) in plans.iter_mut().zip(again) {
        let pause_ns = pause(setup, random);
        plan.push(Step { pause_ns, act: Act::Again(*pending) });
    }
    // Some clients never flush (C11): the others flush more often.
    let silent = random.below(3) as usize;
    for number in 0..setup.operations as usize {
        let client = match number < plans.len() {
            true => number,
            false => random.below(plans.len() as u64) as usize,
        };
        let mut act = operation(setup, random);
        if setup.streams {
            follow(setup, &plans[client], &mut act, random);
        }
        if client < silent && matches!(act, Act::Operate { kind: Kind::Flush, .. }) {
            act = draw_request(setup, Kind::Write, random);
        }
        let pause_ns = pause(setup, random);
        plans[client].push(Step { pause_ns, act });
        if setup.reconnect_one_in > 0 && random.one_in(u64::from(setup.reconnect_one_in)) {
            plans[client].push(Step { pause_ns: 0, act: Act::Reconnect });
        }
    }
    for _ in 0..setup.clears {
        let plan = &mut plans[0];
        let at = random.below(plan.len() as u64 + 1) as usize;
        plan.insert(at, Step { pause_ns: setup.engine.retry_time_ns, act: Act::ClearError });
    }
    for _ in 0..setup.discards {
        let plan = &mut plans[0];
        let at = random.below(plan.len() as u64 + 1) as usize;
        let pause_ns = random.below(2 * setup.engine.stall_time_ns + 1);
        plan.insert(at, Step { pause_ns, act: Act::DiscardDirty });
    }
    for _ in 0..setup.mode_switches {
        let plan = &mut plans[0];
        let at = random.below(plan.len() as u64 + 1) as usize;
        let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::Through, WriteMode::None];
        let act = Act::SetMode(modes[random.below(4) as usize]);
        plan.insert(at, Step { pause_ns: 0, act });
    }
    for _ in 0..setup.sets {
        let plan = &mut plans[0];
        let at = random.below(plan.len() as u64 + 1) as usize;
        plan.insert(at, Step { pause_ns: 0, act: Act::Set(changes(setup, random)) });
    }
    for _ in 0..setup.bypasses {
        let client = random.below(plans.len() as u64) as usize;
        let plan = &mut plans[client];
        let at = random.below(plan.len() as u64 + 1) as usize;
        let act = Act::Aside { reads: random.one_in(2), writes: !random.one_in(3) };
        plan.insert(at, Step { pause_ns: 0, act });
    }
    if setup.looks > 0 {
        let look = |_| {
            let pause_ns = random.below(2 * setup.engine.stall_time_ns + 1);
            Step { pause_ns, act: Act::ClearError }
        };
        plans.push((0..setup.looks).map(look).collect());
    }
    advise(setup, &mut plans);
    pair(setup, &mut plans);
    share(setup, &mut plans);
    warm(setup, &mut plans);
    hint(setup, &mut plans);
    plans
}

/// Adds lists of hot blocks that are read back. With separate dice: the rest of the plan stays
/// unchanged.
fn warm(setup: &Setup, plans: &mut [Vec<Step>]) {
    let mut random = Random::new(setup.seed ^ 0x0003_a535);
    for _ in 0..setup.warms {
        let client = random.below(plans.len() as u64) as usize;
        let plan = &mut plans[client];
        let at = random.below(plan.len() as u64 + 1) as usize;
        plan.insert(at, Step { pause_ns: 0, act: Act::Warm(random.next_u64()) });
    }
}

/// Adds changes of the hints about files. With separate dice: the rest of the plan stays unchanged.
fn hint(setup: &Setup, plans: &mut [Vec<Step>]) {
    let mut random = Random::new(setup.seed ^ 0x0003_a9f2);
    for number in 0..setup.hints {
        let client = random.below(plans.len() as u64) as usize;
        let plan = &mut plans[client];
        // The first ones before most operations, so that some hints are in force for long.
        let among = if number == 0 { 1 } else { plan.len() as u64 + 1 };
        let at = random.below(among) as usize;
        plan.insert(at, Step { pause_ns: 0, act: Act::Hints(random.next_u64()) });
    }
}

/// Adds changes of the share of the policy's window. With separate dice: the rest of the plan stays
/// unchanged.
fn share(setup: &Setup, plans: &mut [Vec<Step>]) {
    let mut random = Random::new(setup.seed ^ 0x05_4a4e);
    for _ in 0..setup.window_shares {
        let client = random.below(plans.len() as u64) as usize;
        let plan = &mut plans[client];
        let at = random.below(plan.len() as u64 + 1) as usize;
        let share = WINDOW_SHARES[random.below(WINDOW_SHARES.len() as u64) as usize];
        plan.insert(at, Step { pause_ns: 0, act: Act::WindowShare(share) });
    }
}

/// Adds advice of clients about later reads. With separate dice: the rest of the plan stays
/// unchanged.
fn advise(setup: &Setup, plans: &mut [Vec<Step>]) {
    let mut random = Random::new(setup.seed ^ 0x0ad7_1ce5);
    for _ in 0..setup.advices {
        let Act::Operate { first, count, .. } = draw_request(setup, Kind::Read, &mut random) else {
            unreachable!("a read is an operation")
        };
        let client = random.below(plans.len() as u64) as usize;
        let plan = &mut plans[client];
        let at = random.below(plan.len() as u64 + 1) as usize;
        plan.insert(at, Step { pause_ns: 0, act: Act::Advise { first, count } });
    }
}

/// Makes clients send two changes of the same blocks, the second behind the first. With separate
/// dice: the rest of the plan stays unchanged.
fn pair(setup: &Setup, plans: &mut [Vec<Step>]) {
    let mut random = Random::new(setup.seed ^ 0x0a11_17a1);
    for _ in 0..setup.pairs {
        let one = change(setup, &mut random);
        let mut two = change(setup, &mut random);
        // The second begins inside the first.
        let unit = if setup.bytes { 1 } else { setup.model.logical_sectors };
        two.count = two.count.min(setup.model.current_sectors());
        let into = random.below(u64::from(one.count / unit)) as u32 * unit;
        two.first = (one.first + into).min(setup.model.current_sectors() - two.count);
        let client = random.below(plans.len() as u64) as usize;
        let plan = &mut plans[client];
        let at = random.below(plan.len() as u64 + 1) as usize;
        plan.insert(at, Step { pause_ns: 0, act: Act::Pair(one, two) });
    }
}

fn change(setup: &Setup, random: &mut Random) -> Change {
    let kinds = [Kind::Write, Kind::Write, Kind::WriteFua, Kind::Zero, Kind::Discard];
    let kind = kinds[random.below(kinds.len() as u64) as usize];
    match draw_request(setup, kind, random) {
        Act::Operate { kind, first, count } => Change { kind, first, count },
        _ => unreachable!("a change is an operation"),
    }
}

/// Returns the changes of an operator: most of the time, of the durability.
fn changes(setup: &Setup, random: &mut Random) -> Changes {
    let mut changes = Changes::default();
    if !random.one_in(4) {
        let all = [Durability::Flush, Durability::Flush, Durability::Ordered, Durability::Scratch];
        changes.durability = Some(all[random.below(4) as usize]);
    }
    if random.one_in(4) {
        let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::BackNow, WriteMode::Through];
        changes.write = Some(modes[random.below(4) as usize]);
    }
    if random.one_in(4) {
        let most = u64::from(setup.engine.slots * 3 / 4);
        changes.dirty_blocks_max = Some((2 + random.below(most - 1)) as u32);
    }
    if random.one_in(8) {
        changes.dirty_age_ns = Some(setup.engine.dirty_age_ns / 2 + random.below(1_000_000));
    }
    if random.one_in(8) {
        changes.flush_target_ns = Some([0, 300_000, 1_000_000][random.below(3) as usize]);
    }
    if setup.engine.compress != Compress::Off {
        let choices = [Compress::Off, Compress::Lz4, Compress::Zstd];
        let count = if cache::HAS_ZSTD { 3 } else { 2 };
        changes.compress = Some(choices[random.below(count) as usize]);
    }
    changes
}

/// Makes most reads continue where the last one of their client ended, or in half of the histories
/// began. Half of the changes go to the range of such a next read, or to the one behind it; in
/// every other history most writes follow one another instead.
fn follow(setup: &Setup, plan: &[Step], act: &mut Act, random: &mut Random) {
    let Act::Operate { kind, first, count } = act else { return };
    let follows_itself = *kind == Kind::Read || *kind == Kind::Write && setup.seed & 2 == 0;
    let followed = if follows_itself { *kind } else { Kind::Read };
    let place = |step: &Step| match step.act {
        Act::Operate { kind, first, count } if kind == followed => Some((first, count)),
        _ => None,
    };
    let Some((before, length)) = plan.iter().rev().find_map(place) else { return };
    let steps = if follows_itself { 1 } else { 1 + random.below(2) as u32 };
    if *kind == Kind::Flush || random.one_in(if follows_itself { 8 } else { 2 }) {
        return;
    }
    let end = setup.model.current_sectors();
    let is_backward = setup.seed & 1 == 1;
    *first = match is_backward {
        true => before.checked_sub(*count * steps).unwrap_or(end - *count),
        false if before + length * steps + *count <= end => before + length * steps,
        false => 0,
    };
}

fn pause(setup: &Setup, random: &mut Random) -> u64 {
    if setup.think_ns == 0 || random.one_in(2) {
        return 0;
    }
    random.below(setup.think_ns)
}

fn operation(setup: &Setup, random: &mut Random) -> Act {
    let mix = &setup.mix;
    let weights = [
        (Kind::Read, mix.read),
        (Kind::Write, mix.write),
        (Kind::WriteFua, mix.fua),
        (Kind::Zero, mix.zero),
        (Kind::Discard, mix.discard),
        (Kind::Flush, mix.flush),
        (Kind::Status, mix.status),
    ];
    let total: u32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut drawn = random.below(u64::from(total)) as u32;
    for (kind, weight) in weights {
        if drawn < weight {
            return draw_request(setup, kind, random);
        }
        drawn -= weight;
    }
    unreachable!("below the sum of all weights")
}

fn draw_request(setup: &Setup, kind: Kind, random: &mut Random) -> Act {
    let kind = match kind {
        Kind::Zero if random.one_in(4) => Kind::ZeroFua,
        other => other,
    };
    // Of any size half of the time, if that is allowed.
    let unit = if setup.bytes { 1 } else { setup.model.logical_sectors };
    let sectors = setup.model.current_sectors();
    // Whole blocks half of the time, as most writes are.
    let grain = match random.one_in(2) {
        true if setup.bytes => setup.model.logical_sectors,
        true => 8,
        false => unit,
    };
    let most = setup.sectors_max.min(sectors).max(grain) / grain;
    let count = (1 + random.below(u64::from(most)) as u32) * grain;
    let hot = random.one_in(u64::from(setup.hot_one_in));
    let reach = if hot { (count + 16).min(sectors) } else { sectors };
    let places = (reach - count) / grain + 1;
    let first = random.below(u64::from(places)) as u32 * grain;
    Act::Operate { kind, first, count }
}
