//! Any bytes against the parsers. The fuzzer and the replay of its corpus call the same function.

use nbd::codec::*;

/// Feeds the bytes to every parser. Encoding a parsed value must return the same bytes.
pub(crate) fn codec(input: &[u8]) {
    if let Some(header) = input.first_chunk().and_then(RequestHeader::parse) {
        assert_eq!(header.encode(), input[..REQUEST_BYTES]);
    }
    if let Some(reply) = input.first_chunk().and_then(SimpleReply::parse) {
        assert_eq!(reply.encode(), input[..SIMPLE_REPLY_BYTES]);
    }
    if let Some(chunk) = input.first_chunk().and_then(Chunk::parse) {
        assert_eq!(chunk.encode(), input[..CHUNK_HEADER_BYTES]);
    }
    if let Some(greeting) = input.first_chunk().and_then(Greeting::parse) {
        assert_eq!(greeting.encode(), input[..GREETING_BYTES]);
    }
    let _ = input.first_chunk().and_then(OptionHeader::parse);
    let _ = input.first_chunk().and_then(OptionReplyHeader::parse);
    if let Ok(request) = MetaRequest::parse(input) {
        let queries: Vec<&str> = request.queries().collect();
        assert_eq!(MetaRequest::encode(request.name, &queries), input);
    }
    if let Ok(request) = InfoRequest::parse(input) {
        let wanted = input[4 + request.name.len() + 2..].chunks(2);
        let wanted: Vec<u16> = wanted.map(|two| u16::from_be_bytes([two[0], two[1]])).collect();
        assert!(wanted.iter().all(|&info| request.requests_info(info)));
        assert_eq!(InfoRequest::encode(request.name, &wanted), input);
    }
    if let Some((name, text)) = parse_listed(input) {
        assert_eq!(listed(name, text), input);
    }
    if let Some((id, name)) = parse_meta_context(input) {
        assert_eq!(meta_context(id, name), input);
    }
    if let Some((_, list)) = parse_status(input) {
        let bytes: Vec<u8> = list.iter().flat_map(Descriptor::encode).collect();
        assert_eq!(bytes, input[4..]);
    }
    if let Some(info) = ExportInfo::parse(input) {
        assert_eq!(info_export(&info), input);
    }
    if let Some(sizes) = BlockSizes::parse(input) {
        assert_eq!(info_block_size(&sizes), input);
    }
    if let Ok(name) = export_name(input) {
        assert!(name.len() <= STRING_BYTES_MAX && !name.contains('\0'));
    }
}
