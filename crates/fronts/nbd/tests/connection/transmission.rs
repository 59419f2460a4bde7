//! Effects of requests.

use crate::client::{Client, both, request};
use crate::scene::Scene;
use block::{Fua, Kind};
use nbd::End;
use nbd::codec::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut random = lane::Random::new(seed);
    (0..length).map(|_| random.next_u64() as u8).collect()
}

async fn round_trips(client: Client) {
    client.go().await;
    // Less than a block, a block, more than is answered in place, more than the buffers hold.
    for (index, length) in [512, 4096, 65536, 131_072, 1 << 20, 32 << 20].into_iter().enumerate() {
        let offset = 512 * (index as u64 + 1);
        let data = pattern(index as u64, length);
        assert_eq!(client.write(0, offset, &data).await, 0);
        let (error, read) = client.read(offset, length as u32).await;
        assert!(error == 0 && read == data, "{length} bytes");
    }
    assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 0, 0).await, 0);
    assert_eq!(client.plain(NBD_CMD_CACHE, 0, 0, 8192).await, 0);
    let (_, before) = client.read(0, 16384).await;
    assert!(before[512..].iter().filter(|&&byte| byte == 0).count() < 1024);
    assert_eq!(client.plain(NBD_CMD_TRIM, 0, 4096, 4096).await, 0);
    assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, 0, 8192, 4096).await, 0);
    let (_, after) = client.read(0, 16384).await;
    assert_eq!(after[..4096], before[..4096]);
    assert_eq!(after[4096..12288], [0; 8192]);
    assert_eq!(after[12288..], before[12288..]);
    client.goodbye().await;
}

#[test]
fn data_comes_back_whoever_answers_and_however_it_is_cut() {
    for (at_once, structured, capacity) in
        [(4, false, 1 << 20), (0, false, 70_000), (4, true, 50_001), (2, true, 1 << 16)]
    {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        scene.structured = structured;
        scene.capacity = capacity;
        assert_eq!(scene.play(round_trips).0, End::Disconnected);
    }
}

#[test]
fn a_hit_costs_one_receive_and_one_send() {
    let scene = Scene::timed();
    let counts = scene.counts.clone();
    let (_, calls) = scene.play(async move |client: Client| {
        client.go().await;
        let data = pattern(1, 4096);
        assert_eq!(client.write(0, 4096, &data).await, 0);
        let before = (counts.receives.get(), counts.sends.get());
        for _ in 0..100 {
            assert_eq!(client.read(4096, 4096).await.1, data);
            assert_eq!(client.write(0, 4096, &data).await, 0);
        }
        assert_eq!(counts.parts_max.get(), 1, "header and data stand side by side");
        (counts.receives.get() - before.0, counts.sends.get() - before.1)
    });
    assert_eq!(calls, (200, 200));
}

#[test]
fn the_next_receive_begins_while_the_reply_is_sent() {
    for stops in [false, true] {
        let scene = Scene::timed();
        let (counts, stop) = (scene.counts.clone(), scene.options.stop.clone());
        let (end, calls) = scene.play(async move |client: Client| {
            client.go().await;
            assert_eq!(client.read(0, 4096).await.0, 0);
            counts.slow.set(true);
            let before = (counts.receives.get(), counts.sends.get());
            for offset in 0..50 {
                assert_eq!(client.read(offset * 512, 4096).await.0, 0);
            }
            let after = (counts.receives.get(), counts.sends.get());
            if stops {
                stop.ask();
            } else {
                client.send(&request(NBD_CMD_DISC, 0, 0, 0).encode()).await;
            }
            assert_eq!(client.receive(1).await, None);
            (after.0 - before.0, after.1 - before.1, counts.together.get())
        });
        assert_eq!(end, if stops { End::Stopped } else { End::Disconnected });
        assert_eq!(calls, (50, 50, 50));
    }
}

#[test]
fn a_stop_in_the_middle_of_a_send_is_noticed() {
    for seed in 0..60 {
        let mut scene = Scene::chosen(seed);
        scene.counts.slow.set(true);
        scene.device.at_once = seed % 5;
        let (stop, lane) = (scene.options.stop.clone(), scene.lane.clone());
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            for cookie in 0..4 {
                client.send(&request(NBD_CMD_READ, cookie, 0, 4096).encode()).await;
            }
            for _ in 0..seed % 7 {
                lane.turn().await;
            }
            stop.ask();
            while client.receive(1).await.is_some() {}
        });
        assert_eq!(end, End::Stopped);
    }
}

