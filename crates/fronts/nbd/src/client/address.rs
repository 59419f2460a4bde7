//! The address of an export, as a URI.
//!
//! Source: "The NBD Uniform Resource Indicator (URI) format", doc/uri.md of
//! github.com/NetworkBlockDevice/nbd.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// The port that the protocol has from IANA.
pub const NBD_PORT: u16 = 10809;

/// The socket of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerSocket {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// A name, or a numeric address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A server's socket, and the name of an export there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportAddress {
    /// The server's socket.
    pub socket: ServerSocket,
    /// Name of the export; empty: the default export.
    pub export: String,
    /// The use of TLS. None: the connection is not encrypted.
    pub tls: Option<AddressTls>,
}

/// The use of TLS in an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressTls {
    /// The directory with the client's certificates and authorities.
    pub certificates: PathBuf,
    /// The host for which the server must have a certificate. None: the host of the address.
    pub host: Option<String>,
}

impl ExportAddress {
    /// Parses `nbd://HOST[:PORT][/EXPORT]` or `nbd+unix:///[EXPORT]?socket=PATH`; with `nbds`
    /// instead of `nbd`, also the parameters `tls-certificates=DIR`, which is required, and
    /// `tls-hostname=HOST`, which a unix socket requires.
    ///
    /// # Errors
    /// The correct form.
    pub fn parse(uri: &str) -> Result<ExportAddress, &'static str> {
        if let Some(rest) = uri.strip_prefix("nbd+unix://") {
            unix(rest).ok_or("write nbd+unix:///EXPORT?socket=PATH")
        } else if let Some(rest) = uri.strip_prefix("nbd://") {
            tcp(rest).ok_or("write nbd://HOST:PORT/EXPORT")
        } else if let Some(rest) = uri.strip_prefix("nbds://") {
            let form = "write nbds://HOST:PORT/EXPORT?tls-certificates=DIR";
            let (rest, query) = rest.split_once('?').ok_or(form)?;
            let tls = tls(query, &["tls-certificates", "tls-hostname"]).ok_or(form)?;
            Ok(ExportAddress { tls: Some(tls), ..tcp(rest).ok_or(form)? })
        } else if let Some(rest) = uri.strip_prefix("nbds+unix://") {
            let form =
                "write nbds+unix:///EXPORT?socket=PATH&tls-certificates=DIR&tls-hostname=HOST";
            let (_, query) = rest.split_once('?').ok_or(form)?;
            let tls = tls(query, &["socket", "tls-certificates", "tls-hostname"]).ok_or(form)?;
            tls.host.as_ref().ok_or(form)?;
            Ok(ExportAddress { tls: Some(tls), ..unix(rest).ok_or(form)? })
        } else {
            Err("write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH")
        }
    }

    /// Returns the host for which the server must have a certificate, with the directory of the
    /// client's certificates. None: the connection is not encrypted.
    pub fn trusted_host(&self) -> Option<(&Path, &str)> {
        let tls = self.tls.as_ref()?;
        let host = match (&tls.host, &self.socket) {
            (Some(host), _) | (None, ServerSocket::Tcp { host, .. }) => host,
            (None, ServerSocket::Unix(_)) => return None,
        };
        Some((&tls.certificates, host))
    }
}

impl fmt::Display for ExportAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = percent_encode(&self.export);
        let scheme = if self.tls.is_some() { "nbds" } else { "nbd" };
        let mut separator = '?';
        match &self.socket {
            ServerSocket::Unix(path) => {
                let path = percent_encode(&path.to_string_lossy());
                write!(out, "{scheme}+unix:///{export}?socket={path}")?;
                separator = '&';
            }
            ServerSocket::Tcp { host, port } if host.contains(':') => {
                write!(out, "{scheme}://[{host}]:{port}/{export}")?;
            }
            ServerSocket::Tcp { host, port } => {
                write!(out, "{scheme}://{}:{port}/{export}", percent_encode(host))?;
            }
        }
        let Some(AddressTls { certificates, host }) = &self.tls else { return Ok(()) };
        let certificates = percent_encode(&certificates.to_string_lossy());
        write!(out, "{separator}tls-certificates={certificates}")?;
        match host {
            Some(host) => write!(out, "&tls-hostname={}", percent_encode(host)),
            None => Ok(()),
        }
    }
}

/// Returns a text as a part of a URI (RFC 3986, section 2.1); `/` stays.
pub fn percent_encode(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(byte as char);
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

fn unix(rest: &str) -> Option<ExportAddress> {
    let (path, query) = rest.split_once('?')?;
    let socket = ServerSocket::Unix(parameter(query, "socket")?.into());
    Some(ExportAddress { socket, export: export_of(path)?, tls: None })
}

/// Returns the value of a parameter. None: it is missing, empty or not valid.
fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(its, _)| *its == name)?.1;
    percent_decode(value).filter(|value| !value.is_empty())
}

