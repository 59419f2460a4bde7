//! The health of a modelled drive that is served, in the same form as a real one's, and what theory says
//! of its write amplification.

use super::health::{as_json, as_text};
use super::smartctl::{Line, Report};
use block::Size;
use daemon::control::words::Row;
use drives::{Predicted, Victims, predicted};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;

/// What the closed forms are about.
const ASSUMED: &str = "4 KiB writes, uniformly at random over all of a full drive, in steady state";

/// What only a model knows of its flash, as the daemon calls it.
const FLASH: [&str; 4] = ["erases_least", "erases_mean", "erases_most", "free_superblocks"];

/// Prints what the daemon has told of its drive.
///
/// Errors: it has told of none that has SMART.
pub(super) fn print(row: &Row, model: &Value, as_object: bool) -> Result<(), Failure> {
    let title = model["title"].as_str().unwrap_or(&row.backing);
    if model["attributes"].as_array().is_none() {
        let why = if model["host_written_bytes"].is_u64() {
            "is of a daemon older than this program, which tells no SMART; restart it"
        } else {
            "is a hard disk, whose SMART is not modelled; see 'overdrive volume stats'"
        };
        return Err(Failure::new(Exit::Negative, format!("{}: {title} {why}", row.name)));
    }
    let report = report(title, model);
    let lately = Lately::of(&model["lately"]);
    if as_object {
        let mut object = as_json(&row.backing, &report);
        object["modelled"] = json!(true);
        for key in FLASH {
            object[key] = model[key].clone();
        }
        object["lately"] = lately.map_or(Value::Null, |lately| lately.as_json());
        daemon::say!("{object}");
        return Ok(());
    }
    daemon::console::output(format_args!("{}", as_text(&row.backing, &report)));
    let [least, mean, most, free] = FLASH.map(|key| model[key].as_u64().unwrap_or(0));
    daemon::say!("\n{:<20} least {least}, mean {mean}, most {most}", "erases of a block");
    daemon::say!("{:<20} {free}", "free superblocks");
    if let Some(lately) = lately {
        daemon::console::output(format_args!("{}", lately.as_text()));
    }
    Ok(())
}

fn report(title: &str, model: &Value) -> Report {
    let attributes = model["attributes"].as_array().into_iter().flatten();
    Report {
        model: format!("{title}, modelled"),
        host_written_bytes: model["host_written_bytes"].as_u64(),
        host_read_bytes: model["host_read_bytes"].as_u64(),
        nand_written_bytes: model["nand_written_bytes"].as_u64(),
        write_amplification: model["write_amplification"].as_f64(),
        worn_percent: model["worn_percent"].as_f64().map(|worn| worn as u64),
        attributes: attributes.map(line).collect(),
        ..Report::default()
    }
}

fn line(attribute: &Value) -> Line {
    let text = |key: &str| attribute[key].as_str().unwrap_or_default().to_owned();
    Line {
        id: attribute["id"].as_u64().unwrap_or(0),
        name: text("name"),
        normalized: attribute["normalized"].as_u64(),
        raw: text("raw"),
    }
}

/// What the drive amplified lately, beside what theory says.
struct Lately {
    host_written_bytes: u64,
    simulated: f64,
    is_steady: bool,
    alpha: f64,
    /// Of steady use only, and where the victims have a closed form.
    theory: Option<Predicted>,
}

impl Lately {
    fn of(told: &Value) -> Option<Lately> {
        let is_steady = told["steady"].as_bool()?;
        let alpha = told["alpha"].as_f64()?;
        let slots = u32::try_from(told["superblock_slots"].as_u64()?).ok()?;
        let victims = match told["victims"].as_str()? {
            "greedy" => Some(Victims::Greedy),
            "fifo" => Some(Victims::Fifo),
            "choices" => {
                let count = told["choices"].as_u64();
                count.and_then(|count| u32::try_from(count).ok()).map(Victims::Choices)
            }
            _ => None,
        };
        // The forms know nothing of a drive that is not full yet.
        let victims = victims.filter(|_| is_steady && alpha > 1.0);
        Some(Lately {
            host_written_bytes: told["host_written_bytes"].as_u64()?,
            simulated: told["write_amplification"].as_f64()?,
            is_steady,
            alpha,
            theory: victims.and_then(|victims| predicted(victims, alpha, slots)),
        })
    }

    fn as_json(&self) -> Value {
        json!({
            "host_written_bytes": self.host_written_bytes,
            "write_amplification": self.simulated,
            "steady": self.is_steady,
            "alpha": self.alpha,
            "predicted": self.theory.map(|told| told.amplification),
            "predicted_form": self.theory.map(|told| told.form),
            "predicted_source": self.theory.map(|told| told.source),
            "predicted_assumes": self.theory.map(|_| ASSUMED),
        })
    }

    fn as_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<20} {value}");
        let state = if self.is_steady { "steady" } else { "not steady" };
        let written = Size(self.host_written_bytes);
        let simulated = self.simulated;
        line("WA, lately", format!("{simulated:.3}, {state}, over the host's last {written}"));
        match self.theory {
            Some(told) => {
                let off = (simulated / told.amplification - 1.0) * 100.0;
                line("WA, by theory", format!("{:.3} ({off:+.1} % off)", told.amplification));
                line("", format!("{}, alpha {:.4}: {}", told.form, self.alpha, told.source));
                line("", format!("assumes {ASSUMED}"));
            }
            None if self.is_steady => {
                line("WA, by theory", "these victims have no closed form".to_owned());
            }
            None => line("WA, by theory", format!("none yet; it is of {ASSUMED}")),
        }
        text
    }
}
