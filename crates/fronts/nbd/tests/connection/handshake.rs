//! The handshake of connections.

use crate::client::{Client, request};
use crate::scene::Scene;
use block::Discard;
use nbd::End;
use nbd::codec::*;

const FIXED: u32 = NBD_FLAG_C_FIXED_NEWSTYLE;
const BARE: u32 = NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES;

async fn enters_by_name(client: Client, flags: u32, reply_bytes: usize) {
    client.greet(flags).await;
    let mut bytes = Vec::new();
    put_option(&mut bytes, NBD_OPT_EXPORT_NAME, b"disk");
    client.send(&bytes).await;
    let reply = client.receive(reply_bytes).await.expect("the export");
    assert_eq!(reply[..8], (80u64 << 20).to_be_bytes());
    assert_eq!(client.read(0, 512).await, (0, vec![0; 512]));
    client.goodbye().await;
}

#[test]
fn by_export_name() {
    let (end, ()) = Scene::timed().play(|client| enters_by_name(client, FIXED, 134));
    assert_eq!(end, End::Disconnected);
    let (end, ()) = Scene::timed().play(|client| enters_by_name(client, BARE, 10));
    assert_eq!(end, End::Disconnected);
    let (end, ()) = Scene::timed().play(|client| enters_by_name(client, 0, 134));
    assert_eq!(end, End::Disconnected, "not fixed: this option is all there is");
}

#[test]
fn an_unknown_name_has_no_answer_but_hanging_up() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let replies = client.option(NBD_OPT_EXPORT_NAME, b"nothing").await;
        assert_eq!(replies, []);
    });
    assert_eq!(end, End::Refused);
}

#[test]
fn by_go_with_all_information() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let wanted = [NBD_INFO_NAME, NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE];
        for option in [NBD_OPT_INFO, NBD_OPT_GO] {
            let replies = client.option(option, &InfoRequest::encode("", &wanted)).await;
            let data: Vec<&[u8]> = replies.iter().map(|(_, data)| &data[..]).collect();
            let info = ExportInfo::parse(data[0]).expect("comes first");
            assert_eq!(info.bytes, 80 << 20);
            let expected = NBD_FLAG_HAS_FLAGS
                | NBD_FLAG_SEND_FLUSH
                | NBD_FLAG_SEND_FUA
                | NBD_FLAG_SEND_TRIM
                | NBD_FLAG_SEND_WRITE_ZEROES
                | NBD_FLAG_SEND_CACHE
                | NBD_FLAG_SEND_FAST_ZERO
                | NBD_FLAG_CAN_MULTI_CONN;
            assert_eq!(info.flags, expected);
            let sizes = BlockSizes { min: 512, preferred: 4096, max: 32 << 20 };
            assert_eq!(BlockSizes::parse(data[1]), Some(sizes));
            assert_eq!(data[2], b"\0\x01disk", "the default export has a name");
            assert_eq!(data[3], b"\0\x02a disk of the test");
            assert_eq!(replies[4], (NBD_REP_ACK, vec![]));
        }
        assert_eq!(client.read(4096, 4096).await, (0, vec![0; 4096]));
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn flags_and_sizes_follow_the_limits() {
    let mut scene = Scene::timed();
    scene.device.limits.block_logical_bytes = 4096;
    scene.device.limits.block_physical_bytes = 16384;
    scene.device.limits.io_max_bytes = 1 << 20;
    scene.device.limits.discard = Discard::Ignored;
    scene.device.limits.rotational = true;
    scene.change_export = |export| {
        export.read_only = true;
        export.multi_conn = false;
    };
    scene.structured = true;
    let (_, (info, sizes)) = scene.play(async |client: Client| {
        let answers = client.go().await;
        client.goodbye().await;
        answers
    });
    let (set, unset) = (
        NBD_FLAG_READ_ONLY | NBD_FLAG_ROTATIONAL | NBD_FLAG_SEND_DF | NBD_FLAG_SEND_FAST_ZERO,
        NBD_FLAG_SEND_TRIM | NBD_FLAG_CAN_MULTI_CONN | NBD_FLAG_SEND_RESIZE,
    );
    assert_eq!((info.flags & set, info.flags & unset), (set, 0));
    let expected = BlockSizes { min: 4096, preferred: 16384, max: 1 << 20 };
    assert_eq!(sizes, expected);
}

