//! The address at which a daemon listens for NBD.

use crate::front::Inherited;
use ring::Listener;
use stack::{Exit, Failure};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Default port of the protocol. Source: IANA, service nbd.
const PORT: u16 = 10_809;

/// Maximum number of attempts to bind an address that is taken.
const BIND_TRIES: u32 = 200;

/// Waits between two attempts: 10 ms.
#[allow(clippy::disallowed_methods, reason = "at start, before any task runs on the lane")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

/// An address to listen at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A unix socket. Its directory must exist; only the runtime directory is created.
    Unix(PathBuf),
    /// TCP, without encryption or authentication.
    Tcp(SocketAddr),
}

impl Place {
    /// Parses `unix:PATH` or `tcp:ADDRESS[:PORT]`; the latter only with `insecure_tcp`.
    ///
    /// # Errors
    /// Usage, with a correction.
    pub fn parse(text: &str, insecure_tcp: bool) -> Result<Place, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(usage("--nbd unix: needs a path; write unix:PATH".into()));
            }
            return Ok(Place::Unix(PathBuf::from(path)));
        }
        let Some(address) = text.strip_prefix("tcp:") else {
            return Err(usage(format!("--nbd {text}: write unix:PATH or tcp:ADDRESS:PORT")));
        };
        if !insecure_tcp {
            return Err(usage(format!(
                "--nbd {text}: NBD over TCP is neither encrypted nor authenticated here, and any \
                 client that reaches the address can read and change all data; to accept that, \
                 add --insecure-tcp (in a config file: insecure_tcp = true), otherwise use \
                 unix:PATH and forward it over the network with ssh -L"
            )));
        }
        let found = address.to_socket_addrs().or_else(|_| (address, PORT).to_socket_addrs());
        let found = found.ok().and_then(|mut all| all.next());
        found.map(Place::Tcp).ok_or_else(|| {
            usage(format!("--nbd {text}: '{address}' is not an address; write tcp:127.0.0.1:10809"))
        })
    }

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
            let place = self.to_string();
            let bare = place.split_once(':').map_or("", |(_, rest)| rest);
            let error = error.to_string();
            let what = error.strip_prefix(&format!("{bare}: ")).unwrap_or(&error);
            Failure::new(exit, format!("cannot listen at {bare}: {what} (--nbd unix:PATH)"))
        })
    }

    /// Binds. The kernel closes the descriptors of a killed daemon, including its listener, only
    /// after the last of its I/O, which may be a while after its process has ended.
    fn bind_waiting(&self, runtime: &Path) -> std::io::Result<Listener> {
        let mut tries = 0;
        loop {
            let bound = match self {
                Place::Unix(path) if path.parent() == Some(runtime) => Listener::bind_private(path),
                Place::Unix(path) => Listener::bind(path),
                Place::Tcp(address) => Listener::bind_tcp(*address),
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

    /// Returns the URI of an export here. Source: the NBD URI specification, doc/uri.md of the NBD
    /// project.
    pub(crate) fn uri(&self, export: &str, listener: &Listener) -> String {
        match self {
            Place::Unix(path) => {
                format!("nbd+unix:///{}?socket={}", escape(export), escape(&path.to_string_lossy()))
            }
            Place::Tcp(address) => {
                let address = listener.address().unwrap_or(*address);
                format!("nbd://{address}/{}", escape(export))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
            Place::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte as char);
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_or_refused_with_a_mend() {
        let unix = Place::parse("unix:/run/x.sock", false).expect("a path");
        assert_eq!(unix, Place::Unix(PathBuf::from("/run/x.sock")));
        let refused = Place::parse("tcp:127.0.0.1:10809", false).expect_err("not asked for");
        assert!(refused.message.contains("--insecure-tcp"), "{refused}");
        let tcp = Place::parse("tcp:127.0.0.1", true).expect("the usual port");
        assert_eq!(tcp.to_string(), "tcp:127.0.0.1:10809");
        for bad in ["unix:", "/run/x.sock", "tcp:", "tcp:host:port:port"] {
            assert_eq!(Place::parse(bad, true).expect_err(bad).exit, Exit::Usage, "{bad}");
        }
    }

    #[test]
    fn names_are_escaped_in_uris() {
        assert_eq!(escape("a b/ü"), "a%20b/%C3%BC");
    }
}
