//! Axes: positions of values, and the ticks.

/// How values are spread over an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithms, with powers of ten.
    Decades,
    /// By their logarithms: sizes in bytes, with powers of two.
    Doublings,
    /// By their logarithms: plain numbers such as queue depths, with powers of two.
    Depths,
    /// By their logarithms: times in nanoseconds, with powers of ten.
    Times,
    /// Percentiles: the share above each, by its logarithm. A value is the number of nines: 1 is
    /// the 90th percentile, 2 the 99th.
    Nines,
}

/// An axis from `low` to `high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Axis {
    /// Where it begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// How it is divided.
    pub scale: Scale,
}

impl Axis {
    /// Returns an axis from 0 to a round number not below any of the values.
    pub fn linear(values: impl Iterator<Item = f64>) -> Axis {
        let most = values.fold(0.0, f64::max).max(1e-9);
        let step = step_of(most);
        Axis { low: 0.0, high: (most / step).ceil() * step, scale: Scale::Linear }
    }

    /// Returns an axis from exactly `low` to exactly `high`.
    pub fn exact(low: f64, high: f64) -> Axis {
        Axis { low, high: high.max(low + 1e-9), scale: Scale::Linear }
    }

    /// Returns whole decades around the values; values below one count as one.
    pub fn decades(values: impl Iterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::MAX, 1.0f64);
        for value in values {
            (low, high) = (low.min(value.max(1.0)), high.max(value));
        }
        let low = 10f64.powf(low.min(high).log10().floor());
        let high = 10f64.powf(high.log10().ceil()).max(low * 10.0);
        Axis { low, high, scale: Scale::Decades }
    }

    /// Returns whole decades around these times, in nanoseconds.
    pub fn times(values: impl Iterator<Item = f64>) -> Axis {
        Axis { scale: Scale::Times, ..Axis::decades(values) }
    }

    /// Returns an axis of shares in percent, from whole decades around the smallest (at least a
    /// millionth) to 100.
    pub fn tail(least_percent: f64) -> Axis {
        let low = 10f64.powf(least_percent.clamp(1e-4, 10.0).log10().floor());
        Axis { low, high: 100.0, scale: Scale::Decades }
    }

    /// Returns an axis of percentiles from 0 to this number of nines.
    pub fn nines(most: f64) -> Axis {
        Axis { low: 0.0, high: most.max(1.0), scale: Scale::Nines }
    }

    /// Returns whole powers of two around these numbers.
    pub fn depths(values: impl Iterator<Item = f64>) -> Axis {
        Axis { scale: Scale::Depths, ..Axis::doublings(values) }
    }

    /// Returns whole powers of two around these sizes, in bytes.
    pub fn doublings(values: impl Iterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::MAX, 1.0f64);
        for value in values {
            (low, high) = (low.min(value.max(1.0)), high.max(value));
        }
        let low = low.min(high).log2().floor().exp2();
        Axis { low, high: high.log2().ceil().exp2().max(low * 2.0), scale: Scale::Doublings }
    }

    /// Returns round numbers around the values, from 0 unless the minimum is more than a third of
    /// the maximum.
    pub fn around(values: impl Iterator<Item = f64>) -> Axis {
        let (mut least, mut most) = (f64::MAX, 0.0f64);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
        }
        if least <= most / 3.0 || least > most {
            return Axis::linear([most].into_iter());
        }
        // A range below a hundredth of the maximum is not stretched, so that noise does not look
        // like a change.
        let step = step_of((most - least).max(most * 1e-2));
        // A thousandth of a step: a value that misses a line by rounding counts as on it.
        let low = (least / step + 1e-3).floor() * step;
        Axis {
            low,
            high: ((most / step - 1e-3).ceil() * step).max(low + step),
            scale: Scale::Linear,
        }
    }

    /// Returns the position of a value between the ends: 0 to 1 for values between them.
    pub fn position(&self, value: f64) -> f64 {
        if !matches!(self.scale, Scale::Linear | Scale::Nines) {
            let (low, high) = (self.low.log10(), self.high.log10());
            return (value.max(self.low).log10() - low) / (high - low);
        }
        (value - self.low) / (self.high - self.low)
    }

    /// Returns the values of the ticks.
    pub fn ticks(&self) -> Vec<f64> {
        if matches!(self.scale, Scale::Doublings | Scale::Depths) {
            let doublings = (self.high / self.low).log2().round() as usize;
            let powers = (0..=doublings).step_by(doublings.div_ceil(DOUBLINGS_MAX).max(1));
            return powers.map(|power| self.low * (power as f64).exp2()).collect();
        }
        if matches!(self.scale, Scale::Decades | Scale::Times) {
            let decades = (self.high / self.low).log10().round() as i32;
            // Powers of ten alone would be too few for one or two decades.
            let within: &[f64] = if decades > 2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = (0..=decades).flat_map(|power| {
                within.iter().map(move |part| self.low * 10f64.powi(power) * part)
            });
            return all.filter(|tick| *tick <= self.high * 1.001).collect();
        }
        if self.scale == Scale::Nines {
            let whole = (0..=self.high as u32).map(f64::from);
            let mut ticks: Vec<f64> = whole.chain([nines(0.5)]).collect();
            ticks.sort_by(f64::total_cmp);
            return ticks;
        }
        let step = step_of(self.high - self.low);
        // A tick that misses an end by rounding counts as on it.
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|number| number as f64 * step).collect()
    }

    /// Returns the text of one of its ticks.
    pub fn word(&self, tick: f64) -> String {
        match self.scale {
            Scale::Doublings => return size(tick),
            Scale::Times => return time(tick),
            Scale::Nines => return percentile(tick),
            Scale::Linear | Scale::Decades | Scale::Depths => {}
        }
        // Ticks closer than a hundredth need more digits to differ.
        let step = step_of(self.high - self.low);
        match self.scale == Scale::Linear && step < 0.01 {
            true => format!("{tick:.*}", (-step.log10()).ceil() as usize),
            false => word(tick),
        }
    }
}

