//! The codec alone: round trips, and invalid bytes.

use nbd::codec::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn requests_survive_the_trip(
        flags: u16, command: u16, cookie: u64, offset: u64, length: u32,
    ) {
        let header = RequestHeader { flags, command, cookie, offset, length };
        prop_assert_eq!(RequestHeader::parse(&header.encode()), Some(header));
    }

    #[test]
    fn replies_survive_the_trip(error: u32, cookie: u64, flags: u16, kind: u16, length: u32) {
        let reply = SimpleReply { error, cookie };
        prop_assert_eq!(SimpleReply::parse(&reply.encode()), Some(reply));
        let chunk = Chunk { flags, kind, cookie, length };
        prop_assert_eq!(Chunk::parse(&chunk.encode()), Some(chunk));
    }

    #[test]
    fn chunks_say_how_long_they_are(cookie: u64, offset: u64, length in 0u32..1 << 25, error: u32) {
        let data = data_chunk(cookie, offset, length);
        let (head, own) = data.split_first_chunk().expect("a header");
        let chunk = Chunk::parse(head).expect("its magic");
        prop_assert_eq!(chunk.length as usize, own.len() + length as usize);
        prop_assert_eq!(own, offset.to_be_bytes());
        let failed = error_chunk(cookie, error);
        let (head, own) = failed.split_first_chunk().expect("a header");
        let chunk = Chunk::parse(head).expect("its magic");
        prop_assert_eq!(chunk.kind, NBD_REPLY_TYPE_ERROR);
        prop_assert_eq!(chunk.length as usize, own.len());
        prop_assert_eq!(&own[..4], error.to_be_bytes());
    }

    #[test]
    fn options_survive_the_trip(option: u32, kind: u32, data: Vec<u8>) {
        let mut bytes = Vec::new();
        put_option(&mut bytes, option, &data);
        let (head, rest) = bytes.split_first_chunk().expect("a header");
        let length = data.len() as u32;
        prop_assert_eq!(OptionHeader::parse(head), Some(OptionHeader { option, length }));
        prop_assert_eq!(rest, &data[..]);
        bytes.clear();
        put_reply(&mut bytes, option, kind, &data);
        let (head, rest) = bytes.split_first_chunk().expect("a header");
        let header = OptionReplyHeader { option, kind, length };
        prop_assert_eq!(OptionReplyHeader::parse(head), Some(header));
        prop_assert_eq!(rest, &data[..]);
    }

    #[test]
    fn information_survives_the_trip(
        bytes: u64, flags: u16, min: u32, preferred: u32, max: u32, name in "[^\0]{0,40}", text: String,
    ) {
        let info = ExportInfo { bytes, flags };
        prop_assert_eq!(ExportInfo::parse(&info_export(&info)), Some(info));
        let sizes = BlockSizes { min, preferred, max };
        prop_assert_eq!(BlockSizes::parse(&info_block_size(&sizes)), Some(sizes));
        prop_assert_eq!(ExportInfo::parse(&info_block_size(&sizes)), None);
        let data = listed(&name, &text);
        prop_assert_eq!(parse_listed(&data), Some((&name[..], &text[..])));
        let data = InfoRequest::encode(&name, &[NBD_INFO_NAME, 999]);
        let request = InfoRequest::parse(&data).expect("well-formed");
        prop_assert_eq!(request.name, &name);
        prop_assert!(request.requests_info(NBD_INFO_NAME) && request.requests_info(999));
        prop_assert!(!request.requests_info(NBD_INFO_BLOCK_SIZE));
    }

    #[test]
    fn bytes_that_make_no_sense_are_refused_quietly(data: Vec<u8>, head: [u8; 28]) {
        let _ = (InfoRequest::parse(&data), export_name(&data), parse_listed(&data));
        let _ = (ExportInfo::parse(&data), BlockSizes::parse(&data));
        let _ = (MetaRequest::parse(&data), parse_meta_context(&data), parse_status(&data));
        if !head.starts_with(&NBD_REQUEST_MAGIC.to_be_bytes()) {
            prop_assert_eq!(RequestHeader::parse(&head), None);
        }
    }

    #[test]
    fn a_request_for_information_has_exactly_its_length(cut in 0usize..40, name in "[a-z]{0,20}") {
        let mut data = InfoRequest::encode(&name, &[1, 2]);
        prop_assume!(cut < data.len());
        data.truncate(cut);
        prop_assert_eq!(InfoRequest::parse(&data), Err(NBD_REP_ERR_INVALID));
    }
}

