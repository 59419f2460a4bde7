//! The level of messages among the settings that an operator changes: that of the whole daemon.

use crate::console::Severity;
use stack::{Exit, Failure};

/// Its key in config files and in `volume set`.
pub const LOG_LEVEL: &str = "log_level";

/// Takes the level of messages out of changes, each `KEY=VALUE`. Returns the other changes.
///
/// # Errors
/// Usage: it is no level, or is given twice.
pub(crate) fn split(changes: &[String]) -> Result<(Option<Severity>, Vec<String>), Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, format!("{LOG_LEVEL}: {why}"));
    let (mut level, mut others) = (None, Vec::new());
    for change in changes {
        match change.split_once('=') {
            Some((key, value)) if key.replace('-', "_") == LOG_LEVEL => {
                if level.replace(value.parse().map_err(usage)?).is_some() {
                    return Err(usage("is given twice; give it once".to_owned()));
                }
            }
            _ => others.push(change.clone()),
        }
    }
    Ok((level, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_taken_out_and_the_rest_stays() {
        let given = |changes: &[&str]| {
            split(&changes.iter().map(|&change| change.to_owned()).collect::<Vec<_>>())
        };
        let (level, others) = given(&["guard=on", "log-level=debug", "write"]).expect("good");
        assert_eq!(
            (level, &*others),
            (Some(Severity::Debug), &["guard=on", "write"].map(str::to_owned)[..])
        );
        assert_eq!(given(&[]).expect("nothing"), (None, Vec::new()));
        for wrong in [&["log_level=loud"][..], &["log_level=error", "log-level=error"]] {
            let failure = given(wrong).expect_err("it is wrong");
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.starts_with("log_level: "), "{failure}");
        }
    }
}
