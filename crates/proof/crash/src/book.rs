//! The book of a history: every request and answer in order, and checks of the promises that can be
//! judged immediately.

use crate::device::Disk;
use crate::disk::NEVER;
use crate::finding::Finding;
use crate::link::Watch;
use crate::operator::Operator;
use crate::oracle::{Content, Oracle, Range, decode};
use crate::pending::{Kind, Pending};
use crate::setup::EngineSetup;
use crate::stamp::{self, GRAIN, Operation, Shown};
use crate::subject::{Admission, Process, take_admissions};
use crate::trace;
use block::{Discard, Durability, Result, Stretch, WriteMode};
use cache::{BLOCK_SECTORS, Changes};

/// Flushes that a process may fail because the one before it was killed (C1). If a flush was in
/// progress, it may fail the first flush of every client: of all clients or of none.
#[derive(Clone, Copy, Default)]
pub(crate) struct Doubt {
    /// Whether a process was killed: retained copies of write-throughs are dirty now.
    follows_kill: bool,
    /// Whether a flush was in progress.
    pub(crate) may: bool,
    /// Whether an order was promised as well, so that the volume may have failed.
    pub(crate) may_fail: bool,
    /// Number of first flushes of connections that have failed for this reason, and of those that
    /// have not.
    failed: u32,
    good: u32,
}

/// The history until now.
pub(crate) struct Book {
    pub(crate) oracle: Oracle,
    disk: Disk,
    /// Stamps per 512 bytes.
    stamps: u32,
    /// Sectors of the smallest request for whole blocks.
    block: u32,
    /// Sectors of a region of the cache.
    region: u32,
    next: Operation,
    buffers: bool,
    mode: WriteMode,
    mode_since: u32,
    /// The operator's settings.
    pub(crate) operator: Operator,
    /// Live connections that have sent a flush.
    proven: u32,
    unproven_since: u32,
    /// Dirty blocks after the last step.
    pub(crate) dirty_blocks: u32,
    admissions: Vec<Admission>,
    /// Operations whose changes were admitted, in parts, since the last call.
    admitted: Vec<Operation>,
    /// Requests sent and not answered.
    open: Vec<Pending>,
    /// Increases with every answer.
    pub(crate) answers: u64,
    /// Clients that have not finished.
    pub(crate) clients: u32,
    pub(crate) doubt: Doubt,
    /// The link of the process. None: the disk is one of this machine.
    link: Option<Watch>,
    /// When the server has restarted last.
    restarted: u32,
    /// The flush that is about to be answered with doubt.
    doubted: Operation,
    /// The first promise that was broken.
    pub(crate) finding: Option<Finding>,
}

impl Book {
    pub(crate) fn new(
        mut oracle: Oracle,
        disk: Disk,
        next: Operation,
        engine: &EngineSetup,
    ) -> Book {
        oracle.begin_process(engine.durability);
        let (now, mode) = (oracle.clock, engine.mode);
        let stamps = disk.with(|disk| disk.model.stamps);
        Book {
            operator: Operator::new(engine),
            oracle,
            stamps,
            block: disk.with(|disk| disk.model.logical_sectors),
            region: engine.region_blocks * BLOCK_SECTORS * stamps,
            disk,
            next,
            buffers: false,
            mode,
            mode_since: now,
            proven: 0,
            unproven_since: now,
            dirty_blocks: 0,
            admissions: Vec::new(),
            admitted: Vec::new(),
            open: Vec::new(),
            answers: 0,
            clients: 0,
            doubt: Doubt::default(),
            link: None,
            restarted: 0,
            doubted: 0,
            finding: None,
        }
    }

    /// Enables the checks of a write buffer's promises.
    pub(crate) fn expect_buffer(&mut self) {
        self.buffers = true;
    }

    /// Returns the name of the next operation.
    pub(crate) fn next_operation(&self) -> Operation {
        self.next
    }