#[test]
fn zeros_that_must_be_fast_are_refused_where_they_are_not() {
    for at_once in [0, 4] {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        scene.device.limits.zero_fast = false;
        let log = scene.log();
        scene.play(async |client: Client| {
            client.go().await;
            assert_eq!(client.write(0, 0, &[5; 4096]).await, 0);
            let (fast, kept) = (NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_FLAG_NO_HOLE);
            for flags in [fast, fast | kept, fast | NBD_CMD_FLAG_FUA] {
                let answer = client.plain(NBD_CMD_WRITE_ZEROES, flags, 0, 4096).await;
                assert_eq!(answer, NBD_ENOTSUP);
            }
            assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, fast, 80 << 20, 512).await, NBD_ENOSPC);
            assert_eq!(client.read(0, 4096).await.1, vec![5; 4096], "nothing was done");
            assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, 0, 0, 4096).await, 0);
            assert_eq!(client.read(0, 4096).await.1, vec![0; 4096]);
            client.goodbye().await;
        });
        assert_eq!(log.borrow().join(","), "write,read,zero unmap,read,gone");
    }
}

#[test]
fn zeros_that_must_be_fast_are_done_where_they_are() {
    let scene = Scene::timed();
    let log = scene.log();
    scene.play(async |client: Client| {
        client.go().await;
        let fast = NBD_CMD_FLAG_FAST_ZERO;
        assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, fast, 0, 4096).await, 0);
        let flags = fast | NBD_CMD_FLAG_NO_HOLE;
        assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, flags, 0, 4096).await, 0);
        client.goodbye().await;
    });
    assert_eq!(log.borrow().join(","), "zero unmap,zero,gone");
}

#[test]
fn what_is_received_together_is_answered_together() {
    let scene = Scene::timed();
    let counts = scene.counts.clone();
    let (_, sends) = scene.play(async move |client: Client| {
        client.go().await;
        let before = counts.sends.get();
        let mut bytes = Vec::new();
        for cookie in 0..40 {
            let header = match cookie % 3 {
                0 => request(NBD_CMD_WRITE, cookie, 0, 4096),
                _ => request(NBD_CMD_READ, cookie, 0, 4096),
            };
            bytes.extend(header.encode());
            if cookie % 3 == 0 {
                bytes.extend(vec![cookie as u8 + 1; 4096]);
            }
        }
        client.send(&bytes).await;
        for cookie in 0..40 {
            let reply = client.reply().await.expect("a reply");
            assert_eq!((reply.cookie, reply.error), (cookie, 0), "in order, as all were hits");
            assert!(reply.data.iter().all(|&byte| byte == (cookie / 3 * 3) as u8 + 1));
        }
        client.goodbye().await;
        counts.sends.get() - before
    });
    assert_eq!(sends, 1);
}

#[test]
fn slow_requests_overtake_one_another() {
    let mut scene = Scene::timed();
    scene.device.at_once = 1;
    scene.device.delay_ns = 1_000_000;
    let (_, order) = scene.play(async |client: Client| {
        client.go().await;
        let mut bytes = Vec::new();
        for cookie in 0..100 {
            bytes.extend(request(NBD_CMD_WRITE, cookie, cookie * 4096, 4096).encode());
            bytes.extend(vec![cookie as u8; 4096]);
        }
        client.send(&bytes).await;
        for _ in 0..100 {
            assert_eq!(client.reply().await.expect("a reply").error, 0);
        }
        bytes.clear();
        for cookie in 0..100 {
            bytes.extend(request(NBD_CMD_READ, cookie, cookie * 4096, 4096).encode());
        }
        client.send(&bytes).await;
        let mut order = Vec::new();
        for _ in 0..100 {
            let reply = client.reply().await.expect("a reply");
            assert_eq!(reply.data, vec![reply.cookie as u8; 4096]);
            order.push(reply.cookie);
        }
        client.goodbye().await;
        order
    });
    assert!(!order.is_sorted(), "some came before others");
    let mut each = order.clone();
    each.sort_unstable();
    assert!(each.into_iter().eq(0..100), "every request has one reply");
}

