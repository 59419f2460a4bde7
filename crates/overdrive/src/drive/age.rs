//! Ages a modelled drive to random steady state, without time: what theory says next to what happens.

use crate::progress::Bytes;
use block::Size;
use drives::{
    Attribute, Fast, FlashModel, Health, Kind, Model, Options, Predicted, Random, SLOT_BYTES,
    predicted,
};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;

/// What came of it.
pub(super) struct Aged {
    health: Health,
    attributes: Vec<Attribute>,
    /// Random overwrites of the whole drive until it was steady.
    overwrites: f64,
    /// Amplification of the last quarter of an overwrite.
    simulated: f64,
    alpha: f64,
    predicted: Option<Predicted>,
    steady: bool,
}

/// Windows of an overwrite, and how near two quarters must be to be called steady.
const WINDOWS: u64 = 16;
const NEAR: f64 = 0.01;
/// Overwrites after which it is enough.
const MOST: u64 = 6;

/// Fills the drive sequentially, then writes at random over all of it until the amplification of a
/// quarter of an overwrite differs by less than a percent from that of the quarter before.
///
/// Errors: a hard disk does not age, or the file cannot be built.
pub(super) fn run(model: &Model) -> Result<Aged, Failure> {
    let Kind::Flash(flash) = &model.kind else {
        let message =
            format!("{}: --age: a hard disk has no flash; name a flash drive", model.name);
        return Err(Failure::new(Exit::Usage, message));
    };
    let ftl = model.ftl(&Options::default());
    let ftl = ftl.map_err(|error| Failure::new(Exit::Negative, error.to_string()))?;
    let mut fast = Fast::new(ftl.expect("a flash drive"));
    Ok(settle(flash, &mut fast))
}

fn settle(flash: &FlashModel, fast: &mut Fast) -> Aged {
    let slots = u64::from(fast.ftl().shape().logical_slots);
    let window = (slots / WINDOWS).max(1);
    let progress = Bytes::new("ageing");
    let most = slots * (1 + MOST) * SLOT_BYTES;
    let told = |fast: &Fast| {
        let done = fast.ftl().counters().host_writes * SLOT_BYTES;
        progress.set(done as usize, most as usize);
    };
    for part in 0..WINDOWS {
        let first = part * window;
        let end = if part + 1 == WINDOWS { slots } else { first + window };
        fast.write_sequential(first as u32, end - first);
        told(fast);
    }
    let mut random = Random::new(1);
    let mut before = *fast.ftl().counters();
    let (mut quarters, mut steady) = (Vec::new(), false);
    while quarters.len() < 4 * MOST as usize && !steady {
        for _ in 0..WINDOWS / 4 {
            fast.write_random(u32::MAX, window, &mut random);
            told(fast);
        }
        quarters.push(fast.ftl().counters().amplification_since(&before));
        before = *fast.ftl().counters();
        // The first overwrite still finds what was written in order.
        steady = match quarters.as_slice() {
            [_, _, _, .., last, now] => (now / last - 1.0).abs() < NEAR,
            _ => false,
        };
    }
    progress.finish();
    let ftl = fast.ftl();
    let health = Health::of_ftl(flash, ftl, 0);
    Aged {
        health,
        attributes: health.attributes(flash.vendor),
        overwrites: quarters.len() as f64 / 4.0,
        simulated: quarters.last().copied().unwrap_or(1.0),
        alpha: ftl.alpha(),
        predicted: predicted(ftl.settings().victims, ftl.alpha(), ftl.shape().superblock_slots()),
        steady,
    }
}

impl Aged {
    pub(super) fn as_json(&self) -> Value {
        let attributes: Vec<Value> = self.attributes.iter().map(super::health::modelled).collect();
        json!({
            "overwrites": self.overwrites,
            "steady": self.steady,
            "host_written_bytes": self.health.host_written_bytes,
            "nand_written_bytes": self.health.nand_written_bytes,
            "write_amplification_life": self.health.write_amplification,
            "write_amplification": self.simulated,
            "alpha": self.alpha,
            "predicted": self.predicted.map(|told| told.amplification),
            "predicted_form": self.predicted.map(|told| told.form),
            "predicted_source": self.predicted.map(|told| told.source),
            "worn_percent": self.health.worn_percent,
            "attributes": attributes,
        })
    }

    pub(super) fn as_text(&self, model: &Model) -> String {
        let mut text = String::new();
        let state = if self.steady { "steady" } else { "not steady yet" };
        let written = self.overwrites;
        _ = writeln!(
            text,
            "{}, filled in order, then overwritten at random {written:.2} times: {state}\n",
            model.title
        );
        let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<28} {value}");
        line("host writes", Size(self.health.host_written_bytes).to_string());
        line("NAND writes", Size(self.health.nand_written_bytes).to_string());
        line("WA, the whole life", format!("{:.3}", self.health.write_amplification));
        line("WA, simulated, steady", format!("{:.3}", self.simulated));
        match self.predicted {
            Some(told) => {
                let off = (self.simulated / told.amplification - 1.0) * 100.0;
                line("WA, by theory", format!("{:.3} ({off:+.1} % off)", told.amplification));
                let alpha = self.alpha;
                line("", format!("{}, alpha {alpha:.4}: {}", told.form, told.source));
            }
            None => line("WA, by theory", "these victims have no closed form".to_owned()),
        }
        text.push('\n');
        text.push_str(&super::health::table(&self.attributes));
        text
    }
}
