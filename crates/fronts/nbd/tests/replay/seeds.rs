//! Seeds of the fuzzer: messages of real clients.

use crate::client::{READ_BYTES, STRUCTURED};
use crate::connection::*;
use crate::tls::{AFTER, CHANGES, HANDSHAKE};
use nbd::codec::*;

fn request(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    let cookie = offset << 8 | u64::from(command);
    RequestHeader { flags, command, cookie, offset, length }.encode().to_vec()
}

fn write(flags: u16, offset: u64, byte: u8, length: u32) -> Vec<u8> {
    let mut bytes = request(flags, NBD_CMD_WRITE, offset, length);
    bytes.resize(bytes.len() + length as usize, byte);
    bytes
}

fn goodbye() -> Vec<u8> {
    request(0, NBD_CMD_DISC, 0, 0)
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_option(&mut bytes, option, data);
    bytes
}

fn flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    option(NBD_OPT_GO, &InfoRequest::encode(name, wanted))
}

fn with(knobs: u8, seed: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    [&[knobs, seed][..], &parts.concat()].concat()
}

/// Handshakes, each followed by one or two requests.
fn handshakes() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let both = || flags(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES);
    let structured = || option(NBD_OPT_STRUCTURED_REPLY, &[]);
    let select = |name| {
        let data = MetaRequest::encode(name, &["base:allocation", "qemu:dirty-bitmap:x"]);
        option(NBD_OPT_SET_META_CONTEXT, &data)
    };
    let list_contexts =
        |queries: &[&str]| option(NBD_OPT_LIST_META_CONTEXT, &MetaRequest::encode("disk", queries));
    let read = || request(0, NBD_CMD_READ, 4096, 4096);
    vec![
        ("kernel-like", vec![both(), go("disk", &[NBD_INFO_BLOCK_SIZE]), read(), goodbye()]),
        ("by-name", vec![flags(0), option(NBD_OPT_EXPORT_NAME, b"disk"), read(), goodbye()]),
        ("by-unknown-name", vec![both(), option(NBD_OPT_EXPORT_NAME, b"nothing")]),
        (
            "copier-like",
            vec![
                both(),
                option(NBD_OPT_STARTTLS, &[]),
                structured(),
                select(""),
                go("", &[NBD_INFO_NAME, NBD_INFO_DESCRIPTION, NBD_INFO_BLOCK_SIZE]),
                request(0, NBD_CMD_BLOCK_STATUS, 0, 65536),
                read(),
                goodbye(),
            ],
        ),
        (
            "lister-like",
            vec![
                both(),
                option(NBD_OPT_LIST, &[]),
                structured(),
                option(NBD_OPT_INFO, &InfoRequest::encode("locked", &[1, 2, 3])),
                list_contexts(&[]),
                list_contexts(&["base:"]),
                option(NBD_OPT_ABORT, &[]),
            ],
        ),
        (
            "refusals",
            vec![
                both(),
                option(4711, &[7; 100]),
                option(NBD_OPT_LIST, b"x"),
                select("disk"),
                go("nothing", &[]),
                option(NBD_OPT_EXTENDED_HEADERS, &[]),
                go("locked", &[]),
                write(0, 0, 1, 512),
                request(0, NBD_CMD_TRIM, 0, 512),
            ],
        ),
    ]
}

/// Requests after a handshake.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let (fua, kept) = (NBD_CMD_FLAG_FUA, NBD_CMD_FLAG_NO_HOLE);
    let flush = || request(0, NBD_CMD_FLUSH, 0, 0);
    let mixed = vec![
        write(0, 0, 1, 4096),
        write(fua, 8192, 2, 512),
        request(NBD_CMD_FLAG_DF, NBD_CMD_READ, 0, 16384),
        request(0, NBD_CMD_CACHE, 4096, 8192),
        request(fua, NBD_CMD_TRIM, 4096, 4096),
        request(kept, NBD_CMD_WRITE_ZEROES, 8192, 4096),
        request(fua | NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_WRITE_ZEROES, 12288, 4096),
        flush(),
        request(0, NBD_CMD_BLOCK_STATUS, 0, 262_144),
        request(NBD_CMD_FLAG_REQ_ONE, NBD_CMD_BLOCK_STATUS, 4096, 4096),
        goodbye(),
    ];
    let reads = (0..20).map(|index| request(0, NBD_CMD_READ, index * 4096, 4096));
    let parts = vec![
        write(0, 5, 1, 4096),
        write(fua, 8191, 2, 3),
        write(0, 8000, 3, 20_000),
        request(NBD_CMD_FLAG_DF, NBD_CMD_READ, 1, 16384),
        request(0, NBD_CMD_READ, 8190, 5),
        request(0, NBD_CMD_CACHE, 4097, 8192),
        request(fua, NBD_CMD_TRIM, 4095, 4098),
        request(kept, NBD_CMD_WRITE_ZEROES, 8193, 4094),
        request(NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_WRITE_ZEROES, 12287, 4096),
        flush(),
        request(0, NBD_CMD_BLOCK_STATUS, 3, 262_140),
        request(NBD_CMD_FLAG_REQ_ONE, NBD_CMD_BLOCK_STATUS, 4095, 2),
        goodbye(),
    ];
    let wrong = vec![
        request(0, NBD_CMD_READ, 1, 511),
        request(0, NBD_CMD_READ, u64::MAX - 511, 512),
        write(1 << 9, 0, 3, 512),
        write(0, 1, 3, 600),
        request(0, NBD_CMD_WRITE_ZEROES, 0, u32::MAX),
        request(0, NBD_CMD_BLOCK_STATUS, 1 << 40, 512),
        request(0, NBD_CMD_RESIZE, 0, 0),
        request(0, 999, 0, 0),
        vec![0; 28],
    ];
    vec![
        ("mixed", mixed.concat()),
        ("parts", parts.concat()),
        ("reads", reads.flatten().collect()),
        ("wrong", wrong.concat()),
        ("large-write", write(0, 4096, 9, 20_480)),
        ("half-a-write", write(0, 0, 9, 4096)[..2000].to_vec()),
        ("claims", request(0, NBD_CMD_WRITE, 0, u32::MAX)),
    ]
}

