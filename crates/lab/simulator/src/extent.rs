//! The sizes of the caches of a plan, and of the simulated caches.

use crate::choice::What;
use crate::error::Error;
use crate::plan::Plan;
use crate::sample::{AUTO_BYTES, Rate, Sample};
use policy::Kind;

/// The slots of a cache in each of its shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slots {
    /// Slots of the planned cache.
    pub(crate) whole: u32,
    /// Slots of the simulated cache, which sees the sample.
    pub(crate) sampled: u32,
}

/// All sizes of a plan.
pub(crate) struct Extent {
    pub(crate) rate: Rate,
    /// In the order of the plan.
    pub(crate) sizes: Vec<Slots>,
}

/// Number of halvings of the rate that are tried: the last one leaves nothing of the largest cache.
const HALVINGS: i32 = 40;

/// Returns the sizes to simulate, for a trace with this number of different blocks.
///
/// # Errors
/// A size makes no sense, or the sample leaves no slot of it.
pub(crate) fn extent(plan: &Plan, footprint: u64) -> Result<Extent, Error> {
    let whole = |memory: &crate::Memory| memory.slots_of_shard(footprint, plan.shards);
    let whole: Vec<u32> =
        plan.memories.iter().map(whole).collect::<Result<_, _>>().map_err(Error::Usage)?;
    let rate = match plan.sample {
        Sample::Fixed(rate) => rate,
        Sample::Auto => automatic(plan, &whole),
    };
    let slots = |(memory, whole): (&crate::Memory, &u32)| match rate.scaled(*whole) {
        0 => Err(Error::Usage(format!(
            "--memory {memory}: a sample of {rate} leaves none of {whole} blocks per shard; use \
             more memory, or a larger --sample"
        ))),
        sampled => Ok(Slots { whole: *whole, sampled }),
    };
    let sizes = plan.memories.iter().zip(&whole).map(slots).collect::<Result<_, _>>()?;
    Ok(Extent { rate, sizes })
}

/// Returns the largest rate at which all caches fit into [`AUTO_BYTES`].
fn automatic(plan: &Plan, whole: &[u32]) -> Rate {
    let mut rate = Rate::ALL;
    for halvings in 1..=HALVINGS {
        if bytes(plan, whole, rate) <= AUTO_BYTES as f64 {
            break;
        }
        rate = Rate::new(0.5f64.powi(halvings)).expect("it is a share");
    }
    rate
}

/// Returns the approximate bytes of all caches.
fn bytes(plan: &Plan, whole: &[u32], rate: Rate) -> f64 {
    let all: f64 = whole.iter().map(|slots| f64::from(*slots)).sum();
    let largest = whole.iter().copied().max().map_or(0.0, f64::from);
    let mut has_lru = false;
    let mut bytes = 0.0;
    for choice in &plan.policies {
        match choice.what {
            // One list serves all sizes of LRU, under any of its names.
            What::Kind(Kind::Lru) => has_lru = true,
            what => bytes += all * bytes_of_slot(what),
        }
        let has_tier = matches!(choice.what, What::Kind(kind) if kind.is_served());
        if plan.compress.is_some() && has_tier {
            bytes += all * TIERED_BYTES;
        }
    }
    if has_lru {
        bytes += largest * 50.0;
    }
    bytes * f64::from(plan.shards) * rate.share()
}

/// The bytes of a slot of a cache with a compressed tier.
const TIERED_BYTES: f64 = 180.0;

/// Returns the bytes of a slot: as documented at `policy::Simulation::new`; for the optimum, a
/// number in a tree.
fn bytes_of_slot(what: What) -> f64 {
    match what {
        What::Kind(Kind::TwoQ) => 50.0,
        What::Kind(Kind::S3Fifo) => 64.0,
        What::Kind(Kind::Arc) => 67.0,
        What::Kind(Kind::Lirs) => 84.0,
        What::Kind(_) => 36.0,
        What::Optimum => 16.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, Memory};
    use std::path::PathBuf;

    fn plan(memories: &[Memory], policies: &[&str], sample: Sample) -> Plan {
        let choice = |name: &&str| Choice::by_name(name).expect("a policy");
        Plan {
            path: PathBuf::new(),
            format: None,
            memories: memories.to_vec(),
            policies: policies.iter().map(choice).collect(),
            devices: Vec::new(),
            reads_only: false,
            shards: 2,
            threads: 1,
            sample,
            compress: None,
            hints: None,
        }
    }

    fn rate(memories: &[Memory], policies: &[&str]) -> f64 {
        let extent = extent(&plan(memories, policies, Sample::Auto), 1 << 24).expect("it is sound");
        extent.rate.share()
    }

    #[test]
    fn what_fits_is_exact_and_what_does_not_is_halved_until_it_does() {
        let gib = Memory::Bytes(1 << 30);
        // 2^18 slots: 9 MB for sieve, 22 for LIRS.
        assert_eq!(rate(&[gib], &["sieve", "lirs"]), 1.0);
        // 2^23 slots of 36 bytes are 288 MiB.
        assert_eq!(rate(&[Memory::Bytes(32 << 30)], &["sieve"]), 0.5);
        // LRU's sizes share one list, in which 2^23 slots have 400 MiB; the sizes of others add up.
        let sizes = [Memory::Percent(50.0); 8];
        assert_eq!(rate(&sizes, &["lru", "lru"]), 0.5);
        assert_eq!(rate(&sizes, &["sieve"]), 0.0625);
        // A plan of any size gets a rate that fits.
        let sizes = [Memory::Bytes(8 << 40); 200];
        let many = ["lirs"; 200];
        assert!(rate(&sizes, &many) < 1e-5);
    }

    #[test]
    fn sampled_caches_are_as_much_smaller_and_none_is_empty() {
        let tenth = Sample::Fixed(Rate::new(0.1).expect("a rate"));
        let sized = |memory| extent(&plan(&[memory], &["lru"], tenth), 20_000).map(|it| it.sizes);
        let slots = |whole, sampled| Ok(vec![Slots { whole, sampled }]);
        assert_eq!(sized(Memory::Percent(10.0)), slots(1000, 100));
        assert_eq!(sized(Memory::Bytes(10 * 4096)), slots(5, 1));
        let Err(Error::Usage(message)) = sized(Memory::Bytes(8 * 4096)) else {
            panic!("0.4 slots")
        };
        assert!(
            message.contains("4 blocks per shard") && message.contains("a sample of 0.1"),
            "{message}"
        );
    }
}
