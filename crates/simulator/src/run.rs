//! The passes over a trace, and what came of them.

use crate::blocks::Blocks;
use crate::choice::What;
use crate::error::Error;
use crate::footprint::{Counted, Footprint};
use crate::memory::Memory;
use crate::next_use::next_uses;
use crate::outcome::{Counts, Outcome, Run};
use crate::pass::pass;
use crate::plan::{Plan, Watch};
use crate::policies::{Chunk, Task};
use crate::spool::{Spool, Spooled};
use crate::trace_file::TraceFile;
use policy::Kind;
use trace::{Access, Devices, Format, Notes};

/// Accesses in a chunk, about.
const CHUNK: usize = 1 << 14;

/// Simulates what was planned.
///
/// # Errors
/// The trace cannot be read or is none; sizes, devices or shards make no sense; or it was interrupted before there was
/// anything to tell. If it is interrupted later, the outcome says that it is not complete.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, Error> {
    if !plan.shards.is_power_of_two() {
        let told = format!("--shards {}: take a power of two: 1, 2, 4, 8", plan.shards);
        return Err(Error::Usage(told));
    }
    let is_share = |memory: &Memory| matches!(memory, Memory::Percent(_));
    let has_optimum = plan.policies.iter().any(|choice| choice.what == What::Optimum);
    let shares = plan.memories.iter().any(is_share);
    if !shares {
        // What is wrong with the sizes is told before the trace is read.
        slots_of_shards(plan, 0)?;
    }
    if shares && !has_optimum && plan.path.metadata().is_ok_and(|data| !data.is_file()) {
        return Err(Error::Usage(format!(
            "{}: sizes in per cent need the trace twice; give a file, or sizes in bytes",
            plan.path.display()
        )));
    }
    let first = match shares || has_optimum {
        true => Some(first_pass(plan, has_optimum, watch)?),
        false => None,
    };
    match first {
        Some(First { read, footprint, spooled: Some((blocks, nexts)) }) => {
            let source = Spools { blocks, nexts, all: read.counts.block_accesses };
            simulate(plan, Some(footprint), Source::Spools(Box::new(source), read), watch)
        }
        first => {
            let file = TraceFile::open(&plan.path, plan.format)?;
            let footprint = first.map(|first| first.footprint);
            simulate(plan, footprint, Source::file(plan, file), watch)
        }
    }
}

/// What is known of a trace that was read.
struct Read {
    format: Format,
    counts: Counts,
    devices: Vec<String>,
    notes: Notes,
}

/// What the first pass gives.
struct First {
    read: Read,
    footprint: Counted,
    /// The blocks, and when each comes next.
    spooled: Option<(Spooled, Spooled)>,
}

/// The slots of a shard for each size.
fn slots_of_shards(plan: &Plan, footprint: u64) -> Result<Vec<u32>, Error> {
    let slots = |memory: &Memory| memory.slots_of_shard(footprint, plan.shards);
    plan.memories.iter().map(slots).collect::<Result<_, _>>().map_err(Error::Usage)
}

/// Counts the footprint, and notes the blocks if the optimum is wanted.
fn first_pass(plan: &Plan, has_optimum: bool, watch: &mut dyn Watch) -> Result<First, Error> {
    let mut file = Reading::new(plan, TraceFile::open(&plan.path, plan.format)?);
    let mut footprint = Footprint::default();
    let mut spool = if has_optimum { Some(Spool::new(1 << 18)?) } else { None };
    let mut blocks = Vec::new();
    loop {
        blocks.clear();
        if !watch.look("footprint", file.file.share()) {
            return Err(Error::Interrupted);
        }
        if !file.fill(&mut blocks)? {
            break;
        }
        for block in &blocks {
            footprint.add(*block);
            if let Some(spool) = &mut spool {
                spool.put(*block)?;
            }
        }
    }
    let read = file.end(plan)?;
    let spooled = match spool {
        None => None,
        Some(spool) => {
            let mut blocks = spool.read()?;
            let count = blocks.count;
            let nexts = next_uses(&mut blocks, watch)?;
            Some((blocks.rewind(count)?, nexts))
        }
    };
    Ok(First { read, footprint: footprint.count(), spooled })
}

/// A trace that is being read.
struct Reading<'a> {
    file: TraceFile,
    blocks: Blocks<'a>,
    accesses: Vec<Access>,
    /// How many of them were taken.
    taken: usize,
}

impl<'a> Reading<'a> {
    fn new(plan: &'a Plan, file: TraceFile) -> Reading<'a> {
        let blocks = Blocks::new(&plan.devices, plan.reads_only);
        Reading { file, blocks, accesses: Vec::new(), taken: 0 }
    }

    /// Appends the blocks of the next requests, a chunk of them at least unless the trace ends. Returns whether there
    /// were some.
    fn fill(&mut self, into: &mut Vec<u64>) -> Result<bool, Error> {
        while into.len() < CHUNK {
            if self.taken == self.accesses.len() {
                self.taken = 0;
                if !self.file.next(&mut self.accesses)? {
                    break;
                }
            }
            let left = &self.accesses[self.taken..];
            self.taken += self.blocks.expand(left, self.file.devices(), CHUNK, into);
        }
        Ok(!into.is_empty())
    }

    /// What is known now that it has ended.
    fn end(&self, plan: &Plan) -> Result<Read, Error> {
        let place = plan.path.display();
        let names = self.file.devices().names();
        if let Some(missing) = self.blocks.missing(self.file.devices()) {
            return Err(Error::Usage(format!(
                "--device {missing}: {place} has no such device; it has {}",
                some_of(names)
            )));
        }
        if self.blocks.counts.block_accesses == 0 {
            let of_writes = if plan.reads_only { "read" } else { "read or write" };
            let told = format!("{place}: there is no {of_writes} in it; take another trace");
            return Err(Error::Malformed(told));
        }
        Ok(self.so_far())
    }

    fn so_far(&self) -> Read {
        Read {
            format: self.file.format,
            counts: self.blocks.counts,
            devices: names(self.file.devices()),
            notes: self.file.notes.unwrap_or_default(),
        }
    }
}

fn names(devices: &Devices) -> Vec<String> {
    devices.names().to_vec()
}

/// The first names, and how many more.
fn some_of(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(20));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    format!("{}{more}", shown.join(", "))
}

