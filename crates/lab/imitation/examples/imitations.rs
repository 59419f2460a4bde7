//! Imitates traces, and prints the miss ratios of caches on each and on its imitation:
//!
//! ```text
//! cargo run --release -p imitation --example imitations TRACE... FORMAT:TRACE...
//! ```
//!
//! The exit status is 1 if one of them is not a good imitation.

use imitation::{imitate, judge, read};
use std::path::Path;
use trace::Format;

fn main() {
    let mut is_bad = false;
    for path in std::env::args().skip(1) {
        match one(&path) {
            Ok(worst) => is_bad |= worst > imitation::DISTANCE_MAX,
            Err(what) => {
                println!("{path}: {what}");
                is_bad = true;
            }
        }
    }
    std::process::exit(i32::from(is_bad));
}

/// Imitates a trace, and returns the largest difference.
fn one(words: &str) -> Result<f64, String> {
    let named = words.split_once(':');
    let named = named.and_then(|(format, path)| Some((Format::by_name(format)?, path)));
    let (format, path) = named.map_or((None, words), |(format, path)| (Some(format), path));
    let read = read(Path::new(path), format, &[], &mut (), &|_| Ok(()));
    let recorded = read.map_err(|it| it.to_string())?;
    let imitation = imitate(&recorded, 1, &mut ()).map_err(|it| it.to_string())?;
    let judgement = judge(&recorded.entries, &imitation.entries, &mut ()).ok_or("interrupted")?;
    let requests = recorded.entries.len();
    println!(
        "{path}: {requests} requests, window {}, {} with another extent, worst {:.4}",
        imitation.window,
        imitation.replaced,
        judgement.worst()
    );
    for one in &judgement.compared {
        let (policy, percent, difference) = (one.policy, one.percent, one.difference());
        println!(
            "  {policy:<14} {percent:>3} %  recorded {:.4}  imitated {:.4}  {difference:+.4}",
            one.recorded, one.imitated
        );
    }
    Ok(judgement.worst())
}
