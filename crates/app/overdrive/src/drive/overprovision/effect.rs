//! The effect of unused space on a drive, from its model by the closed forms.

use drives::{Kind, Model, Predicted, theory};
use serde_json::{Value, json};
use stack::{Exit, Failure};

/// Spare flash of a drive without a model, as a share of its size: a usual value of client drives.
const SPARE_ASSUMED: f64 = 0.07;

/// A drive in steady state of random writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Steady {
    /// Bytes written to the flash for each byte of the host.
    pub(super) amplification: f64,
    /// Random writes of 4 KiB per second. None: the model does not say.
    pub(super) writes_per_s: Option<f64>,
}

/// The effect of leaving a part of a drive unused.
pub(super) struct Effect {
    /// The model, and how it predicts.
    pub(super) basis: String,
    /// With all of the drive in use.
    pub(super) without: Steady,
    /// With the part unused, for each requested share.
    pub(super) with: Vec<(f64, Steady)>,
}

/// Returns the model of a drive: the named one, or the one whose title is the model's name.
///
/// # Errors
/// There is no model of this name.
pub(super) fn model_of(name: Option<&str>, reported: &str) -> Result<Option<Model>, Failure> {
    let Some(name) = name else {
        let letters = |text: &str| -> String {
            let letters = text.chars().filter(char::is_ascii_alphanumeric);
            let text: String = letters.collect::<String>().to_lowercase();
            text.replace("ssd", "")
        };
        let wanted = letters(reported);
        let mut models = Model::names().filter_map(Model::preset);
        return Ok(models.find(|model| !wanted.is_empty() && letters(&model.title) == wanted));
    };
    let message =
        || format!("--model {name}: there is no such model; 'overdrive drive models' lists them");
    Model::preset(name).map(Some).ok_or_else(|| Failure::new(Exit::Usage, message()))
}

/// Returns the effect of these unused shares of the drive's size. None: the model is a hard disk,
/// or cleans in a way without a closed form.
pub(super) fn effect(model: Option<&Model>, shares: &[f64]) -> Option<Effect> {
    let steady = |share: f64| match model {
        Some(model) => of_model(model, share),
        None => {
            let alpha = (1.0 + SPARE_ASSUMED) / (1.0 - share);
            let amplification = theory::greedy(alpha, 16_384);
            Some((Steady { amplification, writes_per_s: None }, "greedy"))
        }
    };
    let (without, form) = steady(0.0)?;
    let with = shares.iter().map(|share| Some((*share, steady(*share)?.0)));
    let basis = match model {
        Some(model) => format!("model {}, by theory ({form})", model.name),
        None => format!(
            "no model of this drive; {:.0} % of spare flash of its own assumed, by theory ({form})",
            SPARE_ASSUMED * 100.0
        ),
    };
    Some(Effect { basis, without, with: with.collect::<Option<_>>()? })
}

fn of_model(model: &Model, share: f64) -> Option<(Steady, &'static str)> {
    let Kind::Flash(flash) = &model.kind else { return None };
    let mut flash = flash.clone();
    flash.user_bytes = (flash.user_bytes as f64 * (1.0 - share)) as u64 / 4096 * 4096;
    let derived = flash.derived();
    let Predicted { amplification, form, .. } = derived.predicted?;
    let bounds = [derived.die_bound_iops, derived.firmware_bound_iops];
    let writes_per_s = bounds.into_iter().flatten().reduce(f64::min);
    Some((Steady { amplification, writes_per_s }, form))
}

impl Effect {
    pub(super) fn as_json(&self) -> Value {
        let steady = |steady: &Steady| {
            json!({
                "write_amplification": steady.amplification,
                "random_writes_per_s": steady.writes_per_s,
            })
        };
        let with: Vec<Value> = self
            .with
            .iter()
            .map(|(share, with)| {
                let mut object = steady(with);
                object["unused_share"] = json!(share);
                object
            })
            .collect();
        json!({ "basis": self.basis, "without": steady(&self.without), "with": with })
    }

    /// Returns a line for each share.
    pub(super) fn as_text(&self) -> Vec<String> {
        let line = |share: f64, steady: &Steady| {
            let rate = steady.writes_per_s.map_or(String::new(), |rate| {
                format!(", {rate:.0} random writes of 4 KiB per second")
            });
            let gain = self.without.amplification / steady.amplification;
            let gain =
                if share > 0.0 { format!(", life {gain:.1} times as long") } else { String::new() };
            format!(
                "{:>3.0} % unused: {:.2} bytes of flash written for each byte{rate}{gain}",
                share * 100.0,
                steady.amplification
            )
        };
        let mut lines = vec![
            format!("effect on steady random writes ({})", self.basis),
            line(0.0, &self.without),
        ];
        lines.extend(self.with.iter().map(|(share, steady)| line(*share, steady)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_space_lowers_the_amplification_with_and_without_a_model() {
        let model = Model::preset("samsung-840-evo-250").expect("a preset");
        for model in [Some(&model), None] {
            let found = effect(model, &[0.1, 0.25]).expect("a closed form");
            let [ten, quarter] = [found.with[0].1, found.with[1].1];
            assert!(found.without.amplification > ten.amplification, "{}", found.basis);
            assert!(ten.amplification > quarter.amplification && quarter.amplification >= 1.0);
            if model.is_some() {
                assert!(quarter.writes_per_s > found.without.writes_per_s);
            }
        }
        let disk = Model::names().filter_map(Model::preset);
        let mut disk = disk.filter(|model| matches!(model.kind, Kind::Disk(_)));
        assert!(effect(disk.next().as_ref(), &[0.1]).is_none());
    }

    #[test]
    fn a_model_is_found_by_the_name_that_the_drive_reports() {
        let found = model_of(None, "Samsung SSD 840 EVO 250GB").expect("no name");
        assert!(found.is_some_and(|model| model.name == "samsung-840-evo-250"));
        assert!(model_of(None, "").expect("no name").is_none());
        assert!(model_of(Some("no-such"), "").is_err());
    }
}