#[test]
fn errors_have_the_numbers_of_the_protocol() {
    let kinds = [
        (Kind::Io, NBD_EIO),
        (Kind::NoSpace, NBD_ENOSPC),
        (Kind::Unsupported, NBD_EINVAL),
        (Kind::Stopping, NBD_ESHUTDOWN),
    ];
    for (index, (kind, error)) in kinds.into_iter().enumerate() {
        let mut scene = Scene::timed();
        scene.device.at_once = if index % 2 == 0 { 4 } else { 0 };
        scene.structured = index >= 2;
        scene.device.fails = Some((16, kind));
        scene.play(async move |client: Client| {
            client.go().await;
            assert_eq!(client.read(8192, 512).await, (error, vec![]));
            assert_eq!(client.read(0, 1 << 20).await, (error, vec![]));
            assert_eq!(client.write(0, 8192, &[1; 512]).await, error);
            assert_eq!(client.plain(NBD_CMD_TRIM, 0, 8192, 512).await, error);
            assert_eq!(client.plain(NBD_CMD_CACHE, 0, 8192, 512).await, error);
            assert_eq!(client.read(0, 512).await, (0, vec![0; 512]), "the others are unharmed");
            client.goodbye().await;
        });
    }
}

#[test]
fn what_a_client_will_read_is_passed_on_as_advice() {
    for at_once in [0, 4] {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        let log = scene.log();
        scene.play(async |client: Client| {
            client.go().await;
            assert_eq!(client.plain(NBD_CMD_CACHE, 0, 8192, 4096).await, 0);
            client.goodbye().await;
        });
        assert_eq!(log.borrow().first().map(String::as_str), Some("advise"));
        assert!(!log.borrow().iter().any(|line| line == "read"), "it needs no data here");
    }
}

#[test]
fn malformed_requests_are_refused_and_the_stream_stays_whole() {
    for structured in [false, true] {
        let mut scene = Scene::timed();
        scene.structured = structured;
        let (end, ()) = scene.play(async |client: Client| {
            client.go().await;
            let end = 80u64 << 20;
            assert_eq!(client.read(1, 512).await.0, NBD_EINVAL);
            assert_eq!(client.read(0, 100).await.0, NBD_EINVAL);
            assert_eq!(client.read(0, 0).await.0, NBD_EINVAL);
            assert_eq!(client.read(end, 512).await.0, NBD_EINVAL);
            assert_eq!(client.read(0u64.wrapping_sub(512), 512).await.0, NBD_EINVAL);
            assert_eq!(client.read(0, (32 << 20) + 512).await.0, NBD_EINVAL);
            assert_eq!(client.write(0, 1, &[1; 511]).await, NBD_EINVAL);
            assert_eq!(client.write(0, 0, &[1; 333]).await, NBD_EINVAL);
            assert_eq!(client.write(0, end - 512, &[1; 1024]).await, NBD_ENOSPC);
            assert_eq!(client.write(0, 512 << 20, &vec![1; 32 << 20]).await, NBD_ENOSPC);
            assert_eq!(client.write(1 << 13, 0, &[1; 512]).await, NBD_EINVAL);
            assert_eq!(client.plain(NBD_CMD_BLOCK_STATUS, 0, 0, 512).await, NBD_EINVAL);
            assert_eq!(client.plain(NBD_CMD_RESIZE, 0, 512, 0).await, NBD_EINVAL);
            assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 512, 0).await, NBD_EINVAL);
            assert_eq!(client.plain(NBD_CMD_TRIM, 0, end, 512).await, NBD_EINVAL);
            assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, 0, end, 512).await, NBD_ENOSPC);
            let fast = NBD_CMD_FLAG_FAST_ZERO;
            assert_eq!(client.plain(NBD_CMD_TRIM, fast, 0, 512).await, NBD_EINVAL);
            assert_eq!(client.plain(777, 0, 0, 512).await, NBD_EINVAL);
            assert_eq!(client.read(0, 4096).await, (0, vec![0; 4096]));
            client.send(&[0; REQUEST_BYTES]).await;
            assert_eq!(client.receive(1).await, None);
        });
        assert!(matches!(end, End::Malformed(_)), "{end:?}");
    }
}

#[test]
fn a_read_only_export_takes_no_changes() {
    let mut scene = Scene::timed();
    scene.change_export = |export| export.read_only = true;
    scene.play(async |client: Client| {
        client.go().await;
        assert_eq!(client.write(0, 0, &[1; 4096]).await, NBD_EPERM);
        assert_eq!(client.plain(NBD_CMD_TRIM, 0, 0, 4096).await, NBD_EPERM);
        assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, 0, 0, 4096).await, NBD_EPERM);
        assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 0, 0).await, 0);
        assert_eq!(client.read(0, 4096).await, (0, vec![0; 4096]));
        client.goodbye().await;
    });
}

