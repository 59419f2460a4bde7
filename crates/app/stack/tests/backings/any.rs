//! Parses any text as a backing; also called by the fuzzer.

use block::Spec;
use stack::{Exit, Plan, absolute, below_limits, split_limits, target};

/// Checks for any text that it is parsed or refused with a message about it, that limits are in
/// their ranges, and that all functions agree on the backing below the limits.
pub(crate) fn check(text: &str) {
    let below = below_limits(text);
    assert!(text.ends_with(below));
    match split_limits(text) {
        Ok((limits, rest)) => {
            assert_eq!(rest, below);
            assert_eq!(limits.is_empty(), below == text);
            for limit in &limits {
                let (iops, bandwidth) = (limit.iops, limit.bandwidth.0);
                assert!(iops > 0 || bandwidth > 0, "{limit:?}");
                assert!(iops <= 1_000_000_000, "{limit:?}");
                assert!(bandwidth == 0 || (4 << 10..=1 << 40).contains(&bandwidth), "{limit:?}");
                assert!(limit.burst_us <= 604_800_000_000, "{limit:?}");
            }
            assert_eq!(below_limits(&absolute(text)), absolute(below));
        }
        Err(message) => assert!(message.starts_with(text) && message.len() > text.len() + 10),
    }
    // The file of a modelled drive would be read.
    if below.starts_with("model:") {
        return;
    }
    match target(text, &Plan::default()) {
        Ok(spec) => {
            let count = |spec: &Spec| spec.chain().take_while(|it| is_limit(it)).count();
            assert_eq!(count(&spec), split_limits(text).map_or(0, |(limits, _)| limits.len()));
        }
        Err(failure) => assert!(failure.exit == Exit::Usage && failure.message.len() > 10),
    }
}

fn is_limit(spec: &Spec) -> bool {
    matches!(spec, Spec::Limit { .. })
}
