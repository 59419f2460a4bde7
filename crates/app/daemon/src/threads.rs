//! Number of threads that serve clients.

use std::thread::available_parallelism;

/// Maximum number of threads.
pub const THREADS_MAX: usize = 64;
/// Maximum of the default.
const DEFAULT_MAX: usize = 8;
/// Processors per thread; clients need processors, too.
const PROCESSORS_PER_THREAD: usize = 2;

/// Returns the default number of threads of a daemon: one per two processors that it may use, by
/// affinity and by the quota of its cgroup (cpu.max), at most 8.
pub fn threads_default() -> usize {
    of_processors(available_parallelism().map_or(1, usize::from))
}

fn of_processors(processors: usize) -> usize {
    (processors / PROCESSORS_PER_THREAD).clamp(1, DEFAULT_MAX)
}

/// Parses a number of threads, 1 to 64.
///
/// # Errors
/// A correction.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=THREADS_MAX).contains(number));
    number.ok_or_else(|| format!("'{text}': write a number of threads, 1 to {THREADS_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_for_two_processors_and_eight_at_most() {
        let found = [1, 2, 3, 4, 16, 128].map(of_processors);
        assert_eq!(found, [1, 1, 1, 2, 8, 8]);
    }

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        assert_eq!((parse_threads("1"), parse_threads("64")), (Ok(1), Ok(64)));
        for bad in ["0", "65", "-1", "two", ""] {
            assert!(parse_threads(bad).is_err_and(|why| why.contains("1 to 64")), "{bad}");
        }
    }
}
