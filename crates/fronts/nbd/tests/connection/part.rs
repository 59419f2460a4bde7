//! Requests that begin and end at any byte, on a stack that supports them.

use crate::client::{Client, request};
use crate::scene::Scene;
use block::{Fua, Kind};
use lane::Random;
use nbd::End;
use nbd::codec::*;

/// A scene whose stack accepts any bytes, over blocks of this size.
fn scene(seed: u64, block: u32) -> Scene {
    let mut scene = Scene::chosen(seed);
    scene.device.limits.block_logical_bytes = block;
    scene.unaligned();
    scene
}

#[test]
fn any_bytes_of_one_client_are_those_of_plain_memory() {
    for seed in 0..24 {
        let mut scene = scene(seed, if seed % 2 == 0 { 512 } else { 4096 });
        scene.device.at_once = seed % 5;
        scene.structured = seed % 3 == 0;
        scene.capacity = if seed % 4 == 0 { 700 } else { 1 << 20 };
        let (end, ()) = scene.play(async move |client: Client| {
            let (_, sizes) = client.go().await;
            assert_eq!((sizes.min, sizes.preferred), (1, 4096));
            let mut random = Random::new(seed);
            let mut model = vec![0u8; 64 << 10];
            for number in 0..60u64 {
                let offset = random.below(model.len() as u64);
                let length = 1 + random.below((model.len() as u64 - offset).min(20_000)) as u32;
                let part = offset as usize..offset as usize + length as usize;
                let fua = if random.one_in(3) { NBD_CMD_FLAG_FUA } else { 0 };
                match random.below(6) {
                    0 => {
                        assert_eq!(client.plain(NBD_CMD_TRIM, fua, offset, length).await, 0);
                        model[part].fill(0);
                    }
                    1 => {
                        let zero = client.plain(NBD_CMD_WRITE_ZEROES, fua, offset, length);
                        assert_eq!(zero.await, 0);
                        model[part].fill(0);
                    }
                    2 => assert_eq!(client.plain(NBD_CMD_CACHE, 0, offset, length).await, 0),
                    3 => assert_eq!(client.read(offset, length).await, (0, model[part].to_vec())),
                    _ => {
                        let bytes = (0..u64::from(length)).map(|at| (at * 7 + number) as u8);
                        let bytes: Vec<u8> = bytes.collect();
                        assert_eq!(client.write(fua, offset, &bytes).await, 0);
                        model[part].copy_from_slice(&bytes);
                    }
                }
            }
            assert_eq!(client.read(0, model.len() as u32).await, (0, model));
            client.goodbye().await;
        });
        assert_eq!(end, End::Disconnected);
    }
}

/// Each client has its own bytes in every block, and all clients send at the same time.
#[test]
fn clients_with_bytes_in_the_same_blocks_lose_nothing() {
    for seed in 0..16 {
        let mut scene = scene(seed, 512);
        scene.device.at_once = seed % 4;
        let clients = (0..3u64).map(|number| {
            async move |client: Client| {
                client.go().await;
                let mut random = Random::new(seed * 3 + number);
                let mut own = [0u8; 48];
                for round in 1..=30u8 {
                    let place = random.below(48);
                    // Ten bytes, or fewer at the end, of three blocks that all clients write to.
                    let offset = place * 32 + number * 10;
                    assert_eq!(client.write(0, offset, &[round; 10]).await, 0);
                    own[place as usize] = round;
                }
                for (place, round) in own.into_iter().enumerate() {
                    let offset = place as u64 * 32 + number * 10;
                    let read = client.read(offset, 10).await;
                    assert_eq!(read, (0, vec![round; 10]), "seed {seed}, client {number}");
                }
                client.goodbye().await;
            }
        });
        let ends = scene.play_all(clients.collect::<Vec<_>>());
        assert!(ends.into_iter().all(|(end, ())| end == End::Disconnected));
    }
}

