//! Finds where a curve falls from one level to another: the end of an SLC area.

/// The two levels of a curve, and the position between them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knee {
    /// Number of values before it.
    pub at: usize,
    /// Their mean.
    pub before: f64,
    /// The mean of those after it.
    pub after: f64,
}

/// Minimum ratio of the first level to the second.
const STEP_MIN: f64 = 1.05;
/// Maximum of the squared differences that a step leaves, as a share of those that a straight line
/// or one level leaves.
const LEFT_MAX: f64 = 0.5;

/// Returns the cut into two constant parts with the least squared differences. None if the first
/// level is not a twentieth above the second, or if a straight line or one level fits the values
/// almost as well: a steady fall, as from the outer to the inner tracks of a disk, and mere scatter
/// have no knee.
pub fn knee(values: &[f64]) -> Option<Knee> {
    let count = values.len() as f64;
    let total: f64 = values.iter().sum();
    let mean = total / count.max(1.0);
    let mut sum = 0.0;
    let mut best: Option<(f64, Knee)> = None;
    // Maximising the squares that a cut explains minimises the rest.
    for (index, value) in values.iter().enumerate().take(values.len().saturating_sub(1)) {
        sum += value;
        let (at, rest) = (index + 1, values.len() - index - 1);
        let (before, after) = (sum / at as f64, (total - sum) / rest as f64);
        let explained = (before - mean).powi(2) * at as f64 + (after - mean).powi(2) * rest as f64;
        if best.is_none_or(|(most, _)| explained > most) {
            best = Some((explained, Knee { at, before, after }));
        }
    }
    let (explained, knee) = best?;
    let all: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let left = all - explained;
    let beats = |other: f64| left <= LEFT_MAX * other;
    let stands_out = beats(all) && beats(all - explained_by_line(values, mean));
    (stands_out && knee.before > STEP_MIN * knee.after).then_some(knee)
}

/// Returns the squares that the best straight line explains.
fn explained_by_line(values: &[f64], mean: f64) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut both, mut along) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let from_middle = index as f64 - middle;
        both += from_middle * (value - mean);
        along += from_middle * from_middle;
    }
    both * both / along
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_found_where_it_is_and_nowhere_else() {
        let step = |at: usize, length: usize| -> Vec<f64> {
            let noise = |index: usize| (index * 7919 % 13) as f64;
            let level = |index: usize| if index < at { 500.0 } else { 250.0 };
            (0..length).map(|index| level(index) + noise(index)).collect()
        };
        for at in [1, 30, 99] {
            let found = knee(&step(at, 100)).expect("a knee");
            assert_eq!(found.at, at);
            assert!((found.before - 505.0).abs() < 10.0 && (found.after - 255.0).abs() < 10.0);
        }
        assert_eq!(knee(&step(0, 100)), None, "level");
        // The 840 EVO of 1 TB: 525 MB/s for 12 GB, then 461.
        let low: Vec<f64> =
            (0..10_000).map(|index| if index < 120 { 525.0 } else { 461.0 }).collect();
        assert_eq!(knee(&low), Some(Knee { at: 120, before: 525.0, after: 461.0 }));
        // A hard disk, from the outer to the inner tracks.
        let tracks: Vec<f64> = (0..10_000).map(|index| 200.0 - f64::from(index) / 117.0).collect();
        assert_eq!(knee(&tracks), None);
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(knee(&rising), None);
        assert_eq!((knee(&[]), knee(&[1.0])), (None, None));
    }
}
