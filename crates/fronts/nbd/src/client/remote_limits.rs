//! The limits of an export, and the exports that cannot be a device.

use super::Agreed;
use crate::codec::*;
use block::{Discard, Fua, Limits, SECTOR};

/// Maximum transfer if the server sends no limit: every server accepts this.
const TRANSFER_BYTES: u32 = 32 << 20;
/// Maximum size of a block that a volume can have.
const BLOCK_BYTES_MAX: u32 = 4096;

/// Returns the limits of a device that is this export. A rest of the size that is no whole block is
/// left out.
pub(super) fn limits(agreed: &Agreed) -> Limits {
    let sizes = agreed.sizes;
    let logical = sizes.map_or(1, |sizes| sizes.min).max(SECTOR as u32);
    let io_max = sizes.map_or(TRANSFER_BYTES, |sizes| sizes.max).min(TRANSFER_BYTES);
    let zeroes = agreed.can(NBD_FLAG_SEND_WRITE_ZEROES);
    let plain = Limits::plain(agreed.export.bytes / SECTOR, SECTOR as u32);
    let block_sectors = u64::from(logical / SECTOR as u32);
    Limits {
        sectors: plain.sectors / block_sectors * block_sectors,
        block_logical_bytes: logical,
        block_physical_bytes: plain.block_physical_bytes.max(logical),
        io_best_bytes: sizes.map_or(plain.io_best_bytes, |sizes| sizes.preferred.max(logical)),
        io_max_bytes: (io_max / logical * logical).max(logical),
        flush_needed: agreed.can(NBD_FLAG_SEND_FLUSH),
        // Behind the connection there may be another server by now.
        loses_with_connection: agreed.can(NBD_FLAG_SEND_FLUSH),
        fua: if agreed.can(NBD_FLAG_SEND_FUA) { Fua::Native } else { Fua::None },
        // The protocol does not define reads after a trim; write-zeroes may free space too.
        discard: if zeroes { Discard::Zeroes } else { Discard::Ignored },
        zero_fast: zeroes,
        rotational: agreed.can(NBD_FLAG_ROTATIONAL),
        read_only: agreed.can(NBD_FLAG_READ_ONLY),
        ..plain
    }
}

/// Returns the reason why an export cannot be a volume, as words that follow its name.
pub fn refusal(agreed: &Agreed) -> Option<String> {
    let bytes = agreed.export.bytes;
    let min = agreed.sizes.map_or(1, |sizes| sizes.min);
    let block = min.max(SECTOR as u32);
    if bytes == 0 {
        Some("is empty; serve another export".to_owned())
    } else if block > BLOCK_BYTES_MAX {
        Some(format!(
            "has a smallest block of {min} bytes, and {BLOCK_BYTES_MAX} is the most that a volume \
             can have; serve it with another program in between, such as 'nbdkit nbd --filter \
             blocksize'"
        ))
    } else if !bytes.is_multiple_of(u64::from(block)) {
        Some(format!("has {bytes} bytes, which is no multiple of {block}; extend it"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreed(bytes: u64, min: u32, max: u32) -> Agreed {
        Agreed {
            export: ExportInfo { bytes, flags: NBD_FLAG_READ_ONLY | NBD_FLAG_ROTATIONAL },
            sizes: Some(BlockSizes { min, preferred: 4096.max(min), max }),
            structured: false,
            contexts: Vec::new(),
        }
    }

    #[test]
    fn limits_are_those_of_the_server() {
        let limits = limits(&agreed(1 << 20, 4096, 1 << 20));
        assert_eq!((limits.sectors, limits.block_logical_bytes), (2048, 4096));
        assert_eq!((limits.io_max_bytes, limits.io_best_bytes), (1 << 20, 4096));
        assert!(limits.rotational && limits.read_only && !limits.flush_needed);
    }

    #[test]
    fn a_maximum_is_a_multiple_of_the_block_whatever_the_server_says() {
        assert_eq!(limits(&agreed(1 << 20, 1, 1000)).io_max_bytes, 512);
        assert_eq!(limits(&agreed(1 << 20, 1, 100)).io_max_bytes, 512);
        assert_eq!(limits(&agreed(1 << 20, 512, u32::MAX)).io_max_bytes, 32 << 20);
    }

    #[test]
    fn exports_that_cannot_be_volumes_are_refused() {
        assert_eq!(refusal(&agreed(1 << 20, 1, 1 << 20)), None);
        assert_eq!(refusal(&agreed(1 << 20, 4096, 1 << 20)), None);
        for (bytes, min, word) in [
            (0, 1, "empty"),
            (1000, 1, "multiple of 512"),
            (4096 + 512, 4096, "multiple of 4096"),
            (1 << 20, 8192, "smallest block of 8192"),
        ] {
            let refused = refusal(&agreed(bytes, min, 1 << 20)).expect(word);
            assert!(refused.contains(word), "{refused}");
        }
    }
}