impl Axis {
    /// Returns the text of any of its values.
    pub fn value(&self, value: f64) -> String {
        match self.scale {
            Scale::Doublings => crate::circumstances::size(value.max(0.0) as u64),
            Scale::Times => crate::words::time(value),
            Scale::Nines => format!("{} %", percentile(value)),
            Scale::Depths => word(value),
            Scale::Linear | Scale::Decades => crate::words::figure(value),
        }
    }
}

impl Axis {
    /// Returns the name of its quantity, and its values' unit, for a program.
    pub(crate) fn head(&self, name: &str) -> String {
        match self.scale {
            Scale::Times => format!("{name}, ns"),
            Scale::Doublings => format!("{name}, bytes"),
            _ => name.to_owned(),
        }
    }

    /// Returns the text of a value for a program.
    pub(crate) fn plain(&self, value: f64) -> String {
        match self.scale {
            Scale::Nines => percentile(value),
            _ => crate::figure::plain(value),
        }
    }
}

/// Returns the number of nines of a quantile: 1 for 0.9.
pub fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).max(1e-9).log10() + 0.0
}

/// Formats the percentile with this number of nines: `99.9`.
fn percentile(nines: f64) -> String {
    let digits = (nines - 2.0).ceil().clamp(0.0, 7.0) as usize;
    format!("{:.digits$}", 100.0 - 100.0 * 10f64.powf(-nines))
}

/// Maximum number of ticks of an axis of sizes, not counting the first.
const DOUBLINGS_MAX: usize = 8;

/// Formats a power of two in bytes.
fn size(bytes: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = ((bytes.max(1.0).log2() / 10.0) as usize).min(UNITS.len() - 1);
    format!("{} {}", bytes / 1024f64.powi(unit as i32), UNITS[unit])
}

/// Formats a time in nanoseconds, in the largest unit that leaves it whole.
fn time(ns: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = UNITS.into_iter().find(|(unit, _)| ns >= unit * 0.999);
    let (unit, name) = unit.unwrap_or((1.0, "ns"));
    format!("{} {name}", word((ns / unit).round()))
}

