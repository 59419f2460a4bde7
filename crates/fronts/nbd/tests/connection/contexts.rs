//! Metadata contexts: negotiation and block status.

use crate::client::{Client, request};
use crate::scene::Scene;
use block::{Kind, Stretch};
use nbd::End;
use nbd::codec::*;

const HOLE: u32 = NBD_STATE_HOLE | NBD_STATE_ZERO;

fn scene() -> Scene {
    let mut scene = Scene::timed();
    scene.structured = true;
    scene
}

fn context(id: u32) -> (u32, Vec<u8>) {
    (NBD_REP_META_CONTEXT, meta_context(id, ALLOCATION_CONTEXT))
}

fn ack() -> (u32, Vec<u8>) {
    (NBD_REP_ACK, vec![])
}

fn refused(kind: u32) -> Vec<(u32, Vec<u8>)> {
    vec![(kind, vec![])]
}

async fn list(client: &Client, name: &str, queries: &[&str]) -> Vec<(u32, Vec<u8>)> {
    client.option(NBD_OPT_LIST_META_CONTEXT, &MetaRequest::encode(name, queries)).await
}

#[test]
fn contexts_are_listed_by_query() {
    scene().play(async |client: Client| {
        client.haggle().await;
        for queries in [
            &[][..],
            &["base:"],
            &["base:allocation"],
            &["x-other:thing", "base:allocation", "base:"],
        ] {
            assert_eq!(list(&client, "disk", queries).await, [context(0), ack()], "{queries:?}");
        }
        for queries in [&["qemu:dirty-bitmap:b"][..], &["base:unheard-of", "no colon", ""]] {
            assert_eq!(list(&client, "", queries).await, [ack()], "{queries:?}");
        }
        assert_eq!(list(&client, "nothing", &[]).await, refused(NBD_REP_ERR_UNKNOWN));
        client.enter("").await;
        let answer = client.status(0, 0, 512).await;
        assert_eq!(answer, (NBD_EINVAL, vec![]), "to list is not to select");
        client.goodbye().await;
    });
}

#[test]
fn a_selection_replaces_the_one_before_even_if_it_fails() {
    let good: &[&str] = &["base:allocation", "base:allocation"];
    let selections: [(&str, &[&str], Vec<_>); 5] = [
        ("disk", &["base:"], vec![ack()]),
        ("disk", &[], vec![ack()]),
        ("disk", &["x-other:thing", "base:unheard-of", "allocation"], vec![ack()]),
        ("nothing", good, refused(NBD_REP_ERR_UNKNOWN)),
        ("disk", good, vec![context(1), ack()]),
    ];
    for (name, queries, expected) in selections {
        let selects = expected.len() == 2;
        scene().play(async move |client: Client| {
            client.haggle().await;
            assert_eq!(client.select("disk", good).await, [context(1), ack()]);
            assert_eq!(client.select(name, queries).await, expected, "{name} {queries:?}");
            client.enter("disk").await;
            let error = if selects { 0 } else { NBD_EINVAL };
            assert_eq!(client.status(0, 0, 512).await.0, error, "{name} {queries:?}");
            client.goodbye().await;
        });
    }
}

#[test]
fn a_selection_holds_for_the_export_that_it_named() {
    for (selected, entered, is_same) in
        [("disk", "disk", true), ("", "", true), ("other", "disk", false), ("", "disk", false)]
    {
        for by_name in [false, true] {
            scene().play(async move |client: Client| {
                client.haggle().await;
                assert_eq!(client.select(selected, &["base:allocation"]).await.len(), 2);
                if by_name {
                    let mut bytes = Vec::new();
                    put_option(&mut bytes, NBD_OPT_EXPORT_NAME, entered.as_bytes());
                    client.send(&bytes).await;
                    client.receive(10).await.expect("the export");
                } else {
                    client.enter(entered).await;
                }
                let error = if is_same { 0 } else { NBD_EINVAL };
                assert_eq!(client.status(0, 0, 512).await.0, error, "{selected} {entered}");
                client.goodbye().await;
            });
        }
    }
}

