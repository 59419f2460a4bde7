//! The passes over a trace, and their results.

use crate::choice::What;
use crate::error::Error;
use crate::extent::{Extent, Slots, extent};
use crate::first::first_pass;
use crate::footprint::{Counted, Footprint};
use crate::memory::Memory;
use crate::outcome::{Outcome, Run, Sampled, Tiered};
use crate::pass::pass;
use crate::plan::{Plan, Watch};
use crate::policies::{Chunk, Task};
use crate::reading::{CHUNK, Read, Reading};
use crate::sample::{Known, Rate, Sample};
use crate::spool::Spooled;
use crate::trace_file::TraceFile;
use policy::{CompressedBytes, Kind};
use std::sync::Arc;

/// Runs the plan.
///
/// # Errors
/// The trace cannot be read or is not a trace; sizes, devices or shards make no sense; or the run
/// was interrupted before there were results. If it is interrupted later, the outcome is marked as
/// not complete.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> Result<Outcome, Error> {
    if !plan.shards.is_power_of_two() {
        let message = format!("--shards {}: write a power of two: 1, 2, 4, 8", plan.shards);
        return Err(Error::Usage(message));
    }
    if plan.hints.is_some() && plan.sample != Sample::Fixed(Rate::ALL) {
        let message = "--map: cannot be combined with --sample; simulate all blocks";
        return Err(Error::Usage(message.to_owned()));
    }
    let shares = plan.memories.iter().any(|memory| matches!(memory, Memory::Percent(_)));
    let has_optimum = plan.policies.iter().any(|choice| choice.what == What::Optimum);
    if shares && !has_optimum && plan.path.metadata().is_ok_and(|data| !data.is_file()) {
        return Err(Error::Usage(format!(
            "{}: sizes in percent require reading the trace twice; name a file, or give sizes in \
             bytes",
            plan.path.display()
        )));
    }
    // Errors in sizes in bytes are reported before the trace is read.
    let known = if shares { None } else { Some(extent(plan, 0)?) };
    let first = match known {
        Some(extent) if !has_optimum => {
            return simulate(plan, &extent, None, Source::open(plan)?, watch);
        }
        _ => first_pass(plan, watch)?,
    };
    let source = match first.spooled {
        Some((blocks, nexts)) => {
            let all = blocks.count;
            Source::Spools(Box::new(Spools { blocks, nexts, all }), first.read)
        }
        None => Source::open(plan)?,
    };
    simulate(plan, &first.extent, Some(first.footprint), source, watch)
}

/// The blocks in temporary files.
struct Spools {
    blocks: Spooled,
    nexts: Spooled,
    all: u64,
}

/// The source of the accesses of the main pass.
enum Source<'a> {
    File(Box<Reading<'a>>),
    Spools(Box<Spools>, Read),
}

