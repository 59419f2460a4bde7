//! Rate limits of members, and of a pool or stripe as a whole. The results are exact, because time
//! is virtual.

use crate::common::{GRAIN, Spread, load, pool_of, world};
use block::{Ram, RateLimitSpec, Stack};
use lane::Lane;
use layers::{RateLimit, RateLimitShared};
use pool::{SLOT_SECTORS, Stripe};

const SLOTS: u64 = 2000;
const WRITES: u64 = 4001;
const SECOND: u64 = 1_000_000_000;

/// A limit of this number of requests per second.
fn limited(lane: &Lane, iops: u64, below: Stack) -> Stack {
    let spec = RateLimitSpec { iops, ..RateLimitSpec::default() };
    Stack::new(lane, RateLimit::attach(RateLimitShared::new(&spec), lane, below))
}

fn members(lane: &Lane, iops: u64) -> Vec<Stack> {
    let ram = || Stack::new(lane, Ram::new(SLOTS * u64::from(SLOT_SECTORS), GRAIN));
    (0..2).map(|_| limited(lane, iops, ram())).collect()
}

#[test]
fn a_stripe_has_the_limits_of_its_members_together_or_its_own() {
    let rate = |own: Option<u64>| {
        let (mut world, lane) = world();
        let stripe = Stripe::attach(members(&lane, 1000), 4096).expect("sound members");
        let stripe = Stack::new(&lane, stripe);
        let stack = own.map_or(stripe.clone(), |iops| limited(&lane, iops, stripe));
        let took_ns = load(&mut world, &stack, 32, WRITES, Spread::Uniform);
        (WRITES - 1) * SECOND / took_ns
    };
    // At random, one member has more of the requests under way than the other.
    assert!((1800..=2000).contains(&rate(None)), "{}", rate(None));
    assert_eq!(rate(Some(500)), 500);
}

#[test]
fn a_pool_has_the_limits_of_its_members_together_or_its_own() {
    let rate = |own: Option<u64>| {
        let (mut world, lane) = world();
        let (_, pool) = pool_of(&mut world, &lane, &members(&lane, 1000));
        let stack = own.map_or(pool.clone(), |iops| limited(&lane, iops, pool));
        let took_ns = load(&mut world, &stack, 32, WRITES, Spread::Uniform);
        (WRITES - 1) * SECOND / took_ns
    };
    // The journal and the map take some of the members' requests.
    assert!((1800..=2000).contains(&rate(None)), "{}", rate(None));
    assert_eq!(rate(Some(500)), 500);
}
