//! The expected duration of a run, printed before it begins.

use block::Size;
use suites::{Plan, Work};

/// Nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// Formats a duration in the two largest of its units.
pub(crate) fn duration(ns: u64) -> String {
    let seconds = ns.div_ceil(SECOND_NS);
    let two = |large: u64, name: &str, small: u64, smaller: &str| match small {
        0 => format!("{large} {name}"),
        small => format!("{large} {name} {small} {smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        _ => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
    }
}

/// Returns the sentence about the expected duration.
fn sentence(name: &str, work: Work) -> String {
    let mut text =
        format!("{name}: about {}", duration(work.timed_ns.saturating_add(work.idle_ns)));
    if work.idle_ns > 0 {
        text += &format!(", of which {} idle", duration(work.idle_ns));
    }
    if work.sized_bytes > 0 {
        text += &format!(", and the time to read or write {}", Size(work.sized_bytes));
    }
    text
}

/// Returns the expected duration of a run; None: the run will be refused.
pub(super) fn time(plan: &Plan) -> Option<String> {
    let listing = suites::list(plan);
    if listing.ended.is_err() {
        return None;
    }
    let name = format!("{} on {}", plan.suite.name, plan.target.text);
    let sentence = sentence(&name, listing.work());
    Some(match plan.target.model {
        None => sentence,
        Some(_) => format!("{sentence} of simulated time"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use suites::{Target, find};

    #[test]
    fn the_time_of_a_run_is_that_of_its_tests_pauses_and_amounts() {
        let time = |plan: &Plan| time(plan).expect("it can be run");
        let plan = |suite: &str| {
            let target = Target::of_rig("disk.img", 64 << 30, 1);
            Plan::new(find(suite).expect("a suite").profile(), target)
        };
        // Three tests of a minute, a pause before the first and after two, and 8 GiB laid out.
        let qd1 = plan("qd1");
        assert_eq!(
            time(&qd1),
            "qd1 on disk.img: about 6 min, of which 3 min idle, and the time to read or write 8 \
             GiB"
        );
        let short = Plan { time_ns: SECOND_NS, ..qd1.clone() }.in_real_time(true);
        assert!(
            time(&short).starts_with("qd1 on disk.img: about 6 s, of which 3 s idle"),
            "{}",
            time(&short)
        );
        let memory = qd1.in_real_time(false);
        assert!(
            time(&memory).starts_with("qd1 on disk.img: about 3 min, and"),
            "{}",
            time(&memory)
        );
        let reading = Plan { time_ns: 5 * SECOND_NS, ..plan("cdm") }.in_real_time(true).reading();
        // Four tests, six runs of 5 s each, and 5 s between two.
        assert_eq!(time(&reading), "cdm on disk.img: about 2 min 20 s, of which 20 s idle");
    }

    #[test]
    fn times_are_reported_in_two_units() {
        let cases =
            [(1, "1 s"), (60, "1 min"), (190, "3 min 10 s"), (3600, "1 h"), (86_460, "24 h 1 min")];
        for (seconds, words) in cases {
            assert_eq!(duration(seconds * SECOND_NS), words);
        }
        assert_eq!(duration(1), "1 s");
    }
}
