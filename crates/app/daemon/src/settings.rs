//! The settings of a cache as text: one row of [`block::cache_settings`] each, for the command
//! line, config files, `volume set`, `volume show` and the documents.

use crate::units;
use block::{
    CacheSpec, Compress, Durability, Files, LinkDown, Policy, Rules, Size, Warm, WriteMode,
};
use cache::{Changes, Geometry, Measured};
use hints::FileRules;
use serde_json::Value;

/// The setting that the daemon has, not the engine.
pub(crate) const RULES: &str = "rules";

type Change = fn(&mut Changes, &CacheSpec, &Geometry);

/// A setting as text.
#[derive(Debug)]
pub struct Setting {
    /// Its name in a config file and in `volume set`; with `-` for `_` it is an option.
    pub key: &'static str,
    /// Its name in [`CacheSpec`].
    pub field: &'static str,
    meaning: &'static str,
    form: &'static str,
    words: fn() -> Vec<(&'static str, &'static str)>,
    range: fn() -> Option<(String, String)>,
    default: fn() -> String,
    read: fn(&mut CacheSpec, &str) -> Result<(), String>,
    show: fn(&Value) -> Option<String>,
    text: fn(&Value) -> Option<String>,
    change: Option<Change>,
}

impl Setting {
    /// Returns the setting with this name, if there is one.
    pub fn named(key: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Returns its option's name, without the leading dashes.
    pub fn option(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Returns its meaning and range, as a sentence without its full stop.
    pub fn meaning(&self) -> String {
        let meaning = self.meaning.trim_end_matches('.');
        match (self.range)() {
            Some((least, most)) => format!("{meaning}; from {least} to {most}"),
            None => meaning.to_owned(),
        }
    }

    /// Returns its allowed words, each with its meaning; none if its values have a unit.
    pub fn words(&self) -> Vec<(&'static str, &'static str)> {
        (self.words)()
    }

    /// Returns the form of its values: `SIZE`, `TIME`, or its words.
    pub fn values(&self) -> String {
        let words = self.words();
        if words.is_empty() {
            return self.form.to_owned();
        }
        words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("|")
    }

    /// Returns its default value.
    pub fn default(&self) -> String {
        (self.default)()
    }

    /// Whether it may change while the volume is served.
    pub fn is_live(&self) -> bool {
        self.change.is_some() || self.key == RULES
    }

    /// Parses its value into a spec.
    ///
    /// # Errors
    /// A sentence with a correction, which does not name the setting.
    pub fn read(&self, spec: &mut CacheSpec, text: &str) -> Result<(), String> {
        (self.read)(spec, text).map_err(|why| {
            match stack::near(text, self.words().into_iter().map(|(word, _)| word)) {
                Some(near) if near != text => format!("{why}; did you mean '{near}'?"),
                _ => why,
            }
        })
    }

    /// Returns its displayed value from a spec as JSON. None: the daemon is older, and does not
    /// have this setting.
    pub fn show(&self, spec: &Value) -> Option<String> {
        (self.show)(spec.get(self.field)?)
    }

    /// Returns its value from a spec as JSON, as [`Setting::read`] reads it. None: the daemon is
    /// older, and does not have this setting; or it is a default that depends on others.
    pub fn text(&self, spec: &Value) -> Option<String> {
        let text = (self.text)(spec.get(self.field)?)?;
        self.read(&mut CacheSpec::default(), &text).is_ok().then_some(text)
    }

    /// Adds the spec's value of this setting to the changes; does nothing if it is not live.
    pub(crate) fn change(&self, changes: &mut Changes, spec: &CacheSpec, geometry: &Geometry) {
        if let Some(change) = self.change {
            change(changes, spec, geometry);
        }
    }
}

/// Text form of a type's values.
trait SettingValue: Sized {
    /// Placeholder in a help text; empty if [`words`](Self::words) lists the values.
    const FORM: &'static str;

    fn read(text: &str) -> Result<Self, String>;

    /// Returns the form that can be parsed again.
    fn to_text(&self) -> String;

    /// Returns the displayed form.
    fn to_display(&self) -> String {
        self.to_text()
    }

    fn words() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

impl SettingValue for Size {
    const FORM: &'static str = "SIZE";

    fn read(text: &str) -> Result<Size, String> {
        units::size(text)
    }

    fn to_text(&self) -> String {
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
        let fits = |(power, _): &(u32, _)| self.0 > 0 && self.0.trailing_zeros() >= *power;
        match units.into_iter().find(fits) {
            Some((power, unit)) => format!("{}{unit}", self.0 >> power),
            None => self.0.to_string(),
        }
    }

    fn to_display(&self) -> String {
        self.to_string()
    }
}

/// A size, or a share of the memory.
impl SettingValue for Option<Size> {
    const FORM: &'static str = Size::FORM;

    fn read(text: &str) -> Result<Option<Size>, String> {
        units::size(text).map(Some)
    }

    fn to_text(&self) -> String {
        self.map_or("a quarter of the memory".to_owned(), |size| size.to_text())
    }

    fn to_display(&self) -> String {
        self.map_or(self.to_text(), |size| size.to_display())
    }
}

/// Milliseconds.
impl SettingValue for u64 {
    const FORM: &'static str = "TIME";

    fn read(text: &str) -> Result<u64, String> {
        units::time_ms(text)
    }

    fn to_text(&self) -> String {
        match self {
            0 => "0".to_owned(),
            ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
            ms => format!("{ms}ms"),
        }
    }

    fn to_display(&self) -> String {
        units::nanoseconds(self.saturating_mul(1_000_000))
    }
}

impl SettingValue for bool {
    const FORM: &'static str = "on|off";

    fn read(text: &str) -> Result<bool, String> {
        units::on_off(text)
    }

    fn to_text(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

macro_rules! choices {
    ($($type:ident $(if $check:ident)?),+) => {
        $(impl SettingValue for $type {
            const FORM: &'static str = "";

            fn read(text: &str) -> Result<$type, String> {
                let value = text.parse()?;
                $($check(value)?;)?
                Ok(value)
            }

            fn to_text(&self) -> String {
                self.word().to_owned()
            }

            fn words() -> Vec<(&'static str, &'static str)> {
                <$type>::ALL.iter().map(|value| (value.word(), value.meaning())).collect()
            }
        })+
    };
}

choices!(WriteMode, Durability, LinkDown, Policy, Warm, Files, Compress if is_built_in);

impl SettingValue for Rules {
    const FORM: &'static str = "PATTERN=VALUE,...";

    fn read(text: &str) -> Result<Rules, String> {
        let rules = text.parse()?;
        FileRules::new(&rules)?;
        Ok(rules)
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}

/// Refuses a codec that this program lacks.
fn is_built_in(compress: Compress) -> Result<(), String> {
    if compress == Compress::Zstd && !cache::HAS_ZSTD {
        return Err(format!("this program was built without '{compress}'; use lz4"));
    }
    Ok(())
}

macro_rules! settings {
    ($(
        $key:ident: $type:ty = $usual:expr, $field:ident $(=> $engine:ident)? $(-> $change:ident)?
        $(in $least:expr, $most:expr)?, $meaning:literal;
    )*) => {
        /// Every setting, in the order of the table.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            key: stringify!($key),
            field: stringify!($field),
            meaning: $meaning,
            form: <$type as SettingValue>::FORM,
            words: <$type as SettingValue>::words,
            range: || {
                let range = [$((<$type>::to_text(&$least), <$type>::to_text(&$most)))?];
                range.into_iter().next()
            },
            default: || CacheSpec::default().$field.to_text(),
            read: |spec, text| {
                let value = <$type as SettingValue>::read(text)?;
                $(if !($least..=$most).contains(&value) {
                    let (least, most) = (<$type>::to_text(&$least), <$type>::to_text(&$most));
                    return Err(format!("'{text}' is out of range; write {least} to {most}"));
                })?
                spec.$field = value;
                Ok(())
            },
            show: |value| Some(serde_json::from_value::<$type>(value.clone()).ok()?.to_display()),
            text: |value| Some(serde_json::from_value::<$type>(value.clone()).ok()?.to_text()),
            change: [
                $(Some((|changes, spec, geometry| {
                    changes.$engine = Some(spec.$field.measured(geometry));
                }) as Change),)?
                $(Some((|changes, spec, _| changes.$change = Some(spec.$field)) as Change),)?
                None,
            ][0],
        },)*];
    };
}

block::cache_settings!(settings);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_explained_and_reads_what_it_writes() {
        for setting in SETTINGS {
            let Setting { key, meaning, .. } = setting;
            assert!(meaning.ends_with('.') && !meaning.contains("  "), "{key}: {meaning}");
            assert!(!setting.values().is_empty(), "{key}");
            let mut spec = CacheSpec::default();
            let default = setting.default();
            // A default that is a share of another value is a description, which cannot be parsed.
            if !default.contains(' ') {
                setting.read(&mut spec, &default).unwrap_or_else(|why| panic!("{key}: {why}"));
            }
            assert_eq!(spec, CacheSpec::default(), "{key}");
            let json = serde_json::json!(spec);
            assert!(setting.show(&json).is_some(), "{key} is in the spec as {}", setting.field);
            assert!(setting.read(&mut spec, "#").is_err(), "{key}");
        }
        let fixed = |setting: &Setting| ["memory", "policy"].contains(&setting.key);
        assert!(SETTINGS.iter().all(|setting| setting.is_live() != fixed(setting)));
    }

    #[test]
    fn a_codec_that_is_not_built_in_is_refused() {
        let mut spec = CacheSpec::default();
        let setting = Setting::named("compress").expect("in the table");
        let read = setting.read(&mut spec, "zstd");
        if cache::HAS_ZSTD {
            assert_eq!((read, spec.compress), (Ok(()), Compress::Zstd));
        } else {
            let refused = "this program was built without 'zstd'; use lz4";
            assert_eq!((read, spec.compress), (Err(refused.to_owned()), Compress::Off));
        }
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        let sizes = [0, 1, 512, 4096, 3 << 20, 1 << 30, 5 << 40].map(Size);
        for (size, written) in sizes.iter().zip(["0", "1", "512", "4K", "3M", "1G", "5T"]) {
            assert_eq!((size.to_text().as_str(), Size::read(written)), (written, Ok(*size)));
        }
        for (ms, written) in [(0u64, "0"), (1, "1ms"), (1500, "1500ms"), (30_000, "30s")] {
            assert_eq!((ms.to_text().as_str(), u64::read(written)), (written, Ok(ms)));
        }
        assert_eq!(
            (2_000u64.to_display(), Size(3 << 19).to_display()),
            ("2.0 s".into(), "1.5 MiB".into())
        );
    }
}
