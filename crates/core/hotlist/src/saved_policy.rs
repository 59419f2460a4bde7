//! The state of a cache's policy, as it is saved between two lives of a daemon.
//!
//! The header is that of a list of hot blocks, with the magic "ODPOLICY" and one part. After it:
//! the state, in bytes that only the cache reads.

use crate::{BLOCKS_MAX, Description, FIXED, IDENTITY_MAX, MAGIC_BYTES, Unusable, header};
use alloc::vec::Vec;

/// Maximum number of bytes of a saved state: a megabyte of samples, and two bytes for each slot.
pub const POLICY_BYTES_MAX: usize = FIXED + IDENTITY_MAX + (1 << 20) + 2 * BLOCKS_MAX;

const POLICY_MAGIC: [u8; MAGIC_BYTES] = *b"ODPOLICY";

/// A valid file with the state of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedPolicy {
    of: Description,
    state: Vec<u8>,
}

impl SavedPolicy {
    /// Reads a file. The state is not examined.
    ///
    /// # Errors
    /// The bytes are no such file, damaged, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<SavedPolicy, Unusable> {
        if bytes.len() > POLICY_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let (of, _, rest) = header::open(bytes, &POLICY_MAGIC, Unusable::NoPolicy, 1)?;
        Ok(SavedPolicy { of, state: rest.0.to_vec() })
    }

    /// The volume from which it was saved.
    pub fn description(&self) -> &Description {
        &self.of
    }

    /// The state.
    pub fn state(&self) -> &[u8] {
        &self.state
    }
}

/// Returns the file of this state.
///
/// # Panics
/// If the identity is longer than [`IDENTITY_MAX`].
pub fn encode_policy(of: &Description, state: &[u8]) -> Vec<u8> {
    let mut bytes = header::begin(&POLICY_MAGIC, of, 1, state.len());
    bytes.extend_from_slice(state);
    header::seal(&mut bytes);
    bytes
}
