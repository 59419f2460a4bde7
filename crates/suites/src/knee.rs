//! Where a curve falls from one level to another: the end of an SLC area.

/// The two levels of a curve, and where one ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knee {
    /// How many values lie before it.
    pub at: usize,
    /// Their mean.
    pub before: f64,
    /// The mean of those after it.
    pub after: f64,
}

/// The cut into two parts of one level each that leaves the least squares of differences. None if the
/// first level is not at least a fifth above the second: such a curve has no knee.
pub fn knee(values: &[f64]) -> Option<Knee> {
    let total: f64 = values.iter().sum();
    let mut sum = 0.0;
    let mut best: Option<(f64, Knee)> = None;
    // The squares that a cut explains: the more, the fewer are left.
    for (index, value) in values.iter().enumerate().take(values.len().saturating_sub(1)) {
        sum += value;
        let (at, rest) = (index + 1, values.len() - index - 1);
        let (before, after) = (sum / at as f64, (total - sum) / rest as f64);
        let explained = before * before * at as f64 + after * after * rest as f64;
        if best.is_none_or(|(most, _)| explained > most) {
            best = Some((explained, Knee { at, before, after }));
        }
    }
    best.map(|(_, knee)| knee).filter(|knee| knee.before > 1.2 * knee.after)
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
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(knee(&rising), None);
        assert_eq!((knee(&[]), knee(&[1.0])), (None, None));
    }
}
