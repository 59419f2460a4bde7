//! The specification's rule of the steady state.
//!
//! A window of five consecutive rounds is steady in the tracked figure if
//!
//! - it does not spread: maximum less minimum is at most 20 % of the average, and
//! - it does not drift: the straight line of least squares through the five rises or falls by at
//!   most 10 % of the average from the first of them to the last.

use crate::outcome::Series;
use report::axis::Axis;
use report::plot::{Curve, Names, Plot, Style};
use report::words::figure;

/// Number of rounds of a window.
pub(super) const WINDOW: usize = 5;
/// Limit of maximum less minimum, as a share of the average.
const DATA_EXCURSION_MAX: f64 = 0.2;
/// Limit of the rise or fall of the line over the window, as a share of the average.
const SLOPE_EXCURSION_MAX: f64 = 0.1;

/// The figures that decide on the last window.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Determination {
    /// The number of its last round, from 1.
    last: usize,
    /// The average of the tracked figure.
    average: f64,
    /// Maximum less minimum.
    data_excursion: f64,
    /// The rise of the line of least squares from one round to the next.
    slope: f64,
}

impl Determination {
    /// Evaluates the last five of these rounds. None: there are fewer.
    pub(super) fn of(tracked: &[f64]) -> Option<Determination> {
        let window = tracked.last_chunk::<WINDOW>()?;
        let average = window.iter().sum::<f64>() / WINDOW as f64;
        let least = window.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let middle = (WINDOW - 1) as f64 / 2.0;
        let offsets = || (0..WINDOW).map(|number| number as f64 - middle);
        let slope = offsets().zip(window).map(|(x, y)| x * (y - average)).sum::<f64>()
            / offsets().map(|x| x * x).sum::<f64>();
        let data_excursion = largest - least;
        Some(Determination { last: tracked.len(), average, data_excursion, slope })
    }

    /// Whether the window is steady.
    pub(super) fn is_steady(&self) -> bool {
        self.data_excursion <= DATA_EXCURSION_MAX * self.average
            && self.slope_excursion() <= SLOPE_EXCURSION_MAX * self.average
    }

    /// Returns the first and the last round of the window, from 1.
    pub(super) fn rounds(&self) -> (usize, usize) {
        (self.last + 1 - WINDOW, self.last)
    }

    /// Returns the rise or fall of the line from the window's first round to its last.
    fn slope_excursion(&self) -> f64 {
        (self.slope * (WINDOW - 1) as f64).abs()
    }

    /// Returns the line of least squares at a round.
    fn line(&self, round: f64) -> f64 {
        let (first, last) = self.rounds();
        self.average + self.slope * (round - (first + last) as f64 / 2.0)
    }

    /// Returns the figures whose report the specification requires, in one sentence; `step` is the
    /// name of a round.
    pub(super) fn text(&self, unit: &str, step: &str) -> String {
        let ((first, last), average) = (self.rounds(), self.average);
        let sign = if self.slope < 0.0 { '-' } else { '+' };
        format!(
            "{step}s {first} to {last}: average {} {unit}; data excursion {} of {} allowed (20 %); slope line \
             {} {sign} {} x {step}; slope excursion {} of {} allowed (10 %).",
            figure(average),
            figure(self.data_excursion),
            figure(DATA_EXCURSION_MAX * average),
            figure(self.line(0.0)),
            figure(self.slope.abs()),
            figure(self.slope_excursion()),
            figure(SLOPE_EXCURSION_MAX * average),
        )
    }
}

/// Plots the tracked figure, round by round, with the last window's average, the band around it,
/// and the line.
pub(super) fn plot(series: &Series) -> Option<String> {
    let rounds = series.values.len();
    let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(series.values.iter().copied()).collect();
    let mut curves = vec![Curve::new(&series.name, points)];
    if let Some(found) = Determination::of(&series.values) {
        let (first, last) = (found.rounds().0 as f64, found.rounds().1 as f64);
        let half = DATA_EXCURSION_MAX / 2.0 * found.average;
        for (name, is_bound, from, to) in [
            ("average", false, found.average, found.average),
            ("slope line", false, found.line(first), found.line(last)),
            ("110 % of it", true, found.average + half, found.average + half),
            ("90 % of it", true, found.average - half, found.average - half),
        ] {
            let points = vec![(first, from), (last, to)];
            curves.push(Curve { is_bound, ..Curve::new(name, points) });
        }
    }
    let all: Vec<f64> = curves.iter().flat_map(|curve| &curve.points).map(|it| it.1).collect();
    let plot = Plot {
        title: "Steady state".to_owned(),
        along: "round".to_owned(),
        up: series.unit.to_owned(),
        x: Axis::exact(1.0, rounds as f64),
        y: Axis::linear(all.into_iter()),
        style: Style::Marked,
        names: Names::Above,
        curves,
        levels: Vec::new(),
    };
    (rounds > 1).then(|| plot.figure())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_steady(tracked: &[f64]) -> bool {
        Determination::of(tracked).is_some_and(|found| found.is_steady())
    }

    #[test]
    fn five_rounds_are_steady_if_they_neither_spread_nor_drift() {
        assert!(is_steady(&[100.0, 104.0, 97.0, 103.0, 99.0]));
        assert!(!is_steady(&[100.0, 104.0, 97.0, 103.0]), "four are too few");
        assert!(!is_steady(&[100.0, 125.0, 97.0, 103.0, 99.0]), "it spreads");
        assert!(!is_steady(&[106.0, 103.0, 100.0, 97.0, 94.0]), "it drifts");
        assert!(is_steady(&[104.0, 102.0, 100.0, 98.0, 96.0]), "by 8 % only");
        assert!(is_steady(&[900.0, 104.0, 102.0, 100.0, 98.0, 96.0]), "what was before is over");
    }

    #[test]
    fn the_figures_are_those_of_the_line_through_the_last_five() {
        // y = 150 - 10 x, alternately 1 above and below it.
        let tracked = [140.0, 131.0, 119.0, 111.0, 99.0, 91.0];
        let found = Determination::of(&tracked).expect("six rounds");
        assert_eq!(found.rounds(), (2, 6));
        assert!((found.average - 110.2).abs() < 1e-9, "{found:?}");
        assert!((found.data_excursion - 40.0).abs() < 1e-9, "{found:?}");
        // Least squares by hand: (-2*131 - 119 + 99 + 2*91) / 10.
        assert!((found.slope + 10.0).abs() < 1e-9, "{found:?}");
        assert!((found.line(4.0) - found.average).abs() < 1e-9);
        assert_eq!(
            found.text("IOPS", "round"),
            "rounds 2 to 6: average 110 IOPS; data excursion 40.0 of 22.0 allowed (20 %); slope line \
             150 - 10.0 x round; slope excursion 40.0 of 11.0 allowed (10 %)."
        );
        assert!(!found.is_steady());
    }

    #[test]
    fn a_drive_that_answers_nothing_is_not_steady_by_division() {
        assert!(is_steady(&[0.0; 5]), "nothing neither spreads nor drifts");
        assert!(!is_steady(&[f64::NAN; 5]));
    }
}
