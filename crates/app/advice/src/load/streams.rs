//! Detects reads that continue earlier ones.

/// Number of streams that are followed.
const STREAMS: usize = 64;

/// The ends of the latest reads, the newest last.
#[derive(Default)]
pub(crate) struct Streams {
    ends: Vec<(u32, u64)>,
    sequential_bytes: u64,
    bytes: u64,
}

impl Streams {
    pub(crate) fn read(&mut self, device: u32, first_byte: u64, bytes: u64) {
        self.bytes += bytes;
        let end = (device, first_byte.saturating_add(bytes));
        let continued = self.ends.iter().rposition(|end| *end == (device, first_byte));
        match continued {
            Some(place) => {
                self.sequential_bytes += bytes;
                self.ends.remove(place);
            }
            None if self.ends.len() == STREAMS => _ = self.ends.remove(0),
            None => {}
        }
        self.ends.push(end);
    }

    /// Returns the share of the bytes that continue an earlier read. None: there are no reads.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.sequential_bytes as f64 / self.bytes as f64)
    }
}
