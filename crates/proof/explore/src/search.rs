//! Searches through the possible orders of threads.

use lane::planted::{Race, plant};
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Executions of one scheduler, which starts with its own seed.
const ROUND: usize = 16;
/// Depths of the bugs that the priority schedulers search for: one more than the number of priority
/// changes.
const DEPTHS: [usize; 4] = [2, 3, 4, 6];

fn number_of(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not '{text}'")))
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    // The round's number identifies the failure in fewer words.
    config.failure_persistence = FailurePersistence::None;
    config
}

/// Returns the scheduler with this number. Every second one chooses a random thread at each step.
/// The others run the thread with the highest priority, and change priorities at a few points (PCT:
/// Burckhardt et al., ASPLOS 2010).
fn scheduler(round: usize) -> Box<dyn Scheduler + Send> {
    let seed = round as u64;
    match round % 2 {
        0 => Box::new(RandomScheduler::new_from_seed(seed, ROUND)),
        _ => {
            let depth = DEPTHS[round / 2 % DEPTHS.len()];
            Box::new(PctScheduler::new_from_seed(seed, depth, ROUND))
        }
    }
}

/// Prints the round that failed.
struct Round(usize);

/// Removes the planted race.
struct Planted;

impl Drop for Planted {
    fn drop(&mut self) {
        plant(None);
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was round {}; again by: cargo xtask explore --round {0} TEST", self.0);
        }
    }
}

/// Runs `test` in `rounds` rounds of 16 executions. Environment variables: `EXPLORE_TIMES`
/// multiplies the rounds, `EXPLORE_SEED` selects other rounds, and `EXPLORE_ROUND` runs only one
/// round.
///
/// # Panics
/// If an execution panics or ends with all threads waiting.
pub fn explore(rounds: usize, test: fn()) {
    let first = number_of("EXPLORE_SEED").unwrap_or(0) * 1_000_000;
    let rounds = rounds * number_of("EXPLORE_TIMES").unwrap_or(1);
    let range = match number_of("EXPLORE_ROUND") {
        Some(round) => round..round + 1,
        None => first..first + rounds,
    };
    for round in range {
        let _said = Round(round);
        Runner::new(scheduler(round), config()).run(test);
    }
}

/// Runs `test` in every possible order. For small scenes only.
///
/// # Panics
/// If an execution panics, or there are more than `most` orders.
pub fn explore_all(most: usize, test: fn()) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = ran.clone();
    Runner::new(DfsScheduler::new(Some(most), false), config()).run(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        test();
    });
    let ran = ran.load(Ordering::Relaxed);
    assert!(ran < most, "there are more than {most} orders");
    println!("{ran} orders");
}

/// Whether a search detects this race.
pub fn is_found(race: Race, search: impl FnOnce()) -> bool {
    plant(Some(race));
    let _planted = Planted;
    catch_unwind(AssertUnwindSafe(search)).is_err()
}