    /// Notes that a process takes over from one that was killed: its clients have sent nothing yet.
    /// `in_flush`: the killed one had sent the disk a flush.
    pub(crate) fn record_takeover(&mut self, engine: &EngineSetup, in_flush: bool) {
        self.doubt = self.doubt_after(in_flush, engine.durability);
        self.oracle = self.disk.with(|disk| self.oracle.after_kill(disk, &[]));
        self.oracle.begin_process(engine.durability);
        self.operator = Operator::new(engine);
        let now = self.oracle.clock;
        (self.mode, self.mode_since) = (engine.mode, now);
        (self.proven, self.unproven_since) = (0, now);
        self.open.clear();
    }

    /// Returns the doubt that the process after a kill may have. `in_flush`: the killed one had
    /// sent a flush to the disk. `durability`: what flushes of the next process promise.
    pub(crate) fn doubt_after(&self, in_flush: bool, durability: Durability) -> Doubt {
        let may = self.doubt.may || in_flush;
        let orders = self.oracle.has_promised_order || durability == Durability::Ordered;
        let may_fail = may && (self.doubt.may_fail || orders);
        Doubt { follows_kill: true, may, may_fail, ..Doubt::default() }
    }

    /// This process begins, with its number of dirty blocks, and in doubt or not.
    pub(crate) fn begin_process(&mut self, process: &dyn Process) {
        self.dirty_blocks = process.dirty_blocks();
        self.operator.holds(self.dirty_blocks);
        let is_reported = process.is_in_doubt() || self.link.is_some() && process.has_failed();
        self.oracle.is_taken_over(self.doubt.may, is_reported);
        self.check_order(process);
    }

    /// C1: in doubt about a flush, no process promises an order and serves.
    fn check_order(&mut self, process: &dyn Process) {
        let orders = self.oracle.durability() == Durability::Ordered;
        if orders && process.is_in_doubt() && !process.has_failed() {
            let text = "a process that is in doubt about a flush serves, and promises an order";
            self.report(Finding::new("C1", text));
        }
    }

    /// Notes that the operator is about to change settings: until the change ends, both are in
    /// force.
    pub(crate) fn begin_set(&mut self, changes: &Changes) {
        self.collect_admissions();
        let now = self.oracle.tick();
        self.operator.begin_change(changes, self.mode, self.oracle.durability());
        if let Some(durability) = changes.durability {
            self.oracle.may_promise(durability);
        }
        if changes.write.is_some() {
            // It is unknown when writes stop being held back, so possible delays are not judged.
            (self.mode, self.mode_since) = (WriteMode::BackNow, now);
        }
        trace::event([now.into(), 9, 0], format_args!("{now}: the operator sets {changes:?}"));
    }

    /// They are changed, or nothing is.
    pub(crate) fn end_set(&mut self, done: bool, process: &dyn Process) {
        self.collect_admissions();
        self.answers += 1;
        let now = self.oracle.tick();
        let (mode, durability) = self.operator.end_change(done);
        self.oracle.promises(durability);
        (self.mode, self.mode_since) = (mode, now);
        trace::event([now.into(), 10, done.into()], format_args!("{now}: set: {done}"));
        self.check_order(process);
    }

    /// Returns the requests sent and not answered yet.
    pub(crate) fn open(&self) -> &[Pending] {
        &self.open
    }

    /// Notes the changes that the write buffer has admitted; returns their operations since the
    /// last call.
    pub(crate) fn note_admissions(&mut self, into: &mut Vec<Operation>) {
        self.collect_admissions();
        self.look_at_link();
        into.clear();
        into.append(&mut self.admitted);
    }

    /// Notes the link of a process that begins, if the disk is a server's.
    pub(crate) fn watch_link(&mut self, link: Option<Watch>) {
        self.link = link;
    }

    fn look_at_link(&mut self) {
        if let Some(link) = &mut self.link {
            link.look(&self.oracle, &self.disk);
        }
    }

    /// Notes that the server has restarted.
    pub(crate) fn record_restart(&mut self, dropped: &[(u32, [u8; GRAIN])]) {
        self.collect_admissions();
        self.disk.with(|disk| self.oracle.record_restart(disk, dropped));
        self.restarted = self.oracle.clock;
    }