#[test]
fn haggling_goes_on_after_refusals() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let refused = |kind| vec![(kind, vec![])];
        // 4 was the number of an experimental option.
        let unsupported = [NBD_OPT_STARTTLS, NBD_OPT_EXTENDED_HEADERS, 4, 4711];
        for option in unsupported {
            assert_eq!(client.option(option, &[]).await, refused(NBD_REP_ERR_UNSUP));
        }
        let large = vec![7; OPTION_BYTES_MAX];
        assert_eq!(client.option(4711, &large).await, refused(NBD_REP_ERR_UNSUP));
        let invalid = refused(NBD_REP_ERR_INVALID);
        assert_eq!(client.option(NBD_OPT_LIST, b"x").await, invalid);
        assert_eq!(client.option(NBD_OPT_STRUCTURED_REPLY, b"x").await, invalid);
        assert_eq!(client.option(NBD_OPT_GO, b"x").await, invalid);
        let unknown = InfoRequest::encode("nothing", &[]);
        assert_eq!(client.option(NBD_OPT_GO, &unknown).await, refused(NBD_REP_ERR_UNKNOWN));
        let long = InfoRequest::encode(&"x".repeat(4097), &[]);
        assert_eq!(client.option(NBD_OPT_GO, &long).await, refused(NBD_REP_ERR_TOO_BIG));
        let list = client.option(NBD_OPT_LIST, &[]).await;
        let listed: Vec<_> = list.iter().filter_map(|(_, data)| parse_listed(data)).collect();
        assert_eq!(listed, [("disk", "a disk of the test"), ("other", "")]);
        assert_eq!(client.option(NBD_OPT_ABORT, &[]).await, refused(NBD_REP_ACK));
        assert_eq!(client.receive(1).await, None);
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let mut too_long = NBD_OPTS_MAGIC.to_be_bytes().to_vec();
    too_long.extend(NBD_OPT_LIST.to_be_bytes());
    too_long.extend((OPTION_SKIPPED_BYTES_MAX as u32 + 1).to_be_bytes());
    for (flags, bytes) in [(BARE, too_long), (BARE, vec![1; 16]), (1 << 7, vec![])] {
        let (end, ()) = Scene::timed().play(async move |client: Client| {
            client.greet(flags).await;
            client.send(&bytes).await;
            assert_eq!(client.receive(1).await, None);
        });
        assert!(matches!(end, End::Malformed(_)), "{end:?}");
    }
}

#[test]
fn who_says_nothing_is_hung_up_on_in_time() {
    let scene = Scene::timed();
    let lane = scene.lane.clone();
    let (end, ()) = scene.play(async |client: Client| {
        client.greet(BARE).await;
        assert_eq!(client.receive(1).await, None);
    });
    assert_eq!(end, End::TimedOut);
    assert_eq!(lane.now(), 10_000_000_000);
}

#[test]
fn who_speaks_slowly_is_hung_up_on_in_time() {
    let scene = Scene::timed();
    let (lane, clock) = (scene.lane.clone(), scene.lane.clone());
    let (end, ()) = scene.play(async move |client: Client| {
        client.greet(BARE).await;
        let mut bytes = Vec::new();
        put_option(&mut bytes, 4711, &[7; 1000]);
        for byte in bytes {
            lane.sleep_until(lane.now() + 100_000_000).await;
            client.send(&[byte]).await;
        }
        assert_eq!(client.receive(1).await, None);
    });
    assert_eq!(end, End::TimedOut);
    assert!(clock.now() >= 10_000_000_000);
}