async fn flushes(client: Client) {
    client.go().await;
    assert_eq!(client.write(0, 0, &[1; 512]).await, 0);
    assert_eq!(client.plain(NBD_CMD_FLUSH, 0, 0, 0).await, 0);
    assert_eq!(client.write(NBD_CMD_FLAG_FUA, 0, &[1; 512]).await, 0);
    let (fua, kept) = (NBD_CMD_FLAG_FUA, NBD_CMD_FLAG_NO_HOLE);
    assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, kept, 0, 512).await, 0);
    assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, fua, 0, 512).await, 0);
    assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, 0, 0, 512).await, 0);
    assert_eq!(client.plain(NBD_CMD_TRIM, fua, 0, 512).await, 0);
    assert_eq!(client.plain(NBD_CMD_WRITE_ZEROES, fua, 1, 512).await, NBD_EINVAL);
    client.goodbye().await;
}

#[test]
fn the_session_hears_of_a_flush_before_the_device_does() {
    for at_once in [0, 4] {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        scene.device.limits.flush_needed = true;
        let log = scene.log();
        scene.play(flushes);
        let expected = "write,flushed,flush,flushed,write fua,zero,flushed,zero fua,zero unmap,\
                        flushed,discard,flush,gone";
        assert_eq!(log.borrow().join(","), expected);
    }
}

#[test]
fn a_device_without_fua_is_flushed_after_the_write() {
    for at_once in [0, 4] {
        let mut scene = Scene::timed();
        scene.device.at_once = at_once;
        scene.device.limits.flush_needed = true;
        scene.device.limits.fua = Fua::None;
        let log = scene.log();
        scene.play(flushes);
        let expected = "write,flushed,flush,flushed,write,flush,zero,flushed,zero unmap,flush,\
                        zero unmap,flushed,discard,flush,gone";
        assert_eq!(log.borrow().join(","), expected);
    }
}

/// One step of the model: operation, block of 4 KiB, number of blocks, byte.
type Op = (u8, u64, u64, u8);

fn encode(cookie: u64, op: Op) -> Vec<u8> {
    let (what, block, count, byte) = op;
    let length = count as usize * 4096;
    let command = match what {
        0 | 1 => NBD_CMD_READ,
        2 => NBD_CMD_WRITE,
        3 => NBD_CMD_WRITE_ZEROES,
        4 => NBD_CMD_CACHE,
        _ => NBD_CMD_TRIM,
    };
    let mut header = request(command, cookie, block * 4096, length as u32);
    header.flags = u16::from(byte & 1) * NBD_CMD_FLAG_FUA;
    let mut bytes = header.encode().to_vec();
    if what == 2 {
        bytes.resize(bytes.len() + length, byte);
    }
    bytes
}

/// Sends the operations together, as they do not overlap, and compares with the model.
async fn batch(client: &Client, model: &mut [u8], ops: &BTreeMap<u64, Op>) {
    let bytes: Vec<u8> = ops.iter().flat_map(|(&cookie, &op)| encode(cookie, op)).collect();
    let hearing = async {
        for _ in 0..ops.len() {
            let reply = client.reply().await.expect("a reply");
            let (what, block, count, byte) = ops[&reply.cookie];
            let range = block as usize * 4096..(block + count) as usize * 4096;
            assert_eq!(reply.error, 0);
            match what {
                0 | 1 => assert!(reply.data == model[range], "a read returned something else"),
                2 => model[range].fill(byte),
                4 => (),
                _ => model[range].fill(0),
            }
        }
    };
    both(client.send(&bytes), hearing).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// 256 blocks in 16 regions; each operation of a batch has its own regions.
    #[test]
    fn any_history_is_that_of_plain_memory(
        seed: u64,
        at_once in 0u64..=4,
        structured: bool,
        capacity in prop_oneof![Just(1 << 20), 100usize..60_000],
        limit in 1usize..20,
        batches in prop::collection::vec(
            prop::collection::vec((0u8..6, 0u64..16, 1u64..=16, 1u8..), 1..12), 1..5),
    ) {
        let mut scene = Scene::chosen(seed);
        scene.device.at_once = at_once;
        scene.structured = structured;
        scene.capacity = capacity;
        scene.options.in_flight_max = limit;
        let peak = scene.device.running_max.clone();
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            let mut model = vec![0; 1 << 20];
            for (index, ops) in batches.into_iter().enumerate() {
                let apart = ops.into_iter().enumerate().map(|(region, (what, start, count, byte))| {
                    let count = count.min(16 - start);
                    let cookie = (index * 100 + region) as u64;
                    (cookie, (what, region as u64 * 16 + start, count, byte))
                });
                batch(&client, &mut model, &apart.collect()).await;
            }
            client.goodbye().await;
        });
        prop_assert_eq!(end, End::Disconnected);
        prop_assert!(peak.get() <= limit);
    }
}
