//! Numbers of the protocol, with the names of the protocol document.
#![allow(missing_docs, reason = "each constant is the protocol's own; its document explains it")]

/// The first eight bytes of a server: `NBDMAGIC`.
pub const NBD_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Precedes the server's flags and every option: `IHAVEOPT`.
pub const NBD_OPTS_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Precedes every reply to an option.
pub const NBD_REP_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Precedes every request.
pub const NBD_REQUEST_MAGIC: u32 = 0x2560_9513;
/// Precedes every simple reply.
pub const NBD_SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Precedes every chunk of a structured reply.
pub const NBD_STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Maximum length of a string in the protocol, in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Maximum option data that the server parses, in bytes. Larger options are skipped and refused.
pub const OPTION_BYTES_MAX: usize = 64 << 10;
/// Maximum option data that the server skips, in bytes. Larger options end the connection.
pub const OPTION_SKIPPED_BYTES_MAX: usize = 16 << 20;
/// Maximum number of options. One more ends the connection.
pub const OPTIONS_MAX: usize = 1000;
/// Maximum payload of a read or a write, in bytes: the limit that clients assume by default.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

// Handshake flags, of the server and of the client.
pub const NBD_FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
pub const NBD_FLAG_NO_ZEROES: u16 = 1 << 1;
pub const NBD_FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
pub const NBD_FLAG_C_NO_ZEROES: u32 = 1 << 1;

// Transmission flags: abilities of an export.
pub const NBD_FLAG_HAS_FLAGS: u16 = 1 << 0;
pub const NBD_FLAG_READ_ONLY: u16 = 1 << 1;
pub const NBD_FLAG_SEND_FLUSH: u16 = 1 << 2;
pub const NBD_FLAG_SEND_FUA: u16 = 1 << 3;
pub const NBD_FLAG_ROTATIONAL: u16 = 1 << 4;
pub const NBD_FLAG_SEND_TRIM: u16 = 1 << 5;
pub const NBD_FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
pub const NBD_FLAG_SEND_DF: u16 = 1 << 7;
pub const NBD_FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
pub const NBD_FLAG_SEND_RESIZE: u16 = 1 << 9;
pub const NBD_FLAG_SEND_CACHE: u16 = 1 << 10;
pub const NBD_FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

// Options of the handshake.
pub const NBD_OPT_EXPORT_NAME: u32 = 1;
pub const NBD_OPT_ABORT: u32 = 2;
pub const NBD_OPT_LIST: u32 = 3;
pub const NBD_OPT_STARTTLS: u32 = 5;
pub const NBD_OPT_INFO: u32 = 6;
pub const NBD_OPT_GO: u32 = 7;
pub const NBD_OPT_STRUCTURED_REPLY: u32 = 8;
pub const NBD_OPT_LIST_META_CONTEXT: u32 = 9;
pub const NBD_OPT_SET_META_CONTEXT: u32 = 10;
pub const NBD_OPT_EXTENDED_HEADERS: u32 = 11;

// Replies to options.
pub const NBD_REP_ACK: u32 = 1;
pub const NBD_REP_SERVER: u32 = 2;
pub const NBD_REP_INFO: u32 = 3;
pub const NBD_REP_META_CONTEXT: u32 = 4;
pub const NBD_REP_ERR_UNSUP: u32 = (1 << 31) + 1;
pub const NBD_REP_ERR_POLICY: u32 = (1 << 31) + 2;
pub const NBD_REP_ERR_INVALID: u32 = (1 << 31) + 3;
pub const NBD_REP_ERR_PLATFORM: u32 = (1 << 31) + 4;
pub const NBD_REP_ERR_TLS_REQD: u32 = (1 << 31) + 5;
pub const NBD_REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
pub const NBD_REP_ERR_SHUTDOWN: u32 = (1 << 31) + 7;
pub const NBD_REP_ERR_BLOCK_SIZE_REQD: u32 = (1 << 31) + 8;
pub const NBD_REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;

// Pieces of information about an export.
pub const NBD_INFO_EXPORT: u16 = 0;
pub const NBD_INFO_NAME: u16 = 1;
pub const NBD_INFO_DESCRIPTION: u16 = 2;
pub const NBD_INFO_BLOCK_SIZE: u16 = 3;

// Commands.
pub const NBD_CMD_READ: u16 = 0;
pub const NBD_CMD_WRITE: u16 = 1;
pub const NBD_CMD_DISC: u16 = 2;
pub const NBD_CMD_FLUSH: u16 = 3;
pub const NBD_CMD_TRIM: u16 = 4;
pub const NBD_CMD_CACHE: u16 = 5;
pub const NBD_CMD_WRITE_ZEROES: u16 = 6;
pub const NBD_CMD_BLOCK_STATUS: u16 = 7;
pub const NBD_CMD_RESIZE: u16 = 8;

// Flags of commands.
pub const NBD_CMD_FLAG_FUA: u16 = 1 << 0;
pub const NBD_CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub const NBD_CMD_FLAG_DF: u16 = 1 << 2;
pub const NBD_CMD_FLAG_REQ_ONE: u16 = 1 << 3;
pub const NBD_CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

// Chunks of structured replies.
pub const NBD_REPLY_FLAG_DONE: u16 = 1 << 0;
pub const NBD_REPLY_TYPE_NONE: u16 = 0;
pub const NBD_REPLY_TYPE_OFFSET_DATA: u16 = 1;
pub const NBD_REPLY_TYPE_OFFSET_HOLE: u16 = 2;
pub const NBD_REPLY_TYPE_BLOCK_STATUS: u16 = 5;
pub const NBD_REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;
pub const NBD_REPLY_TYPE_ERROR_OFFSET: u16 = (1 << 15) + 2;

// Flags of the context `base:allocation`.
pub const NBD_STATE_HOLE: u32 = 1 << 0;
pub const NBD_STATE_ZERO: u32 = 1 << 1;

// Errors. The numbers are Linux's, on every system.
pub const NBD_EPERM: u32 = 1;
pub const NBD_EIO: u32 = 5;
pub const NBD_ENOMEM: u32 = 12;
pub const NBD_EINVAL: u32 = 22;
pub const NBD_ENOSPC: u32 = 28;
pub const NBD_EOVERFLOW: u32 = 75;
pub const NBD_ENOTSUP: u32 = 95;
pub const NBD_ESHUTDOWN: u32 = 108;
