//! The overall score: a drive in percent of a baseline drive.
//!
//! The Tech Report compared the results of a subset of its tests with those of a baseline drive, an
//! old hard drive, and averaged the ratios by their harmonic mean. The mean and the drive are
//! recollected; the reviews that were read say only "relative to a baseline drive".

use crate::line::{is_time, keyed, speed};
use crate::review::{Review, number};
use serde_json::Value;
use std::collections::HashMap;

/// Suites whose tests count: those that The Tech Report had.
pub(crate) const SUITES: [&str; 5] = ["cdm", "hdtune", "iometer", "filebench", "loadtime"];

/// The score of a column.
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// The column.
    pub column: String,
    /// Harmonic mean of the speeds, in percent of the baseline's.
    pub percent: f64,
    /// The number of tests.
    pub tests: usize,
}

/// Returns the score of each column; only tests that all columns and the baseline have count.
pub fn score(review: &Review) -> Vec<Score> {
    let own = review.columns.first().map(|column| column.rows.as_slice());
    let baseline = review.baseline.as_ref().map(|drive| drive.rows.as_slice()).or(own);
    let Some(baseline) = baseline else { return Vec::new() };
    let columns: Vec<HashMap<_, &Value>> =
        review.columns.iter().map(|column| keyed(&column.rows).into_iter().collect()).collect();
    let mut ratios = vec![Vec::new(); columns.len()];
    for (key, row) in keyed(baseline) {
        let Some(is_time) = is_time(row).filter(|_| SUITES.contains(&key.0.as_str())) else {
            continue;
        };
        let of = |column: &HashMap<_, &Value>| {
            let value = number(column.get(&key)?, "value")?;
            speed(value, number(row, "value")?, is_time)
        };
        let Some(all) = columns.iter().map(of).collect::<Option<Vec<f64>>>() else { continue };
        ratios.iter_mut().zip(all).for_each(|(of, ratio)| of.push(ratio));
    }
    let named = review.columns.iter().zip(ratios).filter(|(_, ratios)| !ratios.is_empty());
    let score = named.map(|(column, ratios)| {
        let inverse: f64 = ratios.iter().map(|ratio| 1.0 / ratio).sum();
        let percent = 100.0 * ratios.len() as f64 / inverse;
        Score { column: column.name.clone(), percent, tests: ratios.len() }
    });
    score.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::sample;
    use crate::review::Drive;

    #[test]
    fn a_score_is_the_harmonic_mean_of_the_tests_that_all_have() {
        let mut review = sample();
        assert!(score(&review).is_empty(), "qd1 does not count");
        for column in &mut review.columns {
            column.rows.iter_mut().for_each(|row| row["suite"] = "cdm".into());
        }
        let own = score(&review);
        assert_eq!((own[0].percent, own[0].tests), (100.0, 3), "of itself");
        // 3, 0.9 and 1: three over the sum of the inverses.
        let cold = 300.0 / (1.0 / 3.0 + 1.0 / 0.9 + 1.0);
        assert!((own[1].percent - cold).abs() < 1e-9);
        let rows: Vec<Value> = review.columns[0].rows[..2].to_vec();
        review.baseline = Some(Drive { target: "model:disk".into(), rows });
        assert_eq!(score(&review)[0].tests, 2);
    }
}
