//! Information about an export in the handshake.

use super::constants::*;
use super::options::{take_u16, take_u32, take_u64};

/// `NBD_INFO_EXPORT`, and the reply to `NBD_OPT_EXPORT_NAME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// Size in bytes.
    pub bytes: u64,
    /// `NBD_FLAG_...` of the transmission.
    pub flags: u16,
}

impl ExportInfo {
    /// Parses the data of an `NBD_REP_INFO`. None: it is of another type, or has a wrong length.
    pub fn parse(data: &[u8]) -> Option<ExportInfo> {
        let mut rest = data;
        let right = take_u16(&mut rest)? == NBD_INFO_EXPORT;
        let info = ExportInfo { bytes: take_u64(&mut rest)?, flags: take_u16(&mut rest)? };
        (right && rest.is_empty()).then_some(info)
    }
}

/// Encodes the data of an `NBD_REP_INFO` with `NBD_INFO_EXPORT`.
pub fn info_export(info: &ExportInfo) -> [u8; 12] {
    let mut data = [0; 12];
    data[..2].copy_from_slice(&NBD_INFO_EXPORT.to_be_bytes());
    data[2..10].copy_from_slice(&info.bytes.to_be_bytes());
    data[10..].copy_from_slice(&info.flags.to_be_bytes());
    data
}

/// Encodes the reply to `NBD_OPT_EXPORT_NAME`. It has no frame; 124 zeros follow it unless the
/// client has declared that it does not need them.
pub fn export_name_reply(info: &ExportInfo, zeroes: bool) -> Vec<u8> {
    let mut data = Vec::with_capacity(134);
    data.extend_from_slice(&info.bytes.to_be_bytes());
    data.extend_from_slice(&info.flags.to_be_bytes());
    if zeroes {
        data.resize(134, 0);
    }
    data
}

/// `NBD_INFO_BLOCK_SIZE`: permitted request sizes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of this.
    pub min: u32,
    /// Requests of this size and alignment have no extra cost.
    pub preferred: u32,
    /// Maximum payload.
    pub max: u32,
}

impl BlockSizes {
    /// Parses the data of an `NBD_REP_INFO`. None: it is of another type, or has a wrong length.
    pub fn parse(data: &[u8]) -> Option<BlockSizes> {
        let mut rest = data;
        let right = take_u16(&mut rest)? == NBD_INFO_BLOCK_SIZE;
        let sizes = BlockSizes {
            min: take_u32(&mut rest)?,
            preferred: take_u32(&mut rest)?,
            max: take_u32(&mut rest)?,
        };
        (right && rest.is_empty()).then_some(sizes)
    }
}

/// Encodes the data of an `NBD_REP_INFO` with `NBD_INFO_BLOCK_SIZE`.
pub fn info_block_size(sizes: &BlockSizes) -> [u8; 14] {
    let mut data = [0; 14];
    data[..2].copy_from_slice(&NBD_INFO_BLOCK_SIZE.to_be_bytes());
    data[2..6].copy_from_slice(&sizes.min.to_be_bytes());
    data[6..10].copy_from_slice(&sizes.preferred.to_be_bytes());
    data[10..].copy_from_slice(&sizes.max.to_be_bytes());
    data
}

/// Encodes the data of an `NBD_REP_INFO` with a text: `NBD_INFO_NAME` or `NBD_INFO_DESCRIPTION`.
pub fn info_text(info: u16, text: &str) -> Vec<u8> {
    let mut data = Vec::with_capacity(2 + text.len());
    data.extend_from_slice(&info.to_be_bytes());
    data.extend_from_slice(text.as_bytes());
    data
}