    /// Whether the volume of the next process may have failed because of the link.
    pub(crate) fn may_fail_after_kill(&self) -> bool {
        self.link.as_ref().is_some_and(Watch::may_fail_after_kill)
    }

    /// Whether the volume may have failed without an error of the disk.
    pub(crate) fn may_have_failed(&self) -> bool {
        self.doubt.may_fail || self.link.as_ref().is_some_and(Watch::may_have_failed)
    }

    fn collect_admissions(&mut self) {
        let mut admissions = std::mem::take(&mut self.admissions);
        take_admissions(&mut admissions);
        for admission in &admissions {
            let range = (admission.first * self.stamps, admission.count * self.stamps);
            self.oracle.record_admission(admission.operation, range, admission.epoch);
            trace::event(
                [range.0.into(), range.1.into(), admission.epoch.into()],
                format_args!(
                    "  {} buffered: {}+{} in epoch {}",
                    admission.operation, range.0, range.1, admission.epoch
                ),
            );
            self.check_room(admission);
            self.admitted.push(admission.operation);
        }
        self.admissions = admissions;
    }

    /// Checks C6 and C13: a change that makes more blocks dirty stays below both limits.
    fn check_room(&mut self, admission: &Admission) {
        let (dirty, before) = (admission.dirty_blocks, self.dirty_blocks);
        let limits = [
            ("C6", "are dirty", dirty, admission.dirty_blocks_max),
            ("C13", "wait to be written out", admission.debt_blocks, admission.allowance_blocks),
        ];
        for (clause, what, level, limit) in limits {
            if level > limit && dirty > before {
                let text = format!(
                    "operation {} was buffered: {level} blocks {what}, and {limit} may; {dirty} \
                     blocks are dirty, {before} were before",
                    admission.operation
                );
                self.report(Finding::new(clause, text));
            }
        }
    }

    fn report(&mut self, finding: Finding) {
        self.finding.get_or_insert(finding);
    }

    /// Notes that a client sends an operation; `any_dirty`: the write buffer is not empty.
    pub(crate) fn record_request(&mut self, kind: Kind, range: Range, any_dirty: bool) -> Pending {
        let operation = self.next;
        self.next += 1;
        self.record_sending(operation, kind, range, any_dirty)
    }

    /// Notes that a change came behind another one on its connection.
    pub(crate) fn comes_behind(&mut self, change: &Pending, first: &Pending) {
        self.oracle.comes_behind(change.range, change.sent, first.sent);
    }

    /// Notes that a client sends again a request that was not answered before the process died: the
    /// same bytes.
    pub(crate) fn record_resend(&mut self, before: &Pending, any_dirty: bool) -> Pending {
        self.record_sending(before.operation, before.kind, before.range, any_dirty)
    }

    /// Returns the contents after a discard.
    fn content_after_discard(&self) -> Content {
        match self.disk.with(|disk| disk.model.discard) {
            Discard::Zeroes => Content::Zeros,
            Discard::Ignored => Content::ZerosOrOlder,
        }
    }

    fn record_sending(
        &mut self,
        operation: Operation,
        kind: Kind,
        range: Range,
        any_dirty: bool,
    ) -> Pending {
        self.collect_admissions();
        let content = match kind {
            Kind::Write | Kind::WriteFua => Some(Content::Stamp),
            Kind::Zero | Kind::ZeroFua => Some(Content::Zeros),
            Kind::Discard => Some(self.content_after_discard()),
            Kind::Read | Kind::Flush | Kind::Status => None,
        };
        let overlaps_dirty =
            self.buffers && content.is_some() && self.may_be_dirty(NEVER, range, any_dirty);
        match content {
            Some(content) => {
                self.oracle.record_change(operation, content, range);
                self.padding(range).for_each(|padding| self.oracle.begin_padding(padding));
            }
            None => _ = self.oracle.tick(),
        }
        let sent = self.oracle.clock;
        trace::event(
            [u64::from(operation), kind as u64, u64::from(range.0) << 32 | u64::from(range.1)],
            format_args!("{sent}: {operation} {kind:?} {}+{}", range.0, range.1),
        );
        let refusal = self.link.as_ref().filter(|_| content.is_some()).and_then(Watch::refusal);
        let pending = Pending { operation, kind, range, sent, overlaps_dirty, refusal };
        self.open.push(pending);
        pending
    }

