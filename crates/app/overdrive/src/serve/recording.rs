//! Options for the history.

use daemon::config::Config;
use daemon::{DriveSamples, HistoryFile};

#[derive(clap::Args)]
pub(crate) struct Recording {
    /// Record samples of the volumes and their drives in this file, 'off': nowhere [default:
    /// samples.sqlite3 in the state directory].
    #[arg(long, value_name = "PATH|off", value_parser = str::parse::<HistoryFile>)]
    history: Option<HistoryFile>,

    /// Time between two samples of the health of the drives below the volumes, for 'drive history';
    /// needs root. Drives that sleep or are busy are left alone [default: 1h].
    #[arg(long, value_name = "TIME|off", value_parser = str::parse::<DriveSamples>)]
    drive_samples: Option<DriveSamples>,
}

impl Recording {
    /// Returns the keys of a config file that were given as options.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &'static str> {
        let given =
            [("history", self.history.is_some()), ("drive_samples", self.drive_samples.is_some())];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key)
    }

    /// Replaces the configuration's values by the options that were given.
    pub(crate) fn apply(&self, config: &mut Config) {
        config.history = self.history.clone().or(config.history.take());
        config.drive_samples = self.drive_samples.or(config.drive_samples);
    }
}