/// Returns the use of TLS in the parameters, which must have known names: an unknown one may
/// demand what this client does not do.
fn tls(query: &str, known: &[&str]) -> Option<AddressTls> {
    let mut names = query.split('&').map(|pair| pair.split_once('=').map(|(name, _)| name));
    if !names.all(|name| name.is_some_and(|name| known.contains(&name))) {
        return None;
    }
    let host = match query.contains("tls-hostname=") {
        true => Some(parameter(query, "tls-hostname")?),
        false => None,
    };
    Some(AddressTls { certificates: parameter(query, "tls-certificates")?.into(), host })
}

fn tcp(rest: &str) -> Option<ExportAddress> {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if path.contains('?') || authority.contains(['@', '?']) {
        return None;
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None if port.is_empty() => NBD_PORT,
        None => return None,
    };
    let host = percent_decode(host).filter(|host| !host.is_empty())?;
    let socket = ServerSocket::Tcp { host, port };
    Some(ExportAddress { socket, export: export_of(path)?, tls: None })
}

/// Returns the name of the export in the path of a URI.
fn export_of(path: &str) -> Option<String> {
    percent_decode(path.strip_prefix('/').unwrap_or(path))
}

/// Decodes `%XX`. None: a `%` without two digits after it, or the result is not a text that the
/// protocol permits.
fn percent_decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|it| !it.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    let is_permitted =
        |text: &String| text.len() <= crate::codec::STRING_BYTES_MAX && !text.contains('\0');
    String::from_utf8(bytes).ok().filter(is_permitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_understood() {
        let unix = |uri: &str, export: &str, socket: &str| {
            let socket = ServerSocket::Unix(socket.into());
            let wanted = ExportAddress { export: export.to_owned(), socket, tls: None };
            assert_eq!(ExportAddress::parse(&wanted.to_string()).as_ref(), Ok(&wanted));
            assert_eq!(ExportAddress::parse(uri), Ok(wanted), "{uri}");
        };
        unix("nbd+unix:///disk?socket=/run/a.sock", "disk", "/run/a.sock");
        unix("nbd+unix://?socket=a%20b.sock", "", "a b.sock");
        unix("nbd+unix:///a%2Fb?x=1&socket=/s", "a/b", "/s");
        let tcp = |uri: &str, export: &str, host: &str, port: u16| {
            let socket = ServerSocket::Tcp { host: host.to_owned(), port };
            let wanted = ExportAddress { export: export.to_owned(), socket, tls: None };
            assert_eq!(ExportAddress::parse(&wanted.to_string()).as_ref(), Ok(&wanted));
            assert_eq!(ExportAddress::parse(uri), Ok(wanted), "{uri}");
        };
        tcp("nbd://host", "", "host", NBD_PORT);
        tcp("nbd://host/", "", "host", NBD_PORT);
        tcp("nbd://10.0.0.1:99/a%20b", "a b", "10.0.0.1", 99);
        tcp("nbd://[::1]:99/x/y", "x/y", "::1", 99);
        tcp("nbd://[fe80::1]", "", "fe80::1", NBD_PORT);
    }

    #[test]
    fn uris_with_tls_have_certificates_and_a_host_to_be_checked() {
        for (uri, directory, host) in [
            ("nbds://a.b:99/x?tls-certificates=/c", "/c", "a.b"),
            ("nbds://[::1]?tls-certificates=c%20d", "c d", "::1"),
            ("nbds://10.0.0.1/?tls-hostname=h&tls-certificates=/c", "/c", "h"),
            ("nbds+unix:///x?socket=/s&tls-certificates=/c&tls-hostname=h", "/c", "h"),
        ] {
            let address = ExportAddress::parse(uri).unwrap_or_else(|form| panic!("{uri}: {form}"));
            assert_eq!(address.trusted_host(), Some((Path::new(directory), host)), "{uri}");
            assert_eq!(ExportAddress::parse(&address.to_string()), Ok(address));
        }
        let plain = ExportAddress::parse("nbd://host/").expect("a good one");
        assert_eq!(plain.trusted_host(), None);
    }

    #[test]
    fn other_uris_are_refused() {
        for bad in [
            "nbd+unix:///disk",
            "nbd+unix:///disk?socket=",
            "nbd+unix:///%zz?socket=/s",
            "nbd+unix:///%+1?socket=/s",
            "nbd+unix:///%00?socket=/s",
            "nbd+unix:///%ff?socket=/s",
            "nbd://",
            "nbd://:99/disk",
            "nbd://host:0/disk",
            "nbd://host:x/disk",
            "nbd://host:70000/disk",
            "nbd://host:/disk",
            "nbd://user@host/disk",
            "nbd://host/disk?socket=/s",
            "nbd://host?x",
            "nbd://[::1/disk",
            "nbd://[::1]99/disk",
            "nbd://[host]/disk",
            "nbds://host/disk",
            "nbds://host/disk?tls-certificates=",
            "nbds://host/disk?tls-certificates=/c&tls-hostname=",
            "nbds://host/disk?tls-certificates=/c&tls-verify-peer=false",
            "nbds://host/disk?tls-certificates=/c&x",
            "nbds+unix:///disk?socket=/s&tls-certificates=/c",
            "nbds+unix:///disk?tls-certificates=/c&tls-hostname=h",
            "disk.img",
        ] {
            assert!(ExportAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
