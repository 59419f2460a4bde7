//! Writing out: the crew that carries runs of blocks to the backing. Who tells it what is due is in
//! `writeback/commit.rs`.

use crate::backing::in_flight::Errand;
use crate::backing::retry::{Pauses, TAINTED};
use crate::backing::watchdog;
use crate::dirty::gauges::Gauges;
use crate::dirty::level::Level;
use crate::epochs::Order;
use crate::planted::{Bug, planted};
use crate::request::{Cache, Handle};
use crate::shard::zero_ranges::ZeroRun;
use crate::shard::{Admit, Next, Run, Shard};
use crate::shared::Shared;
use crate::writeback::estimator::Rivals;
use crate::writeback::flusher;
use alloc::sync::Arc;
use block::{Request, Result, Stack};
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::Poll;
use lane::{Cost, Lane};

/// Tasks of a lane beside its crew: the relay, and on one lane the keeper and the sentinel.
const TASKS_BESIDE: u32 = 3;

impl Shared {
    /// The most tasks that [`Cache::attach`] starts on a lane.
    pub fn tasks_a_lane(&self) -> usize {
        (self.settings.crew + TASKS_BESIDE) as usize
    }
}

impl Cache {
    /// Joins a lane to a volume's cache, over that lane's way to the backing. Starts the lane's
    /// write-back crew and, on the first lane, the keeper.
    ///
    /// # Panics
    /// If the lane has no room for the crew's tasks ([`Shared::tasks_a_lane`]).
    pub fn attach(shared: &Arc<Shared>, lane: &Lane, below: Stack) -> Cache {
        let cache = Cache::new(shared, lane, below);
        start(&cache);
        cache
    }
}

/// Starts the tasks of a lane.
fn start(cache: &Cache) {
    let handle = &cache.0;
    let lane = &handle.lane;
    handle.shared.lanes.fetch_add(1, Ordering::SeqCst);
    for member in 0..handle.shared.settings.crew {
        let cache = cache.clone();
        lane.spawn(async move { carry(&cache.0, member as usize).await })
            .expect("a lane has room for its crew");
    }
    if !handle.shared.keeper_taken.swap(true, Ordering::SeqCst) {
        if handle.shared.settings.stall_time_ns() > 0 {
            let cache = cache.clone();
            let sentinel = async move { watchdog::watch(&cache.0).await };
            lane.spawn(sentinel).expect("a lane has room for the sentinel");
        }
        let cache = cache.clone();
        lane.spawn(async move { flusher::keep(&cache.0).await })
            .expect("a lane has room for the keeper");
    }
    let relayed = cache.clone();
    lane.spawn(async move { relay(&relayed.0).await }).expect("a lane has room for the relay");
}

impl Shared {
    /// Wakes the keeper if enough has gathered.
    pub(crate) fn start_if(&self, admit: Admit) {
        // While the crew writes out early, it is the one to say that the keeper should look. It may also have
        // found nothing that it may write, and be at rest: zeros are pending there since.
        let first = || !self.gauges.early.load(Ordering::SeqCst) || self.drain.in_flight() == 0;
        if matches!(admit, Admit::Absorbed { start: true, .. }) && first() {
            self.kick.notify();
        }
    }

    /// Whether nothing has been changed since the open epoch began.
    pub(crate) fn is_open_empty(&self) -> bool {
        let gauges = &self.gauges;
        let passed = gauges.passed.load(Ordering::SeqCst) && !planted(Bug::ForgetPasses);
        gauges.open_since.load(Ordering::SeqCst) == 0 && !passed
    }

    /// The open epoch is about to be closed. To be noted in the section that decides it.
    pub(crate) fn note_closing(&self, order: &mut Order) {
        order.closes(self.gauges.open_since.swap(0, Ordering::Relaxed));
        self.gauges.passed.store(false, Ordering::SeqCst);
        self.gauges.has_ranges.store(false, Ordering::SeqCst);
        self.show_closed(order);
    }

    /// Shows how many epochs are closed, and since when, to those who do not ask the order.
    pub(crate) fn show_closed(&self, order: &Order) {
        self.gauges.closed.store(order.closed(), Ordering::SeqCst);
        self.gauges.closing_since.store(order.closed_since(), Ordering::Relaxed);
        self.leave_order(order.closed());
    }
}

/// Makes the lane's tasks look up when the backing stops to answer, and when it answers again.
async fn relay(handle: &Handle) {
    let shared = &handle.shared;
    shared.stall.relay(&handle.lane, || shared.stopping.load(Ordering::SeqCst)).await;
}

