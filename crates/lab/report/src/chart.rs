//! The charts of a storage lab, from plain figures: plots with the right axes and captions.

use crate::axis::{Axis, nines};
use crate::plot::{Curve, Level, Names, Plot, Style};

/// The time after which the reviews of 2012 to 2015 regarded a drive as steady, in seconds.
pub const STEADY_SECONDS: f64 = 1400.0;
/// The end of the linear axis in these reviews, in requests per second.
pub const REVIEWS_IOPS_MAX: f64 = 40_000.0;

/// Values at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// Its name among others.
    pub name: &'a str,
    /// The distance from one value to the next.
    pub step: f64,
    /// The values; the first one covers 0 to `step`.
    pub values: &'a [f64],
}

impl Sequence<'_> {
    fn end(&self) -> f64 {
        self.values.len() as f64 * self.step
    }

    /// Returns the points; `offset` is the position of a point within its step.
    fn points(&self, offset: f64) -> Vec<(f64, f64)> {
        let values = self.values.iter().enumerate();
        values.map(|(index, value)| ((index as f64 + offset) * self.step, *value)).collect()
    }

    fn from(&self, from: f64) -> impl Iterator<Item = f64> {
        self.values.iter().skip((from / self.step).ceil() as usize).copied()
    }
}

fn end(sequences: &[Sequence<'_>]) -> f64 {
    sequences.iter().map(Sequence::end).fold(0.0, f64::max)
}

/// Returns the ranges of a run that are shown: all of it, and its steady part. `steady` is the
/// start and the name of that part.
fn ranges(end: f64, steady: Option<(f64, String)>) -> impl Iterator<Item = (f64, String)> {
    let whole = (end > 0.0).then(|| (0.0, "whole run".to_owned()));
    let steady = steady.filter(move |(from, _)| *from > 0.0 && *from < end);
    whole.into_iter().chain(steady)
}

/// Returns scatter plots of the requests answered in each second: the whole run and its steady
/// part, each on a logarithmic axis, on a linear one, and on the linear one of the reviews.
/// `steady` is the start and the name of that part; `levels` belong to it.
pub fn consistency(
    title: &str,
    sequences: &[Sequence<'_>],
    steady: Option<(f64, String)>,
    levels: &[Level],
) -> Vec<String> {
    let end = end(sequences);
    let mut figures = Vec::new();
    for (from, range) in ranges(end, steady) {
        let seen = || sequences.iter().flat_map(|sequence| sequence.from(from));
        let published = || levels.iter().map(|level| level.low);
        for (y, scale) in [
            (Axis::decades(seen()), "logarithmic"),
            (Axis::linear(seen().chain(published())), "linear"),
            (Axis::exact(0.0, REVIEWS_IOPS_MAX), "linear to 40 K as in the reviews"),
        ] {
            let plot = Plot {
                title: format!("{title}: {range}, {scale}"),
                along: "seconds".to_owned(),
                up: "IOPS".to_owned(),
                x: Axis::exact(from, end),
                y,
                style: Style::Dots,
                names: Names::Above,
                curves: sequences.iter().map(|it| Curve::new(it.name, it.points(0.0))).collect(),
                levels: if from > 0.0 { levels.to_vec() } else { Vec::new() },
            };
            figures.push(plot.figure());
        }
    }
    figures
}

/// Maximum number of values that can be joined and still be distinguished.
const FEW: usize = 120;

/// Returns plots of latencies in each second, in microseconds: the whole run, and from 1,400 s on
/// if it is longer.
pub fn latency_over_time(title: &str, sequences: &[Sequence<'_>]) -> Vec<String> {
    let end = end(sequences);
    let longest = sequences.iter().map(|sequence| sequence.values.len()).max();
    // Few dots would be hard to see.
    let style = if longest <= Some(FEW) { Style::Marked } else { Style::Dots };
    let steady = Some((STEADY_SECONDS, "from 1,400 s".to_owned()));
    let figures = ranges(end, steady).map(|(from, range)| {
        let ns = |sequence: &Sequence<'_>| -> Vec<(f64, f64)> {
            let points = sequence.points(0.0).into_iter();
            // A second without an answer has no latency.
            points.filter(|point| point.1 > 0.0).map(|(x, us)| (x, us * 1e3)).collect()
        };
        let curves: Vec<Curve<'_>> =
            sequences.iter().map(|sequence| Curve::new(sequence.name, ns(sequence))).collect();
        let seen = curves.iter().flat_map(|curve| curve.points.iter());
        let seen = seen.filter(|point| point.0 >= from).map(|point| point.1);
        let plot = Plot {
            title: format!("{title}: {range}"),
            along: "seconds".to_owned(),
            up: "latency".to_owned(),
            x: Axis::exact(from, end),
            y: Axis::times(seen),
            style,
            names: Names::Above,
            curves,
            levels: Vec::new(),
        };
        plot.figure()
    });
    figures.collect()
}

/// Returns a plot of rates over a drive's addresses: rates in `unit`, addresses in GB.
pub fn by_position(
    title: &str,
    unit: &str,
    sequences: &[Sequence<'_>],
    levels: &[Level],
) -> String {
    let values = sequences.iter().flat_map(|sequence| sequence.values.iter().copied());
    let plot = Plot {
        title: title.to_owned(),
        along: "GB".to_owned(),
        up: unit.to_owned(),
        x: Axis::exact(0.0, end(sequences)),
        y: Axis::linear(values.chain(levels.iter().map(|level| level.low))),
        style: Style::Line,
        names: Names::Above,
        curves: sequences.iter().map(|it| Curve::new(it.name, it.points(0.5))).collect(),
        levels: levels.to_vec(),
    };
    plot.figure()
}

/// The horizontal axis of a curve's plot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Along {
    /// Bytes of a transfer.
    Size,
    /// Requests under way.
    Depth,
}

/// Returns a plot over something that doubles: transfer sizes in bytes, or requests under way.
pub fn by_doublings(title: &str, along: Along, up: &str, curves: Vec<Curve<'_>>) -> String {
    let seen = || curves.iter().flat_map(|curve| curve.points.iter());
    let (x, along) = match along {
        Along::Size => (Axis::doublings(seen().map(|point| point.0)), "transfer size"),
        Along::Depth => (Axis::depths(seen().map(|point| point.0)), "requests under way"),
    };
    let plot = Plot {
        title: title.to_owned(),
        along: along.to_owned(),
        up: up.to_owned(),
        x,
        y: Axis::linear(seen().map(|point| point.1)),
        style: Style::Marked,
        names: Names::Above,
        curves,
        levels: Vec::new(),
    };
    plot.figure()
}

/// A distribution of latencies.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    /// Its name among others.
    pub name: &'a str,
    /// The longest latency of each bucket in nanoseconds, ascending, and the bucket's count.
    pub buckets: &'a [(u64, u64)],
}

impl Distribution<'_> {
    /// Returns the share that took no longer than a time, in percent: two points at the end of each
    /// bucket, before and after its step.
    fn shares(&self) -> Vec<(f64, f64)> {
        let all: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        let mut below = 0;
        let mut points = Vec::with_capacity(2 * self.buckets.len());
        for (ns, count) in self.buckets {
            for more in [0, *count] {
                below += more;
                points.push((*ns as f64, 100.0 * below as f64 / all.max(1) as f64));
            }
        }
        points
    }
}

