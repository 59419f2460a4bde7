//! Whether what is fetched ahead is read at all.

use crate::streams::detector::Stream;

/// Blocks after which the older half of the memory fades.
const BLOCKS: u32 = 4096;
/// Below so many of them nothing is known.
const ENOUGH: u32 = 64;
/// Requests after which a stream is believed, and after which it is where much was wasted.
const REQUESTS: u64 = 3;
const REQUESTS_DOUBTED: u64 = 16;
/// One of requests this long, 64 KiB, is believed sooner.
const LONG_SECTORS: u32 = 128;
const REQUESTS_LONG: u64 = 2;

/// What has become of what was fetched ahead lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    settled: u32,
    wasted: u32,
}

impl Gate {
    /// Blocks that were fetched ahead were read, or were given up before that.
    pub(super) fn settled(&mut self, blocks: u32, were_read: bool) {
        self.settled += blocks;
        self.wasted += if were_read { 0 } else { blocks };
        if self.settled >= BLOCKS {
            (self.settled, self.wasted) = (self.settled / 2, self.wasted / 2);
        }
    }

    /// Whether a stream is believed to go on.
    pub(super) fn trusts(&self, stream: &Stream) -> bool {
        let doubted = self.settled >= ENOUGH && self.wasted * 3 > self.settled;
        let enough = match stream.request_sectors {
            _ if doubted => REQUESTS_DOUBTED,
            LONG_SECTORS.. => REQUESTS_LONG,
            _ => REQUESTS,
        };
        stream.requests >= enough
    }
}