/// The blocks in temporary files.
struct Spools {
    blocks: Spooled,
    nexts: Spooled,
    all: u64,
}

/// Where the accesses of the main pass come from.
enum Source<'a> {
    File(Box<Reading<'a>>),
    Spools(Box<Spools>, Read),
}

impl<'a> Source<'a> {
    fn file(plan: &'a Plan, file: TraceFile) -> Source<'a> {
        Source::File(Box::new(Reading::new(plan, file)))
    }

    fn share(&self) -> f64 {
        match self {
            Source::File(reading) => reading.file.share(),
            Source::Spools(spools, _) => {
                1.0 - spools.blocks.count as f64 / spools.all.max(1) as f64
            }
        }
    }

    fn fill(&mut self, chunk: &mut Chunk) -> Result<(), Error> {
        match self {
            Source::File(reading) => reading.fill(&mut chunk.blocks).map(|_| ()),
            Source::Spools(spools, _) => {
                spools.blocks.take(CHUNK, &mut chunk.blocks)?;
                spools.nexts.take(CHUNK, &mut chunk.nexts)
            }
        }
    }
}

/// The main pass.
fn simulate(
    plan: &Plan,
    footprint: Option<Counted>,
    mut source: Source<'_>,
    watch: &mut dyn Watch,
) -> Result<Outcome, Error> {
    let slots = slots_of_shards(plan, footprint.map_or(0, |counted| counted.blocks))?;
    let tasks = tasks(plan, &slots, footprint.is_none());
    let (mut is_complete, mut passed) = (true, 0);
    let tasks = pass(tasks, plan.threads, |chunk| {
        is_complete = watch.look("simulation", source.share());
        if is_complete {
            source.fill(chunk)?;
            passed += chunk.blocks.len() as u64;
        }
        Ok(())
    })?;
    let read = match source {
        Source::File(reading) if is_complete => reading.end(plan)?,
        Source::File(reading) => reading.so_far(),
        Source::Spools(_, read) if is_complete => read,
        // The blocks that were simulated are known, their requests are not.
        Source::Spools(..) => return Err(Error::Interrupted),
    };
    debug_assert_eq!(passed, read.counts.block_accesses);
    let counted = tasks.iter().find_map(|task| match task {
        Task::Footprint(footprint) => Some(footprint.count()),
        _ => None,
    });
    Ok(Outcome {
        format: read.format,
        is_complete,
        counts: read.counts,
        footprint: footprint.or(counted).expect("it was counted in one of the passes"),
        devices: read.devices,
        notes: read.notes,
        runs: runs(plan, &slots, &tasks),
    })
}

/// The number of a run: policy by policy, and size by size.
fn number_of(plan: &Plan, policy: usize, memory: usize) -> usize {
    policy * plan.memories.len() + memory
}

fn tasks(plan: &Plan, slots: &[u32], counts_footprint: bool) -> Vec<Task> {
    let mut tasks = Vec::new();
    if counts_footprint {
        tasks.push(Task::Footprint(Footprint::default()));
    }
    if plan.policies.iter().any(|choice| choice.what == What::Kind(Kind::Lru)) {
        tasks.extend(slots.chunks(LRU_SIZES).map(|slots| Task::lru(slots, plan.shards)));
    }
    for (policy, choice) in plan.policies.iter().enumerate() {
        for (memory, slots) in slots.iter().enumerate() {
            let run = number_of(plan, policy, memory);
            match choice.what {
                What::Kind(Kind::Lru) => {}
                What::Kind(kind) => tasks.push(Task::policy(run, kind, *slots, plan.shards)),
                What::Optimum => tasks.push(Task::optimum(run, *slots, plan.shards)),
            }
        }
    }
    tasks
}

/// Sizes of LRU that are simulated together: their zones are numbered in a byte, and each costs a little.
const LRU_SIZES: usize = 128;

fn runs(plan: &Plan, slots: &[u32], tasks: &[Task]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (policy, choice) in plan.policies.iter().enumerate() {
        for (memory, asked) in plan.memories.iter().enumerate() {
            let (run, slots) = (number_of(plan, policy, memory), slots[memory]);
            let of_lru = (choice.what == What::Kind(Kind::Lru)).then_some(slots);
            let misses = tasks.iter().find_map(|task| match (task, of_lru) {
                (Task::Lru(_), None) => None,
                (Task::Lru(_), slots) => task.misses(run, slots),
                _ => task.misses(run, None),
            });
            runs.push(Run {
                policy: choice.name.to_owned(),
                memory: asked.to_string(),
                slots: u64::from(slots) * u64::from(plan.shards),
                block_misses: misses.expect("each run has a task"),
            });
        }
    }
    runs
}