    /// Returns the sectors of a change's first and last block that it leaves unchanged.
    fn padding(&self, (first, count): Range) -> impl Iterator<Item = Range> + use<> {
        let (block, end) = (self.block, first + count);
        let head = (first / block * block, first % block);
        let tail = (end, end.next_multiple_of(block) - end);
        [head, tail].into_iter().filter(|(_, count)| *count > 0)
    }

    /// Returns the blocks that contain these sectors.
    fn blocks(&self, (first, count): Range) -> Range {
        let start = first / self.block * self.block;
        (start, (first + count).next_multiple_of(self.block) - start)
    }

    /// Notes the answer; `stamps` is the result of a read.
    pub(crate) fn record_answer(&mut self, pending: &Pending, result: Result, stamps: &[u8]) {
        self.collect_admissions();
        self.look_at_link();
        self.answers += 1;
        let Pending { operation, kind, range, sent, .. } = *pending;
        self.open.retain(|open| open.operation != operation);
        trace::event(
            [u64::from(operation), u64::from(result.is_ok()), stamp::digest(stamps)],
            format_args!(
                "{}: {operation} answered {}{}",
                self.oracle.clock + 1,
                words(result),
                Shown(range.0, if kind == Kind::Read { stamps } else { &[] })
            ),
        );
        let good = result.is_ok();
        // Another client's write of the same block may have been buffered since the request was
        // sent.
        let overlaps_dirty =
            pending.overlaps_dirty || self.buffers && self.may_be_dirty(sent, range, true);
        match kind {
            Kind::Read if good => {
                if let Err(finding) = self.oracle.record_read_answer(sent, range, stamps) {
                    self.report(finding);
                }
            }
            Kind::Flush if good => {
                if let Some(link) = &mut self.link
                    && self.oracle.durability() == Durability::Flush
                {
                    link.note_flush(sent);
                }
                self.oracle.record_flush_answer(sent);
            }
            Kind::Read | Kind::Flush | Kind::Status => _ = self.oracle.tick(),
            _ => {
                let fua = matches!(kind, Kind::WriteFua | Kind::ZeroFua);
                self.oracle.record_change_answer(operation, range, good, fua, sent);
                self.padding(range).for_each(|padding| self.oracle.end_padding(padding));
            }
        }
        if result.is_ok() {
            self.check_refused(pending);
        }
        match result {
            Ok(()) if overlaps_dirty => {}
            Ok(()) => self.check_not_held_back(pending),
            Err(_) => self.check_error(pending, result),
        }
    }

    /// Checks C8: an error has a cause below.
    fn check_error(&mut self, pending: &Pending, result: Result) {
        let is_excused = self.doubt.may_fail && pending.kind != Kind::Read;
        let is_excused = is_excused || self.link.as_ref().is_some_and(|link| link.excuses(pending));
        let is_hit = pending.kind == Kind::Read && self.is_held_in_memory(pending);
        if pending.operation == self.doubted || is_excused && !is_hit {
            return;
        }
        let [reads, writes, flushes] = self.disk.with(|disk| disk.errors);
        let excused = match pending.kind {
            Kind::Read if is_hit => false,
            // Failed reads of other clients, or read ahead of this one, are no cause of its error.
            Kind::Read => {
                let blocks = self.blocks(pending.range);
                self.disk.with(|disk| disk.has_failed_read(blocks))
            }
            Kind::Status => reads > 0,
            Kind::Flush => writes + flushes > 0,
            _ => reads + writes + flushes > 0,
        };
        if !excused {
            let text = format!(
                "operation {} ({:?}) failed although the disk did not: {}",
                pending.operation,
                pending.kind,
                words(result)
            );
            self.report(Finding::new("C8", text));
        }
    }

