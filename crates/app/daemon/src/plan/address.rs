//! The address at which a daemon listens for NBD.

use stack::{Exit, Failure};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// Default port of the protocol. Source: IANA, service nbd.
const PORT: u16 = 10_809;

/// An address to listen at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NbdAddress {
    /// A unix socket. Its directory must exist; only the runtime directory is created.
    Unix(PathBuf),
    /// TCP, which by itself has neither encryption nor authentication.
    Tcp(SocketAddr),
}

impl NbdAddress {
    /// Parses `unix:PATH` or `tcp:ADDRESS[:PORT]`; the latter only with `permits_tcp`: TLS protects
    /// all clients there, or an operator accepts that nothing does.
    ///
    /// # Errors
    /// Usage, with a correction.
    pub fn parse(text: &str, permits_tcp: bool) -> Result<NbdAddress, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(usage("--nbd unix: needs a path; write unix:PATH".into()));
            }
            return Ok(NbdAddress::Unix(PathBuf::from(path)));
        }
        let Some(address) = text.strip_prefix("tcp:") else {
            return Err(usage(format!("--nbd {text}: write unix:PATH or tcp:ADDRESS:PORT")));
        };
        if !permits_tcp {
            return Err(usage(format!(
                "--nbd {text}: NBD over TCP is neither encrypted nor authenticated here, and any \
                 client that reaches the address can read and change all data; protect it with \
                 --tls require --tls-certificates DIR --tls-verify-peer, or use unix:PATH and \
                 forward it over the network with ssh -L; to accept the risk, add --insecure-tcp \
                 (in a config file: insecure_tcp = true)"
            )));
        }
        let found = address.to_socket_addrs().or_else(|_| (address, PORT).to_socket_addrs());
        let found = found.ok().and_then(|mut all| all.next());
        found.map(NbdAddress::Tcp).ok_or_else(|| {
            usage(format!("--nbd {text}: '{address}' is not an address; write tcp:127.0.0.1:10809"))
        })
    }
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NbdAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            NbdAddress::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_or_refused_with_a_mend() {
        let unix = NbdAddress::parse("unix:/run/x.sock", false).expect("a path");
        assert_eq!(unix, NbdAddress::Unix(PathBuf::from("/run/x.sock")));
        let refused = NbdAddress::parse("tcp:127.0.0.1:10809", false).expect_err("not asked for");
        assert!(refused.message.contains("--insecure-tcp"), "{refused}");
        let tcp = NbdAddress::parse("tcp:127.0.0.1", true).expect("the usual port");
        assert_eq!(tcp.to_string(), "tcp:127.0.0.1:10809");
        for bad in ["unix:", "/run/x.sock", "tcp:", "tcp:host:port:port"] {
            assert_eq!(NbdAddress::parse(bad, true).expect_err(bad).exit, Exit::Usage, "{bad}");
        }
    }
}
