//! A backing that has stopped answering.

use crate::client::{Client, request};
use crate::scene::Scene;
use block::Stall;
use export::Budget;
use nbd::End;
use nbd::codec::*;
use std::sync::Arc;

fn stalling(at_once: u64) -> Scene {
    let mut scene = Scene::timed();
    scene.structured = true;
    scene.device.at_once = at_once;
    scene.device.stall = Some(Arc::new(Stall::default()));
    scene
}

#[test]
fn what_waits_for_it_is_answered_with_an_error() {
    let scene = stalling(0);
    let (hang, stall) = (scene.device.hang.clone(), scene.device.stall.clone().expect("set"));
    let (log, lane) = (scene.log(), scene.lane.clone());
    let (end, ()) = scene.play(async move |client: Client| {
        client.haggle().await;
        client.select("", &["base:allocation"]).await;
        client.enter("").await;
        assert_eq!(client.write(0, 0, &[1; 4096]).await, 0);
        hang.set(true);
        let commands = [
            NBD_CMD_READ,
            NBD_CMD_WRITE_ZEROES,
            NBD_CMD_TRIM,
            NBD_CMD_CACHE,
            NBD_CMD_BLOCK_STATUS,
            NBD_CMD_FLUSH,
            NBD_CMD_WRITE,
        ];
        let mut bytes = Vec::new();
        for command in commands {
            let length = if command == NBD_CMD_FLUSH { 0 } else { 4096 };
            // Each request has its own offset: overlapping requests would wait for each other, not
            // for the backing.
            let offset = if command == NBD_CMD_FLUSH { 0 } else { u64::from(command) * 4096 };
            bytes.extend(request(command, u64::from(command), offset, length).encode());
        }
        bytes.resize(bytes.len() + 4096, 9);
        client.send(&bytes).await;
        lane.sleep_until(1_000_000_000).await;
        assert_eq!(log.borrow().join(","), "write,flushed", "they hang");
        stall.set(true);
        for _ in commands {
            let reply = client.reply().await.expect("an answer");
            assert_eq!((reply.error, reply.data.len()), (NBD_EIO, 0));
        }
        assert_eq!(lane.now(), 1_000_000_000, "at once");
        assert_eq!(client.read(0, 4096).await.0, NBD_EIO, "and whatever comes later");
        hang.set(false);
        stall.set(false);
        lane.sleep_until(2_000_000_000).await;
        assert_eq!(log.borrow().len(), 10, "all of it was done after all");
        assert_eq!(client.read(0, 512).await.0, 0, "and life goes on");
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn a_change_that_waits_for_an_earlier_one_is_given_up() {
    let scene = stalling(0);
    let (hang, stall) = (scene.device.hang.clone(), scene.device.stall.clone().expect("set"));
    let (log, lane) = (scene.log(), scene.lane.clone());
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        hang.set(true);
        let mut bytes = request(NBD_CMD_TRIM, 1, 0, 8192).encode().to_vec();
        bytes.extend(request(NBD_CMD_WRITE, 2, 4096, 4096).encode());
        bytes.extend([9; 4096]);
        client.send(&bytes).await;
        lane.sleep_until(1_000_000_000).await;
        stall.set(true);
        for _ in 0..2 {
            assert_eq!(client.reply().await.expect("an answer").error, NBD_EIO);
        }
        hang.set(false);
        stall.set(false);
        lane.sleep_until(2_000_000_000).await;
        assert_eq!(log.borrow().join(","), "discard", "the write is not done later");
        assert_eq!(client.write(0, 4096, &[7; 4096]).await, 0);
        assert_eq!(client.read(4096, 4096).await, (0, vec![7; 4096]));
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn what_goes_on_behind_keeps_its_buffer() {
    let scene = stalling(0);
    let (hang, stall) = (scene.device.hang.clone(), scene.device.stall.clone().expect("set"));
    let ram = scene.device.ram.clone();
    scene.play(async move |client: Client| {
        client.go().await;
        hang.set(true);
        stall.set(true);
        for byte in 1..=20u8 {
            let offset = u64::from(byte) * 8192;
            assert_eq!(client.write(0, offset, &[byte; 8192]).await, NBD_EIO);
            assert_eq!(client.read(offset, 8192).await.0, NBD_EIO);
        }
        // The device still holds the data of each write, and no two writes share memory.
        let held = hang.held.borrow().clone();
        assert_eq!(held.len(), 40);
        for (index, buf) in held.iter().enumerate().step_by(2) {
            assert_eq!(buf.to_vec(), vec![(index / 2) as u8 + 1; 8192]);
        }
        // A read that ends late must not write into a buffer that has been reused.
        stall.set(false);
        hang.set(false);
        let answer = client.write(0, 0, &[99; 8192]).await;
        assert_eq!((answer, client.read(0, 8192).await.1), (0, vec![99; 8192]));
        drop(held);
        client.goodbye().await;
    });
    let contents = block::Buf::new(16, 512);
    for byte in 1..=20u8 {
        let at = block::Extent::new(u64::from(byte) * 16, 16);
        let read = block::Request::Read { at, into: contents.clone() };
        assert_eq!(block::Block::try_now(&ram, &read), Some(Ok(())));
        assert_eq!(contents.to_vec(), vec![byte; 8192], "the late write was whole");
    }
}

#[test]
fn a_client_that_tries_again_and_again_piles_nothing_up() {
    let mut scene = stalling(0);
    scene.options.budget = Arc::new(Budget::new(1 << 20, 50));
    let (hang, stall) = (scene.device.hang.clone(), scene.device.stall.clone().expect("set"));
    let (budget, lane, ram) =
        (scene.options.budget.clone(), scene.lane.clone(), scene.device.ram.clone());
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        hang.set(true);
        stall.set(true);
        for round in 0..500 {
            let offset = round % 100 * 65536;
            assert_eq!(client.read(offset, 65536).await.0, NBD_EIO);
            assert_eq!(client.write(0, offset, &[7; 65536]).await, NBD_EIO);
            assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 0, 0).await, NBD_EIO);
        }
        assert!((1 << 19..=1 << 20).contains(&budget.running().bytes));
        assert!((16..=50).contains(&budget.running().requests));
        assert!(lane.tasks() < 60, "{} tasks", lane.tasks());
        let all = block::Buf::new(128, 512);
        let read = block::Request::Read { at: block::Extent::new(0, 128), into: all.clone() };
        assert_eq!(block::Block::try_now(&ram, &read), Some(Ok(())));
        assert_eq!(all.to_vec(), vec![0; 65536], "nothing was done yet");
        hang.set(false);
        stall.set(false);
        assert_eq!(client.read(0, 65536).await.0, 0);
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn a_connection_ends_although_its_requests_do_not() {
    for says_goodbye in [false, true] {
        let scene = stalling(0);
        let (hang, stall) = (scene.device.hang.clone(), scene.device.stall.clone().expect("set"));
        let (log, lane) = (scene.log(), scene.lane.clone());
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            hang.set(true);
            let reads = (0..5).flat_map(|cookie| request(NBD_CMD_READ, cookie, 0, 4096).encode());
            client.send(&reads.collect::<Vec<u8>>()).await;
            lane.sleep_until(1_000_000).await;
            stall.set(true);
            if says_goodbye {
                client.send(&request(NBD_CMD_DISC, 0, 0, 0).encode()).await;
                while client.receive(1).await.is_some() {}
            } else {
                drop(client);
            }
            lane.sleep_until(2_000_000).await;
            assert_eq!(log.borrow().join(","), "gone", "the session is over");
            hang.set(false);
            stall.set(false);
        });
        assert!(matches!(end, End::Disconnected | End::Closed | End::Failed(_)), "{end:?}");
    }
}

#[test]
fn stalls_that_come_and_go_lose_no_reply() {
    for seed in 0..40 {
        let mut scene = Scene::chosen(seed);
        scene.device.at_once = seed % 3;
        scene.device.stall = Some(Arc::new(Stall::default()));
        scene.options.budget = Arc::new(Budget::new(64 << 10, 10));
        let (hang, stall) = (scene.device.hang.clone(), scene.device.stall.clone().expect("set"));
        let lane = scene.lane.clone();
        scene.play(async move |client: Client| {
            client.go().await;
            for round in 0..6 {
                hang.set(round % 2 == 0);
                let reads = (0..30)
                    .flat_map(|cookie| request(NBD_CMD_READ, cookie, cookie * 4096, 4096).encode());
                client.send(&reads.collect::<Vec<u8>>()).await;
                lane.turn().await;
                stall.set(round % 2 == 0);
                let mut seen = Vec::new();
                for _ in 0..30 {
                    let reply = client.reply().await.expect("a reply");
                    assert!([0, NBD_EIO].contains(&reply.error));
                    assert_eq!(reply.data.len(), if reply.error == 0 { 4096 } else { 0 });
                    seen.push(reply.cookie);
                }
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..30), "each has one reply");
            }
            hang.set(false);
            client.goodbye().await;
        });
    }
}
