//! Means with their intervals, and the difference of two means.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of the intervals, in percent.
pub const LEVEL_PERCENT: u32 = 95;

/// Minimum number of seconds for batches.
pub const BATCHED_SECONDS_MIN: usize = 10;
/// Minimum number of seconds, and the number of batches from there on. A batch has at least two
/// seconds. 10 to 30 batches are enough; more would be shorter and therefore less independent.
/// Short runs have fewer.
const BATCHES: [(usize, usize); 3] = [(40, 20), (20, 10), (BATCHED_SECONDS_MIN, 5)];

/// A mean of independent values, and its variance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The variance of that mean.
    variance: f64,
    /// The number of values.
    pub count: usize,
}

impl Estimate {
    /// Estimates from independent values. None: there are fewer than two.
    pub fn of_runs(values: &[f64]) -> Option<Estimate> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = squares / (count - 1.0) / count;
        (values.len() >= 2).then_some(Estimate { mean, variance, count: values.len() })
    }

    /// Estimates from the seconds of one run, by the means of equally long batches of neighbours.
    /// If they do not divide evenly, the first ones are left out. None: there are fewer than
    /// [`BATCHED_SECONDS_MIN`].
    pub fn of_seconds(values: &[f64]) -> Option<Estimate> {
        let (_, batches) = *BATCHES.iter().find(|(seconds, _)| values.len() >= *seconds)?;
        let length = values.len() / batches;
        let whole = &values[values.len() - length * batches..];
        let mean = |batch: &[f64]| batch.iter().sum::<f64>() / length as f64;
        let means: Vec<f64> = whole.chunks_exact(length).map(mean).collect();
        Estimate::of_runs(&means)
    }

    /// Scales the estimate to a figure that differs from this mean: the figure includes time that
    /// the values leave out, such as the final flush, or is their median. None: the figure and the
    /// mean differ by more than a factor of two, so that the values are no measure of it.
    pub fn in_proportion(self, figure: f64) -> Option<Estimate> {
        if figure == self.mean {
            return Some(self);
        }
        let factor = figure / self.mean;
        let variance = self.variance * factor.powi(2);
        (0.5..=2.0).contains(&factor).then_some(Estimate { mean: figure, variance, ..self })
    }

    /// Returns half the width of its interval.
    pub fn half_width(&self) -> f64 {
        quantile((self.count - 1) as f64) * self.variance.sqrt()
    }

    /// Returns the interval.
    pub fn interval(&self) -> (f64, f64) {
        let half = self.half_width();
        (self.mean - half, self.mean + half)
    }

    /// Returns the difference of the means, `self` minus `other`, and half the width of its
    /// interval.
    pub fn less(&self, other: &Estimate) -> (f64, f64) {
        let variance = self.variance + other.variance;
        let part = |of: &Estimate| of.variance.powi(2) / (of.count - 1) as f64;
        let spread = part(self) + part(other);
        // Values that are all the same have no spread.
        let half = match spread > 0.0 {
            true => quantile(variance.powi(2) / spread) * variance.sqrt(),
            false => 0.0,
        };
        (self.mean - other.mean, half)
    }
}

/// From here on Student's distribution is as good as normal: 0.1 % wider. The library does not
/// converge for much larger values.
const FREEDOM_MAX: f64 = 1000.0;

