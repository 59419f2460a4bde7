//! Two sides that alternate, and their ratio.

fn clock(id: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the processor time of this thread in nanoseconds: other load on the machine counts only
/// as far as it slows down the memory.
pub(crate) fn cpu_ns() -> u64 {
    clock(rustix::time::ClockId::ThreadCPUTime)
}

/// Returns the wall-clock time in nanoseconds.
pub(crate) fn wall_ns() -> u64 {
    clock(rustix::time::ClockId::Monotonic)
}

/// Runs the two sides in the order A B B A A B B A ..., `pairs` times each. Each call returns
/// nanoseconds per item.
pub(crate) fn alternate(
    pairs: usize,
    mut a: impl FnMut() -> f64,
    mut b: impl FnMut() -> f64,
) -> Pairs {
    let mut times = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        let (one, two) = if pair % 2 == 0 {
            let one = a();
            (one, b())
        } else {
            let two = b();
            (a(), two)
        };
        times.push((one, two));
    }
    Pairs(times)
}

/// Returns a word for whether a figure was reached.
pub(crate) fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

/// Runs the two sides in the order A B B A ..., where a run may fail and returns more than a time.
///
/// # Errors
/// The first error of a side.
pub(crate) fn in_turns<T>(
    pairs: usize,
    mut run: impl FnMut(Side) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<(T, T)>> {
    let mut found = Vec::with_capacity(pairs);
    for pair in 0..pairs {
        found.push(if pair % 2 == 0 {
            let one = run(Side::A)?;
            (one, run(Side::B)?)
        } else {
            let two = run(Side::B)?;
            (run(Side::A)?, two)
        });
    }
    Ok(found)
}

/// The side whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The measured side.
    A,
    /// The baseline.
    B,
}

/// The times of both sides, pair by pair.
pub(crate) struct Pairs(Vec<(f64, f64)>);

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Pairs {
    /// Returns A minus B, pair by pair.
    pub(crate) fn differences(&self) -> Vec<f64> {
        self.0.iter().map(|(a, b)| a - b).collect()
    }

    pub(crate) fn a(&self) -> f64 {
        median(self.0.iter().map(|pair| pair.0).collect())
    }

    pub(crate) fn b(&self) -> f64 {
        median(self.0.iter().map(|pair| pair.1).collect())
    }

    /// Returns the times from the results of [`in_turns`].
    pub(crate) fn of<T>(found: &[(T, T)], time: impl Fn(&T) -> f64) -> Pairs {
        Pairs(found.iter().map(|(a, b)| (time(a), time(b))).collect())
    }

    /// Formats the speed of A relative to B: "1.23 (1.10 to 1.31), lower 95 % bound 1.20".
    pub(crate) fn speed_words(&self) -> String {
        let (low, middle, high) = self.speed();
        let bound = self.speed_lower_95();
        format!("{middle:.2} ({low:.2} to {high:.2}), lower 95 % bound {bound:.2}")
    }

    /// Formats the cost of A relative to B: "0.45 (0.40 to 0.51), upper 95 % bound 0.47".
    pub(crate) fn cost_words(&self) -> String {
        let (low, middle, high) = self.speed();
        let bound = 1.0 / self.speed_lower_95();
        format!(
            "{:.2} ({:.2} to {:.2}), upper 95 % bound {bound:.2}",
            1.0 / middle,
            1.0 / high,
            1.0 / low
        )
    }

    /// Returns the speed of A relative to B, pair by pair.
    pub(crate) fn ratios(&self) -> Vec<f64> {
        self.0.iter().map(|(a, b)| b / a).collect()
    }

    /// Returns the speed of A relative to B: minimum, median and maximum of the pairs.
    pub(crate) fn speed(&self) -> (f64, f64, f64) {
        let ratios = self.ratios();
        let low = ratios.iter().copied().fold(f64::MAX, f64::min);
        let high = ratios.iter().copied().fold(f64::MIN, f64::max);
        (low, median(ratios), high)
    }

    /// Returns the lower end of the 95 % confidence interval of the mean ratio B / A (normal theory
    /// on the pairs' logarithms, with Student's factor for their number).
    pub(crate) fn speed_lower_95(&self) -> f64 {
        let (mean, half) = self.interval();
        (mean - half).exp()
    }

    /// Returns the upper end of the same interval.
    pub(crate) fn speed_upper_95(&self) -> f64 {
        let (mean, half) = self.interval();
        (mean + half).exp()
    }

    /// Returns a word for whether A is at least `least` times as fast as B: if the median is not,
    /// the spread of the runs may be too large to decide.
    pub(crate) fn level(&self, least: f64) -> &'static str {
        match self.speed().1 {
            middle if middle >= least => verdict(true),
            _ if self.0.len() > 1 && self.speed_upper_95() >= least => "not told apart from it",
            _ => verdict(false),
        }
    }

    /// Returns the mean of the logarithms of B / A, and half of its confidence interval.
    fn interval(&self) -> (f64, f64) {
        let logs: Vec<f64> = self.0.iter().map(|(a, b)| (b / a).ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        // One-sided 97.5 % points of Student's t for few degrees of freedom.
        const STUDENT: [f64; 12] =
            [12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18];
        if logs.len() < 2 {
            return (mean, f64::INFINITY);
        }
        let factor = STUDENT.get(logs.len() - 2).copied().unwrap_or(2.0);
        (mean, factor * (variance / count).sqrt())
    }

    /// Prints a line: the two times, the ratio with its spread, and the target.
    pub(crate) fn print(&self, what: &str, target: f64) {
        let (low, middle, high) = self.speed();
        let verdict = if middle >= target { "reached" } else { "MISSED" };
        println!(
            "{what:<44} {:>8.1} ns  against {:>8.1} ns  ratio {middle:.3} \
             ({low:.3} to {high:.3})  target {target:.2}: {verdict}",
            self.a(),
            self.b(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::Pairs;

    #[test]
    fn what_the_runs_cannot_distinguish_is_neither_reached_nor_missed() {
        let of = |ratios: &[f64]| {
            let found: Vec<(f64, f64)> =
                ratios.iter().map(|ratio| (100.0, 100.0 * ratio)).collect();
            Pairs::of(&found, |time| *time).level(1.0)
        };
        assert_eq!(of(&[1.01, 1.02, 0.9]), "reached");
        assert_eq!(of(&[0.95, 0.97, 1.1]), "not told apart from it");
        assert_eq!(of(&[0.95, 0.96, 0.95, 0.96]), "MISSED");
        assert_eq!(of(&[0.99]), "MISSED");
    }
}