#[test]
fn who_asks_without_end_is_hung_up_on() {
    let (end, answered) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let mut answered = 0;
        while client.option(NBD_OPT_LIST, &[]).await.len() == 3 {
            answered += 1;
        }
        answered
    });
    assert!(matches!(end, End::Malformed(_)), "{end:?}");
    assert_eq!(answered, OPTIONS_MAX);
}

#[test]
fn a_handshake_costs_little_memory() {
    let scene = Scene::timed();
    let counts = scene.counts.clone();
    scene.play(async move |client: Client| {
        client.greet(BARE).await;
        client.option(NBD_OPT_LIST, &[]).await;
        assert_eq!(counts.memory_max.get(), 4096, "a small buffer");
        let large = vec![7; OPTION_BYTES_MAX];
        client.option(4711, &large).await;
        assert_eq!(counts.memory_max.get(), OPTION_BYTES_MAX, "as large as the option");
        client.enter("").await;
        client.read(0, 4096).await;
        assert_eq!(counts.memory_max.get(), 256 << 10, "the real one");
        client.goodbye().await;
    });
}

#[test]
fn a_long_option_is_skipped_and_refused() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let long = vec![7; OPTION_BYTES_MAX + 1];
        let refused = |kind| vec![(kind, vec![])];
        for option in [NBD_OPT_LIST, NBD_OPT_GO, NBD_OPT_INFO, NBD_OPT_SET_META_CONTEXT] {
            assert_eq!(client.option(option, &long).await, refused(NBD_REP_ERR_TOO_BIG));
        }
        let longest = vec![7; OPTION_SKIPPED_BYTES_MAX];
        for option in [4711, NBD_OPT_STARTTLS, 4] {
            assert_eq!(client.option(option, &longest).await, refused(NBD_REP_ERR_UNSUP));
        }
        client.enter("").await;
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn a_name_that_is_too_long_or_no_text_has_no_answer() {
    for name in [vec![b'x'; 4097], vec![b'x'; OPTION_BYTES_MAX + 1], vec![0xff], b"di\0k".to_vec()]
    {
        let (end, ()) = Scene::timed().play(async move |client: Client| {
            client.greet(BARE).await;
            assert_eq!(client.option(NBD_OPT_EXPORT_NAME, &name).await, []);
        });
        assert_eq!(end, End::Refused);
    }
}

#[test]
fn an_abort_is_answered_whatever_comes_with_it() {
    for waits in [true, false] {
        let (end, ()) = Scene::timed().play(async move |client: Client| {
            client.greet(BARE).await;
            if waits {
                let replies = client.option(NBD_OPT_ABORT, b"farewell").await;
                assert_eq!(replies, [(NBD_REP_ACK, vec![])]);
                assert_eq!(client.receive(1).await, None);
            } else {
                let mut bytes = Vec::new();
                put_option(&mut bytes, NBD_OPT_ABORT, &[]);
                client.send(&bytes).await;
            }
        });
        assert_eq!(end, End::Disconnected);
    }
}

#[test]
fn a_failed_go_leaves_the_choice_open() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        for name in ["nothing", "DISK", "disk "] {
            let replies = client.option(NBD_OPT_GO, &InfoRequest::encode(name, &[])).await;
            assert_eq!(replies, [(NBD_REP_ERR_UNKNOWN, vec![])], "no information comes with it");
        }
        let (info, _) = client.enter("other").await;
        assert_eq!(info.bytes, 64 * 512);
        assert_eq!(client.read(0, 512).await.0, 0);
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn information_that_is_not_known_is_left_out() {
    Scene::timed().play(async |client: Client| {
        client.greet(FIXED).await;
        let wanted = [4711, NBD_INFO_NAME, 0xffff, NBD_INFO_NAME];
        let answers = client.option(NBD_OPT_INFO, &InfoRequest::encode("other", &wanted)).await;
        let kinds: Vec<_> =
            answers.iter().map(|(kind, data)| (*kind, data.get(1).copied())).collect();
        let info = |kind| (NBD_REP_INFO, Some(kind));
        assert_eq!(kinds, [info(0), info(3), info(1), (NBD_REP_ACK, None)]);
        assert_eq!(answers[0].1.len(), 12);
        assert_eq!(answers[1].1.len(), 14);
        let again = client.option(NBD_OPT_GO, &InfoRequest::encode("other", &wanted)).await;
        assert_eq!(again, answers, "the same answer to the same question, and no zeros behind it");
        assert_eq!(client.read(0, 512).await, (0, vec![0; 512]));
        client.goodbye().await;
    });
}

