//! Sizes of reads and writes that fit the shares of the sizes and the mean of each direction.

use super::profile::SizeClass;

/// Sizes and directions, and the number of requests of each.
pub(crate) struct Counts {
    /// The size, and the numbers of reads and writes.
    pub(crate) sizes: Vec<(u32, [u64; 2])>,
}

/// Rounds of the fit; each is a tilt of both directions and a scaling of the classes.
const ROUNDS: u32 = 3000;
/// Unit of sizes in the exponents, in bytes.
const UNIT: f64 = 131_072.0;
/// Deviation of a mean that ends the fit, as a share of it.
const CLOSE: f64 = 1e-5;

/// Shares of reads and of writes with a size.
type Shares = Vec<[f64; 2]>;

/// Returns the number of requests of each size, for these numbers of reads and writes and their
/// bytes.
///
/// # Errors
/// No requests of these sizes have these means.
pub(crate) fn fit(
    classes: &[SizeClass],
    requests: [u64; 2],
    bytes: [u64; 2],
) -> Result<Counts, String> {
    let sizes: Vec<(usize, u32)> = (0..)
        .zip(classes)
        .flat_map(|(number, class)| class.sizes.iter().map(move |size| (number, *size)))
        .collect();
    let shares = shares(classes, &sizes, requests, bytes)?;
    let mut counts: Vec<[u64; 2]> = vec![[0; 2]; sizes.len()];
    for direction in 0..2 {
        let weights: Vec<f64> = shares.iter().map(|share| share[direction]).collect();
        let whole = apportion(&weights, requests[direction]);
        counts.iter_mut().zip(&whole).for_each(|(count, whole)| count[direction] = *whole);
        mend(&sizes, &mut counts, direction, bytes[direction]);
    }
    Ok(Counts { sizes: sizes.iter().map(|(_, size)| *size).zip(counts).collect() })
}

/// Returns the shares with the most entropy that fit the classes and the means: by tilting each
/// direction to its mean and scaling each class to its share in turn (J. Darroch, D. Ratcliff,
/// "Generalized iterative scaling for log-linear models", 1972).
fn shares(
    classes: &[SizeClass],
    sizes: &[(usize, u32)],
    requests: [u64; 2],
    bytes: [u64; 2],
) -> Result<Shares, String> {
    let all = (requests[0] + requests[1]) as f64;
    let of_direction = requests.map(|count| count as f64 / all);
    let mean = |direction: usize| bytes[direction] as f64 / requests[direction].max(1) as f64;
    let means = [mean(0), mean(1)];
    let listed: f64 =
        classes.iter().filter_map(|class| class.share.as_ref()).map(|it| it.value).sum();
    let rest = (100.0 - listed).max(0.0);
    // Shares that add up to 99.9 or 100.1 % are rounded ones.
    let has_rest = classes.iter().any(|class| class.share.is_none());
    let sum = if has_rest { listed + rest } else { listed };
    let targets: Vec<f64> = classes
        .iter()
        .map(|class| class.share.as_ref().map_or(rest, |share| share.value) / sum)
        .collect();
    let start = |(class, _): &(usize, u32)| {
        let each = targets[*class].max(1e-9) / classes[*class].sizes.len() as f64;
        of_direction.map(|share| share * each)
    };
    let mut shares: Shares = sizes.iter().map(start).collect();
    for _ in 0..ROUNDS {
        for direction in 0..2 {
            if requests[direction] > 0 {
                tilt(&mut shares, sizes, direction, means[direction], of_direction[direction]);
            }
        }
        scale(&mut shares, sizes, &targets);
        if (0..2).all(|it| requests[it] == 0 || distance(&shares, sizes, it, means[it]) < CLOSE) {
            return Ok(shares);
        }
    }
    let (reads, writes) = (means[0].round(), means[1].round());
    let what = "no requests of these sizes have the required means";
    Err(format!("sizes: {what}, {reads} bytes of reads and {writes} of writes; add other_sizes"))
}

/// Weights the sizes of a direction by `exp(factor * size)` so that they have the mean, and scales
/// them to the direction's share.
fn tilt(shares: &mut Shares, sizes: &[(usize, u32)], direction: usize, mean: f64, all: f64) {
    let excess = |size: u32| (f64::from(size) - mean) / UNIT;
    let moment = |factor: f64, shares: &Shares| -> f64 {
        let each = shares.iter().zip(sizes);
        each.map(|(share, (_, size))| {
            let excess = excess(*size);
            share[direction] * (factor * excess).exp() * excess
        })
        .sum()
    };
    let (mut low, mut high) = (-60.0, 60.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if moment(middle, shares) > 0.0 { high = middle } else { low = middle }
    }
    let factor = (low + high) / 2.0;
    let each = shares.iter_mut().zip(sizes);
    each.for_each(|(share, (_, size))| share[direction] *= (factor * excess(*size)).exp());
    let sum: f64 = shares.iter().map(|share| share[direction]).sum();
    shares.iter_mut().for_each(|share| share[direction] *= all / sum.max(f64::MIN_POSITIVE));
}

