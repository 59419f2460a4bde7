//! The settings of a cache as options of the command line: each is a row of [`SETTINGS`].

use block::CacheSpec;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::Error;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use daemon::LOG_LEVEL;
use daemon::settings::{SETTINGS, Setting};

/// Cache settings given on the command line. With `SUITE`, those of a suite: the cache's memory is
/// then a separate option of the suite, which the settings require.
#[derive(Clone, Debug)]
pub(crate) struct Said<const SUITE: bool>(Vec<(&'static Setting, String)>);

fn settings(suite: bool) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |setting| setting.key != "memory" || !suite)
}

fn option(setting: &'static Setting, suite: bool) -> Arg {
    let default = match suite {
        true => "as for 'overdrive serve', or the suite's default".to_owned(),
        false => setting.default(),
    };
    let option = Arg::new(setting.key)
        .long(setting.option())
        .help(format!("{} [default: {default}]", setting.meaning()));
    let option = if suite { option.requires("cache") } else { option };
    let words = setting.words();
    if words.is_empty() {
        let read =
            |text: &str| setting.read(&mut CacheSpec::default(), text).map(|()| text.to_owned());
        return option.value_name(setting.values()).value_parser(read);
    }
    let words = words
        .into_iter()
        .map(|(word, meaning)| PossibleValue::new(word).help(meaning.trim_end_matches('.')));
    option.value_name(setting.key.to_uppercase()).value_parser(PossibleValuesParser::new(words))
}

impl<const SUITE: bool> Said<SUITE> {
    /// Returns the keys of the settings that were given.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(setting, _)| setting.key)
    }

    /// Replaces the spec's values by the settings that were given.
    pub(crate) fn apply(&self, spec: &mut CacheSpec) {
        for (setting, text) in &self.0 {
            setting.read(spec, text).expect("it was read when it was said");
        }
    }
}

impl<const SUITE: bool> Args for Said<SUITE> {
    fn augment_args(command: Command) -> Command {
        settings(SUITE).fold(command, |command, setting| command.arg(option(setting, SUITE)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SUITE: bool> FromArgMatches for Said<SUITE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let said = |setting: &'static Setting| {
            Some((setting, matches.get_one::<String>(setting.key)?.clone()))
        };
        Ok(Said(settings(SUITE).filter_map(said).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the settings that `volume set` accepts, for its help.
pub(crate) fn settable() -> String {
    let live = SETTINGS.iter().filter(|setting| setting.is_live());
    let lines = live.map(|setting| format!("  {}={}", setting.key, setting.values()));
    let mut lines: Vec<String> = lines.collect();
    lines.push(format!("  {LOG_LEVEL}=error|notice|debug   (of the whole daemon)"));
    let head = "Settings, with the values of 'overdrive serve' ('-' and '_' are equivalent):";
    format!("{head}\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a setting's line of the table in docs/OPTIONS.md.
    fn line(setting: &Setting) -> String {
        let values = setting.values().replace('|', "\\|");
        let meaning = setting.meaning();
        let (first, rest) = meaning.split_at(1);
        let fixed = if setting.is_live() { "" } else { "; fixed while the volume is served" };
        let (option, default) = (setting.option(), setting.default());
        format!("| `--{option} {values}` | {default} | {}{rest}{fixed} |", first.to_lowercase())
    }

    #[test]
    fn the_documents_have_the_table() {
        let expected: Vec<String> = SETTINGS.iter().map(line).collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/OPTIONS.md");
        let text = std::fs::read_to_string(path).expect("the document");
        let is_of_setting = |line: &&str| {
            let option = line.strip_prefix("| `--").and_then(|rest| rest.split([' ', '`']).next());
            option.is_some_and(|option| Setting::named(&option.replace('-', "_")).is_some())
        };
        let found: Vec<&str> = text.lines().filter(is_of_setting).collect();
        assert_eq!(found, expected, "docs/OPTIONS.md should have\n{}\n", expected.join("\n"));
    }

    #[test]
    fn a_suite_has_all_settings_but_the_memory() {
        let command = Said::<true>::augment_args(Command::new("bench"));
        let mut all: Vec<&str> = vec!["memory"];
        all.extend(command.get_arguments().map(|argument| argument.get_id().as_str()));
        assert_eq!(all, SETTINGS.iter().map(|setting| setting.key).collect::<Vec<_>>());
    }

    #[test]
    fn what_can_be_set_is_reported_in_the_help() {
        let text = settable();
        assert!(text.contains("\n  durability=flush|ordered|scratch\n"), "{text}");
        assert!(text.contains("\n  dirty_age=TIME\n") && text.contains("guard=on|off"), "{text}");
        assert!(!text.contains("memory="), "{text}");
    }
}