/// Returns the two-sided quantile of Student's distribution at [`LEVEL_PERCENT`].
fn quantile(freedom: f64) -> f64 {
    let share = 0.5 + f64::from(LEVEL_PERCENT) / 200.0;
    let freedom = freedom.clamp(1.0, FREEDOM_MAX);
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::NAN, |it| it.inverse_cdf(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 5e-4 * wanted.abs().max(1.0), "{found} for {wanted}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: 0.975.
        for (freedom, wanted) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (19.0, 2.093), (100.0, 1.984)]
        {
            near(quantile(freedom), wanted);
        }
        near(quantile(1e9), 1.9623);
        // Any degree of freedom has a quantile, and quantiles never rise with it.
        let all: Vec<f64> = (4..=4004).map(|freedom| quantile(f64::from(freedom) / 4.0)).collect();
        assert!(all.windows(2).all(|pair| pair[0] >= pair[1] - 1e-9));
    }

    #[test]
    fn a_mean_has_students_interval() {
        let estimate = Estimate::of_runs(&[9.0, 10.0, 11.0, 12.0, 13.0]).expect("five runs");
        // s = sqrt(2.5), over sqrt(5) that is 0.7071; times 2.776.
        near(estimate.mean, 11.0);
        near(estimate.half_width(), 1.9632);
        assert_eq!((Estimate::of_runs(&[1.0]), Estimate::of_runs(&[])), (None, None));
        let same = Estimate::of_runs(&[7.0; 5]).expect("five runs");
        assert_eq!((same.interval(), same.less(&same)), ((7.0, 7.0), (0.0, 0.0)));
    }

    #[test]
    fn an_interval_lies_about_the_figure_itself() {
        let mean = Estimate { mean: 20.0, variance: 4.0, count: 9 };
        assert_eq!(mean.in_proportion(20.0), Some(mean));
        assert_eq!(
            mean.in_proportion(10.0),
            Some(Estimate { mean: 10.0, variance: 1.0, count: 9 })
        );
        for far in [9.9, 40.1, 0.0, -20.0, f64::NAN] {
            assert_eq!(mean.in_proportion(far), None, "{far}");
        }
        let nothing = Estimate { mean: 0.0, variance: 0.0, count: 9 };
        assert_eq!((nothing.in_proportion(0.0), nothing.in_proportion(1.0)), (Some(nothing), None));
    }

    #[test]
    fn a_difference_has_welchs_interval() {
        // Two samples of unequal size and variance, computed by hand from the published formula:
        // means 20 and 23, variances of the means 4 / 4 = 1 and 9 / 9 = 1, which gives 2^2 / (1/3 +
        // 1/8) = 8.727 degrees of freedom: 2.2729 by interpolation, times sqrt(2).
        let four = Estimate { mean: 20.0, variance: 1.0, count: 4 };
        let nine = Estimate { mean: 23.0, variance: 1.0, count: 9 };
        let (difference, half) = nine.less(&four);
        near(difference, 3.0);
        assert!((half - 3.214).abs() < 0.01, "{half}");
    }

    #[test]
    fn seconds_that_hang_together_are_less_sure_than_they_look() {
        // A slow wave: as independent values these 200 would have a far too narrow interval.
        let wave: Vec<f64> = (0..200).map(|at| 100.0 + (f64::from(at) / 25.0).sin()).collect();
        let batched = Estimate::of_seconds(&wave).expect("enough");
        let naive = Estimate::of_runs(&wave).expect("enough");
        assert_eq!((batched.count, naive.count), (20, 200));
        near(batched.mean, naive.mean);
        assert!(batched.half_width() > 2.5 * naive.half_width());
        assert_eq!(Estimate::of_seconds(&wave[..9]), None);
        for (seconds, batches) in [(10, 5), (19, 5), (20, 10), (39, 10), (40, 20)] {
            let estimate = Estimate::of_seconds(&wave[..seconds]).expect("enough");
            assert_eq!(estimate.count, batches, "of {seconds}");
        }
        // 45 seconds are 20 batches of two; the first five are left out.
        let mut uneven = vec![1e6; 5];
        uneven.extend([3.0; 40]);
        assert_eq!(Estimate::of_seconds(&uneven).map(|it| (it.mean, it.count)), Some((3.0, 20)));
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_mean() {
        // A fixed generator (Numerical Recipes' constants); sums of twelve uniform values are
        // nearly normal.
        let mut state = 12_345u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let held = (0..2000).filter(|_| {
            let runs: Vec<f64> = (0..5).map(|_| 50.0 + normal()).collect();
            let (low, high) = Estimate::of_runs(&runs).expect("five").interval();
            (low..=high).contains(&50.0)
        });
        let held = held.count();
        assert!((1860..=1940).contains(&held), "{held} of 2000");
    }
}
