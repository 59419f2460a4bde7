//! The options of one drive, in addition to its model.

/// Differences between two drives of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Seed of the random choices.
    pub seed: u64,
    /// The part to which the host's data can be compressed, from 0 to 1, which is incompressible.
    pub data_share: f64,
    /// Visible size in bytes, if not the model's own: to leave more or less spare flash.
    pub user_bytes: Option<u64>,
}

impl Default for Options {
    /// Returns the defaults: seed 1, incompressible data, the model's capacity.
    fn default() -> Options {
        Options { seed: 1, data_share: 1.0, user_bytes: None }
    }
}