    /// Checks C8: "each change gets EIO immediately, also if memory could absorb it", while the
    /// link is down.
    fn check_refused(&mut self, pending: &Pending) {
        let refusal = self.link.as_ref().and_then(Watch::refusal);
        if pending.refusal.is_some() && pending.refusal == refusal {
            let text = format!(
                "operation {} ({:?}) succeeded while the link was down and changes are refused",
                pending.operation, pending.kind
            );
            self.report(Finding::new("C8", text));
        }
    }

    /// Whether a read must be answered from memory, by its first poll: it lies in one region, and
    /// in each of its sectors, the only contents that it may show were buffered before it was sent,
    /// and the disk does not have them for good.
    ///
    /// A read of several regions is served in parts. Only in the laboratory other tasks run between
    /// them, so only there such a read can seem to wait for a disk that hangs.
    fn is_held_in_memory(&self, pending: &Pending) -> bool {
        let (first, count) = self.blocks(pending.range);
        if first / self.region != (first + count - 1) / self.region {
            return false;
        }
        self.disk.with(|disk| {
            (first..first + count).all(|sector| {
                let mut alive = self.oracle.sectors[sector as usize]
                    .iter()
                    .filter(|version| version.dead == NEVER || version.dead > pending.sent);
                let (Some(version), None) = (alive.next(), alive.next()) else { return false };
                let is_kept = version.is_held() && !version.excused && !version.lost;
                let is_durable = decode(disk.sector(sector).1, sector)
                    .is_ok_and(|durable| version.shows(durable));
                let is_stamp = version.content == Content::Stamp;
                is_kept && is_stamp && version.answered < pending.sent && !is_durable
            })
        })
    }

    /// Returns since when writes must have reached the disk when they are answered, and by which
    /// clause.
    fn durable_writes_since(&self) -> Option<(u32, &'static str)> {
        match self.mode {
            WriteMode::Through | WriteMode::None => Some((self.mode_since, "C12")),
            WriteMode::Back if self.proven == 0 => {
                Some((self.mode_since.max(self.unproven_since), "C11"))
            }
            WriteMode::Back | WriteMode::BackNow => None,
        }
    }

    fn check_not_held_back(&mut self, pending: &Pending) {
        let no_write = [Kind::Read, Kind::Flush, Kind::Discard, Kind::Status];
        let is_write = !no_write.contains(&pending.kind);
        let Some((since, clause)) = self.durable_writes_since() else {
            return;
        };
        if !self.buffers
            || !is_write
            || since >= pending.sent
            || self.restarted >= pending.sent
            || self.oracle.is_unsettled(pending.sent)
        {
            return;
        }
        let (first, count) = pending.range;
        for sector in first..first + count {
            let visible = self.disk.with(|disk| decode(disk.sector(sector).0, sector));
            let versions = &self.oracle.sectors[sector as usize];
            let own = versions.iter().rfind(|version| version.operation == pending.operation);
            let (Some(own), Ok(visible)) = (own, visible) else {
                continue;
            };
            let held_back = versions
                .iter()
                .filter(|version| version.shows(visible))
                .all(|version| own.replaces(version));
            if held_back {
                let seen = self.oracle.name(sector, visible);
                let text = format!(
                    "operation {} was answered while writes must not be held back, but in sector \
                     {sector} the disk still has {seen}",
                    pending.operation
                );
                return self.report(Finding::new(clause, text));
            }
        }
    }

    /// Whether the blocks of a range may hold buffered data other than the change sent at `sent`.
    /// (Pending zeros are not counted as dirty blocks. After a kill, retained copies of
    /// write-throughs count as dirty.)
    fn may_be_dirty(&self, sent: u32, (first, count): Range, any_dirty: bool) -> bool {
        let block = 8 * self.stamps;
        let start = first / block * block;
        let end = (first + count).next_multiple_of(block).min(self.oracle.sectors.len() as u32);
        let versions = self.oracle.sectors[start as usize..end as usize].iter().flatten();
        let mut alive = versions
            .filter(|version| version.buffered || self.doubt.follows_kill)
            .filter(|version| version.dead == NEVER && version.sent != sent);
        alive.any(|version| any_dirty || version.content != Content::Stamp)
    }

