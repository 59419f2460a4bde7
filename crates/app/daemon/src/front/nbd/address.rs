//! Listening at an address for NBD, and the URIs of exports there.

use crate::front::Inherited;
use crate::plan::NbdAddress;
use nbd::client::percent_encode;
use ring::Listener;
use stack::{Exit, Failure};
use std::path::Path;

/// Maximum number of further attempts to bind an address that is taken.
const BIND_TRIES: u32 = 200;

/// Waits between two attempts: 10 ms.
#[allow(clippy::disallowed_methods, reason = "at start, before any task runs on the lane")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

impl NbdAddress {
    /// Listens there, or continues with the listener of an earlier program of this process.
    pub(crate) fn listen(
        &self,
        runtime: &Path,
        inherited: &mut Inherited,
    ) -> Result<Listener, Failure> {
        // An unusable descriptor is replaced by a new listener.
        let left = inherited.take(&self.to_string());
        if let Some(listener) = left.and_then(|file| Listener::from_file(file).ok()) {
            return Ok(listener);
        }
        self.bind_waiting(runtime).map_err(|error| {
            let exit = match error.kind() {
                std::io::ErrorKind::AddrInUse => Exit::Busy,
                std::io::ErrorKind::PermissionDenied => Exit::Permission,
                _ => Exit::Usage,
            };
            // Most of the listener's sentences name the address, but not those of the system.
            let text = self.to_string();
            let bare = text.split_once(':').map_or("", |(_, rest)| rest);
            let error = error.to_string();
            let what = error.strip_prefix(&format!("{bare}: ")).unwrap_or(&error);
            Failure::new(exit, format!("cannot listen at {bare}: {what} (--nbd unix:PATH)"))
        })
    }

    /// Binds, and waits for an address that is taken: the kernel closes the listener of a killed
    /// daemon only after the last of the daemon's I/O, which may be a while after its death.
    fn bind_waiting(&self, runtime: &Path) -> std::io::Result<Listener> {
        let mut tries = 0;
        loop {
            let bound = match self {
                NbdAddress::Unix(path) if path.parent() == Some(runtime) => {
                    Listener::bind_private(path)
                }
                NbdAddress::Unix(path) => Listener::bind(path),
                NbdAddress::Tcp(address) => Listener::bind_tcp(*address),
            };
            let taken =
                bound.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse);
            if !taken || tries == BIND_TRIES {
                return bound;
            }
            tries += 1;
            pause();
        }
    }

    /// Returns the URI of an export here, whose clients must use TLS if `is_encrypted`. Source: the
    /// NBD URI specification, doc/uri.md of the NBD project.
    pub(crate) fn uri(&self, export: &str, listener: &Listener, is_encrypted: bool) -> String {
        let scheme = if is_encrypted { "nbds" } else { "nbd" };
        match self {
            NbdAddress::Unix(path) => {
                format!(
                    "{scheme}+unix:///{}?socket={}",
                    percent_encode(export),
                    percent_encode(&path.to_string_lossy())
                )
            }
            NbdAddress::Tcp(address) => {
                let address = listener.address().unwrap_or(*address);
                format!("{scheme}://{address}/{}", percent_encode(export))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_uris() {
        assert_eq!(percent_encode("a b/ü"), "a%20b/%C3%BC");
    }
}
