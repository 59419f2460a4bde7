//! Detects reads that continue earlier ones: in order, or in steps of the same length.

/// Number of streams that are followed.
const STREAMS: usize = 64;
/// Maximum distance of two reads of a strided stream, in bytes: that of the engine's detector.
const STEP_BYTES_MAX: u64 = 16 << 20;
/// Number of equal distances after which reads in steps are a stream.
const STEPS_MIN: u32 = 2;

/// The last read of a possible stream.
#[derive(Clone, Copy)]
struct Head {
    device: u32,
    first: u64,
    end: u64,
    /// Distance from the read before; 0: unknown.
    step: i64,
    /// Number of equal distances, or of reads in order.
    repeats: u32,
}

/// Reads by their order.
#[derive(Default)]
pub(super) struct Streams {
    /// The latest read last.
    heads: Vec<Head>,
    bytes: u64,
    /// Bytes of reads that begin where another ended.
    sequential_bytes: u64,
    /// Bytes of other reads that continue a stream in steps, or backward.
    strided_bytes: u64,
    /// Reads that continue a stream, and that the kernel has not made ahead.
    pub(super) followed_reads: u64,
    /// The time of these reads that is known, in nanoseconds.
    pub(super) followed_ns: u64,
}

impl Streams {
    /// Adds a read. `is_ahead`: the kernel makes it ahead of a program, which does not wait for it.
    pub(super) fn read(
        &mut self,
        device: u32,
        first: u64,
        bytes: u64,
        took_ns: Option<u64>,
        is_ahead: bool,
    ) {
        self.bytes += bytes;
        let end = first.saturating_add(bytes);
        let (is_followed, head) = match self.continued(device, first) {
            Some((index, true)) => {
                let head = self.heads.remove(index);
                self.sequential_bytes += bytes;
                (true, Head { first, end, step: 0, repeats: head.repeats + 1, ..head })
            }
            Some((index, false)) => {
                let head = self.heads.remove(index);
                let is_stream = head.repeats >= STEPS_MIN;
                self.strided_bytes += if is_stream { bytes } else { 0 };
                (is_stream, Head { first, end, repeats: head.repeats + 1, ..head })
            }
            None => (false, self.begin(device, first, end)),
        };
        if is_followed && !is_ahead {
            self.followed_reads += 1;
            self.followed_ns = self.followed_ns.saturating_add(took_ns.unwrap_or(0));
        }
        if self.heads.len() == STREAMS {
            self.heads.remove(0);
        }
        self.heads.push(head);
    }

    /// Returns the stream that a read continues, and whether it does so in order.
    fn continued(&self, device: u32, first: u64) -> Option<(usize, bool)> {
        let of_device = |head: &Head| head.device == device;
        let in_order = self.heads.iter().rposition(|head| of_device(head) && head.end == first);
        let in_steps = || {
            self.heads.iter().rposition(|head| {
                of_device(head)
                    && head.step != 0
                    && first.wrapping_sub(head.first) as i64 == head.step
            })
        };
        in_order.map(|index| (index, true)).or_else(|| Some((in_steps()?, false)))
    }

    /// Returns the head of a possible stream with this read: near the latest lone read, if there is
    /// one, which it replaces.
    fn begin(&mut self, device: u32, first: u64, end: u64) -> Head {
        let lone = |head: &Head| {
            head.device == device
                && head.repeats < STEPS_MIN
                && head.first.abs_diff(first) < STEP_BYTES_MAX
        };
        let before = self.heads.iter().rposition(lone).map(|index| self.heads.remove(index));
        let step = before.map_or(0, |head| first.wrapping_sub(head.first) as i64);
        Head { device, first, end, step, repeats: u32::from(step != 0) }
    }

    /// Returns the shares of the bytes of reads that continue others in order, and in steps. None:
    /// there are no reads.
    pub(super) fn shares(&self) -> Option<(f64, f64)> {
        let share = |part: u64| part as f64 / self.bytes as f64;
        (self.bytes > 0).then(|| (share(self.sequential_bytes), share(self.strided_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::Random;

    fn shares(firsts: impl IntoIterator<Item = u64>) -> (f64, f64, u64) {
        let mut streams = Streams::default();
        firsts.into_iter().for_each(|first| streams.read(0, first * 4096, 4096, None, false));
        let (sequential, strided) = streams.shares().expect("reads");
        (sequential, strided, streams.followed_reads)
    }

    #[test]
    fn reads_in_order_in_steps_and_backward_are_streams() {
        assert_eq!(shares(0..1000), (0.999, 0.0, 999));
        assert_eq!(shares((0..1000).map(|number| number * 7)), (0.0, 0.997, 997));
        assert_eq!(shares((0..1000).map(|number| 100_000 - number)), (0.0, 0.997, 997));
        // Two streams, one in order and one in steps, far apart.
        let two = (0..1000).map(|number| match number % 2 {
            0 => number / 2,
            _ => (1 << 20) + number * 10,
        });
        let (sequential, strided, followed) = shares(two);
        assert_eq!((sequential, strided, followed), (0.499, 0.497, 996));
        // Steps that are longer than those that the engine follows.
        assert_eq!(shares((0..1000).map(|number| number * 4096)).2, 0);
    }

    #[test]
    fn random_reads_are_no_stream() {
        let mut random = Random::new(1);
        for blocks in [1 << 24, 1 << 12] {
            let (sequential, strided, followed) =
                shares((0..20_000).map(|_| random.below(blocks)).collect::<Vec<_>>());
            assert!(sequential + strided < 0.02, "{blocks}: {sequential}, {strided}, {followed}");
        }
    }

    #[test]
    fn reads_that_the_kernel_makes_ahead_are_not_waited_for() {
        let mut streams = Streams::default();
        (0..100).for_each(|number| streams.read(0, number * 4096, 4096, Some(5), true));
        assert_eq!((streams.followed_reads, streams.followed_ns), (0, 0));
        streams.read(0, 100 * 4096, 4096, Some(5), false);
        assert_eq!((streams.followed_reads, streams.followed_ns), (1, 5));
    }
}
