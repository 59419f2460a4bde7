//! The health of a modelled drive that is served, in the same form as a real one's, and what theory says
//! of its write amplification.

use super::report::{as_json, as_text};
use block::Size;
use daemon::control::under::Served;
use daemon::control::words::Row;
use devices::Lately;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;
use std::process::ExitCode;

/// What the closed forms are about.
const ASSUMED: &str = "4 KiB writes, uniformly at random over all of a full drive, in steady state";

/// What only a model knows of its flash, as the daemon calls it.
const FLASH: [&str; 4] = ["erases_least", "erases_mean", "erases_most", "free_superblocks"];

/// Prints what a modelled drive says.
pub(super) fn run(mut served: Served, as_object: bool) -> Result<ExitCode, Failure> {
    let told = served.stats()?;
    print(served.row(), &told["model"], as_object)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what the daemon has told of its drive.
///
/// Errors: it has told of none that has SMART.
fn print(row: &Row, model: &Value, as_object: bool) -> Result<(), Failure> {
    let title = model["title"].as_str().unwrap_or(&row.backing);
    let Some(report) = devices::lately::report(title, model) else {
        let why = if model["host_written_bytes"].is_u64() {
            "is of a daemon older than this program, which tells no SMART; restart it"
        } else {
            "is a hard disk, whose SMART is not modelled; see 'overdrive volume stats'"
        };
        return Err(Failure::new(Exit::Negative, format!("{}: {title} {why}", row.name)));
    };
    let lately = Lately::of(&model["lately"]);
    if as_object {
        let mut object = as_json(&row.backing, &report);
        object["modelled"] = json!(true);
        for key in FLASH {
            object[key] = model[key].clone();
        }
        object["lately"] = lately.map_or(Value::Null, |lately| lately_json(&lately));
        daemon::say!("{object}");
        return Ok(());
    }
    daemon::console::output(format_args!("{}", as_text(&row.backing, &report)));
    let [least, mean, most, free] = FLASH.map(|key| model[key].as_u64().unwrap_or(0));
    daemon::say!("\n{:<20} least {least}, mean {mean}, most {most}", "erases of a block");
    daemon::say!("{:<20} {free}", "free superblocks");
    if let Some(lately) = lately {
        daemon::console::output(format_args!("{}", lately_text(&lately)));
    }
    Ok(())
}

fn lately_json(lately: &Lately) -> Value {
    json!({
        "host_written_bytes": lately.host_written_bytes,
        "write_amplification": lately.simulated,
        "steady": lately.is_steady,
        "alpha": lately.alpha,
        "predicted": lately.theory.map(|told| told.amplification),
        "predicted_form": lately.theory.map(|told| told.form),
        "predicted_source": lately.theory.map(|told| told.source),
        "predicted_assumes": lately.theory.map(|_| ASSUMED),
    })
}

fn lately_text(lately: &Lately) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<20} {value}");
    let state = if lately.is_steady { "steady" } else { "not steady" };
    let written = Size(lately.host_written_bytes);
    let simulated = lately.simulated;
    line("WA, lately", format!("{simulated:.3}, {state}, over the host's last {written}"));
    match lately.theory {
        Some(told) => {
            let off = (simulated / told.amplification - 1.0) * 100.0;
            line("WA, by theory", format!("{:.3} ({off:+.1} % off)", told.amplification));
            line("", format!("{}, alpha {:.4}: {}", told.form, lately.alpha, told.source));
            line("", format!("assumes {ASSUMED}"));
        }
        None if lately.is_steady => {
            line("WA, by theory", "these victims have no closed form".to_owned());
        }
        None => line("WA, by theory", format!("none yet; it is of {ASSUMED}")),
    }
    text
}
