//! TARGET as people write it: `model:NAME[?size=SIZE&seed=NUMBER]`.

use block::{SECTOR, Size};
use drives::{Model, Options};
use std::fmt;
use std::path::Path;

/// A modelled drive, as it was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// As it was written.
    pub text: String,
    /// Which model.
    pub model: Model,
    /// How it differs from others of that model.
    pub options: Options,
}

/// Why a target cannot be used: one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetError(String);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Reads a target. NAME is a preset, or the path of a drive's file: something with a `/` in it, or
    /// that ends in `.toml`.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let wrong = |what: String| TargetError(format!("{text}: {what}"));
        let Some(rest) = text.strip_prefix("model:") else {
            return Err(wrong("suites run on modelled drives so far; write model:NAME".into()));
        };
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        let model = if name.contains('/') || name.ends_with(".toml") {
            from_file(name).map_err(wrong)?
        } else {
            Model::preset(name).ok_or_else(|| wrong(unknown(name)))?
        };
        let mut options = Options::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "size" => options.user_bytes = Some(size(value).map_err(wrong)?),
                "seed" => {
                    let number = value.parse();
                    options.seed =
                        number.map_err(|_| wrong(format!("seed={value}: not a number")))?;
                }
                _ => return Err(wrong(format!("'{key}' is not known; write size=… or seed=…"))),
            }
        }
        let target = Target { text: text.to_owned(), model, options };
        // Built once to see that the size fits: its memory is taken only as it is used.
        target.model.drive(&options).map_err(|error| wrong(error.to_string()))?;
        Ok(target)
    }

    /// Bytes that the host sees.
    pub fn bytes(&self) -> u64 {
        self.options.user_bytes.unwrap_or(self.model.user_bytes()) / 4096 * 4096
    }
}

fn from_file(path: &str) -> Result<Model, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let stem = Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Model::parse(&stem.unwrap_or_default(), &text).map_err(|error| error.to_string())
}

fn size(text: &str) -> Result<u64, String> {
    let Size(bytes) = text.parse()?;
    match bytes {
        0 => Err("size=0: there must be something to test".into()),
        bytes if bytes % SECTOR != 0 => Err(format!("size={text}: not a multiple of 512 bytes")),
        bytes => Ok(bytes),
    }
}

/// The presets whose names are nearest come first.
fn unknown(name: &str) -> String {
    let common = |known: &str| {
        let words = known.split('-').filter(|word| name.split('-').any(|given| given == *word));
        words.count()
    };
    let mut names: Vec<&str> = Model::names().collect();
    names.sort_by_key(|known| std::cmp::Reverse(common(known)));
    names.truncate(4);
    format!("no model of this name; there are {} and others", names.join(", "))
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
        for (bad, says) in [
            ("disk.img", "write model:NAME"),
            ("model:samsung-840-evo", "samsung-840-evo-"),
            ("model:", "no model of this name"),
            ("model:samsung-840-evo-250?seed=x", "not a number"),
            ("model:samsung-840-evo-250?size=0", "something to test"),
            ("model:samsung-840-evo-250?size=9T", "9T"),
            ("model:samsung-840-evo-250?colour=red", "'colour' is not known"),
            ("model:./no/such.toml", "No such file"),
        ] {
            let told = Target::parse(bad).expect_err(bad).to_string();
            assert!(told.starts_with(bad) && told.contains(says), "{told}");
        }
    }
}