/// Latencies at some percentiles, of one run or drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Percentiles<'a> {
    /// Its name among others.
    pub name: &'a str,
    /// Quantiles, such as 0.99, and the latency at each in nanoseconds, ascending.
    pub points: Vec<(f64, f64)>,
}

/// The quantiles that [`Distribution::percentiles`] returns.
const QUANTILES: [f64; 8] = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

impl<'a> Distribution<'a> {
    /// Returns the latencies at the usual percentiles, as far as there are enough requests.
    pub fn percentiles(&self) -> Percentiles<'a> {
        let all: u64 = self.buckets.iter().map(|(_, count)| count).sum();
        let at = |quantile: f64| {
            let mut left = ((all as f64 * quantile).ceil() as u64).max(1);
            self.buckets.iter().find_map(|(ns, count)| {
                let is_there = left <= *count;
                left -= (*count).min(left);
                is_there.then_some((quantile, *ns as f64))
            })
        };
        let supported = |quantile: &f64| (1.0 - quantile) * all as f64 >= 1.0 - 1e-6;
        let points = QUANTILES.into_iter().filter(supported).filter_map(at).collect();
        Percentiles { name: self.name, points }
    }
}

/// Returns a plot of latencies by percentile, with a curve for each run or drive.
pub fn percentiles(title: &str, all: &[Percentiles<'_>]) -> String {
    let seen = || all.iter().flat_map(|one| &one.points);
    let most = seen().map(|point| nines(point.0)).fold(1.0, f64::max);
    let curve = |one: &Percentiles<'_>| {
        one.points.iter().map(|(quantile, ns)| (nines(*quantile), *ns)).collect()
    };
    let plot = Plot {
        title: format!("{title}: latency by percentile"),
        along: "% of requests that were answered within the time".to_owned(),
        up: "latency".to_owned(),
        x: Axis::nines(most),
        y: Axis::times(seen().map(|point| point.1)),
        style: Style::Marked,
        names: Names::Above,
        curves: all.iter().map(|one| Curve::new(one.name, curve(one))).collect(),
        levels: Vec::new(),
    };
    plot.figure()
}