/// Scales each class to its share.
fn scale(shares: &mut Shares, sizes: &[(usize, u32)], targets: &[f64]) {
    let mut sums = vec![0.0; targets.len()];
    shares.iter().zip(sizes).for_each(|(share, (class, _))| sums[*class] += share[0] + share[1]);
    for (share, (class, _)) in shares.iter_mut().zip(sizes) {
        let factor = targets[*class] / sums[*class].max(f64::MIN_POSITIVE);
        *share = share.map(|share| share * factor);
    }
}

/// Returns the distance of a direction's mean from the required one, as a share of that.
fn distance(shares: &Shares, sizes: &[(usize, u32)], direction: usize, mean: f64) -> f64 {
    let sum: f64 = shares.iter().map(|share| share[direction]).sum();
    let each = shares.iter().zip(sizes);
    let bytes: f64 = each.map(|(share, (_, size))| share[direction] * f64::from(*size)).sum();
    (bytes / sum.max(f64::MIN_POSITIVE) / mean - 1.0).abs()
}

/// Divides a number in proportion to these weights, by the largest remainders.
pub(crate) fn apportion(weights: &[f64], all: u64) -> Vec<u64> {
    let sum: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let exact: Vec<f64> = weights.iter().map(|weight| weight / sum * all as f64).collect();
    let mut whole: Vec<u64> = exact.iter().map(|exact| *exact as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let rest = |index: usize| exact[index] - exact[index].floor();
    order.sort_by(|one, other| rest(*other).total_cmp(&rest(*one)));
    let missing = all.saturating_sub(whole.iter().sum());
    for index in order.into_iter().cycle().take(missing as usize) {
        whole[index] += 1;
    }
    whole
}

/// Moves requests between sizes of the same class, so that the bytes of a direction fit although
/// the counts are whole numbers.
fn mend(sizes: &[(usize, u32)], counts: &mut [[u64; 2]], direction: usize, bytes: u64) {
    for _ in 0..64 {
        let have: u64 = counts
            .iter()
            .zip(sizes)
            .map(|(count, (_, size))| count[direction] * u64::from(*size))
            .sum();
        let missing = bytes as i64 - have as i64;
        let mut best: Option<(i64, usize, usize, u64)> = None;
        for (from, (class, size)) in sizes.iter().enumerate() {
            let others = sizes.iter().enumerate().filter(|(_, (other, _))| other == class);
            for (to, (_, other)) in others {
                let step = i64::from(*other) - i64::from(*size);
                if step == 0 || (step > 0) != (missing > 0) || counts[from][direction] == 0 {
                    continue;
                }
                let times = (missing / step).max(1).unsigned_abs().min(counts[from][direction]);
                let left = (missing - step * times as i64).abs();
                if left < missing.abs() && best.is_none_or(|(least, ..)| left < least) {
                    best = Some((left, from, to, times));
                }
            }
        }
        let Some((_, from, to, times)) = best else { return };
        counts[from][direction] -= times;
        counts[to][direction] += times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::profile::Sourced;

    fn class(sizes: &[u32], percent: Option<f64>) -> SizeClass {
        let share = |value| Sourced { value, source: "assumed".to_owned(), is_published: false };
        SizeClass { sizes: sizes.to_vec(), share: percent.map(share) }
    }

    #[test]
    fn counts_have_the_shares_and_the_bytes_of_each_direction() {
        let classes = [
            class(&[4096], Some(40.0)),
            class(&[131_072], Some(25.0)),
            class(&[8192, 12_288, 49_152, 65_536], None),
        ];
        let (requests, bytes) = ([60_000, 40_000], [60_000 * 23_000, 40_000 * 71_000]);
        let counts = fit(&classes, requests, bytes).expect("it can be done").sizes;
        for direction in 0..2 {
            let all: u64 = counts.iter().map(|(_, count)| count[direction]).sum();
            assert_eq!(all, requests[direction]);
            let sum = |(size, count): &(u32, [u64; 2])| u64::from(*size) * count[direction];
            let sum: u64 = counts.iter().map(sum).sum();
            assert!(sum.abs_diff(bytes[direction]) <= 4096, "{sum} of {}", bytes[direction]);
        }
        let share = |index: usize| (counts[index].1[0] + counts[index].1[1]) as f64 / 1000.0;
        assert!((share(0) - 40.0).abs() < 0.1 && (share(1) - 25.0).abs() < 0.1, "{counts:?}");
    }

    #[test]
    fn means_that_no_sizes_have_are_refused() {
        let classes = [class(&[4096], Some(90.0)), class(&[8192], None)];
        let refused = fit(&classes, [100, 100], [100 * 9000, 100 * 5000]).err();
        assert!(refused.is_some_and(|what| what.contains("9000 bytes of reads")));
    }

    #[test]
    fn a_number_is_divided_without_a_rest() {
        assert_eq!(apportion(&[1.0, 1.0, 1.0], 10).iter().sum::<u64>(), 10);
        assert_eq!(apportion(&[0.9, 0.1], 10), [9, 1]);
        assert_eq!(apportion(&[0.0, 0.0], 0), [0, 0]);
    }
}
