//! `model:NAME[?KEY=VALUE&...]`: modelled drives as users write them, in every command.

use crate::near::{near, similar};
use block::{DriveState, ModelSpec, Size};
use drives::{Model, Options, SLOT_BYTES};
use std::fmt;
use std::io::{ErrorKind, Read};

/// Keys that are allowed after the `?`.
const KEYS: [&str; 5] = ["size", "seed", "state", "data", "dedupe"];
/// Maximum number of names suggested for a wrong one.
const SUGGESTIONS_MAX: usize = 4;
/// Maximum size of a drive file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reason why a drive cannot be modelled: one sentence that says how to correct it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    message: String,
    /// The error of reading the drive's file. None: no file was named, or it was read.
    pub unread: Option<ErrorKind>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

fn usage(message: String) -> Refusal {
    Refusal { message, unread: None }
}

/// Parses a backing that begins with `model:`.
///
/// # Errors
/// With a correction: an unknown model, an unknown or repeated key, an invalid value, or a
/// fault in a drive's file.
pub fn parse(backing: &str) -> Result<ModelSpec, Refusal> {
    let rest = backing.strip_prefix("model:").unwrap_or(backing);
    let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut spec = ModelSpec::new(name);
    let mut seen = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let wrong = |message: &str| usage(format!("{backing}: {message}"));
        let (key, value) =
            pair.split_once('=').ok_or_else(|| wrong(&format!("'{pair}': write KEY=VALUE")))?;
        if seen.contains(&key) {
            return Err(wrong(&format!("'{key}' is given twice; give it once")));
        }
        seen.push(key);
        match key {
            "size" => spec.size = Some(size(value).map_err(|message| wrong(&message))?),
            "seed" => {
                let message = format!("seed '{value}' is not a whole number from 0 on");
                spec.seed = value.parse().map_err(|_| wrong(&message))?;
            }
            "state" => {
                let state: Result<DriveState, String> = value.parse();
                spec.state = state.map_err(|message| wrong(&message))?;
            }
            "data" => spec.data_percent = percent(key, value).map_err(|message| wrong(&message))?,
            "dedupe" => {
                spec.dedupe_percent = percent(key, value).map_err(|message| wrong(&message))?;
            }
            _ => {
                let mend = match near(key, KEYS.into_iter()) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("the known keys are {}", KEYS.join(", ")),
                };
                return Err(wrong(&format!("'{key}' is unknown; {mend}")));
            }
        }
    }
    let model = model(&spec)?;
    let bytes = spec.size.map_or(0, |size| size.0);
    if matches!(model.kind, drives::Kind::Disk(_)) && bytes > model.user_bytes() {
        let most = Size(model.user_bytes());
        return Err(usage(format!("{backing}: the drive has only {most}; give a smaller size")));
    }
    Ok(spec)
}

fn percent(key: &str, text: &str) -> Result<u32, String> {
    let percent = text.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| format!("{key} '{text}' is not a whole number of percent from 0 to 100"))
}

fn size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.0 < 1 << 20 || !size.0.is_multiple_of(SLOT_BYTES) {
        return Err(format!("size {text}: give a multiple of 4 KiB, at least 1 MiB"));
    }
    Ok(size)
}

/// Returns the description of the drive that a spec names: a preset, or a file of the same form.
///
/// # Errors
/// There is no such model (similar names are listed), the file is faulty, or it cannot be
/// read.
pub fn model(spec: &ModelSpec) -> Result<Model, Refusal> {
    let name = spec.drive.as_str();
    if name.contains('/') || name.ends_with(".toml") {
        let text = read(name).map_err(|error| Refusal {
            message: format!("{name}: cannot be read as a drive's file: {error}"),
            unread: Some(error.kind()),
        })?;
        return Model::parse(name, &text).map_err(|error| usage(error.to_string()));
    }
    Model::preset(name).ok_or_else(|| usage(unknown(name)))
}

/// Reads a file's text. A drive's file takes a few KiB; a file that is larger or endless is
/// refused.
fn read(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "it is larger than 1 MiB"));
    }
    Ok(text)
}

/// Returns the sentence for an unknown model.
fn unknown(name: &str) -> String {
    let near = similar(name, Model::names(), SUGGESTIONS_MAX);
    let mend = match near.as_slice() {
        [] => {
            "'overdrive drive models' lists them; or name a drive's file with its path".to_owned()
        }
        near => format!("did you mean {}?", near.join(" or ")),
    };
    format!("model:{name}: there is no such model; {mend}")
}

/// Returns the options of the drive that a spec names.
pub fn options(spec: &ModelSpec) -> Options {
    let user_bytes = spec.size.map(|size| size.0);
    // Duplicates count like data that compresses to nothing: the drive stores neither.
    let stored = spec.data_percent * (100 - spec.dedupe_percent);
    let data_share = f64::from(stored) / 10_000.0;
    Options { seed: spec.seed, user_bytes, data_share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_understood_or_refused_with_a_mend() {
        let spec = parse("model:samsung-840-evo-250?size=1G&seed=7&state=used").expect("good");
        let (size, seed) = (Some(Size(1 << 30)), 7);
        let drive = "samsung-840-evo-250".to_owned();
        let usual = ModelSpec::new(drive);
        assert_eq!(spec, ModelSpec { size, seed, state: DriveState::Used, ..usual });
        let spec = parse("model:sandforce-sf-2281-240?data=40&dedupe=50").expect("good");
        assert_eq!((spec.data_percent, spec.dedupe_percent), (40, 50));
        assert!((options(&spec).data_share - 0.2).abs() < 1e-9);
        for (bad, words) in [
            ("", "there is no such model"),
            ("samsung-840-evo-256", "did you mean samsung-840-evo-250?"),
            ("floppy", "'overdrive drive models' lists them"),
            ("samsung-840-evo-250?sede=1", "'sede' is unknown; did you mean 'seed'?"),
            ("samsung-840-evo-250?colour=1", "the known keys are size, seed, state, data, dedupe"),
            ("samsung-840-evo-250?data=101", "data '101' is not a whole number of percent"),
            ("samsung-840-evo-250?dedupe=-1", "dedupe '-1'"),
            ("samsung-840-evo-250?seed", "write KEY=VALUE"),
            ("samsung-840-evo-250?seed=-1", "seed '-1'"),
            ("samsung-840-evo-250?seed=1&seed=2", "twice"),
            ("samsung-840-evo-250?size=100", "multiple of 4 KiB"),
            ("samsung-840-evo-250?size=x", "is not a size"),
            ("samsung-840-evo-250?state=old", "purged, filled, used, steady, trimmed"),
            ("wd-velociraptor-1000?size=2T", "give a smaller size"),
            ("/no/such/file.toml", "cannot be read"),
            ("/dev/zero", "larger than 1 MiB"),
        ] {
            let failure = parse(&format!("model:{bad}")).expect_err(bad);
            assert!(failure.to_string().contains(words), "{bad}: {failure}");
        }
    }
}
