//! Crashes: all states that could be left at one moment of a run, recovered and judged.
//!
//! `steps.rs` takes a run from moment to moment. Some crashes continue with a run of their own,
//! which crashes again: therefore both are in one module.

mod steps;

use crate::book::{Book, Doubt};
use crate::cold_starts::{ColdStarts, Image};
use crate::disk::State;
use crate::finding::Finding;
use crate::link::{settle_former, table_memory};
use crate::midway;
use crate::model::Fault;
use crate::oracle::Oracle;
use crate::pending::Pending;
use crate::recovery::{self, Expected, Recovery};
use crate::run::{Beginning, Run};
use crate::setup::{Scale, Setup};
use crate::stamp::{FIRST, GRAIN, Operation};
use crate::subject::Subject;
use crate::survivors::{Survivors, after_kill, landings};
use crate::tally::Tally;
use crate::trace;
use crate::verdict::Epochs;
use block::{Durability, Memory};
use lane::Random;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of crashes that follow one another.
const DEPTH_MAX: usize = 2;

/// One of this many processes that start after a kill is killed before it has recovered.
const DIES_AGAIN_ONE_IN: u64 = 8;

/// One of this many kills is followed by another program's write to the disk.
const FOREIGN_ONE_IN: u64 = 8;

/// One thread's laboratory, set up for one history after the other.
pub struct Laboratory<'a> {
    subject: &'a dyn Subject,
    /// Work done.
    pub tally: Tally,
    recovery: Option<Recovery>,
    cold_starts: ColdStarts,
    survivors: [Survivors; DEPTH_MAX + 1],
    image: Vec<u8>,
    verdicts: Vec<Epochs>,
}

