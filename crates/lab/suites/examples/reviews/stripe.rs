//! Transfer sizes on a modelled drive, or on several of them striped.

use block::Stack;
use drive_backend::{Keep, Shared};
use lane::{Prices, World};
use pool::Stripe;
use suites::{Plan, Rig, Target, find, run_on};

/// Bytes of a chunk of the stripe.
const CHUNK_BYTES: u32 = 64 << 10;
/// Steps of the world between two checks.
const STEPS: u32 = 1 << 14;

/// Rates by transfer size.
pub(crate) struct Sizes {
    pub(crate) name: String,
    /// Names of the sizes, their bytes, and the rates of reads.
    reads: Vec<(String, f64, f64)>,
}

impl Sizes {
    /// Returns the rate of reads with this size.
    pub(crate) fn read(&self, size: &str) -> Option<f64> {
        self.reads.iter().find(|(name, ..)| name == size).map(|(.., rate)| *rate)
    }

    /// Returns points: bytes and rate.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        self.reads.iter().map(|(_, bytes, rate)| (*bytes, *rate)).collect()
    }
}

/// One drive, or a stripe of several.
struct Drives {
    world: World,
    device: Stack,
}

impl Drives {
    fn new(targets: &[Target]) -> Drives {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let mut members: Vec<Stack> = targets
            .iter()
            .map(|target| {
                let model = target.model.as_ref().expect("a modelled drive");
                let drive = Shared::new(model, &target.options, Keep::Nothing).expect("a preset");
                Stack::new(&lane, drive_backend::Modelled::attach(&drive, &lane))
            })
            .collect();
        let device = match members.len() {
            1 => members.remove(0),
            _ => Stack::new(&lane, Stripe::attach(members, CHUNK_BYTES).expect("equal members")),
        };
        Drives { world, device }
    }
}

impl Rig for Drives {
    fn device(&self) -> &Stack {
        &self.device
    }

    fn time(&self) -> &'static str {
        "virtual"
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        for _ in 0..STEPS {
            if done() {
                return true;
            }
            if !self.world.step() {
                return false;
            }
        }
        true
    }
}

/// Runs the suite `sizes` on one drive, or on a stripe of several of the same model.
pub(crate) fn sizes(name: &str, models: &[&str]) -> Sizes {
    let targets = models.iter().zip(1u64..).map(|(model, seed)| {
        Target::parse(&format!("model:{model}?seed={seed}")).expect("a preset")
    });
    let targets: Vec<Target> = targets.collect();
    let rig = Drives::new(&targets);
    let bytes = rig.device.limits().bytes();
    let plan = Plan::new(find("sizes").expect("a suite").profile(), Target::of_rig(name, bytes, 1));
    let (outcome, ended) = run_on(Box::new(rig), &plan, &mut ());
    assert_eq!(ended, Ok(()), "{name}");
    let rows = outcome.rows.iter().filter_map(|row| {
        let size = row.test.strip_prefix("read, ")?;
        let bytes = size.parse::<block::Size>().ok()?.0;
        Some((size.to_owned(), bytes as f64, row.value))
    });
    Sizes { name: name.to_owned(), reads: rows.collect() }
}
