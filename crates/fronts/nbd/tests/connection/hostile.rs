//! Bytes from a hostile client. Nothing panics, all connections end, and all resources are
//! released.

use crate::client::{Client, both, request};
use crate::scene::Scene;
use nbd::codec::*;
use nbd::{End, Wire};
use proptest::prelude::*;
use std::sync::Arc;

/// Sends the bytes, then reads until the server disconnects.
async fn pour(client: Client, greets: bool, bytes: Vec<u8>) {
    if greets {
        client.go().await;
    }
    let pouring = async {
        client.send(&bytes).await;
        client.wire.finish().await;
    };
    let hearing = async {
        let memory = Arc::new(block::Memory::heap(4096));
        while client.wire.receive(&memory, 0, 4096).await != Ok(0) {}
    };
    both(pouring, hearing).await;
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    let header = (0u16..9, 0u16..64, 0u64..1 << 16, 0u32..1 << 16, any::<u64>());
    let sensible = header.prop_map(|(command, flags, sector, length, cookie)| {
        let mut header = request(command, cookie, sector * 512, length & !511);
        header.flags = flags & 3;
        let mut bytes = header.encode().to_vec();
        if command == NBD_CMD_WRITE {
            bytes.resize(bytes.len() + (length & !511) as usize, 9);
        }
        bytes
    });
    let wild = (any::<[u16; 2]>(), any::<[u64; 2]>(), any::<u32>()).prop_map(
        |([flags, command], [cookie, offset], length)| {
            let mut header = request(command % 12, cookie, offset, length);
            header.flags = flags;
            header.encode().to_vec()
        },
    );
    let option =
        (0u32..14, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(option, data)| {
            let mut bytes = Vec::new();
            put_option(&mut bytes, option, &data);
            bytes
        });
    let noise = prop::collection::vec(any::<u8>(), 0..60);
    prop_oneof![8 => sensible, 2 => wild, 2 => option, 1 => noise]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_come_to_an_end(
        seed: u64,
        greets: bool,
        structured: bool,
        at_once in 0u64..=4,
        capacity in prop_oneof![Just(1 << 20), 1usize..3000],
        pieces in prop::collection::vec(piece(), 0..12),
    ) {
        let mut scene = Scene::chosen(seed);
        scene.structured = structured;
        scene.device.at_once = at_once;
        scene.device.fails = Some((77, block::Kind::Io));
        scene.capacity = capacity;
        let bytes = pieces.concat();
        let (end, ()) = scene.play(move |client| pour(client, greets, bytes));
        let is_expected = matches!(
            end,
            End::Disconnected | End::Closed | End::Malformed(_) | End::Refused
        );
        prop_assert!(is_expected, "{:?}", end);
    }

    #[test]
    fn any_options_come_to_an_end(
        flags in 0u32..4,
        pieces in prop::collection::vec(piece(), 0..6),
        options in prop::collection::vec(
            (1u32..12, prop::collection::vec(any::<u8>(), 0..20)), 0..8),
    ) {
        let mut bytes = flags.to_be_bytes().to_vec();
        for (option, data) in options {
            put_option(&mut bytes, option, &data);
        }
        bytes.extend(pieces.concat());
        let (end, ()) = Scene::chosen(1).play(move |client| pour(client, false, bytes));
        prop_assert!(!matches!(end, End::Failed(_) | End::Busy), "{:?}", end);
    }
}

#[test]
fn a_length_that_only_claims_to_be_there_ends_the_connection_or_waits_only_so_long() {
    for (length, expected, after_ns) in [
        (u32::MAX, End::Malformed("a write of more than 32 MiB"), 0),
        (PAYLOAD_BYTES_MAX + 512, End::Malformed("a write of more than 32 MiB"), 0),
        (PAYLOAD_BYTES_MAX, End::TimedOut, 10_000_000_000),
    ] {
        let scene = Scene::timed();
        let (lane, counts) = (scene.lane.clone(), scene.counts.clone());
        let (end, ()) = scene.play(async move |client: Client| {
            client.go().await;
            let begun_ns = lane.now();
            // Beyond the end.
            client.send(&request(NBD_CMD_WRITE, 1, 1 << 40, length).encode()).await;
            client.send(&[7; 5000]).await;
            assert_eq!(client.receive(1).await, None, "no reply to what is still being sent");
            assert!((after_ns..after_ns + 1000).contains(&(lane.now() - begun_ns)));
        });
        assert_eq!(end, expected);
        assert!(counts.memory_max.get() <= 256 << 10, "memory is taken for a mere length");
    }
}