/// Minimum corpus of connections.
pub(crate) fn connections() -> Vec<(String, Vec<u8>)> {
    let mut list = Vec::new();
    for (name, parts) in handshakes() {
        list.push((name.to_owned(), with(AT_ONCE, 1, &parts)));
        list.push((format!("{name}-narrow"), with(NARROW, 2, &parts)));
    }
    for (name, bytes) in requests() {
        let bytes = [bytes];
        list.push((name.to_owned(), with(ENTERED | AT_ONCE, 3, &bytes)));
        let slow = ENTERED | HALF_AT_ONCE | NARROW | WITHOUT_FUA;
        list.push((format!("{name}-slow"), with(slow, 4, &bytes)));
        list.push((format!("{name}-blocks"), with(ENTERED | LARGE_BLOCKS, 5, &bytes)));
        let small = ENTERED | BYTES | HALF_AT_ONCE;
        list.push((format!("{name}-bytes"), with(small, 6, &bytes)));
        let large = ENTERED | BYTES | LARGE_BLOCKS | WITHOUT_FUA | NARROW;
        list.push((format!("{name}-bytes-in-blocks"), with(large, 7, &bytes)));
    }
    list
}

/// Minimum corpus of the codec.
pub(crate) fn messages() -> Vec<(String, Vec<u8>)> {
    let info = ExportInfo { bytes: 1 << 30, flags: 0x56d };
    let sizes = BlockSizes { min: 512, preferred: 4096, max: 32 << 20 };
    let descriptors = [(4096, 0), (8192, 3)].map(|(length, flags)| Descriptor { length, flags });
    let mut status = status_chunk(5, 1, 2)[CHUNK_HEADER_BYTES..].to_vec();
    descriptors.iter().for_each(|next| status.extend(next.encode()));
    let mut reply = Vec::new();
    put_reply(&mut reply, NBD_OPT_GO, NBD_REP_INFO, &info_export(&info));
    let named = [
        ("request", request(1, NBD_CMD_WRITE, 4096, 512)),
        ("simple-reply", SimpleReply { error: 5, cookie: 7 }.encode().to_vec()),
        ("chunk", data_chunk(7, 4096, 512).to_vec()),
        ("error-chunk", error_chunk(7, NBD_EIO).to_vec()),
        ("status", status),
        ("greeting", Greeting { flags: 3 }.encode().to_vec()),
        ("option", option(NBD_OPT_LIST, &[])),
        ("option-reply", reply),
        ("go", InfoRequest::encode("disk", &[1, 2, 3])),
        ("contexts", MetaRequest::encode("disk", &["base:", "base:allocation"])),
        ("context", meta_context(1, ALLOCATION_CONTEXT)),
        ("listed", listed("disk", "a text")),
        ("export", info_export(&info).to_vec()),
        ("sizes", info_block_size(&sizes).to_vec()),
    ];
    named.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// Messages of servers to the client that `crate::client` runs: a handshake, and replies.
pub(crate) fn servers() -> Vec<(String, Vec<u8>)> {
    let handshake = |structured: bool| {
        let mut bytes = Greeting { flags: 3 }.encode().to_vec();
        if structured {
            put_reply(&mut bytes, NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, &[]);
            let context = meta_context(1, ALLOCATION_CONTEXT);
            put_reply(&mut bytes, NBD_OPT_SET_META_CONTEXT, NBD_REP_META_CONTEXT, &context);
            put_reply(&mut bytes, NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK, &[]);
        }
        let info = info_export(&ExportInfo { bytes: 1 << 30, flags: 0x56d });
        put_reply(&mut bytes, NBD_OPT_GO, NBD_REP_INFO, &info);
        let sizes = info_block_size(&BlockSizes { min: 1, preferred: 4096, max: 32 << 20 });
        put_reply(&mut bytes, NBD_OPT_GO, NBD_REP_INFO, &sizes);
        put_reply(&mut bytes, NBD_OPT_GO, NBD_REP_ACK, &[]);
        bytes
    };
    let simple = |error, cookie| SimpleReply { error, cookie }.encode().to_vec();
    let data = |cookie: u64, length: usize| {
        let mut bytes = data_chunk(cookie, 4096 * cookie, length as u32).to_vec();
        bytes.resize(bytes.len() + length, 7);
        bytes
    };
    let mut halves = data(0, 512);
    halves[4..6].copy_from_slice(&[0, 0]);
    let hole = Chunk {
        flags: NBD_REPLY_FLAG_DONE,
        kind: NBD_REPLY_TYPE_OFFSET_HOLE,
        cookie: 0,
        length: 12,
    };
    halves.extend(hole.encode());
    halves.extend(512u64.to_be_bytes());
    halves.extend((READ_BYTES - 512).to_be_bytes());
    let mut status = status_chunk(2, 1, 2).to_vec();
    for (length, flags) in [(512, 0), (8192, 3)] {
        status.extend(Descriptor { length, flags }.encode());
    }
    let mut refused = Greeting { flags: 3 }.encode().to_vec();
    put_reply(&mut refused, NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, b"no such export");
    let mut plain = simple(0, 1);
    plain.extend(simple(0, 0));
    plain.resize(plain.len() + READ_BYTES as usize, 9);
    plain.extend(simple(NBD_EIO, 2));
    let whole = data(0, READ_BYTES as usize);
    let pieces = [halves, status, simple(0, 1)].concat();
    let errors = [error_chunk(0, NBD_EIO), error_chunk(2, NBD_EINVAL)].concat();
    let named = [
        ("plain", vec![vec![0, 255], handshake(false), plain.clone()]),
        ("plain-in-pieces", vec![vec![0, 7], handshake(false), plain]),
        ("refused", vec![vec![0, 255], refused]),
        ("whole", vec![vec![STRUCTURED, 255], handshake(true), whole]),
        ("pieces", vec![vec![STRUCTURED, 255], handshake(true), pieces.clone()]),
        ("pieces-by-byte", vec![vec![STRUCTURED, 1], handshake(true), pieces]),
        ("errors", vec![vec![STRUCTURED, 5], handshake(true), errors]),
    ];
    named.into_iter().map(|(name, parts)| (name.to_owned(), parts.concat())).collect()
}

/// Stores into the table of a fence, as `crate::fence` applies them.
pub(crate) fn tables() -> Vec<(String, Vec<u8>)> {
    let stores = |now_ns: u64, stores: &[(u16, u64)]| {
        let store =
            |(word, value): &(u16, u64)| [&word.to_le_bytes()[..], &value.to_le_bytes()].concat();
        [now_ns.to_le_bytes().to_vec(), stores.iter().flat_map(store).collect()].concat()
    };
    // The header, and the words of the first slots: range, length and state.
    let (first, second) = (16, 20);
    let named: [(&str, Vec<u8>); 8] = [
        ("untouched", stores(10, &[])),
        ("late", stores(1 << 50, &[])),
        ("version", stores(10, &[(0, 0)])),
        ("another-export", stores(10, &[(1, 5)])),
        ("counters", stores(10, &[(6, 1), (7, u64::MAX), (8, u64::MAX), (9, u64::MAX)])),
        ("ranges", stores(10, &[(first, u64::MAX), (first + 1, u64::MAX), (second, 1 << 20)])),
        ("endless-fence", stores(10, &[(first + 2, u64::MAX), (second + 2, 2)])),
        ("all-sent", stores(10, &(0..80).map(|slot| (18 + 4 * slot, 1)).collect::<Vec<_>>())),
    ];
    named.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// Attacks on a TLS wire, as `crate::tls` does them.
pub(crate) fn encrypted() -> Vec<(String, Vec<u8>)> {
    let hello = {
        let body = [&[1, 0, 0, 0x2d, 3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0, 0, 0]].concat();
        [&[0x16, 3, 1, 0, body.len() as u8][..], &body].concat()
    };
    let alert = [0x15, 3, 3, 0, 2, 1, 0];
    let record = [&[0x17, 3, 3, 0, 0x40][..], &[9; 0x40]].concat();
    let attack = |kind: u8, bytes: &[u8]| [&[kind, 5, 1][..], bytes].concat();
    let change = |at: u16| [&at.to_le_bytes()[..], &[1]].concat();
    let named = [
        ("hello", attack(HANDSHAKE, &hello)),
        ("plain", attack(HANDSHAKE, &request(0, NBD_CMD_READ, 0, 512))),
        ("alert", attack(HANDSHAKE, &alert)),
        ("endless-record", attack(HANDSHAKE, &[0x16, 3, 1, 0xff, 0xff])),
        ("nothing-more", attack(AFTER, &[])),
        ("plain-alert", attack(AFTER, &alert)),
        ("record", attack(AFTER, &record)),
        ("unchanged", attack(CHANGES, &[])),
        ("changed-hello", attack(CHANGES, &change(40))),
        ("changed-finished", attack(CHANGES, &change(300))),
        ("changed-data", attack(CHANGES, &change(30_000))),
    ];
    named.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}
