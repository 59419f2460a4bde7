//! Who may see and change what: tokens, sessions, and the checks of each request.

pub(crate) mod checks;
pub(crate) mod form;
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
