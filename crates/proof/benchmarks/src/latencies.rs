//! All latencies of a run, so that quantiles are exact.

/// Quantiles and the maximum of latencies, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spread {
    /// The latencies that 50 %, 99 %, 99.9 % and 99.99 % of all do not exceed.
    pub(crate) quantiles: [u64; 4],
    /// The maximum.
    pub(crate) max: u64,
}

const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

impl Spread {
    /// Returns the quantiles of a load's latencies, accurate to one percent.
    pub(crate) fn of(latency: &load::Latency) -> Spread {
        Spread {
            quantiles: QUANTILES.map(|quantile| latency.quantile_ns(quantile)),
            max: latency.max_ns(),
        }
    }
}

/// Latencies in nanoseconds. Above 4.2 seconds only the maximum is exact.
#[derive(Default)]
pub(crate) struct Latencies {
    all: Vec<u32>,
    max_ns: u64,
}

impl Latencies {
    pub(crate) fn record(&mut self, ns: u64) {
        self.all.push(u32::try_from(ns).unwrap_or(u32::MAX));
        self.max_ns = self.max_ns.max(ns);
    }

    /// Returns their quantiles.
    pub(crate) fn spread(mut self) -> Spread {
        Spread { quantiles: QUANTILES.map(|quantile| self.quantile(quantile)), max: self.max_ns }
    }

    /// Returns the latency that the share `quantile` (below 1) of all does not exceed; 0 if there
    /// are none.
    fn quantile(&mut self, quantile: f64) -> u64 {
        let last = self.all.len().saturating_sub(1);
        let rank = ((self.all.len() as f64 * quantile).ceil() as usize).clamp(1, last + 1) - 1;
        if self.all.is_empty() {
            return 0;
        }
        u64::from(*self.all.select_nth_unstable(rank).1)
    }
}

#[cfg(test)]
mod tests {
    use super::Latencies;

    #[test]
    fn quantiles_are_exact_and_never_too_low() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), 0);
        for ns in (1..=1000).rev() {
            latencies.record(ns);
        }
        let quantiles = [0.0, 0.001, 0.5, 0.99, 0.9985, 0.9999];
        assert_eq!(quantiles.map(|share| latencies.quantile(share)), [1, 1, 500, 990, 999, 1000]);
        latencies.record(u64::MAX);
        let spread = latencies.spread();
        assert_eq!((spread.quantiles[0], spread.max), (501, u64::MAX));
    }
}