#[test]
fn the_greeting_is_the_documented_one() {
    let bytes = Greeting { flags: 3 }.encode();
    assert_eq!(&bytes, b"NBDMAGICIHAVEOPT\0\x03");
    assert_eq!(Greeting::parse(&bytes), Some(Greeting { flags: 3 }));
    assert_eq!(Greeting::parse(&[0; GREETING_BYTES]), None);
}

#[test]
fn names_are_text_of_bounded_length() {
    assert_eq!(export_name(&[b'a'; 4096]).map(str::len), Ok(4096));
    assert_eq!(export_name(&[b'a'; 4097]), Err(NBD_REP_ERR_TOO_BIG));
    assert_eq!(export_name(b"a\0b"), Err(NBD_REP_ERR_INVALID));
    assert_eq!(export_name(&[0xff]), Err(NBD_REP_ERR_INVALID));
    let long = InfoRequest::encode(&"a".repeat(4097), &[]);
    assert_eq!(InfoRequest::parse(&long), Err(NBD_REP_ERR_TOO_BIG));
    let mut lying = InfoRequest::encode("a", &[]);
    lying[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(InfoRequest::parse(&lying), Err(NBD_REP_ERR_TOO_BIG));
}

#[test]
fn the_simple_reply_with_the_export_is_134_or_10_bytes() {
    let info = ExportInfo { bytes: 5, flags: 1 };
    assert_eq!(export_name_reply(&info, true).len(), 134);
    assert_eq!(export_name_reply(&info, false).len(), 10);
}

#[test]
fn contexts_survive_the_trip() {
    let queries = ["base:", "base:allocation", "x-ü:"];
    let data = MetaRequest::encode("disk", &queries);
    let request = MetaRequest::parse(&data).expect("well-formed");
    assert_eq!(request.name, "disk");
    assert!(request.queries().eq(queries));
    assert_eq!(
        parse_meta_context(&meta_context(7, "base:allocation")),
        Some((7, "base:allocation"))
    );
    assert_eq!(parse_meta_context(&[0; 3]), None);
    assert_eq!(parse_meta_context(&[0, 0, 0, 1, 0xff]), None);
    let many = [&[0, 0, 0, 0][..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(MetaRequest::parse(&many), Err(NBD_REP_ERR_INVALID), "claimed, but not there");
}

#[test]
fn block_status_survives_the_trip() {
    let list = [(4096, 0), (512, NBD_STATE_ZERO), (1 << 30, NBD_STATE_HOLE | NBD_STATE_ZERO)];
    let list = list.map(|(length, flags)| Descriptor { length, flags });
    let head = status_chunk(99, 7, 3);
    let chunk = Chunk::parse(head.first_chunk().expect("a header")).expect("its magic");
    assert_eq!((chunk.cookie, chunk.kind), (99, NBD_REPLY_TYPE_BLOCK_STATUS));
    assert_eq!((chunk.flags, chunk.length), (NBD_REPLY_FLAG_DONE, 4 + 3 * 8));
    let mut body = head[CHUNK_HEADER_BYTES..].to_vec();
    assert_eq!(parse_status(&body), None, "at least one");
    list.iter().for_each(|next| body.extend(next.encode()));
    assert_eq!(parse_status(&body), Some((7, list.to_vec())));
    assert_eq!(parse_status(&body[..body.len() - 1]), None, "a half one");
    body[4..8].fill(0);
    assert_eq!(parse_status(&body), None, "an empty one");
}
