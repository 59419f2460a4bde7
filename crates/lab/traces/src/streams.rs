//! Sequential requests: those that begin where an earlier one ended.

/// Number of ends that are remembered on each device, for each direction.
const ENDS: usize = 32;
/// Maximum number of devices and directions whose ends are remembered.
const STREAMS_MAX: usize = 1 << 12;

/// The ends of the last requests.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    ends: std::collections::HashMap<(u32, bool), [u64; ENDS]>,
}

impl Streams {
    /// Adds a request. Returns whether it begins where one of the last 32 requests of the same
    /// direction on the same device ended.
    pub(crate) fn add(&mut self, device: u32, is_read: bool, first: u64, bytes: u64) -> bool {
        let key = (device, is_read);
        if self.ends.len() >= STREAMS_MAX && !self.ends.contains_key(&key) {
            return false;
        }
        let ends = self.ends.entry(key).or_insert([u64::MAX; ENDS]);
        let found = ends.iter().position(|end| *end == first);
        // The end that is continued leaves, or else the oldest one.
        ends[..=found.unwrap_or(ENDS - 1)].rotate_right(1);
        ends[0] = first.saturating_add(bytes);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_may_be_interleaved() {
        let mut streams = Streams::default();
        let mut found = 0;
        for step in 0..10 {
            for stream in 0..ENDS as u64 {
                found += u64::from(streams.add(0, true, (stream << 30) + step * 512, 512));
            }
        }
        assert_eq!(found, 9 * ENDS as u64);
        assert!(!streams.add(0, false, 10 * 512, 512), "another direction");
        assert!(!streams.add(1, true, 10 * 512, 512), "another device");
    }
}
