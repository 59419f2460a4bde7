//! The health of a modelled drive that is served, in the same form as a real one's, and its
//! theoretical write amplification.

use super::report::{Health, INDENT, VERDICTS, as_json, as_text};
use crate::terminal;
use block::Size;
use daemon::control::lower_drives::Served;
use daemon::control::statistics::{Attribute, Flash, Lately, Model};
use daemon::control::words::Row;
use drives::{Predicted, predicted};
use host::smartctl::{Line, Report};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;
use std::process::ExitCode;

/// Assumptions of the closed forms.
const ASSUMED: &str = "4 KiB writes, uniformly at random over all of a full drive, in steady state";

/// Prints a modelled drive's report.
pub(super) fn run(mut served: Served, as_object: bool) -> Result<ExitCode, Failure> {
    let stats = served.stats()?;
    print(served.row(), stats.model.as_ref(), as_object)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the daemon's report on its drive.
///
/// Errors: the drive has no SMART attributes.
fn print(row: &Row, model: Option<&Model>, as_object: bool) -> Result<(), Failure> {
    let title = model.map_or(&row.backing, |model| &model.title);
    let flash = model.and_then(|model| Some((model, model.flash.as_ref()?)));
    let report = flash.and_then(|(model, flash)| report(model, flash));
    let (Some((model, flash)), Some(report)) = (flash, report) else {
        let why = match flash {
            Some(_) => {
                "belongs to a daemon older than this program, which reports no SMART attributes; \
                 restart the daemon"
            }
            None => "is a hard disk, whose SMART is not modelled; see 'overdrive volume stats'",
        };
        return Err(Failure::new(Exit::Negative, format!("{}: {title} {why}", row.name)));
    };
    let (lately, health) = (model.lately.as_ref(), Health::of(report));
    if as_object {
        let mut object = as_json(&row.backing, &health);
        object["modelled"] = json!(true);
        object["erases_least"] = json!(flash.erases_least);
        object["erases_mean"] = json!(flash.erases_mean);
        object["erases_most"] = json!(flash.erases_most);
        object["free_superblocks"] = json!(flash.free_superblocks);
        object["lately"] = lately.map_or(Value::Null, lately_json);
        daemon::say!("{object}");
        return Ok(());
    }
    terminal::print_text(&as_text(&row.backing, &health), INDENT, &VERDICTS);
    let Flash { erases_least, erases_mean, erases_most, .. } = flash;
    daemon::say!("");
    daemon::say!(
        "{:<20} least {erases_least}, mean {erases_mean}, most {erases_most}",
        "erases of a block"
    );
    daemon::say!("{:<20} {}", "free superblocks", flash.free_superblocks);
    if let Some(lately) = lately {
        terminal::print_text(&lately_text(lately), INDENT, &[]);
    }
    Ok(())
}

/// Returns the drive's health in the form of a real one's. None: the daemon reports no SMART
/// attributes.
fn report(model: &Model, flash: &Flash) -> Option<Report> {
    let attributes = model.attributes.as_ref()?;
    Some(Report {
        model: format!("{}, modelled", model.title),
        host_written_bytes: Some(flash.host_written_bytes),
        host_read_bytes: Some(flash.host_read_bytes),
        nand_written_bytes: Some(flash.nand_written_bytes),
        write_amplification: Some(flash.write_amplification),
        worn_percent: Some(flash.worn_percent as u64),
        attributes: attributes.iter().map(line).collect(),
        ..Report::default()
    })
}

fn line(attribute: &Attribute) -> Line {
    Line {
        id: attribute.id.into(),
        name: attribute.name.clone(),
        normalized: attribute.normalized.map(u64::from),
        raw: attribute.raw.clone(),
    }
}

/// Returns the theoretical value: only for steady use, and if the choice of victims has a closed
/// form.
fn theory(lately: &Lately) -> Option<Predicted> {
    // The closed forms do not apply to a drive that is not full yet.
    let victims = lately.victims().filter(|_| lately.steady && lately.alpha > 1.0)?;
    predicted(victims, lately.alpha, lately.superblock_slots)
}

fn lately_json(lately: &Lately) -> Value {
    let theory = theory(lately);
    json!({
        "host_written_bytes": lately.host_written_bytes,
        "write_amplification": lately.write_amplification,
        "steady": lately.steady,
        "alpha": lately.alpha,
        "predicted": theory.map(|prediction| prediction.amplification),
        "predicted_form": theory.map(|prediction| prediction.form),
        "predicted_source": theory.map(|prediction| prediction.source),
        "predicted_assumes": theory.map(|_| ASSUMED),
    })
}

fn lately_text(lately: &Lately) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<20} {value}");
    let state = if lately.steady { "steady" } else { "not steady" };
    let written = Size(lately.host_written_bytes);
    let simulated = lately.write_amplification;
    line("WA, lately", format!("{simulated:.3}, {state}, over the host's last {written}"));
    match theory(lately) {
        Some(prediction) => {
            let off = (simulated / prediction.amplification - 1.0) * 100.0;
            line("WA, by theory", format!("{:.3} ({off:+.1} % off)", prediction.amplification));
            line(
                "",
                format!("{}, alpha {:.4}: {}", prediction.form, lately.alpha, prediction.source),
            );
            line("", format!("assumes {ASSUMED}"));
        }
        None if lately.steady => {
            line("WA, by theory", "these victims have no closed form".to_owned());
        }
        None => line("WA, by theory", format!("none yet; it applies to {ASSUMED}")),
    }
    text
}