/// Returns a distance of 1, 2 or 5 times a power of ten that divides the range into four to ten
/// parts.
fn step_of(range: f64) -> f64 {
    let power = 10f64.powf(range.log10().floor());
    let parts = range / power;
    match parts {
        few if few < 2.0 => power / 5.0,
        some if some < 5.0 => power / 2.0,
        _ => power,
    }
}

/// Formats a tick: `1,400`, `40 k`, `2 M`.
pub fn word(value: f64) -> String {
    let plain = |value: f64| {
        let digits = if value > 0.0 { (-value.log10()).ceil().clamp(2.0, 9.0) } else { 2.0 };
        let text = format!("{value:.*}", digits as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        millions if millions >= 1e6 => format!("{} M", plain(value / 1e6)),
        thousands if thousands >= 1e4 => format!("{} k", plain(value / 1e3)),
        thousand if thousand >= 1e3 => crate::words::figure(value),
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
        assert_eq!(
            (decades.position(0.0), decades.position(100.0), decades.position(1e4)),
            (0.0, 0.5, 1.0)
        );
        let narrow = Axis::decades([2e3, 4e3].into_iter());
        assert_eq!(narrow.ticks(), [1e3, 2e3, 5e3, 1e4]);
        let seconds = Axis::exact(1400.0, 2000.0);
        assert_eq!(seconds.ticks(), [1400.0, 1500.0, 1600.0, 1700.0, 1800.0, 1900.0, 2000.0]);
        let sizes = Axis::doublings([11e6, 210e6].into_iter());
        let words: Vec<String> = sizes.ticks().iter().map(|tick| sizes.word(*tick)).collect();
        assert_eq!(words, ["8 MiB", "16 MiB", "32 MiB", "64 MiB", "128 MiB", "256 MiB"]);
        let one = Axis::doublings([4096.0].into_iter());
        assert_eq!((one.low, one.high, one.position(4096.0)), (4096.0, 8192.0, 0.0));
        let all = Axis::doublings([1.0, 2f64.powi(60)].into_iter());
        assert_eq!(
            (all.ticks().len(), all.word(all.low), all.word(all.high)),
            (8, "1 B".into(), "1 EiB".into())
        );
        let times = Axis::times([43_500.0, 2.5e9].into_iter());
        let words: Vec<String> = times.ticks().iter().map(|tick| times.word(*tick)).collect();
        assert_eq!(words, ["10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
        let tail = Axis::tail(0.004);
        let words: Vec<String> = tail.ticks().iter().map(|tick| tail.word(*tick)).collect();
        assert_eq!(words, ["0.001", "0.01", "0.1", "1", "10", "100"]);
        let depths = Axis::depths([1.0, 32.0].into_iter());
        let words: Vec<String> = depths.ticks().iter().map(|tick| depths.word(*tick)).collect();
        assert_eq!(words, ["1", "2", "4", "8", "16", "32"]);
        let high = Axis::around([0.6761, 0.9032].into_iter());
        assert_eq!((word(high.low), word(high.high)), ("0.65".into(), "0.95".into()));
        assert_eq!(high.ticks().len(), 7);
        // Three tenths are a little more than 0.3 in floating point.
        let low = Axis::around([0.38, 0.91].into_iter());
        assert_eq!(low.ticks().iter().map(|tick| low.word(*tick)).collect::<Vec<_>>()[0], "0.3");
        let near = Axis::around([0.9992, 0.9996].into_iter());
        let words: Vec<String> = near.ticks().iter().map(|tick| near.word(*tick)).collect();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]), "{words:?}");
        for same in [0.0, 0.5, 1.0] {
            let axis = Axis::around([same].into_iter());
            assert!(axis.low <= same && same <= axis.high && axis.low < axis.high, "{axis:?}");
        }
        assert_eq!(Axis::around([0.1, 0.7].into_iter()).low, 0.0);
        let nines = Axis::nines(4.0);
        let words: Vec<String> = nines.ticks().iter().map(|tick| nines.word(*tick)).collect();
        assert_eq!(words, ["0", "50", "90", "99", "99.9", "99.99"]);
        assert_eq!((nines.position(2.0), nines.value(3.0)), (0.5, "99.9 %".into()));
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
