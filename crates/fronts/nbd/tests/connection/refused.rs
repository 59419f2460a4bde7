//! Refused writes: clients expect no reply to a request that they are still sending.

use crate::client::Client;
use crate::scene::Scene;
use block::Stall;
use export::Budget;
use nbd::End;
use nbd::codec::*;
use std::sync::Arc;

const MIB: usize = 1 << 20;

#[test]
fn a_refused_write_is_answered_behind_its_payload() {
    for capacity in [1 << 20, 50_001] {
        let mut scene = Scene::timed();
        scene.capacity = capacity;
        let (lane, counts) = (scene.lane.clone(), scene.counts.clone());
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            for length in [4096, 16 * MIB, 32 * MIB] {
                let beyond = client.write_in_two(&lane, 1 << 40, length).await;
                assert_eq!(beyond, NBD_ENOSPC);
                assert_eq!(client.write_in_two(&lane, 1, length).await, NBD_EINVAL);
                assert_eq!(client.write_in_two(&lane, 0, length - 1).await, NBD_EINVAL);
            }
            assert!(counts.memory_max.get() <= 256 << 10, "it is thrown away where it comes");
            assert_eq!(client.read(0, 4096).await, (0, vec![0; 4096]));
            client.goodbye().await;
        });
        assert_eq!(end, End::Disconnected);
    }
}

#[test]
fn a_write_that_finds_no_room_is_answered_behind_its_payload() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    let stall = Arc::new(Stall::default());
    scene.device.stall = Some(stall.clone());
    scene.options.budget = Arc::new(Budget::new(4 * MIB, 100));
    let (budget, hang) = (scene.options.budget.clone(), scene.device.hang.clone());
    hang.set(true);
    stall.set(true);
    let acts = (0..12).map(|_| {
        let (lane, budget) = (scene.lane.clone(), budget.clone());
        let (hang, stall) = (hang.clone(), stall.clone());
        async move |client: Client| {
            client.go().await;
            for number in 0..3 {
                let offset = number * MIB as u64;
                assert_eq!(client.write_in_two(&lane, offset, MIB).await, NBD_EIO);
            }
            assert!((4 * MIB..=15 * MIB).contains(&budget.running().bytes), "most are refused");
            // All clients have reached this point at the same moment.
            lane.sleep_until(1_000_000_000).await;
            hang.set(false);
            stall.set(false);
            assert_eq!(client.write_in_two(&lane, 0, MIB).await, 0, "the connection goes on");
            client.goodbye().await;
        }
    });
    let acts: Vec<_> = acts.collect();
    let ends = scene.play_all(acts);
    assert!(ends.iter().all(|(end, ())| *end == End::Disconnected));
}
