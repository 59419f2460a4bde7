//! Values of a configuration that a daemon reads only when it starts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The values that a daemon reads only when it starts, for one of its volumes; defaults are left
/// out. A reload compares them with the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StartValues {
    /// The values by their keys.
    pub values: BTreeMap<String, String>,
    /// Keys that the command line has replaced: a change of the file changes nothing.
    pub replaced: Vec<String>,
}

impl StartValues {
    /// Returns the differences of a configuration that need another start, each `KEY=VALUE`.
    pub fn differences(&self, wanted: &StartValues) -> Vec<String> {
        let keys = self.values.keys().chain(wanted.values.keys());
        let mut keys: Vec<&String> = keys.filter(|key| !self.replaced.contains(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| self.values.get(*key) != wanted.values.get(*key));
        let value = |key| wanted.values.get(key).map_or("default", String::as_str);
        keys.into_iter().map(|key| format!("{key}={}", value(key))).collect()
    }
}
