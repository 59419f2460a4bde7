//! Prints in which phases of recorded and generated loads the arbiter chooses wrongly: where the
//! cache missed more than LRU, than the shadow of its share, and than the best shadow.

use super::Arguments;
use super::gap::PERCENTS;
use super::left_out::{Load, each_load};
use super::phases::{Phase, phases};
use ::policy::{Arbiter, main_rule, window_share};
use anyhow::Result;
use serde_json::{Value, json};

/// A phase counts as missing more than another cache from this ratio on.
const MORE: f64 = 1.01;

/// Returns a share in words, such as `25 % proven`.
fn share_name(share: u32) -> String {
    let percent = f64::from(window_share(share)) / 10.24;
    format!("{percent:.0} % {}", main_rule(share)).trim_end().to_owned()
}

fn to_json(phase: &Phase) -> Value {
    let expected: Vec<u64> =
        (0..Arbiter::shares().len()).map(|shadow| phase.expected(shadow).round() as u64).collect();
    json!({
        "share": share_name(phase.share),
        "reads": phase.reads,
        "misses": phase.misses,
        "lru_misses": phase.lru_misses,
        "sampled_reads": phase.shadows.reads,
        "shadow_misses": expected,
    })
}

/// Prints how often the cache missed more than another, and the additional misses.
fn print(name: &str, all: &[Phase]) {
    let own = |phase: &Phase| phase.misses as f64;
    let total: f64 = all.iter().map(own).sum();
    let more = |other: &dyn Fn(&Phase) -> f64| {
        let worse = all.iter().filter(|phase| own(phase) > other(phase) * MORE);
        let (count, misses) = worse.fold((0, 0.0), |(count, misses), phase| {
            (count + 1, misses + own(phase) - other(phase))
        });
        format!("{count} ({:.1} %)", misses / total.max(1.0) * 100.0)
    };
    println!(
        "  {name:<18} phases with more misses than LRU {}, than its own shadow {}, than the best \
         shadow {}",
        more(&|phase| phase.lru_misses as f64),
        more(&|phase| phase.expected(phase.chosen())),
        more(&Phase::best),
    );
}

/// Examines the choices.
///
/// # Errors
/// A trace cannot be read.
pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let mut cells = Vec::new();
    if !arguments.json {
        println!("phases of 64 in which the cache missed over 1 % more (share of its misses)");
    }
    each_load(arguments, |load: &Load| {
        for percent in PERCENTS {
            let slots = load.slots(percent);
            let all = phases(&load.blocks, slots);
            let name = format!("{} {percent} %", load.name);
            if arguments.json {
                let phases: Vec<Value> = all.iter().map(to_json).collect();
                cells.push(json!({ "load": load.name, "percent": percent, "slots": slots,
                    "phases": phases }));
            } else {
                print(&name, &all);
            }
        }
    })?;
    if arguments.json {
        let shares: Vec<String> = Arbiter::shares().iter().copied().map(share_name).collect();
        let schema = "overdrive.choices/1";
        println!("{}", json!({ "schema": schema, "shares": shares, "cells": cells }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_names() {
        let names: Vec<String> = Arbiter::shares().iter().copied().map(share_name).collect();
        let wanted = ["100 %", "50 %", "25 %", "10 %", "3 %", "25 % proven", "3 % guarded"];
        assert_eq!(names, wanted);
    }
}