    /// Notes that a client sends a flush, on a connection that has or has not sent one before.
    pub(crate) fn proves(&mut self, was_proven: bool) {
        self.proven += u32::from(!was_proven);
    }

    /// Notes that a flush is about to be answered, whether it is the first one of its connection,
    /// and whether the process doubts it.
    pub(crate) fn doubts(&mut self, pending: &Pending, is_first: bool, doubts: bool) {
        match (is_first, doubts) {
            (true, true) => self.doubt.failed += 1,
            (true, false) => self.doubt.good += 1,
            _ => {}
        }
        if doubts && !self.doubt.may {
            let text = "a flush fails as if one had been under way at a kill, and none was";
            self.report(Finding::new("C8", text));
        }
        if doubts && !is_first || self.doubt.failed > 0 && self.doubt.good > 0 {
            let text =
                "after a kill during a flush, some clients' first flush fails, and some do not";
            self.report(Finding::new("C1", text));
        }
        if doubts {
            self.doubted = pending.operation;
            self.oracle.record_loss_report();
        }
    }

    /// Notes that a connection has ended.
    pub(crate) fn record_disconnect(&mut self, was_proven: bool) {
        let now = self.oracle.tick();
        self.proven -= u32::from(was_proven);
        if was_proven && self.proven == 0 {
            self.unproven_since = now;
        }
        trace::event([now.into(), 1, 0], format_args!("{now}: a connection ends"));
    }

    /// Notes the answer to a status: the stretches known from sector `first_sector` on.
    pub(crate) fn record_status_answer(
        &mut self,
        pending: &Pending,
        first_sector: u32,
        answer: Result<Vec<Stretch>>,
    ) {
        let (first, count) = pending.range;
        let mut sector = first_sector;
        for stretch in answer.as_deref().unwrap_or_default() {
            let end = sector + stretch.sectors as u32 * self.stamps;
            let zeros = if stretch.zero { sector.max(first)..end.min(first + count) } else { 0..0 };
            for sector in zeros {
                if let Err(finding) = self.oracle.check_zero(sector, pending.sent) {
                    self.report(finding);
                }
            }
            sector = end;
        }
        self.record_answer(pending, answer.map(|_| ()), &[]);
    }

    /// Notes that the operator is about to discard dirty data.
    pub(crate) fn begin_discard(&mut self) {
        self.collect_admissions();
        self.oracle.discarding = true;
        let now = self.oracle.tick();
        trace::event(
            [now.into(), 7, 0],
            format_args!("{now}: the operator discards what is dirty"),
        );
    }

    /// Notes that it is discarded, or that nothing was done.
    pub(crate) fn end_discard(&mut self, done: bool) {
        self.collect_admissions();
        self.answers += 1;
        match done {
            true => self.disk.with(|disk| self.oracle.record_discard_dirty(disk)),
            false => self.oracle.discarding = false,
        }
        let now = self.oracle.clock;
        let what = if done { "is discarded" } else { "stays" };
        trace::event([now.into(), 8, done.into()], format_args!("{now}: what was dirty {what}"));
    }

    /// Notes that the error of the failed volume has been cleared. Over a link, a process may have
    /// found the loss at its start.
    pub(crate) fn record_error_clearing(&mut self) {
        let is_found = self.link.is_some() && self.doubt.may_fail;
        let is_reported = self.link.as_ref().is_some_and(Watch::has_reported);
        if self.disk.with(|disk| disk.errors[2]) > 0 || is_reported || is_found {
            self.oracle.record_error_clearing();
        }
        let now = self.oracle.clock;
        trace::event([now.into(), 3, 0], format_args!("{now}: the operator clears the error"));
    }

    /// Notes that the write mode has been changed.
    pub(crate) fn record_mode(&mut self, mode: WriteMode) {
        let now = self.oracle.tick();
        (self.mode, self.mode_since) = (mode, now);
        trace::event([now.into(), 2, mode as u64], format_args!("{now}: mode {mode:?}"));
    }
}

fn words(result: Result) -> String {
    match result {
        Ok(()) => "ok".to_string(),
        Err(error) => error.to_string(),
    }
}