#[test]
fn block_sizes_keep_their_bounds() {
    for (logical, physical, io_max) in
        [(512, 512, 1 << 20), (4096, 4096, 1 << 20), (512, 12_288, 100_000), (65536, 512, 65536)]
    {
        let mut scene = Scene::timed();
        scene.device.limits.block_logical_bytes = logical;
        scene.device.limits.block_physical_bytes = physical;
        scene.device.limits.io_max_bytes = io_max;
        let (_, (info, sizes)) = scene.play(async |client: Client| {
            let answers = client.go().await;
            client.goodbye().await;
            answers
        });
        assert!(sizes.min.is_power_of_two() && sizes.min <= 65536);
        assert!(sizes.preferred.is_power_of_two() && sizes.preferred >= sizes.min.max(512));
        assert!(sizes.max.is_multiple_of(sizes.min) && sizes.max <= 32 << 20);
        assert!(u64::from(sizes.max) >= u64::from(sizes.preferred).min(info.bytes));
        assert!(info.bytes.is_multiple_of(u64::from(sizes.min)));
    }
}

#[test]
fn who_has_entered_may_be_silent_for_long() {
    let scene = Scene::timed();
    let lane = scene.lane.clone();
    let (end, ()) = scene.play(async move |client: Client| {
        client.go().await;
        lane.sleep_until(60_000_000_000).await;
        assert_eq!(client.read(0, 512).await.0, 0);
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}

#[test]
fn requests_may_follow_the_last_option_at_once() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let mut bytes = Vec::new();
        put_option(&mut bytes, NBD_OPT_GO, &InfoRequest::encode("disk", &[]));
        let read = request(NBD_CMD_READ, 5, 512, 512).encode();
        bytes.extend(read);
        client.send(&bytes).await;
        client.note(&read);
        while client.option_reply(NBD_OPT_GO).await.expect("replies").0 != NBD_REP_ACK {}
        let reply = client.reply().await.expect("an answer");
        assert_eq!((reply.cookie, reply.error), (5, 0));
    });
    assert_eq!(end, End::Closed);
}

#[test]
fn an_option_may_come_in_halves_behind_another_one() {
    let (end, ()) = Scene::timed().play(async |client: Client| {
        client.greet(BARE).await;
        let mut bytes = Vec::new();
        put_option(&mut bytes, 4711, &[]);
        let wanted: Vec<u16> = (1000..1500).chain([NBD_INFO_NAME]).collect();
        put_option(&mut bytes, NBD_OPT_GO, &InfoRequest::encode("disk", &wanted));
        let (first, second) = bytes.split_at(700);
        client.send(first).await;
        let refused = client.option_reply(4711).await;
        assert_eq!(refused, Some((NBD_REP_ERR_UNSUP, vec![])));
        client.send(second).await;
        let mut replies = Vec::new();
        while let Some((NBD_REP_INFO, data)) = client.option_reply(NBD_OPT_GO).await {
            replies.push(data);
        }
        assert_eq!(replies.last().map(Vec::as_slice), Some(&b"\0\x01disk"[..]));
        client.goodbye().await;
    });
    assert_eq!(end, End::Disconnected);
}
