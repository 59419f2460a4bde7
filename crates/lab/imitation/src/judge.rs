//! Miss ratios of caches on a recorded trace and on its imitation.

use crate::blocks;
use policy::{Kind, Simulation};
use simulator::{Optimum, Watch};
use std::collections::HashMap;
use trace::recording::Entry;

/// Maximum difference of two miss ratios of a good imitation.
pub const DISTANCE_MAX: f64 = 0.03;

/// Sizes of the caches in percent of the footprint: none of them chose the imitation's window.
const PERCENTS: [u32; 4] = [2, 5, 20, 40];
/// Policies that judge. LRU is not one of them: it chose the window.
const POLICIES: [Option<Kind>; 8] = [
    Some(Kind::Clock),
    Some(Kind::TwoQ),
    Some(Kind::Arc),
    Some(Kind::Lirs),
    Some(Kind::S3Fifo),
    Some(Kind::Sieve),
    Some(Kind::WTinyLfu10),
    // Belady's optimum.
    None,
];

/// The miss ratios of a cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// The policy.
    pub policy: &'static str,
    /// The size in percent of the recording's footprint.
    pub percent: u32,
    /// The size in blocks.
    pub slots: u32,
    /// The miss ratio on the recording.
    pub recorded: f64,
    /// The miss ratio on the imitation.
    pub imitated: f64,
}

impl Compared {
    /// Returns the difference of the two.
    pub fn difference(&self) -> f64 {
        self.imitated - self.recorded
    }
}

/// The comparison of a trace and its imitation.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// All caches, policy by policy.
    pub compared: Vec<Compared>,
    /// Different blocks of the recording.
    pub footprint_blocks: u64,
}

impl Judgement {
    /// Returns the largest difference.
    pub fn worst(&self) -> f64 {
        let differences = self.compared.iter().map(|one| one.difference().abs());
        differences.fold(0.0, f64::max)
    }

    /// Whether caches see the same in both.
    pub fn is_good(&self) -> bool {
        self.worst() <= DISTANCE_MAX
    }
}

/// Compares a trace with its imitation. None: the watch has interrupted it.
pub fn judge(recorded: &[Entry], imitated: &[Entry], watch: &mut dyn Watch) -> Option<Judgement> {
    let both = [Accesses::of(recorded), Accesses::of(imitated)];
    let footprint = blocks::footprint(&both[0].blocks);
    let mut compared = Vec::new();
    let all = (POLICIES.len() * PERCENTS.len()) as f64;
    for policy in POLICIES {
        for percent in PERCENTS {
            if !watch.look("judgement", compared.len() as f64 / all) {
                return None;
            }
            let slots = u32::try_from(footprint * u64::from(percent) / 100);
            let slots = slots.unwrap_or(Simulation::SLOTS_MAX).clamp(1, Simulation::SLOTS_MAX);
            let [recorded, imitated] = miss_ratios(&both, policy, slots);
            let policy = policy.map_or("opt", Kind::name);
            compared.push(Compared { policy, percent, slots, recorded, imitated });
        }
    }
    Some(Judgement { compared, footprint_blocks: footprint })
}

/// The blocks of a trace, and the next use of each.
struct Accesses {
    blocks: Vec<u64>,
    nexts: Vec<u64>,
}

impl Accesses {
    fn of(entries: &[Entry]) -> Accesses {
        let blocks = blocks::of_all(entries);
        let mut nexts = vec![u64::MAX; blocks.len()];
        let mut next: HashMap<u64, u64> = HashMap::new();
        for (number, block) in blocks.iter().enumerate().rev() {
            if let Some(later) = next.insert(*block, number as u64) {
                nexts[number] = later;
            }
        }
        Accesses { blocks, nexts }
    }

    fn miss_ratio(&self, policy: Option<Kind>, slots: u32) -> f64 {
        let misses = match policy {
            Some(kind) => {
                let mut cache = Simulation::new(kind, slots);
                self.blocks.iter().filter(|block| !cache.read(**block)).count()
            }
            None => {
                let mut cache = Optimum::new(slots);
                let numbered = (0..).zip(&self.nexts);
                numbered.filter(|(number, next)| !cache.access(*number, **next)).count()
            }
        };
        misses as f64 / self.blocks.len().max(1) as f64
    }
}

/// Simulates a cache on both traces at the same time.
fn miss_ratios(both: &[Accesses; 2], policy: Option<Kind>, slots: u32) -> [f64; 2] {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| both[1].miss_ratio(policy, slots));
        let one = both[0].miss_ratio(policy, slots);
        [one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
    })
}
