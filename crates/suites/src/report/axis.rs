//! Axes: where values go, and which of them are written beside it.

/// An axis from `low` to `high`, linear or logarithmic.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Axis {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) logarithmic: bool,
}

impl Axis {
    /// From 0 to a round number not below any of the values.
    pub(crate) fn linear(values: impl Iterator<Item = f64>) -> Axis {
        let most = values.fold(0.0, f64::max).max(1e-9);
        let step = step_of(most);
        Axis { low: 0.0, high: (most / step).ceil() * step, logarithmic: false }
    }

    /// From `low` to `high` as they are.
    pub(crate) fn exact(low: f64, high: f64) -> Axis {
        Axis { low, high: high.max(low + 1e-9), logarithmic: false }
    }

    /// Whole decades around the values; what is below one counts as one.
    pub(crate) fn decades(values: impl Iterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::MAX, 1.0f64);
        for value in values {
            (low, high) = (low.min(value.max(1.0)), high.max(value));
        }
        let low = 10f64.powf(low.min(high).log10().floor());
        let high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
        Axis { low, high, logarithmic: true }
    }

    /// Where a value lies between the ends: 0 to 1, for values between them.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            let (low, high) = (self.low.log10(), self.high.log10());
            return (value.max(self.low).log10() - low) / (high - low);
        }
        (value - self.low) / (self.high - self.low)
    }

    /// The values that are written beside it.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            // A single decade or two would be bare with powers of ten alone.
            let within: &[f64] = if decades > 2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = (0..=decades).flat_map(|power| {
                within.iter().map(move |part| self.low * 10f64.powi(power) * part)
            });
            return all.filter(|tick| *tick <= self.high * 1.001).collect();
        }
        let step = step_of(self.high - self.low);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }
}

/// A distance of 1, 2 or 5 times a power of ten that divides the range into four to ten parts.
fn step_of(range: f64) -> f64 {
    let power = 10f64.powf(range.log10().floor());
    let parts = range / power;
    match parts {
        few if few < 2.0 => power / 5.0,
        some if some < 5.0 => power / 2.0,
        _ => power,
    }
}

/// A tick's words: `1,400`, `40 k`, `2 M`.
pub(crate) fn word(value: f64) -> String {
    let plain = |value: f64| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        millions if millions >= 1e6 => format!("{} M", plain(value / 1e6)),
        thousands if thousands >= 1e4 => format!("{} k", plain(value / 1e3)),
        thousand if thousand >= 1e3 => super::text::figure(value),
        _ => plain(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::linear([0.0, 37_000.0].into_iter());
        assert_eq!((axis.low, axis.high), (0.0, 40_000.0));
        assert_eq!(axis.ticks(), [0.0, 5e3, 1e4, 1.5e4, 2e4, 2.5e4, 3e4, 3.5e4, 4e4]);
        let decades = Axis::decades([0.0, 4_321.0].into_iter());
        assert_eq!(decades.ticks(), [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!((decades.place(0.0), decades.place(100.0), decades.place(1e4)), (0.0, 0.5, 1.0));
        let narrow = Axis::decades([2e3, 4e3].into_iter());
        assert_eq!(narrow.ticks(), [1e3, 2e3, 5e3, 1e4]);
        let seconds = Axis::exact(1400.0, 2000.0);
        assert_eq!(seconds.ticks(), [1400.0, 1500.0, 1600.0, 1700.0, 1800.0, 1900.0, 2000.0]);
        for most in [0.0, 0.3, 1.0, 999.0, 1e12] {
            let axis = Axis::linear([most].into_iter());
            assert!((3..12).contains(&axis.ticks().len()), "{most}: {:?}", axis.ticks());
        }
        assert_eq!(
            (word(1400.0), word(40_000.0), word(0.5)),
            ("1,400".into(), "40 k".into(), "0.5".into())
        );
    }
}