/// Returns plots of service times: the share answered within a time, and on a logarithmic axis the
/// share that took longer, which shows the slowest requests.
pub fn service_times(title: &str, distributions: &[Distribution<'_>]) -> Vec<String> {
    let shares: Vec<_> = distributions.iter().map(|it| (it.name, it.shares())).collect();
    let all = || shares.iter().flat_map(|(_, shares)| shares);
    let x = Axis::times(all().map(|point| point.0));
    let rests = all().map(|point| 100.0 - point.1).filter(|rest| *rest > 1e-9);
    let tail = Axis::tail(rests.fold(10.0, f64::min));
    let plot = |what: &str, y: Axis, of: fn(f64) -> f64| {
        let curves = shares.iter().map(|(name, shares)| {
            Curve::new(name, shares.iter().map(|(ns, share)| (*ns, of(*share))).collect())
        });
        let plot = Plot {
            title: format!("{title}: {what}"),
            along: "service time".to_owned(),
            up: "% of requests".to_owned(),
            x,
            y,
            style: Style::Line,
            names: Names::Above,
            curves: curves.collect(),
            levels: Vec::new(),
        };
        plot.figure()
    };
    vec![
        plot("answered within", Axis::exact(0.0, 100.0), |share| share),
        plot("took longer", tail, |share| 100.0 - share),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_shown_whole_and_from_1400_s_on_three_axes() {
        let values: Vec<f64> = (0..1500).map(|second| f64::from(second % 7) * 10_000.0).collect();
        let sequence = |name| Sequence { name, step: 1.0, values: &values };
        let level = Level { name: "published".to_owned(), low: 5e3, high: 5e3 };
        let steady = || Some((STEADY_SECONDS, "from 1,400 s".to_owned()));
        let both = [sequence("0 %"), sequence("12 %")];
        let figures = consistency("writes", &both, steady(), &[level]);
        assert_eq!(figures.len(), 6);
        assert!(figures.iter().all(|figure| figure.matches("class=\"dots c").count() == 2));
        let with_level = figures.iter().map(|figure| figure.contains("H428")).collect::<Vec<_>>();
        assert_eq!(with_level, [false, false, false, true, true, true]);
        // 60,000 is beyond the reviews' axis, and is drawn on its upper edge.
        assert!(figures[2].contains(">40 k</text>") && figures[2].contains(" 12.0h0"));
        let short = Sequence { values: &values[..100], ..sequence("x") };
        assert_eq!(consistency("writes", &[short], steady(), &[]).len(), 3);
        assert_eq!(latency_over_time("writes", &[short]).len(), 1);
    }

    #[test]
    fn shares_of_a_distribution_add_up() {
        let buckets = [(1000, 90), (2000, 9), (1_000_000, 1)];
        let distribution = Distribution { name: "reads", buckets: &buckets };
        assert_eq!(
            distribution.shares(),
            [(1e3, 0.0), (1e3, 90.0), (2e3, 90.0), (2e3, 99.0), (1e6, 99.0), (1e6, 100.0)]
        );
        let points = distribution.percentiles().points;
        assert_eq!(
            points,
            [(0.0, 1e3), (0.25, 1e3), (0.5, 1e3), (0.75, 1e3), (0.9, 1e3), (0.99, 2e3)]
        );
        let few = Distribution { name: "few", buckets: &[(5, 2)] }.percentiles().points;
        assert_eq!(few, [(0.0, 5.0), (0.25, 5.0), (0.5, 5.0)], "no more than two requests tell");
        let plot = percentiles("reads", &[distribution.percentiles()]);
        assert!(
            plot.contains(">90</text>") && plot.contains("aria-label=\"90 %: 1.0 us\""),
            "{plot}"
        );
        let figures = service_times("reads", &[distribution]);
        // The last step goes down to the axis.
        assert!(figures[1].contains(&format!(",{:.1} \"/>", 270.0 - 44.0)), "{}", figures[1]);
        assert!(figures[1].contains(">1 ms</text>") && figures[1].contains(">1</text>"));
        assert_eq!(service_times("none", &[]).len(), 2);
    }

    #[test]
    fn sizes_and_depths_have_axes_of_their_own() {
        let curve = |first: f64| vec![Curve::new("x", vec![(first, 1.0), (first * 8.0, 4.0)])];
        let sizes = by_doublings("a", Along::Size, "MB/s", curve(512.0));
        assert!(sizes.contains(">4 KiB</text>") && sizes.contains(">transfer size</text>"));
        assert!(by_doublings("a", Along::Depth, "IOPS", curve(1.0)).contains(">8</text>"));
    }
}
