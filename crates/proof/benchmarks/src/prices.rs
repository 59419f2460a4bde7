//! The price list of this machine: the cost of the engine's work with real bytes, on one thread.

use crate::sides::cpu_ns;
use anyhow::{Result, ensure};
use lane::{Cost, Prices};
use std::fmt;
use std::str::FromStr;
use suites::prices::{self, Measure};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Memory of the cache, in MiB.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Requests in each run.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// Print one JSON object, for 'overdrive bench --prices'.
    #[arg(long)]
    json: bool,
}

/// A price list as text: `hit=100,miss=50,...`, each in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PriceList(pub(crate) Prices);

impl fmt::Display for PriceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Cost::ALL.map(|cost| format!("{}={}", cost.name(), self.0.of(cost, 1)));
        f.write_str(&words.join(","))
    }
}

impl FromStr for PriceList {
    type Err = String;

    fn from_str(text: &str) -> Result<PriceList, String> {
        let names = Cost::ALL.map(Cost::name);
        let mut found = [None; Cost::ALL.len()];
        for word in text.split(',') {
            let bad = || format!("'{word}' is no price; write it like hit=100, in nanoseconds");
            let (name, ns) = word.split_once('=').ok_or_else(bad)?;
            let at = names.iter().position(|known| *known == name).ok_or_else(|| {
                format!("'{name}' has no price; these have one: {}", names.join(", "))
            })?;
            found[at] = Some(ns.parse().map_err(|_| bad())?);
        }
        let mut prices = Prices::default();
        for ((price, found), name) in prices.ns.iter_mut().zip(found).zip(names) {
            *price = found.ok_or_else(|| format!("the price of '{name}' is missing"))?;
        }
        Ok(PriceList(prices))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.mib >= 1 && arguments.requests >= 1, "--mib and --requests: 1 or more");
    let how = Measure {
        memory_bytes: arguments.mib << 20,
        requests: arguments.requests,
        ..Measure::default()
    };
    let measured = prices::measure(&how, &mut cpu_ns);
    if arguments.json {
        println!("{}", prices::document(&measured));
        return Ok(());
    }
    println!("nanoseconds of this machine, {} MiB of ordinary pages:", arguments.mib);
    for (name, ns) in prices::to_json(&measured).as_object().into_iter().flatten() {
        println!("  {name:<12} {ns:>8}");
    }
    println!("for 'bench write': --prices {}", PriceList(measured));
    Ok(())
}

/// Measures the cost of the engine's work, with a cache of `mib` MiB.
pub(crate) fn measure(mib: u64) -> PriceList {
    let how = Measure { memory_bytes: mib << 20, ..Measure::default() };
    PriceList(prices::measure(&how, &mut cpu_ns))
}

#[cfg(test)]
mod tests {
    use super::PriceList;

    #[test]
    fn a_price_list_survives_being_written() {
        let text = "hit=1,miss=2,fill=3,absorb=4,pass=5,write_out=6,flush=7";
        let list: PriceList = text.parse().expect("what is written so");
        assert_eq!((list.to_string().as_str(), list.0.ns), (text, [1, 2, 3, 4, 5, 6, 7]));
        for bad in ["", "hit", "hit=1", "hit=x,miss=2", "hat=1", &format!("{text},hit=-1")] {
            assert!(bad.parse::<PriceList>().is_err(), "{bad}");
        }
    }
}
