//! The NBD codec: constants by their protocol names, and pure functions between bytes and types.
//!
//! Source: "The NBD protocol", doc/proto.md of github.com/NetworkBlockDevice/nbd. All numbers on
//! the wire are big-endian. Both directions are here, so that the server, the client and the tests
//! share one interpretation of the document. Nothing here panics, whatever the bytes, or allocates
//! memory by an unchecked length.

mod constants;
mod errno;
mod info;
mod meta;
mod options;
mod transmission;

pub use constants::*;
pub use errno::{command_name, error_name, error_of, kind_of};
pub use info::{
    BlockSizes, ExportInfo, export_name_reply, info_block_size, info_export, info_text,
};
pub use meta::{
    ALLOCATION_CONTEXT, BASE_WILDCARD, DESCRIPTOR_BYTES, Descriptor, MetaRequest,
    STATUS_CHUNK_BYTES, meta_context, parse_meta_context, parse_status, status_chunk,
};
pub use options::{
    GREETING_BYTES, Greeting, InfoRequest, OPTION_HEADER_BYTES, OPTION_REPLY_HEADER_BYTES,
    OptionHeader, OptionReplyHeader, export_name, listed, parse_listed, put_option, put_reply,
};
pub use transmission::{
    CHUNK_HEADER_BYTES, Chunk, DATA_CHUNK_BYTES, ERROR_CHUNK_BYTES, REQUEST_BYTES, RequestHeader,
    SIMPLE_REPLY_BYTES, SimpleReply, data_chunk, error_chunk,
};
