//! Speed and evenness. The results are exact, because time is virtual.

use crate::common::{Spread, drive, load, member, pool_of, world};
use block::Stack;
use pool::{MemberState, Stripe};

const SLOTS: u64 = 8000;
const WRITES: u64 = 20_000;

/// Returns the writes per second of a pool over drives with these write times, and each member's
/// share of bytes.
fn pooled(write_us: &[u64], spread: Spread) -> (f64, Vec<u64>, Vec<MemberState>) {
    let (mut world, lane) = world();
    let members: Vec<Stack> = write_us.iter().map(|us| member(&lane, SLOTS, &drive(*us))).collect();
    let (shared, stack) = pool_of(&mut world, &lane, &members);
    let took_ns = load(&mut world, &stack, 32, WRITES, spread);
    let statistics = shared.statistics();
    let bytes = statistics.iter().map(|member| member.written_bytes).collect();
    let states = statistics.iter().map(|member| member.state).collect();
    (WRITES as f64 * 1e9 / took_ns as f64, bytes, states)
}

fn striped(write_us: &[u64], spread: Spread) -> f64 {
    let (mut world, lane) = world();
    let members = write_us.iter().map(|us| member(&lane, SLOTS, &drive(*us))).collect();
    let stack = Stack::new(&lane, Stripe::attach(members, 64 << 10).expect("sound members"));
    let took_ns = load(&mut world, &stack, 32, WRITES, spread);
    WRITES as f64 * 1e9 / took_ns as f64
}

fn unevenness(bytes: &[u64]) -> f64 {
    let most = *bytes.iter().max().expect("members") as f64;
    let least = *bytes.iter().min().expect("members") as f64;
    (most - least) / (bytes.iter().sum::<u64>() as f64 / bytes.len() as f64)
}

#[test]
fn members_add_up() {
    // Four servers of 200 us: 20,000 per second each.
    for members in [2, 4] {
        let (rate, ..) = pooled(&vec![200; members], Spread::Uniform);
        let most = 20_000.0 * members as f64;
        assert!((0.9 * most..=most).contains(&rate), "{members} members: {rate}");
    }
}

#[test]
fn members_of_one_speed_are_written_evenly_within_one_per_cent() {
    for members in [2, 3, 4] {
        for spread in [Spread::Uniform, Spread::Hot] {
            let (_, bytes, states) = pooled(&vec![200; members], spread);
            assert!(unevenness(&bytes) < 0.01, "{bytes:?}");
            assert!(states.iter().all(|state| *state == MemberState::Good), "{states:?}");
        }
    }
}

#[test]
fn a_slow_member_gets_less_and_is_reported_where_a_stripe_is_as_slow_as_it() {
    let speeds = [200, 800];
    let (rate, bytes, states) = pooled(&speeds, Spread::Quarter);
    // 20,000 and 5,000 per second: together 25,000; a stripe has twice 5,000.
    assert!((22_000.0..=25_000.0).contains(&rate), "{rate}");
    let striped = striped(&speeds, Spread::Quarter);
    assert!((9_000.0..=10_500.0).contains(&striped), "{striped}");
    let share = bytes[1] as f64 / bytes.iter().sum::<u64>() as f64;
    assert!((0.18..0.26).contains(&share), "{share}");
    assert_eq!(states, [MemberState::Good, MemberState::Slow]);
}

#[test]
fn a_full_pool_needs_the_places_of_its_slow_member_as_much_as_the_others() {
    let (rate, bytes, _) = pooled(&[200, 800], Spread::Uniform);
    // If older places become free on each member equally often, each is written equally often in
    // the long run.
    let share = bytes[1] as f64 / bytes.iter().sum::<u64>() as f64;
    assert!((0.26..0.5).contains(&share), "{share}");
    assert!(rate > 1.2 * striped(&[200, 800], Spread::Uniform), "{rate}");
}