#[test]
fn the_largest_transfer_may_begin_anywhere() {
    let mut scene = Scene::timed();
    scene.unaligned();
    scene.structured = true;
    let (end, ()) = scene.play(async |client: Client| {
        let (_, sizes) = client.go().await;
        assert_eq!(sizes.max, 32 << 20);
        let payload: Vec<u8> = (0..32usize << 20).map(|at| (at % 251) as u8).collect();
        assert_eq!(client.write(0, 4097, &payload).await, 0);
        assert!(client.read(4097, 32 << 20).await == (0, payload));
        assert_eq!(client.read(4096, 1).await, (0, vec![0]));
        assert_eq!(client.read((32 << 20) + 4097, 1).await, (0, vec![0]));
        let longer = request(NBD_CMD_READ, 7, 1, (32 << 20) + 1);
        assert_eq!(client.ask(longer, &[]).await.0, NBD_EINVAL);
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn bytes_that_cannot_be_are_refused_and_the_stream_stays_whole() {
    let mut scene = Scene::timed();
    scene.device.fails = Some((3, Kind::Io));
    scene.unaligned();
    scene.structured = true;
    let size = scene.device.limits.bytes();
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        assert_eq!(client.write(0, size - 3, &[1; 4]).await, NBD_ENOSPC);
        assert_eq!(client.read(size - 3, 4).await.0, NBD_EINVAL);
        assert_eq!(client.read(u64::MAX, 1).await.0, NBD_EINVAL);
        assert_eq!(client.read(1, 0).await.0, NBD_EINVAL);
        assert_eq!(client.write(0, 1, &[]).await, NBD_EINVAL);
        assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 1, 0).await, NBD_EINVAL);
        assert_eq!(client.plain(NBD_CMD_TRIM, 0, 1, u32::MAX).await, NBD_EINVAL);
        let fast = client.plain(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FAST_ZERO, 1, 700).await;
        assert_eq!(fast, NBD_ENOTSUP);
        // The sector with a read error.
        assert_eq!(client.write(0, 3 * 512 + 7, &[1; 4]).await, NBD_EIO);
        assert_eq!(client.read(3 * 512 + 7, 4).await.0, NBD_EIO);
        assert_eq!(client.write(0, size - 3, &[7; 3]).await, 0);
        assert_eq!(client.read(size - 4, 4).await, (0, vec![0, 7, 7, 7]));
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn fua_on_bytes_reaches_the_device_as_it_does_on_blocks() {
    for fua in [Fua::Native, Fua::None] {
        let mut scene = Scene::timed();
        scene.device.limits.fua = fua;
        scene.device.limits.flush_needed = true;
        scene.device.at_once = 0;
        scene.unaligned();
        let log = scene.log();
        let (end, ()) = scene.play(async |client: Client| {
            client.go().await;
            assert_eq!(client.write(NBD_CMD_FLAG_FUA, 5, &[1; 5]).await, 0);
            let zeroes = client.plain(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FUA, 500, 700);
            assert_eq!(zeroes.await, 0);
            assert_eq!(client.plain(NBD_CMD_TRIM, NBD_CMD_FLAG_FUA, 512, 5).await, 0);
            assert_eq!(client.read(5, 6).await.0, 0);
            client.goodbye().await;
        });
        assert_eq!(end, End::Disconnected);
        let native = [
            ["flushed", "read", "write fua"].as_slice(),
            &["flushed", "read", "read", "write fua", "write fua", "zero fua"],
            &["flushed", "read", "write", "flush", "read", "gone"],
        ];
        let none = [
            ["flushed", "read", "write", "flush"].as_slice(),
            &["flushed", "read", "read", "write", "write", "zero unmap", "flush"],
            &["flushed", "read", "write", "flush", "read", "gone"],
        ];
        let expected = if fua == Fua::Native { native.concat() } else { none.concat() };
        assert_eq!(*log.borrow(), expected);
    }
}

#[test]
fn a_status_of_bytes_is_reported_from_the_first_to_the_last() {
    let mut scene = Scene::timed();
    scene.unaligned();
    scene.structured = true;
    let hole = |sectors, zero| block::Stretch { sectors, hole: zero, zero };
    scene.device.known.borrow_mut().extend([hole(4, false), hole(4, true), hole(1000, false)]);
    let (end, ()) = scene.play(async |client: Client| {
        client.haggle().await;
        client.select("", &["base:allocation"]).await;
        client.enter("").await;
        let zero = NBD_STATE_HOLE | NBD_STATE_ZERO;
        let status = client.status(0, 100, 4096).await;
        assert_eq!(status.1[..2], [(1948, 0), (2048, zero)]);
        assert_eq!(status.1.iter().map(|(length, _)| length).sum::<u32>(), 1008 * 512 - 100);
        let one = client.status(NBD_CMD_FLAG_REQ_ONE, 2049, 3).await;
        assert_eq!(one, (0, vec![(3, zero)]));
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}
