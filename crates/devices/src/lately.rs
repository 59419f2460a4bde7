//! What a daemon tells of the modelled drive that it serves (`model` of a volume's statistics), in the
//! form of a real drive's health, and what theory says of its write amplification.

use crate::smartctl::{Line, Report};
use drives::{Predicted, Victims, predicted};
use serde_json::Value;

/// The health of a modelled drive. None: it is told none, as of a hard disk.
pub fn report(title: &str, model: &Value) -> Option<Report> {
    let attributes = model["attributes"].as_array()?;
    Some(Report {
        model: format!("{title}, modelled"),
        host_written_bytes: model["host_written_bytes"].as_u64(),
        host_read_bytes: model["host_read_bytes"].as_u64(),
        nand_written_bytes: model["nand_written_bytes"].as_u64(),
        write_amplification: model["write_amplification"].as_f64(),
        worn_percent: model["worn_percent"].as_f64().map(|worn| worn as u64),
        attributes: attributes.iter().map(line).collect(),
        ..Report::default()
    })
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
#[derive(Clone, Debug)]
pub struct Lately {
    /// Bytes that the host wrote in that time.
    pub host_written_bytes: u64,
    /// Amplification of those.
    pub simulated: f64,
    /// Whether it has settled.
    pub is_steady: bool,
    /// The drive's flash in use over what the host sees.
    pub alpha: f64,
    /// Of steady use only, and where the victims have a closed form.
    pub theory: Option<Predicted>,
}

impl Lately {
    /// Reads what a daemon tells. None: it tells nothing of that.
    pub fn of(told: &Value) -> Option<Lately> {
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
}