impl Shared {
    /// Who else wants the backing.
    fn rivals(&self, now_ns: u64) -> Rivals {
        let level = Level::of(&self.gauges, &self.settings.now());
        Rivals {
            reads: self.patience.waiting(Errand::Read),
            changes: self.patience.waiting(Errand::Change) > self.drain.in_flight()
                || self.drain.has_just_passed(now_ns),
            // Nor must it become too old.
            flush: self.flush_waiters.load(Ordering::SeqCst) > 0
                || self.gauges.age(now_ns) > self.settings.dirty_age_ns() / 4 * 3,
            pressed: level.is_filling(),
            writers: self.pace.places(),
        }
    }

    /// A writer is about to wait for the crew, which may have one more run under way for that.
    pub(crate) fn rouse(&self, now_ns: u64) {
        // Also where the window has no room: whoever has a place in it may have looked there already, and looks
        // again before he rests. First: either he sees this, or we see that he has left his place.
        self.work.note();
        if self.drain.in_flight() < self.drain.window(self.rivals(now_ns)) {
            self.work.notify_one();
        }
    }

    /// Wakes one member of the crew, if there is work for him and the window has room. He wakes the next one.
    pub(crate) fn call_one(&self, now_ns: u64) {
        let has_work = || self.rooms.iter().any(|room| room.has_work.load(Ordering::SeqCst));
        if has_work() {
            self.rouse(now_ns);
        }
    }

    /// Whether nothing of an epoch may be sent: the volume has failed, or the backing is to be flushed first.
    fn must_not_send(&self) -> bool {
        self.has_failed() || self.flush_first.load(Ordering::SeqCst)
    }

    /// Lets the crew look for work everywhere.
    pub(crate) fn muster(&self) {
        self.rooms.iter().for_each(|room| room.has_work.store(true, Ordering::SeqCst));
        self.work.notify_one();
    }
}

/// A crew member: pulls runs from the shards, one at a time, while the window has room for it.
async fn carry(handle: &Handle, member: usize) {
    let shared = &handle.shared;
    let mut run = Run::new(&shared.arena, shared.geometry.run_blocks);
    let mut pauses = Pauses::new();
    loop {
        let seen = shared.work.seen();
        if shared.stopping.load(Ordering::SeqCst) {
            return shared.pace.work_ends();
        }
        let now = handle.lane.now();
        if shared.has_failed() {
            shared.pace.work_ends();
        } else if let rivals = shared.rivals(now)
            && shared.drain.may_begin(now, rivals)
        {
            match carry_one(handle, member, &mut run, rivals).await {
                None => {}
                Some(Ok(())) => {
                    pauses = Pauses::new();
                    continue;
                }
                Some(Err(error)) => {
                    // Nobody waits for what goes wrong.
                    shared.pace.work_ends();
                    handle.trouble(error, 1, shared.settings.retry_time_ns()).await;
                    pauses.pause(&handle.lane).await;
                    continue;
                }
            }
        } else {
            // What is under way may be zeros alone, for which nobody waits.
            shared.end_work();
        }
        shared.work.after(seen).await;
    }
}

/// Finds and writes one piece of work, which the window has room for. None: there is nothing to do.
async fn carry_one(
    handle: &Handle,
    member: usize,
    run: &mut Run,
    rivals: Rivals,
) -> Option<Result> {
    let shared = &handle.shared;
    let rooms = shared.rooms.len();
    for step in 0..rooms {
        let number = (member + step) % rooms;
        let room = &shared.rooms[number];
        if !room.has_work.load(Ordering::SeqCst) {
            continue;
        }
        handle.lane.turn().await;
        let most = shared.drain.run_blocks(shared.geometry.run_blocks, rivals);
        let next = room.shard.with(|shard| {
            // Here, and not only before the turn: a flush that failed has lost what belongs before this.
            if shared.must_not_send() {
                return Next::Nothing;
            }
            let next = shard.next_run(&shared.gauges, run, most);
            room.has_work.store(shard.has_work(&shared.gauges), Ordering::SeqCst);
            next
        });
        match next {
            Next::Nothing => {}
            Next::Blocks => {
                shared.pace.work_begins();
                shared.drain.blocks_begin(handle.lane.now(), shared.pace.zeros_under_way());
                shared.call_one(handle.lane.now());
                return Some(carry_blocks(handle, number, run).await);
            }
            Next::Zeros(range) => {
                shared.pace.zeros_begin();
                shared.end_work();
                shared.call_one(handle.lane.now());
                let result = carry_zeros(handle, number, &range, run).await;
                shared.pace.zeros_end();
                shared.drain.end_zeros(handle.lane.now());
                return Some(result);
            }
        }
    }
    shared.drain.cancel(handle.lane.now());
    shared.end_work();
    if shared.gauges.early.load(Ordering::SeqCst) && !shared.gauges.is_above_floor() {
        // Discards and passes may have emptied the open epoch, of which no run tells.
        shared.kick.notify();
    }
    None
}

