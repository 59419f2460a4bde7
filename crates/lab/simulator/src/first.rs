//! The first pass: the footprint, and for the optimum the next use of each block.

use crate::choice::What;
use crate::error::Error;
use crate::extent::{Extent, extent};
use crate::footprint::{Counted, Footprint};
use crate::next_use::next_uses;
use crate::plan::{Plan, Watch};
use crate::reading::{CHUNK, Read, Reading};
use crate::sample::{Rate, Sample};
use crate::spool::{Spool, Spooled};
use crate::trace_file::TraceFile;

/// The buffer through which blocks are written.
const BUFFER_BYTES: usize = 1 << 18;

/// The results of the first pass.
pub(crate) struct First {
    pub(crate) read: Read,
    pub(crate) footprint: Counted,
    pub(crate) extent: Extent,
    /// The blocks of the sample, and the next use of each, if the plan has the optimum.
    pub(crate) spooled: Option<(Spooled, Spooled)>,
}

/// Counts the footprint, and records the blocks if the plan has the optimum.
pub(crate) fn first_pass(plan: &Plan, watch: &mut dyn Watch) -> Result<First, Error> {
    let has_optimum = plan.policies.iter().any(|choice| choice.what == What::Optimum);
    let mut file = Reading::new(plan, TraceFile::open(&plan.path, plan.format)?);
    let mut footprint = Footprint::default();
    let mut spool = if has_optimum { Some(Spool::new(BUFFER_BYTES)?) } else { None };
    // The rate of an automatic sample follows from the footprint, which is not known yet.
    let spool_rate = match plan.sample {
        Sample::Fixed(rate) => rate,
        Sample::Auto => Rate::ALL,
    };
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
            if let Some(spool) = &mut spool
                && spool_rate.takes(*block)
            {
                spool.put(*block)?;
            }
        }
    }
    let (read, footprint) = (file.end(plan)?, footprint.count());
    let extent = extent(plan, footprint.blocks)?;
    let spooled = match spool {
        None => None,
        Some(spool) => {
            let mut blocks = spool.read()?;
            if extent.rate != spool_rate {
                blocks = sampled_blocks(blocks, extent.rate)?;
            }
            let count = blocks.count;
            let nexts = next_uses(&mut blocks, watch)?;
            Some((blocks.rewind(count)?, nexts))
        }
    };
    Ok(First { read, footprint, extent, spooled })
}

/// Returns the blocks that are in the sample.
fn sampled_blocks(mut all: Spooled, rate: Rate) -> Result<Spooled, Error> {
    let (mut kept, mut blocks) = (Spool::new(BUFFER_BYTES)?, Vec::new());
    loop {
        blocks.clear();
        all.take(CHUNK, &mut blocks)?;
        if blocks.is_empty() {
            return kept.read();
        }
        let sampled = blocks.iter().filter(|block| rate.takes(**block));
        sampled.copied().try_for_each(|block| kept.put(block))?;
    }
}
