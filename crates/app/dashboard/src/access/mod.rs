//! Tokens and sessions, and the rights that they give.

pub(crate) mod secret;
pub(crate) mod sessions;
pub(crate) mod tokens;

/// The rights of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Sees everything, and runs suites on modelled drives.
    Viewer,
    /// May also change volumes.
    Admin,
}