impl<'a> Laboratory<'a> {
    /// Returns a laboratory that tests `subject`.
    pub fn new(subject: &'a dyn Subject) -> Laboratory<'a> {
        Laboratory {
            subject,
            tally: Tally::default(),
            recovery: None,
            cold_starts: ColdStarts::default(),
            survivors: Default::default(),
            image: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// Runs the history of this seed with all its crashes.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn history(&mut self, seed: u64, scale: Scale) -> Result<(), Finding> {
        self.history_of(match (self.subject.serves_bytes(), self.subject.has_link()) {
            (_, true) => Setup::with_link(seed, scale),
            (true, false) => Setup::new(seed, scale),
            (false, false) => Setup::of_blocks(seed, scale),
        })
    }

    /// Runs one history with all its crashes.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn history_of(&mut self, mut setup: Setup) -> Result<(), Finding> {
        if !self.subject.mends_failed_flushes() {
            setup.faults.flush = Fault::default();
            (setup.flushes_fail, setup.faults.late_flush) = (false, false);
        }
        if !self.subject.notices_hangs() {
            (setup.faults.hang, setup.faults.hang_ns) = Default::default();
        }
        if !self.subject.has_durabilities() {
            setup.engine.durability = Durability::Flush;
            setup.sets = 0;
        }
        trace::event([setup.seed, 0, 0], format_args!("{setup:#?}"));
        let arena_bytes = self.subject.arena_bytes(&setup);
        self.recovery = Some(Recovery::new(&setup, arena_bytes));
        self.cold_starts = ColdStarts::default();
        self.tally.histories += 1;
        self.tally.operations += u64::from(setup.operations);
        let mut disk = State::new(setup.model.clone(), setup.faults, setup.seed ^ 0xd15c);
        disk.serve(setup.link.is_some());
        let beginning = Beginning {
            disk,
            arena: Arc::new(Memory::heap(arena_bytes)),
            table: setup.link.map(|_| table_memory()),
            oracle: Oracle::new(setup.model.sectors, setup.model.unit_sectors),
            next: FIRST,
            again: Vec::new(),
            depth: 0,
            doubt: Doubt::default(),
            may_have_failed: false,
        };
        midway::reset();
        let run = self.begin(setup, beginning)?;
        self.go_to_the_end(run)
    }

    /// Starts a process, with kills during the start; then its clients.
    fn begin(&mut self, setup: Setup, mut from: Beginning) -> Result<Run, Finding> {
        let again = std::mem::take(&mut from.again);
        let mut run = Run::new(self.subject, setup, from)?;
        self.kills_midway(&mut run)?;
        run.send_clients(&again);
        Ok(run)
    }

    /// Runs a run to its end. After a panic it is never dropped: its tasks are in the middle of
    /// their work, and dropping them could panic again.
    fn go_to_the_end(&mut self, run: Run) -> Result<(), Finding> {
        let mut run = ManuallyDrop::new(run);
        let result = self.run_history(&mut run);
        drop(ManuallyDrop::into_inner(run));
        result
    }

    /// Crashes at this moment of a run: by power cut and by kill, in every way or in a sample of
    /// them.
    fn crash(&mut self, run: &mut Run, disk_changed: bool) -> Result<(), Finding> {
        self.tally.crash_points += 1;
        let before = self.tally;
        if disk_changed {
            self.power_cuts(run)?;
        }
        if run.random.one_in(run.setup.limits.kill_one_in.into()) {
            self.kills(run, None, run.setup.limits.kill)?;
        }
        if run.depth == 0 {
            let states = self.tally.states() - before.states();
            trace::event([states, 3, 0], format_args!("    {states} crash states"));
        }
        Ok(())
    }

    fn count(&mut self, depth: usize, of: impl Fn(&mut Tally) -> &mut u64) {
        *match depth {
            0 => of(&mut self.tally),
            _ => &mut self.tally.nested_states,
        } += 1;
    }

    fn power_cuts(&mut self, run: &mut Run) -> Result<(), Finding> {
        let mut survivors = std::mem::take(&mut self.survivors[run.depth]);
        let result = self.power_cuts_of(run, &mut survivors);
        self.survivors[run.depth] = survivors;
        result
    }

    fn power_cuts_of(&mut self, run: &mut Run, survivors: &mut Survivors) -> Result<(), Finding> {
        run.disk.with(|disk| survivors.collect(disk, run.setup.limits.power));
        let closed = self.judge_candidates(run, survivors)?;
        while survivors.next(&mut run.random) {
            let chosen = survivors.chosen_candidates().map(|candidate| self.verdicts[candidate]);
            let epochs = chosen.fold(closed, Epochs::combine);
            let place = |finding: Finding| {
                finding.at(format_args!("power cut, survivors {}", survivors.describe()))
            };
            epochs.check().map_err(place)?;
            self.image.clear();
            self.image.extend_from_slice(survivors.base());
            survivors.render(&mut self.image);
            self.recover_image(run).map_err(place)?;
            self.count(run.depth, |tally| &mut tally.power_states);
            if self.goes_on(run) {
                let image = std::mem::take(&mut self.image);
                let result = self.go_on_after_power_cut(run, &image);
                self.image = image;
                result.map_err(place)?;
                self.judge_candidates(run, survivors)?;
            }
        }
        Ok(())
    }

    /// Judges every candidate of every open unit once; returns the verdict on all other units.
    fn judge_candidates(&mut self, run: &Run, survivors: &Survivors) -> Result<Epochs, Finding> {
        let book = run.book.borrow();
        let oracle = &book.oracle;
        let place = |finding: Finding| finding.at(format_args!("left by a power cut"));
        self.verdicts.clear();
        self.verdicts.resize(survivors.candidates(), Epochs::NONE);
        let mut open = survivors.open_units().peekable();
        let mut closed = Epochs::NONE;
        let units = survivors.base().chunks_exact(run.setup.model.unit_bytes());
        for (unit, bytes) in units.enumerate() {
            match open.next_if(|(open, _)| *open == unit) {
                None => {
                    let epochs = oracle.judge_unit(unit as u32, bytes).map_err(place)?;
                    closed = closed.combine(epochs);
                }
                Some((_, candidates)) => {
                    for candidate in candidates {
                        let bytes = survivors.candidate_bytes(candidate);
                        let epochs = oracle.judge_unit(unit as u32, bytes).map_err(place)?;
                        self.verdicts[candidate] = epochs;
                    }
                }
            }
        }
        Ok(closed)
    }

    /// Starts a process on an image after a power cut, with empty memory: its reads must return
    /// exactly the image.
    fn recover_image(&mut self, run: &mut Run) -> Result<(), Finding> {
        let seed = run.random.next_u64();
        let engine = recovery::flushing(&run.setup).engine;
        let image = self.cold_starts.insert(&engine, &self.image, run.moment());
        self.tally.repeated_states += u64::from(image == Image::Repeated);
        // Tests start it anyway: it returns the same data as before.
        if image != Image::New && !recovery::is_chosen(seed) {
            self.tally.repeated_images += 1;
            if !cfg!(debug_assertions) {
                return Ok(());
            }
        }
        let recovery = self.recovery.as_mut().expect("set up with the history");
        recovery.disk(|disk| {
            disk.load(&self.image);
            disk.errors = [0; 3];
        });
        recovery.arena.zero(0, recovery.arena.bytes());
        let expected = Expected { keeps_clean: true, flushes: false, may_fail: false };
        recovery.run(self.subject, &run.setup, seed, expected)?;
        if recovery.stamps != self.image {
            return Err(Finding::new(
                "C4",
                format!(
                    "a process that starts with empty memory shows something else than the disk \
                     holds in sector {}",
                    first_difference(&recovery.stamps, &self.image)
                ),
            ));
        }
        recovery.judge_flushed([0; 3])
    }

    /// Kills in the middle of the last step: see `midway.rs`.
    fn kills_midway(&mut self, run: &mut Run) -> Result<(), Finding> {
        let memories = midway::take();
        if memories.is_empty() {
            return Ok(());
        }
        self.tally.crash_points += 1;
        for memory in memories {
            let limit = run.setup.limits.kill_midway;
            let result = self.kills(run, Some(&memory), limit);
            midway::give_back(memory);
            result.map_err(|finding| finding.at(format_args!("in the middle of a section")))?;
        }
        Ok(())
    }

    fn kills(&mut self, run: &mut Run, midway: Option<&[u8]>, limit: u32) -> Result<(), Finding> {
        let writes = run.disk.with(|disk| landings(disk));
        let sets = 1u32 << writes;
        if sets <= limit {
            return (0..sets).try_for_each(|landed| self.kill(run, midway, landed));
        }
        let mut tried = Vec::with_capacity(limit as usize);
        while tried.len() < limit as usize {
            let landed = run.random.below(u64::from(sets)) as u32;
            if !tried.contains(&landed) {
                tried.push(landed);
                self.kill(run, midway, landed)?;
            }
        }
        Ok(())
    }

    fn kill(&mut self, run: &mut Run, midway: Option<&[u8]>, landed: u32) -> Result<(), Finding> {
        let place = |finding: Finding| finding.at(format_args!("kill, landed {landed:b}"));
        let limits = run.setup.limits;
        let one_in = limits.damaged_one_in;
        if run.depth == 0 && one_in > 0 && run.random.one_in(u64::from(one_in)) {
            self.recover_memory(run, midway, landed, true).map_err(place)?;
            self.count(run.depth, |tally| &mut tally.damaged_states);
        }
        self.recover_memory(run, midway, landed, false).map_err(place)?;
        match midway {
            None => self.count(run.depth, |tally| &mut tally.kill_states),
            Some(_) => self.count(run.depth, |tally| &mut tally.midway_states),
        }
        if self.goes_on(run) && !self.is_lost(run) {
            self.go_on_after_kill(run, midway, landed).map_err(place)?;
        }
        Ok(())
    }

    /// Whether only this process can report a loss of the disk: see [`Oracle::is_lost`].
    fn is_lost(&self, run: &Run) -> bool {
        let knows = self.subject.failure_outlives_kill();
        let oracle = &run.book.borrow().oracle;
        if oracle.discarding {
            return true;
        }
        run.disk.with(|disk| !knows && disk.errors[2] > 0 && oracle.is_lost(disk))
    }

    /// Starts a process on the memory of a killed one, and on the disk that kept running.
    fn recover_memory(
        &mut self,
        run: &mut Run,
        midway: Option<&[u8]>,
        landed: u32,
        damaged: bool,
    ) -> Result<(), Finding> {
        let fence = self.subject.fence();
        let recovery = self.recovery.as_mut().expect("set up with the history");
        let now_ns = run.world.now();
        run.disk.with(|from| {
            recovery.disk(|into| {
                after_kill(from, into, landed, fence, now_ns);
            });
        });
        leave_memory(run, midway, &recovery.arena);
        if damaged {
            let headers = self.subject.headers(&run.setup, &recovery.arena);
            damage(&recovery.arena, headers, &mut run.random);
        }
        let is_lost = recovery.settle_former(self.subject, run);
        if !damaged && run.random.one_in(DIES_AGAIN_ONE_IN) {
            recovery.kill_during_start(self.subject, &run.setup, &mut run.random);
        }
        let in_flush = midway.is_some() || is_lost;
        let in_flush = in_flush || run.disk.with(|disk| disk.flushes_asked > 0);
        let book = run.book.borrow();
        let may_fail =
            book.doubt_after(in_flush, Durability::Flush).may_fail || book.may_fail_after_kill();
        drop(book);
        let seed = run.random.next_u64();
        let keeps_clean = recovery::keeps_clean(seed);
        let expected = Expected { keeps_clean, flushes: true, may_fail };
        recovery.run(self.subject, &run.setup, seed, expected)?;
        self.tally.objects_found += recovery.objects.found;
        self.tally.objects_read += recovery.objects.read;
        let book = run.book.borrow();
        if damaged || book.oracle.discarding {
            return book.oracle.judge_genuine(&recovery.stamps);
        }
        if midway.is_none() && run.life.process.has_failed() {
            recovery.judge_failed(self.subject)?;
        }
        if recovery.has_read() {
            book.oracle.judge_survived(&recovery.stamps)?;
        }
        recovery.judge_flushed(run.disk.with(|disk| disk.errors))?;
        drop(book);
        match (seed >> 33).is_multiple_of(FOREIGN_ONE_IN) {
            true => self.recover_over_foreign(run, midway, landed, seed),
            false => Ok(()),
        }
    }

    /// Starts a process on the memory of a killed one, after another program has written to the
    /// disk.
    fn recover_over_foreign(
        &mut self,
        run: &mut Run,
        midway: Option<&[u8]>,
        landed: u32,
        seed: u64,
    ) -> Result<(), Finding> {
        let fence = self.subject.fence();
        let recovery = self.recovery.as_mut().expect("set up with the history");
        let now_ns = run.world.now();
        run.disk.with(|from| {
            recovery.disk(|into| {
                after_kill(from, into, landed, fence, now_ns);
                into.write_foreign(seed as usize);
            });
        });
        leave_memory(run, midway, &recovery.arena);
        recovery.settle_former(self.subject, run);
        let expected = Expected { keeps_clean: false, flushes: true, may_fail: true };
        recovery.run(self.subject, &run.setup, seed, expected)?;
        recovery.judge_foreign(run.disk.with(|disk| disk.errors))
    }

    fn goes_on(&self, run: &mut Run) -> bool {
        let one_in = run.setup.limits.nested_one_in;
        run.depth < DEPTH_MAX && one_in > 0 && run.random.one_in(u64::from(one_in))
    }

    fn go_on_after_power_cut(&mut self, run: &mut Run, image: &[u8]) -> Result<(), Finding> {
        let seed = run.random.next_u64();
        let setup = run.setup.setup_after_crash(seed, run.depth + 1 == DEPTH_MAX);
        let mut disk = State::new(setup.model.clone(), setup.faults, seed);
        disk.load(image);
        disk.serve(setup.link.is_some());
        let book = run.book.borrow();
        let beginning = Beginning {
            disk,
            table: setup.link.map(|_| table_memory()),
            arena: Arc::new(Memory::heap(run.arena.bytes())),
            oracle: book.oracle.after_power_cut(image)?,
            next: book.next_operation(),
            again: requests_to_resend(run, &book),
            depth: run.depth + 1,
            doubt: Doubt::default(),
            may_have_failed: false,
        };
        drop(book);
        self.go_on(setup, beginning, "power cut")
    }

    fn go_on_after_kill(
        &mut self,
        run: &mut Run,
        midway: Option<&[u8]>,
        landed: u32,
    ) -> Result<(), Finding> {
        let seed = run.random.next_u64();
        let setup = run.setup.setup_after_crash(seed, run.depth + 1 == DEPTH_MAX);
        let mut disk = State::new(setup.model.clone(), setup.faults, seed);
        let fence = self.subject.fence();
        let now_ns = run.world.now();
        run.disk.with(|from| {
            after_kill(from, &mut disk, landed, fence, now_ns);
        });
        let arena = Arc::new(Memory::heap(run.arena.bytes()));
        leave_memory(run, midway, &arena);
        let table = run.table.as_ref().map(copy_of_table);
        let is_lost = match (&table, run.setup.link) {
            (Some(table), Some(plan)) => {
                settle_former(&mut disk, table, plan.is_encrypted, 0, &mut run.random)
            }
            _ => false,
        };
        if is_lost {
            self.subject.note_changes_lost(&arena);
        }
        let book = run.book.borrow();
        // In the middle of a step the engine may have noted a request that the disk has not
        // received yet.
        let in_flush = midway.is_some() || is_lost;
        let in_flush = in_flush || run.disk.with(|disk| disk.flushes_asked > 0);
        // Killed in the middle of taking it in, the buffer has a change, or a part of it, or
        // nothing.
        let changes: &[Operation] = if midway.is_some() { &run.admitted } else { &[] };
        let beginning = Beginning {
            oracle: book.oracle.after_kill(&disk, changes),
            disk,
            arena,
            table,
            next: book.next_operation(),
            again: requests_to_resend(run, &book),
            depth: run.depth + 1,
            doubt: book.doubt_after(in_flush, setup.engine.durability),
            may_have_failed: book.may_fail_after_kill(),
        };
        drop(book);
        self.go_on(setup, beginning, "kill")
    }

    fn go_on(&mut self, setup: Setup, from: Beginning, after: &str) -> Result<(), Finding> {
        let depth = from.depth;
        trace::event(
            [depth as u64, 4, setup.seed],
            format_args!("--- after a {after}: depth {depth}"),
        );
        let place =
            |finding: Finding| finding.at(format_args!("in the run that followed a {after}"));
        let run = self.begin(setup, from).map_err(place)?;
        let result = self.go_to_the_end(run).map_err(place);
        trace::event([depth as u64, 5, 0], format_args!("--- end of depth {depth}"));
        result
    }
}

/// Returns the requests that clients send again in the run that follows a crash: half of the time
/// they do.
fn requests_to_resend(run: &Run, book: &Book) -> Vec<Pending> {
    match run.random.clone().one_in(2) {
        true => book.open().to_vec(),
        false => Vec::new(),
    }
}

/// Returns a copy of the table of a fence.
fn copy_of_table(table: &Arc<Memory>) -> Arc<Memory> {
    let copy = table_memory();
    table.copy(0, &copy, 0, copy.bytes());
    copy
}

/// Copies the memory that a kill leaves: now, or in the middle of the last step.
fn leave_memory(run: &Run, midway: Option<&[u8]>, into: &Memory) {
    match midway {
        Some(bytes) => into.write(0, bytes),
        None => run.arena.copy(0, into, 0, into.bytes()),
    }
}

fn first_difference(one: &[u8], two: &[u8]) -> usize {
    let differs = |(one, two): (&u8, &u8)| one != two;
    one.iter().zip(two).position(differs).unwrap_or_default() / GRAIN
}

/// Flips up to three bits of one header that is in use: its checksum must detect this many.
fn damage(arena: &Memory, headers: Range<usize>, random: &mut Random) {
    let mut in_use = Vec::new();
    for at in headers.step_by(16) {
        let mut life = [0; 8];
        arena.read(at + 8, &mut life);
        if life != [0; 8] {
            in_use.push(at);
        }
    }
    if in_use.is_empty() {
        return;
    }
    let header = in_use[random.below(in_use.len() as u64) as usize];
    for _ in 0..=random.below(3) {
        let bit = random.below(128) as usize;
        let mut byte = [0];
        arena.read(header + bit / 8, &mut byte);
        byte[0] ^= 1 << (bit % 8);
        arena.write(header + bit / 8, &byte);
    }
}
