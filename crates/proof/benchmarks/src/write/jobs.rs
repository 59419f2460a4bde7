//! Independent runs: each in its own world, on as many threads as there are processors. Their
//! results do not depend on that.

use super::device::Speed;
use super::load::{self, Found, Load};
use anyhow::Result;
use block::CacheSpec;
use lane::Prices;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Job {
    /// The load.
    pub(crate) load: Load,
    /// The drive's speed.
    pub(crate) speed: Speed,
    /// The cache. None: the bare drive.
    pub(crate) spec: Option<CacheSpec>,
}

impl Job {
    fn run(&self, prices: Prices) -> Result<Found> {
        load::run(self.load, self.speed, prices, self.spec.as_ref())
    }
}

/// Runs all jobs, and passes on their results in the jobs' order, as soon as they are available.
///
/// # Errors
/// The first error of a job, or of `each`; jobs that have begun are waited for.
pub(crate) fn run_all(
    jobs: &[Job],
    prices: Prices,
    mut each: impl FnMut(usize, Found) -> Result<()>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let take = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        Some((number, jobs.get(number)?))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let (sender, found) = mpsc::channel();
        for _ in 0..threads {
            let (sender, take) = (sender.clone(), &take);
            scope.spawn(move || {
                while let Some((number, job)) = take() {
                    if sender.send((number, job.run(prices))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut next) = (BTreeMap::new(), 0);
        for (number, result) in found {
            early.insert(number, result?);
            while let Some(found) = early.remove(&next) {
                each(next, found)?;
                next += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::Until;
    use super::super::rows::SINGLE;
    use super::*;

    #[test]
    fn everything_is_handed_over_once_and_in_order() {
        let job = |writes| Job {
            load: Load { until: Until::Writes(writes), ..SINGLE },
            speed: Speed::Steady,
            spec: None,
        };
        // The first takes longest.
        let jobs: Vec<Job> = [20_000, 1, 2, 3, 400].map(job).into();
        let mut results = Vec::new();
        run_all(&jobs, Prices::default(), |number, found| {
            results.push((number, found.writes));
            Ok(())
        })
        .expect("none fails");
        assert_eq!(results, [(0, 20_000), (1, 1), (2, 2), (3, 3), (4, 400)]);
        let error = run_all(&jobs, Prices::default(), |_, _| anyhow::bail!("enough"));
        assert!(error.is_err());
    }
}
