//! A modelled drive, aged to random steady state: theory and simulation side by side.

use crate::progress::Bytes;
use block::Size;
use drives::Aged;
use drives::Ageless;
use drives::Model;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;

/// Ages a drive, with a progress bar.
///
/// Errors: a hard disk does not age, or the file cannot be built.
pub(super) fn run(model: &Model) -> Result<Aged, Failure> {
    let bar = Bytes::new("ageing");
    let aged = drives::age(model, &mut |done, most| bar.set(done as usize, most as usize));
    bar.finish();
    aged.map_err(|why| match why {
        Ageless::Disk => Failure::new(Exit::Usage, format!("{}: --age: {why}", model.name)),
        Ageless::Broken(words) => Failure::new(Exit::Negative, words),
    })
}

pub(super) fn as_json(aged: &Aged) -> Value {
    let attributes: Vec<Value> = aged.attributes.iter().map(super::report::modelled).collect();
    json!({
        "overwrites": aged.overwrites,
        "steady": aged.steady,
        "host_written_bytes": aged.health.host_written_bytes,
        "nand_written_bytes": aged.health.nand_written_bytes,
        "write_amplification_life": aged.health.write_amplification,
        "write_amplification": aged.simulated,
        "alpha": aged.alpha,
        "predicted": aged.predicted.map(|prediction| prediction.amplification),
        "predicted_form": aged.predicted.map(|prediction| prediction.form),
        "predicted_source": aged.predicted.map(|prediction| prediction.source),
        "worn_percent": aged.health.worn_percent,
        "attributes": attributes,
    })
}

/// Blanks before the further lines of a value.
pub(super) const INDENT: usize = 29;

pub(super) fn as_text(aged: &Aged, model: &Model) -> String {
    let mut text = String::new();
    let state = if aged.steady { "steady" } else { "not steady yet" };
    let written = aged.overwrites;
    _ = writeln!(
        text,
        "{}, filled in order, then overwritten at random {written:.2} times: {state}\n",
        model.title
    );
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<28} {value}");
    line("host writes", Size(aged.health.host_written_bytes).to_string());
    line("NAND writes", Size(aged.health.nand_written_bytes).to_string());
    line("WA, the whole life", format!("{:.3}", aged.health.write_amplification));
    line("WA, simulated, steady", format!("{:.3}", aged.simulated));
    match aged.predicted {
        Some(prediction) => {
            let off = (aged.simulated / prediction.amplification - 1.0) * 100.0;
            line("WA, by theory", format!("{:.3} ({off:+.1} % off)", prediction.amplification));
            let alpha = aged.alpha;
            line("", format!("{}, alpha {alpha:.4}: {}", prediction.form, prediction.source));
        }
        None => line("WA, by theory", "these victims have no closed form".to_owned()),
    }
    text.push('\n');
    text.push_str(&super::report::table(&aged.attributes));
    text
}
