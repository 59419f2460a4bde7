//! Whether blocks that are fetched ahead are read at all.

use crate::streams::detector::Stream;

/// Blocks after which the weight of older ones is halved.
const BLOCKS: u32 = 4096;
/// Minimum number of blocks for a judgement.
const ENOUGH: u32 = 64;
/// Requests after which a stream is trusted, and after which it is trusted where much was wasted.
const REQUESTS: u64 = 3;
const REQUESTS_DOUBTED: u64 = 16;
/// A stream with requests of this length, 64 KiB, is trusted sooner ...
const LONG_SECTORS: u32 = 128;
const REQUESTS_LONG: u64 = 2;
/// ... unless this number of reads were outside streams lately: some are neighbours by chance.
const ALONE_MANY: u32 = 16;

/// The recent results of readahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    settled: u32,
    wasted: u32,
}

impl Gate {
    /// Counts blocks that were fetched ahead and were read, or were dropped unread.
    pub(super) fn count(&mut self, blocks: u32, were_read: bool) {
        self.settled += blocks;
        self.wasted += if were_read { 0 } else { blocks };
        if self.settled >= BLOCKS {
            (self.settled, self.wasted) = (self.settled / 2, self.wasted / 2);
        }
    }

    /// Whether a stream is expected to continue. `alone`: the recent reads outside streams.
    pub(super) fn trusts(&self, stream: &Stream, alone: u32) -> bool {
        let doubted = self.settled >= ENOUGH && self.wasted * 3 > self.settled;
        let enough = match stream.request_sectors {
            _ if doubted => REQUESTS_DOUBTED,
            LONG_SECTORS.. if alone < ALONE_MANY => REQUESTS_LONG,
            _ => REQUESTS,
        };
        stream.requests >= enough
    }
}