#[test]
fn contexts_need_structured_replies_first() {
    Scene::timed().play(async |client: Client| {
        client.haggle().await;
        let invalid = refused(NBD_REP_ERR_INVALID);
        assert_eq!(client.select("disk", &["base:allocation"]).await, invalid);
        assert_eq!(list(&client, "disk", &[]).await, invalid);
        client.option(NBD_OPT_STRUCTURED_REPLY, &[]).await;
        client.enter("disk").await;
        let header = request(NBD_CMD_BLOCK_STATUS, 5, 0, 512).encode();
        client.send(&header).await;
        let magic = client.receive(4).await.expect("a reply");
        assert_eq!(magic, NBD_STRUCTURED_REPLY_MAGIC.to_be_bytes());
        let rest = client.receive(ERROR_CHUNK_BYTES - 4).await.expect("the rest");
        assert_eq!(rest[CHUNK_HEADER_BYTES - 4..][..4], NBD_EINVAL.to_be_bytes());
        client.goodbye().await;
    });
}

#[test]
fn malformed_queries_are_refused() {
    let good = MetaRequest::encode("disk", &["base:allocation"]);
    let mut lying = good.clone();
    lying[11] = 2;
    let mut long_name = good.clone();
    long_name[3] = 200;
    let mut longer = good.clone();
    longer.push(0);
    let mut long_query = good.clone();
    long_query[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut nul = good.clone();
    nul[20] = 0;
    let cut = good[..good.len() - 1].to_vec();
    let bad = [vec![], vec![0; 7], lying, long_name, longer, long_query, nul, cut];
    scene().play(async move |client: Client| {
        client.haggle().await;
        for option in [NBD_OPT_SET_META_CONTEXT, NBD_OPT_LIST_META_CONTEXT] {
            for data in &bad {
                let replies = client.option(option, data).await;
                assert_eq!(replies, refused(NBD_REP_ERR_INVALID), "{data:?}");
            }
            let long = "x-".to_owned() + &"y".repeat(4095);
            let replies = client.option(option, &MetaRequest::encode("disk", &[&long])).await;
            assert_eq!(replies, refused(NBD_REP_ERR_TOO_BIG));
        }
        client.enter("disk").await;
        client.goodbye().await;
    });
}

#[test]
fn block_status_reports_what_the_stack_knows() {
    for unit in [512, 4096] {
        let mut scene = scene();
        scene.device.limits.block_logical_bytes = unit;
        let zero = Stretch { sectors: 8, hole: false, zero: true };
        let hole = Stretch { sectors: 1 << 14, hole: true, zero: true };
        *scene.device.known.borrow_mut() =
            vec![Stretch::data(8u32), Stretch::data(8u32), zero, hole, Stretch::data(4u32)];
        scene.play(async move |client: Client| {
            client.haggle().await;
            client.select("", &["base:allocation"]).await;
            client.enter("").await;
            let whole = client.status(0, 0, 32 << 20).await;
            let mut expected = vec![(8192, 0), (4096, NBD_STATE_ZERO), (8 << 20, HOLE)];
            if unit == 512 {
                expected.push((2048, 0));
            }
            assert_eq!(whole, (0, expected), "unit {unit}");
            let beyond = client.status(0, 4096, 8192).await;
            assert_eq!(beyond, (0, vec![(4096, 0), (4096, NBD_STATE_ZERO)]));
            let beyond = client.status(0, 8192, 8192).await.1;
            assert_eq!(beyond[1], (8 << 20, HOLE), "the last may reach further");
            let one = NBD_CMD_FLAG_REQ_ONE;
            assert_eq!(client.status(one, 4096, 8192).await.1, [(4096, 0)]);
            assert_eq!(client.status(one, 0, 4096).await.1, [(4096, 0)], "not beyond");
            assert_eq!(client.status(one, 1 << 20, 8192).await.1, [(8192, HOLE)]);
            client.goodbye().await;
        });
    }
}

#[test]
fn block_status_that_is_wrong_or_fails_is_refused() {
    let mut scene = scene();
    scene.device.limits.block_logical_bytes = 4096;
    scene.device.fails = Some((16, Kind::Io));
    let (end, ()) = scene.play(async |client: Client| {
        client.haggle().await;
        client.select("", &["base:allocation"]).await;
        client.enter("").await;
        let end = 80 << 20;
        for (flags, offset, length, error) in [
            (0, 0, 0, NBD_EINVAL),
            (0, 512, 4096, NBD_EINVAL),
            (0, 0, 512, NBD_EINVAL),
            (0, end, 4096, NBD_EINVAL),
            (0, end - 4096, 8192, NBD_EINVAL),
            (NBD_CMD_FLAG_DF, 0, 4096, NBD_EINVAL),
            (0, 8192, 4096, NBD_EIO),
            (NBD_CMD_FLAG_FUA, 0, 4096, 0),
        ] {
            assert_eq!(client.status(flags, offset, length).await.0, error, "{offset} {length}");
        }
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn many_stretches_are_reported_piece_by_piece() {
    let mut scene = scene();
    scene.options.in_flight_bytes_max = 64 << 10;
    let hole = Stretch { sectors: 1, hole: true, zero: true };
    let pairs = (0..10_000).flat_map(|_| [Stretch::data(1u32), hole]);
    *scene.device.known.borrow_mut() = pairs.collect();
    let log = scene.log();
    scene.play(async |client: Client| {
        client.haggle().await;
        client.select("", &["base:allocation"]).await;
        client.enter("").await;
        let mut offset = 0;
        for _ in 0..3 {
            let (error, list) = client.status(0, offset, 8 << 20).await;
            assert_eq!((error, list.len()), (0, 4096));
            offset += list.iter().map(|(length, _)| u64::from(*length)).sum::<u64>();
        }
        assert_eq!(offset, 3 * 4096 * 512);
        let many: Vec<u8> = (0..40)
            .flat_map(|cookie| request(NBD_CMD_BLOCK_STATUS, cookie, 0, 8 << 20).encode())
            .collect();
        client.send(&many).await;
        for _ in 0..40 {
            let body = client.reply().await.expect("a reply").data;
            assert_eq!(parse_status(&body).expect("descriptors").1.len(), 4096);
        }
        client.goodbye().await;
    });
    assert_eq!(log.borrow().iter().filter(|what| *what == "status").count(), 43);
}

#[test]
fn block_status_has_its_place_among_other_requests() {
    for seed in 0..30 {
        let mut scene = Scene::chosen(seed);
        scene.structured = true;
        scene.device.at_once = seed % 5;
        scene.options.in_flight_max = 1 + seed as usize % 4;
        let (end, ()) = scene.play(async |client: Client| {
            client.haggle().await;
            client.select("disk", &["base:allocation"]).await;
            client.enter("disk").await;
            let commands = [NBD_CMD_READ, NBD_CMD_BLOCK_STATUS, NBD_CMD_WRITE_ZEROES];
            let headers = (0..60).map(|cookie: u64| {
                request(commands[cookie as usize % 3], cookie, cookie * 4096, 4096)
            });
            let bytes: Vec<u8> = headers.flat_map(|header| header.encode()).collect();
            client.send(&bytes).await;
            let mut seen = Vec::new();
            for _ in 0..60 {
                let reply = client.reply().await;
                let reply = reply.expect("a reply");
                assert_eq!(reply.error, 0);
                if reply.cookie % 3 == 1 {
                    let status = parse_status(&reply.data).expect("descriptors");
                    assert_eq!(status.1, [Descriptor { length: 4096, flags: 0 }]);
                }
                seen.push(reply.cookie);
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..60));
            client.goodbye().await;
        });
        assert_eq!(end, End::Disconnected);
    }
}
