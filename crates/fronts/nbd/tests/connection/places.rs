//! Clients that occupy all places, and places of clients that have gone.

use crate::client::{Client, request};
use crate::scene::Scene;
use nbd::codec::*;
use nbd::{ConnectionLimit, ConnectionPermit, End};
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

/// Returns a scene with `places` places, and one of them, as if taken by another client.
fn scene(places: usize) -> (Scene, ConnectionPermit) {
    let mut scene = Scene::timed();
    scene.options.places = Arc::new(ConnectionLimit::new(places));
    let place = scene.options.places.take().expect("a place");
    (scene, place)
}

/// Messages with a beginning and no end.
fn halves() -> [Vec<u8>; 3] {
    [
        request(NBD_CMD_READ, 1, 0, 4096).encode()[..20].to_vec(),
        [&request(NBD_CMD_WRITE, 2, 0, 4096).encode()[..], &[1; 700]].concat(),
        [&request(NBD_CMD_WRITE, 3, 0, 16 << 20).encode()[..], &[1; 300_000]].concat(),
    ]
}

#[test]
fn a_client_with_half_a_request_keeps_its_place_only_while_there_are_others() {
    for (places, half) in [1, 2].into_iter().flat_map(|places| halves().map(|half| (places, half)))
    {
        let (scene, place) = scene(places);
        let lane = scene.lane.clone();
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            assert_eq!(client.write(0, 0, &[1; 4096]).await, 0);
            client.send(&half).await;
            if places == 1 {
                assert_eq!(client.receive(1).await, None);
                assert!((10 * SECOND_NS..=16 * SECOND_NS).contains(&lane.now()), "{}", lane.now());
            } else {
                lane.sleep_until(100 * SECOND_NS).await;
                assert!(!client.receives_something(&lane).await, "no other client wants its place");
            }
            drop(place);
        });
        assert_eq!(end, if places == 1 { End::TimedOut } else { End::Closed });
    }
}

#[test]
fn the_last_place_that_is_taken_hurries_a_client_that_was_late_before() {
    let (scene, place) = scene(2);
    let (lane, places) = (scene.lane.clone(), scene.options.places.clone());
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        client.send(&halves()[0]).await;
        lane.sleep_until(60 * SECOND_NS).await;
        let last = places.take().expect("it is free");
        assert_eq!(client.receive(1).await, None);
        assert_eq!(lane.now(), 60 * SECOND_NS, "at once");
        drop((place, last));
    });
    assert_eq!(end, End::TimedOut);
}

#[test]
fn a_client_that_is_silent_or_slow_keeps_its_place() {
    let (scene, place) = scene(1);
    let lane = scene.lane.clone();
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        let sleep = |seconds: u64| lane.sleep_until(lane.now() + seconds * SECOND_NS);
        sleep(100).await;
        // A header in two pieces, then a MiB every 8 s.
        let header = request(NBD_CMD_WRITE, 1, 0, 8 << 20).encode();
        client.send(&header[..13]).await;
        sleep(8).await;
        client.send(&header[13..]).await;
        for _ in 0..16 {
            sleep(4).await;
            client.send(&vec![7; 512 << 10]).await;
        }
        assert_eq!(client.reply().await.expect("a reply").error, 0);
        sleep(100).await;
        assert_eq!(client.read(0, 4096).await, (0, vec![7; 4096]));
        client.goodbye().await;
        drop(place);
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn reads_of_a_client_that_has_gone_are_dropped_and_its_changes_are_not() {
    let mut scene = Scene::timed();
    scene.structured = true;
    scene.device.at_once = 0;
    scene.device.delay_ns = SECOND_NS;
    scene.options.in_flight_max = 8;
    let log = scene.log();
    let (end, ()) = scene.play(async |client: Client| {
        client.haggle().await;
        client.select("", &["base:allocation"]).await;
        client.enter("").await;
        let mut bytes = Vec::new();
        for cookie in 0..3000 {
            let command = match cookie % 3 {
                0 => NBD_CMD_CACHE,
                1 => NBD_CMD_BLOCK_STATUS,
                _ => NBD_CMD_READ,
            };
            bytes.extend(request(command, cookie, 0, 65536 + 512).encode());
        }
        bytes.extend(request(NBD_CMD_WRITE, 9, 4096, 512).encode());
        bytes.extend([5; 512]);
        bytes.extend(request(NBD_CMD_FLUSH, 10, 0, 0).encode());
        client.send(&bytes).await;
    });
    assert!(matches!(end, End::Failed(_) | End::Closed), "{end:?}");
    let log = log.borrow();
    let done = |what: &str| log.iter().filter(|line| line.as_str() == what).count();
    let asked = done("read") + done("advise") + done("status");
    assert!(asked < 40, "{asked} reads");
    assert_eq!((done("write"), done("flush")), (1, 1));
}