impl<'a> Source<'a> {
    fn open(plan: &'a Plan) -> Result<Source<'a>, Error> {
        let file = TraceFile::open(&plan.path, plan.format)?;
        Ok(Source::File(Box::new(Reading::new(plan, file))))
    }

    fn share(&self) -> f64 {
        match self {
            Source::File(reading) => reading.file.share(),
            Source::Spools(spools, _) => {
                1.0 - spools.blocks.count as f64 / spools.all.max(1) as f64
            }
        }
    }

    /// Reads the next accesses, none of which may be in the sample. Returns whether there were any
    /// at all.
    fn fill(&mut self, chunk: &mut Chunk, rate: Rate, counts_all: bool) -> Result<bool, Error> {
        match self {
            Source::File(reading) => {
                let are_some = reading.fill(&mut chunk.blocks)?;
                if !rate.is_all() {
                    chunk.whole = counts_all.then(|| chunk.blocks.clone());
                    chunk.blocks.retain(|block| rate.takes(*block));
                }
                Ok(are_some)
            }
            Source::Spools(spools, _) => {
                spools.blocks.take(CHUNK, &mut chunk.blocks)?;
                spools.nexts.take(CHUNK, &mut chunk.nexts)?;
                Ok(!chunk.blocks.is_empty())
            }
        }
    }
}

/// Runs the main pass.
fn simulate(
    plan: &Plan,
    extent: &Extent,
    footprint: Option<Counted>,
    mut source: Source<'_>,
    watch: &mut dyn Watch,
) -> Result<Outcome, Error> {
    let (rate, counts_all) = (extent.rate, footprint.is_none());
    let mut tasks = tasks(plan, &extent.sizes, counts_all);
    if !rate.is_all() {
        tasks.push(Task::SampledFootprint(Footprint::default()));
    }
    let (mut is_complete, mut passed) = (true, 0);
    let tasks = pass(tasks, plan.threads, |chunk| {
        is_complete = watch.look("simulation", source.share());
        let goes_on = is_complete && source.fill(chunk, rate, counts_all)?;
        passed += chunk.blocks.len() as u64;
        Ok(goes_on)
    })?;
    let read = match source {
        Source::File(reading) if is_complete => reading.end(plan)?,
        Source::File(reading) => reading.so_far(),
        Source::Spools(_, read) if is_complete => read,
        // The simulated blocks are known, but not their requests.
        Source::Spools(..) => return Err(Error::Interrupted),
    };
    if plan.hints.is_some() && plan.devices.len() != 1 && read.devices.len() > 1 {
        let place = plan.path.display();
        let message = format!("--map: {place} has several devices; choose one with --device");
        return Err(Error::Usage(message));
    }
    debug_assert!(!rate.is_all() || passed == read.counts.block_accesses);
    if is_complete && passed == 0 {
        let place = plan.path.display();
        let message =
            format!("--sample {rate}: the sample has no block of {place}; use a larger one");
        return Err(Error::Usage(message));
    }
    let counted = tasks.iter().find_map(|task| match task {
        Task::Footprint(footprint) => Some(footprint.count()),
        _ => None,
    });
    let sampled_blocks = tasks.iter().find_map(|task| match task {
        Task::SampledFootprint(footprint) => Some(footprint.count()),
        _ => None,
    });
    // The footprint of the first pass is the whole trace's, but only a part may have been
    // simulated.
    let of_pass = if is_complete { footprint.or(counted) } else { counted };
    let blocks =
        of_pass.zip(sampled_blocks).filter(|(all, sampled)| all.is_exact && sampled.is_exact);
    let known = Known {
        rate,
        accesses: read.counts.block_accesses,
        blocks: blocks.map(|(all, sampled)| (all.blocks, sampled.blocks)),
    };
    Ok(Outcome {
        format: read.format,
        is_complete,
        counts: read.counts,
        sampled: Sampled { rate, block_accesses: passed },
        footprint: footprint.or(counted).expect("it was counted in one of the passes"),
        devices: read.devices,
        notes: read.notes,
        runs: runs(plan, extent, &known, &tasks),
    })
}

/// Returns the number of a run: policy by policy, and size by size.
fn number_of(plan: &Plan, policy: usize, memory: usize) -> usize {
    policy * plan.memories.len() + memory
}

fn tasks(plan: &Plan, sizes: &[Slots], counts_footprint: bool) -> Vec<Task> {
    let slots: Vec<u32> = sizes.iter().map(|slots| slots.sampled).collect();
    let mut tasks = Vec::new();
    let compressed_bytes = plan
        .compress
        .clone()
        .map(|sizes| -> Arc<CompressedBytes> { Arc::new(move |hash| sizes.of(hash)) });
    if counts_footprint {
        tasks.push(Task::Footprint(Footprint::default()));
    }
    if plan.policies.iter().any(|choice| choice.what == What::Kind(Kind::Lru)) {
        tasks.extend(slots.chunks(LRU_SIZES).map(|slots| Task::lru(slots, plan.shards)));
    }
    for (policy, choice) in plan.policies.iter().enumerate() {
        for (memory, slots) in slots.iter().enumerate() {
            let run = number_of(plan, policy, memory);
            if let (Some(bytes), What::Kind(kind)) = (&compressed_bytes, choice.what)
                && kind.is_served()
            {
                tasks.push(Task::tiered(run, kind, *slots, plan.shards, bytes));
            }
            if let (Some(hints), What::Kind(kind)) = (&plan.hints, choice.what)
                && kind.is_served()
            {
                tasks.push(Task::hinted(run, kind, *slots, plan.shards, hints));
            }
            match choice.what {
                What::Kind(Kind::Lru) => {}
                What::Kind(kind) => tasks.push(Task::policy(run, kind, *slots, plan.shards)),
                What::Optimum => tasks.push(Task::optimum(run, *slots, plan.shards)),
            }
        }
    }
    tasks
}

/// Number of LRU sizes that are simulated together: zones are numbered in a byte, and each costs
/// some time.
const LRU_SIZES: usize = 128;

fn runs(plan: &Plan, extent: &Extent, known: &Known, tasks: &[Task]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (policy, choice) in plan.policies.iter().enumerate() {
        for (memory, asked) in plan.memories.iter().enumerate() {
            let (run, slots) = (number_of(plan, policy, memory), extent.sizes[memory]);
            let of_lru = (choice.what == What::Kind(Kind::Lru)).then_some(slots.sampled);
            let misses = tasks.iter().find_map(|task| match (task, of_lru) {
                (Task::Lru(_), None) => None,
                (Task::Lru(_), slots) => task.misses(run, slots),
                _ => task.misses(run, None),
            });
            let misses = misses.expect("each run has a task");
            let of_all_shards = |slots| u64::from(slots) * u64::from(plan.shards);
            runs.push(Run {
                policy: choice.name.to_owned(),
                memory: asked.to_string(),
                slots: of_all_shards(slots.whole),
                sampled_slots: of_all_shards(slots.sampled),
                is_estimate: !extent.rate.is_all(),
                block_misses: known.misses_in_all(misses),
                tiered: tasks.iter().find_map(|task| task.tier(run)).map(|(cache, misses)| {
                    Tiered {
                        block_misses: known.misses_in_all(misses),
                        compressed_hits: extent.rate.extrapolated(cache.compressed_hits()),
                        compressed_blocks: extent.rate.extrapolated(cache.compressed_blocks()),
                        compressed_slots: extent.rate.extrapolated(cache.compressed_slots()),
                    }
                }),
                hinted: tasks.iter().find_map(|task| task.hints(run)),
            });
        }
    }
    runs
}
