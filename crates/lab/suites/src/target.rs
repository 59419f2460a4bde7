//! TARGET as users write it: `model:NAME[?size=SIZE&seed=NUMBER&data=PERCENT&dedupe=PERCENT]`,
//! which rate limits may precede, parsed by the crate `stack`.

use block::{DriveState, RateLimitSpec};
use drives::{Model, Options};
use std::fmt;
use std::path::Path;

/// The target: a modelled drive, or the device of a rig.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// As it was written.
    pub text: String,
    /// The rate limits of a modelled drive, outermost first. A rig limits its own device.
    pub limits: Vec<RateLimitSpec>,
    /// The model. None: the rig's own device.
    pub model: Option<Model>,
    /// The options of the model. All choices of a suite follow from its seed.
    pub options: Options,
}

/// Reason why a target cannot be used: one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetError(String);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Parses a target. NAME is a preset, or the path of a drive's file: it contains a `/` or ends
    /// in `.toml`.
    ///
    /// # Errors
    /// The error, and the accepted input.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let wrong = |what: String| TargetError(format!("{text}: {what}"));
        let (limits, drive) = stack::split_limits(text).map_err(TargetError)?;
        if !drive.starts_with("model:") {
            return Err(wrong("is not a modelled drive; write model:NAME".into()));
        }
        let refused = |refusal: stack::model_name::Refusal| target_error(text, refusal.to_string());
        let spec = stack::model_name::parse(drive).map_err(refused)?;
        if spec.state != DriveState::Purged {
            let state = spec.state;
            return Err(wrong(format!(
                "state={state}: suites set the state of the drive with --state; omit it here"
            )));
        }
        let model = named_after_file(stack::model_name::model(&spec).map_err(refused)?);
        let options = stack::model_name::options(&spec);
        model.fits(&options).map_err(|error| wrong(error.to_string()))?;
        Ok(Target { text: text.to_owned(), limits, model: Some(model), options })
    }

    /// Returns the target for the device of a rig: its text as users write it, and its size.
    pub fn of_rig(text: &str, bytes: u64, seed: u64) -> Target {
        let options = Options { seed, user_bytes: Some(bytes), ..Options::default() };
        Target { text: text.to_owned(), limits: Vec::new(), model: None, options }
    }

    /// Returns its name in a report.
    pub fn title(&self) -> &str {
        self.published_model().map_or(&self.text, |model| &model.title)
    }

    /// Returns the model of the drive whose figures were published: without limits of its rate.
    pub fn published_model(&self) -> Option<&Model> {
        self.model.as_ref().filter(|_| self.limits.is_empty())
    }

    /// Returns the visible size in bytes, in whole blocks of 4 KiB.
    pub fn bytes(&self) -> u64 {
        self.exact_bytes() / 4096 * 4096
    }

    /// Returns the visible size in bytes.
    pub fn exact_bytes(&self) -> u64 {
        let models = || self.model.as_ref().map_or(0, Model::user_bytes);
        self.options.user_bytes.unwrap_or_else(models)
    }
}

/// Returns the error sentence, starting with the target as it was written.
fn target_error(text: &str, sentence: String) -> TargetError {
    match sentence.starts_with(text) {
        true => TargetError(sentence),
        false => TargetError(format!("{text}: {sentence}")),
    }
}

/// Names a model from a file after the file, without directory and extension.
fn named_after_file(model: Model) -> Model {
    let stem = Path::new(&model.name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    match model.name.contains('/') || model.name.ends_with(".toml") {
        true => Model { name: stem.unwrap_or_default(), ..model },
        false => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_understood_or_refused_with_a_mend() {
        let target = Target::parse("model:samsung-840-evo-250?seed=7").expect("a preset");
        assert_eq!((target.options.seed, target.bytes()), (7, 250_059_350_016));
        let smaller = Target::parse("model:samsung-840-evo-250?size=200GB&").expect("it fits");
        assert_eq!(smaller.bytes(), 200_000_000_000);
        let text = "limit:iops=300,burst=10s:model:samsung-840-evo-250";
        let limited = Target::parse(text).expect("a limited preset");
        assert_eq!((limited.limits[0].iops, limited.title()), (300, text));
        assert_eq!((limited.model, limited.options.seed), (target.model, 1));
        for (bad, says) in [
            ("limit:iops=0:model:samsung-840-evo-250", "from 1 to 1000000000"),
            ("limit:iops=1:disk.img", "write model:NAME"),
            ("limit:iops=1:model:samsung-840-evo", "samsung-840-evo-"),
            ("disk.img", "write model:NAME"),
            ("model:samsung-840-evo", "samsung-840-evo-"),
            ("model:", "there is no such model"),
            ("model:samsung-840-evo-250?seed=x", "not a whole number"),
            ("model:samsung-840-evo-250?size=0", "multiple of 4 KiB, at least 1 MiB"),
            ("model:samsung-840-evo-250?state=used", "suites set the state of the drive"),
            ("model:samsung-840-evo-250?size=9T", "9T"),
            ("model:samsung-840-evo-250?colour=red", "'colour' is unknown"),
            ("model:./no/such.toml", "No such file"),
        ] {
            let message = Target::parse(bad).expect_err(bad).to_string();
            assert!(message.starts_with(bad) && message.contains(says), "{message}");
        }
    }
}
