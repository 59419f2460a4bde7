//! The address at which a daemon serves its metrics.

use stack::{Exit, Failure};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// An address for metrics over HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAddress {
    /// A unix socket, for its owner only.
    Unix(PathBuf),
    /// TCP, for every user of this machine.
    Tcp(SocketAddr),
}

impl MetricsAddress {
    /// Returns the path of a unix socket.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            MetricsAddress::Unix(path) => Some(path),
            MetricsAddress::Tcp(_) => None,
        }
    }

    /// Parses `unix:PATH`, or `ADDRESS:PORT` of this machine; another address only as
    /// `tcp:ADDRESS:PORT` and with `insecure_tcp`.
    ///
    /// # Errors
    /// Usage, with a correction.
    pub fn parse(text: &str, insecure_tcp: bool) -> Result<MetricsAddress, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(usage("metrics unix: needs a path; write unix:PATH".to_owned()));
            }
            return Ok(MetricsAddress::Unix(PathBuf::from(path)));
        }
        let is_explicit = text.starts_with("tcp:");
        let address = text.strip_prefix("tcp:").unwrap_or(text);
        let local = address.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let local = local.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        let Some(address) = address.parse::<SocketAddr>().ok().or(local) else {
            let message = "write unix:PATH or 127.0.0.1:PORT";
            return Err(usage(format!("metrics {text}: is not an address; {message}")));
        };
        let is_accepted = is_explicit && insecure_tcp;
        if !is_accepted && !address.ip().is_loopback() {
            return Err(usage(format!(
                "metrics {text}: {} is reached from other machines, and metrics are neither \
                 encrypted nor authenticated; use 127.0.0.1:{port} or unix:PATH, or write \
                 tcp:{address} and add --insecure-tcp (in a config file: insecure_tcp = true)",
                address.ip(),
                port = address.port(),
            )));
        }
        Ok(MetricsAddress::Tcp(address))
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            MetricsAddress::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_accepted_without_a_word() {
        for (text, written) in [
            ("unix:/run/x.sock", "unix:/run/x.sock"),
            ("127.0.0.1:9090", "tcp:127.0.0.1:9090"),
            ("[::1]:0", "tcp:[::1]:0"),
            ("localhost:80", "tcp:127.0.0.1:80"),
            ("tcp:127.0.0.2:1", "tcp:127.0.0.2:1"),
        ] {
            let address = MetricsAddress::parse(text, false).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(address.to_string(), written);
        }
        for text in ["0.0.0.0:9090", "[::]:1", "tcp:192.0.2.1:9", "10.0.0.1:9"] {
            let refused = MetricsAddress::parse(text, false).expect_err(text);
            assert!(refused.message.contains("--insecure-tcp"), "{refused}");
        }
        assert!(MetricsAddress::parse("0.0.0.0:9090", true).is_err(), "not spelled out");
        assert!(MetricsAddress::parse("tcp:0.0.0.0:9090", true).is_ok());
        for bad in ["", "unix:", "9090", "example.org:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert_eq!(MetricsAddress::parse(bad, true).expect_err(bad).exit, Exit::Usage);
        }
    }
}