async fn carry_blocks(handle: &Handle, room: usize, run: &Run) -> Result {
    let shared = &handle.shared;
    handle.lane.charge(Cost::WriteOut, run.blocks());
    let failures = shared.flush_failures.load(Ordering::SeqCst);
    let (mut result, mut parts) = (Ok(()), 0);
    let begun = handle.lane.now();
    for (at, from) in run.parts() {
        let start = handle.lane.now();
        let request = Request::Write { at, from, fua: false };
        result = match planted(Bug::AbandonStalled) {
            true => ask_impatiently(handle, request).await,
            false => handle.ask_below(request).await,
        };
        shared.latencies.run_ns.record(handle.lane.now() - start);
        parts += 1;
        if result.is_err() {
            break;
        }
    }
    if planted(Bug::SwallowError) {
        result = Ok(());
    }
    let good = result.is_ok();
    done(handle, room, |shard, gauges| {
        shard.run_done(gauges, run, good && shared.has_kept(failures));
    })
    .await;
    shared.pace.grant(run.blocks(), shared.gauges.last_part(&shared.settings.now()));
    let now = handle.lane.now();
    if !good || parts > 1 {
        shared.drain.cancel(now);
    } else {
        let most = shared.settings.crew * shared.lanes.load(Ordering::SeqCst);
        if shared.drain.end(now, begun, run.blocks(), most, shared.rivals(now)) {
            shared.set_allowance();
            // There may be room enough now to leave the open epoch alone.
            shared.kick.notify();
        }
    }
    result
}

async fn carry_zeros(handle: &Handle, room: usize, range: &ZeroRun, run: &Run) -> Result {
    let shared = &handle.shared;
    handle.lane.charge(Cost::WriteOut, 1);
    let failures = shared.flush_failures.load(Ordering::SeqCst);
    let mut result = Ok(());
    for at in run.extents() {
        let request = Request::Zero { at, fua: false, may_unmap: range.may_unmap };
        result = handle.ask_below(request).await;
        if result.is_err() {
            break;
        }
    }
    let good = result.is_ok();
    done(handle, room, |shard, gauges| {
        shard.zeros_done(gauges, range, good && shared.has_kept(failures));
    })
    .await;
    result
}

/// Notes the end of a piece of work, and tells whom it concerns. (What waited for this one is done by the
/// same member, or by whom it calls.)
async fn done(handle: &Handle, number: usize, note: impl FnOnce(&mut Shard, &Gauges)) {
    let shared = &handle.shared;
    let room = &shared.rooms[number];
    handle.lane.turn().await;
    shared.unflushed.store(true, Ordering::SeqCst);
    let more = room.shard.with(|shard| {
        note(shard, &shared.gauges);
        let more = shard.has_work(&shared.gauges);
        room.has_work.store(more, Ordering::SeqCst);
        more
    });
    room.changed.notify();
    if more {
        shared.call_one(handle.lane.now());
    }
    if shared.gauges.remaining.load(Ordering::SeqCst) == 0 {
        shared.order_changed.notify();
        if !more || shared.gauges.has_much_to_settle(&shared.settings.now()) {
            shared.kick.notify();
        }
    }
}

/// What the planted bug does: once the volume has failed, what hangs counts as answered.
async fn ask_impatiently(handle: &Handle, request: Request) -> Result {
    let mut running = handle.below.run(request);
    let sent = handle.shared.patience.sent(Errand::Change);
    let mut failed = core::pin::pin!(async {
        loop {
            let seen = handle.shared.freed.seen();
            if handle.shared.has_failed() {
                return;
            }
            handle.shared.freed.after(seen).await;
        }
    });
    let result = core::future::poll_fn(|context| match Pin::new(&mut running).poll(context) {
        Poll::Pending => failed.as_mut().poll(context).map(|()| None),
        running => running.map(Some),
    })
    .await;
    handle.shared.patience.answered(sent);
    if result.is_none() {
        let left_behind = async move { _ = running.await };
        handle.lane.spawn(left_behind).expect("a lane has room for a few more tasks");
    }
    result.unwrap_or(Err(TAINTED))
}
