//! The limits of a connection, and how connections end.

use crate::client::{Client, request};
use crate::scene::Scene;
use block::Kind;
use nbd::codec::*;
use nbd::{End, Wire};

fn reads(count: u64, length: u32) -> Vec<u8> {
    let header = |cookie| request(NBD_CMD_READ, cookie, cookie * u64::from(length), length);
    (0..count).flat_map(|cookie| header(cookie).encode()).collect()
}

#[test]
fn so_many_requests_are_under_way_and_no_more() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.options.in_flight_max = 8;
    let peak = scene.device.running_max.clone();
    scene.play(async |client: Client| {
        client.go().await;
        client.send(&reads(200, 4096)).await;
        for _ in 0..200 {
            assert_eq!(client.reply().await.expect("a reply").error, 0);
        }
        client.goodbye().await;
    });
    assert_eq!(peak.get(), 8);
}

#[test]
fn payloads_under_way_fit_their_memory() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.options.in_flight_bytes_max = 1 << 20;
    let peak = scene.device.running_max.clone();
    scene.play(async |client: Client| {
        client.go().await;
        client.send(&reads(20, 256 << 10)).await;
        for _ in 0..20 {
            let reply = client.reply().await.expect("a reply");
            assert_eq!(reply.error, 0);
        }
        assert_eq!(client.read(0, 4 << 20).await.0, 0, "one alone is always let in");
        client.goodbye().await;
    });
    assert_eq!(peak.get(), 4);
}

#[test]
fn a_client_that_does_not_read_is_served_so_far_and_holds_nobody() {
    for at_once in [0, 4] {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        scene.options.in_flight_max = 16;
        scene.capacity = 20_000;
        let (log, lane) = (scene.log(), scene.lane.clone());
        let (end, served) = scene.play(async move |client: Client| {
            client.go().await;
            client.send(&reads(700, 4096)).await;
            let patience = 5_000_000_000;
            lane.sleep_until(patience).await;
            let served = log.borrow().len();
            for _ in 0..700 {
                assert_eq!(client.reply().await.expect("a reply").error, 0);
            }
            client.goodbye().await;
            served
        });
        assert_eq!(end, End::Disconnected);
        // If reads are answered immediately: two sides of 62 replies. Otherwise: the requests in
        // flight. Plus the contents of the pipe.
        let (least, most) = if at_once == 0 { (16, 16 + 5) } else { (62, 160) };
        assert!((least..=most).contains(&served), "{served} reads were served unread");
    }
}

#[test]
fn whoever_leaves_is_waited_for_by_the_device_but_not_by_the_server() {
    for (seed, at_once) in (0..40).zip([0, 2].into_iter().cycle()) {
        let mut scene = Scene::chosen(seed);
        scene.device.at_once = at_once;
        let (log, running) = (scene.log(), scene.device.running.clone());
        let (end, ()) = scene.play(async |client: Client| {
            client.go().await;
            client.send(&reads(50, 4096)).await;
            client.reply().await;
        });
        assert!(matches!(end, End::Closed | End::Failed(_)), "{end:?}");
        assert_eq!(running.get(), 0, "requests were left under way");
        assert_eq!(log.borrow().last().map(String::as_str), Some("gone"));
    }
}

#[test]
fn a_goodbye_waits_for_the_replies_before_it() {
    for seed in 0..40 {
        let mut scene = Scene::chosen(seed);
        scene.device.at_once = seed % 4;
        let log = scene.log();
        let (end, ()) = scene.play(async |client: Client| {
            client.go().await;
            let mut bytes = reads(50, 4096);
            bytes.extend(request(NBD_CMD_DISC, 0, 0, 0).encode());
            bytes.extend(reads(1, 4096));
            client.send(&bytes).await;
            for _ in 0..50 {
                assert_eq!(client.reply().await.expect("a reply").error, 0);
            }
            assert_eq!(client.receive(1).await, None);
        });
        assert_eq!(end, End::Disconnected);
        let log = log.borrow();
        assert_eq!(log.len(), 51, "what follows a goodbye is not served");
        assert_eq!(log.last().map(String::as_str), Some("gone"));
    }
}

#[test]
fn who_goes_in_the_middle_of_a_payload_leaves_nothing_behind() {
    for length in [4096, 1 << 20] {
        let scene = Scene::timed();
        let log = scene.log();
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            let mut bytes = request(NBD_CMD_WRITE, 1, 0, length).encode().to_vec();
            bytes.resize(2000, 7);
            client.send(&bytes).await;
        });
        assert_eq!(end, End::Closed);
        assert_eq!(log.borrow().join(","), "gone", "half a write was run");
    }
}

