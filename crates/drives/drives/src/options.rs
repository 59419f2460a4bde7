//! What is chosen for one drive, beside its model.

/// What differs between two drives of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Options {
    /// Where random choices begin.
    pub seed: u64,
    /// What compression makes of the host's data, from 0 to 1, which is incompressible.
    pub data_share: f64,
    /// Bytes that the host sees, if not the model's own: to leave more or less flash to spare.
    pub user_bytes: Option<u64>,
}

impl Default for Options {
    /// Seed 1, incompressible data, the model's capacity.
    fn default() -> Options {
        Options { seed: 1, data_share: 1.0, user_bytes: None }
    }
}
