//! The budget that connections share.

use crate::client::{Client, request};
use crate::scene::Scene;
use export::{Budget, Load};
use nbd::End;
use nbd::codec::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

fn reads(count: u64, length: u32) -> Vec<u8> {
    let header = |cookie| request(NBD_CMD_READ, cookie, cookie * u64::from(length), length);
    (0..count).flat_map(|cookie| header(cookie).encode()).collect()
}

async fn reads_all(client: Client, count: u64, length: u32) {
    client.go().await;
    client.send(&reads(count, length)).await;
    for _ in 0..count {
        assert_eq!(client.reply().await.expect("a reply").error, 0);
    }
    client.goodbye().await;
}

#[test]
fn connections_share_bytes_and_requests() {
    for (budget, most) in [(Budget::new(1 << 20, 100), 4), (Budget::new(64 << 20, 6), 6)] {
        let mut scene = Scene::timed();
        scene.device.at_once = 0;
        scene.options.budget = Arc::new(budget);
        let peak = scene.device.running_max.clone();
        let acts = (0..4).map(|_| |client| reads_all(client, 20, 256 << 10));
        let ends = scene.play_all(acts);
        assert!(ends.iter().all(|(end, ())| *end == End::Disconnected));
        // Each connection may exceed it by one request, if it has no other.
        assert!((most..=most + 3).contains(&peak.get()), "{} at a time", peak.get());
    }
}

#[test]
fn whoever_has_nothing_under_way_is_let_in() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.options.budget = Arc::new(Budget::new(4096, 1));
    let peak = scene.device.running_max.clone();
    let acts = (0..5).map(|_| |client| reads_all(client, 10, 1 << 20));
    scene.play_all(acts);
    assert!((2..=5).contains(&peak.get()), "{} at a time", peak.get());
}

#[test]
fn what_one_connection_gives_back_another_one_gets() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.capacity = 20_000;
    scene.options.budget = Arc::new(Budget::new(64 << 20, 8));
    let (budget, lane) = (scene.options.budget.clone(), scene.lane.clone());
    let served = Rc::new(Cell::new(0));
    let acts = (0..2).map(|index| {
        let (budget, lane, served) = (budget.clone(), lane.clone(), served.clone());
        async move |client: Client| {
            client.go().await;
            if index == 1 {
                // Starts later, and finds the whole budget used by a client that does not read.
                lane.sleep_until(1_000_000_000).await;
                assert_eq!(budget.used().requests, 8);
            }
            client.send(&reads(40, 4096)).await;
            if index == 0 {
                lane.sleep_until(2_000_000_000).await;
                assert_eq!(served.get(), 40, "the other one went on, one by one");
            }
            for _ in 0..40 {
                assert_eq!(client.reply().await.expect("a reply").error, 0);
                served.set(served.get() + 1);
            }
            client.goodbye().await;
        }
    });
    scene.play_all(acts);
    assert_eq!(budget.used(), Load::default());
}

#[test]
fn a_full_budget_stops_nobody_for_good() {
    for seed in 0..40 {
        let mut scene = Scene::chosen(seed);
        scene.device.at_once = seed % 4;
        scene.options.in_flight_max = 4;
        scene.options.budget = Arc::new(Budget::new(16 << 10, 1 + seed as usize % 5));
        let acts = (0..4).map(|_| |client| reads_all(client, 12, 4096));
        let ends = scene.play_all(acts);
        assert!(ends.iter().all(|(end, ())| *end == End::Disconnected));
    }
}

#[test]
fn a_world_that_dies_gives_everything_back() {
    let budget = Arc::new(Budget::default());
    let mut world = lane::World::chosen(1);
    let lane = world.lane();
    let device = crate::stack::Device::new(&lane, 64, 1);
    let hang = device.hang.clone();
    hang.set(true);
    let mut options = nbd::Options { budget: budget.clone(), ..nbd::Options::default() };
    (options.handshake_ms, options.drain_ms) = (None, None);
    let export = export::Export::new(
        "disk",
        block::Stack::new(&lane, crate::stack::Device { at_once: 0, ..device }),
    );
    let (server, wire) = nbd::pipe(1 << 20);
    let serving = nbd::serve(lane.clone(), server, Rc::new(nbd::Exports::new([export])), options);
    lane.spawn(async move { assert_ne!(serving.await, nbd::End::Busy) }).expect("a slot is free");
    let client = Client::new(wire, false);
    let acting = async move {
        client.go().await;
        client.send(&reads(3, 4096)).await;
        std::future::pending::<()>().await;
    };
    lane.spawn(acting).expect("a slot is free");
    world.run_until(|| budget.used().requests == 3);
    assert_eq!(budget.used(), Load { requests: 3, bytes: 3 * 4096 });
    world.abandon();
    assert_eq!(budget.used(), Load::default());
}