#[test]
fn a_stop_answers_what_was_taken_in_and_nothing_that_comes_later() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.device.delay_ns = 1_000_000_000;
    let (stop, lane, log) = (scene.options.stop.clone(), scene.lane.clone(), scene.log());
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        client.send(&reads(20, 4096)).await;
        lane.sleep_until(1000).await;
        stop.ask();
        for _ in 0..3 {
            let mut late = request(NBD_CMD_READ, 100, 0, 4096).encode().to_vec();
            late.extend(request(NBD_CMD_WRITE, 101, 0, 1 << 20).encode());
            late.resize(late.len() + (1 << 20), 1);
            client.send(&late).await;
        }
        for _ in 0..20 {
            let reply = client.reply().await.expect("a reply");
            assert!(reply.error == 0 && reply.cookie < 100);
        }
        assert_eq!(client.receive(1).await, None, "no errors: the next server is asked");
        assert!(lane.now() <= 1_000_001_000, "at once");
        client.send(&request(NBD_CMD_READ, 102, 0, 4096).encode()).await;
    });
    assert_eq!(end, End::Stopped);
    assert_eq!(log.borrow().len(), 21, "20 reads, and the end of the session");
}

#[test]
fn a_stop_waits_neither_for_half_a_request_nor_long_for_a_client_that_stays() {
    let halves = [
        request(NBD_CMD_READ, 1, 0, 4096).encode()[..20].to_vec(),
        [&request(NBD_CMD_WRITE, 2, 0, 4096).encode()[..], &[1; 700]].concat(),
        [&request(NBD_CMD_WRITE, 3, 0, 16 << 20).encode()[..], &[1; 300_000]].concat(),
        [&request(NBD_CMD_WRITE, 4, 1, 16 << 20).encode()[..], &[1; 300_000]].concat(),
    ];
    for half in halves {
        let scene = Scene::timed();
        let (stop, lane, log) = (scene.options.stop.clone(), scene.lane.clone(), scene.log());
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            client.send(&half).await;
            lane.sleep_until(1_000_000_000).await;
            stop.ask();
            assert_eq!(client.receive(1).await, None);
            assert_eq!(lane.now(), 1_000_000_000);
            lane.sleep_until(1_499_000_000).await;
            client.send(&[1; 5000]).await;
            assert_eq!(log.borrow().join(","), "", "it is listened to");
            lane.sleep_until(1_501_000_000).await;
            assert_eq!(log.borrow().join(","), "gone", "for half a second");
        });
        assert_eq!(end, End::Stopped);
    }
}

#[test]
fn what_is_not_done_because_of_the_stop_is_not_answered() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.device.fails = Some((0, Kind::Stopping));
    let (stop, lane, hang) =
        (scene.options.stop.clone(), scene.lane.clone(), scene.device.hang.clone());
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        hang.set(true);
        let mut bytes = request(NBD_CMD_WRITE, 1, 0, 4096).encode().to_vec();
        bytes.resize(bytes.len() + 4096, 1);
        bytes.extend(request(NBD_CMD_READ, 2, 4096, 4096).encode());
        client.send(&bytes).await;
        lane.sleep_until(1_000_000).await;
        stop.ask();
        hang.set(false);
        let reply = client.reply().await.expect("of the read");
        assert_eq!((reply.cookie, reply.error), (2, 0));
        assert_eq!(client.receive(1).await, None, "and none of the write");
    });
    assert_eq!(end, End::Stopped);
}

#[test]
fn a_stop_finds_the_silent_and_the_undecided() {
    for enters in [true, false] {
        let scene = Scene::timed();
        let (stop, lane) = (scene.options.stop.clone(), scene.lane.clone());
        let (end, now) = scene.play(async move |client: Client| {
            if enters {
                client.go().await;
            }
            lane.sleep_until(1_000_000).await;
            stop.ask();
            while client.receive(1).await.is_some() {}
            lane.now()
        });
        assert_eq!(end, End::Stopped);
        assert_eq!(now, 1_000_000);
    }
}

#[test]
fn a_stop_waits_only_so_long_for_a_client_that_does_not_read() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.capacity = 10_000;
    scene.options.drain_ms = Some(3000);
    let (stop, lane, world) = (scene.options.stop.clone(), scene.lane.clone(), scene.log());
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        client.send(&reads(50, 4096)).await;
        lane.sleep_until(1_000_000_000).await;
        stop.ask();
        lane.sleep_until(3_999_000_000).await;
        assert_ne!(world.borrow().last().map(String::as_str), Some("gone"));
        lane.sleep_until(4_001_000_000).await;
        assert_eq!(world.borrow().last().map(String::as_str), Some("gone"));
        client.wire.shutdown();
    });
    assert!(matches!(end, End::Stopped | End::Failed(_)), "{end:?}");
}

#[test]
fn a_client_that_only_listens_gets_its_last_replies() {
    let mut scene = Scene::timed();
    scene.device.at_once = 0;
    scene.capacity = 10_000;
    let (end, ()) = scene.play(async |client: Client| {
        client.go().await;
        client.send(&reads(50, 4096)).await;
        client.wire.finish().await;
        for _ in 0..50 {
            assert_eq!(client.reply().await.expect("a reply").error, 0);
        }
    });
    assert_eq!(end, End::Closed);
}
