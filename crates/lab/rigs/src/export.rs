//! An export of an NBD server at a unix socket, by its URI: `nbd+unix:///NAME?socket=PATH`.

use block::Stack;
use nbd::client::{Connection, ExportAddress, Remote, ServerSocket, Wish};
use ring::{Ring, Socket};
use stack::{Exit, Failure, unreachable_export};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the name of an export and the path of its server's socket.
fn parse(uri: &str) -> Option<(String, PathBuf)> {
    match ExportAddress::parse(uri).ok()? {
        ExportAddress { socket: ServerSocket::Unix(path), export, tls: None } => {
            Some((export, path))
        }
        _ => None,
    }
}

/// Opens the export as a device on the ring's lane.
pub(crate) fn open(uri: &str, ring: &Ring) -> Result<Stack, Failure> {
    let wrong = || {
        let message = format!("{uri}: an export is named nbd+unix:///NAME?socket=PATH");
        Failure::new(Exit::Usage, message)
    };
    let (export, socket) = parse(uri).ok_or_else(wrong)?;
    let wish = Wish { sizes: true, ..Wish::export(&export) };
    let connection =
        Connection::open(&socket, wish).map_err(|error| unreachable_export(uri, &error))?;
    let agreed = connection.agreed().clone();
    let file = Arc::new(OwnedFd::from(connection.into_stream()));
    let socket = Socket::new(ring, file);
    Ok(Stack::new(ring.lane(), Remote::from_wire(ring.lane(), socket, &agreed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exports_at_unix_sockets_are_understood() {
        let found = ("disk".to_owned(), PathBuf::from("/run/a.sock"));
        assert_eq!(parse("nbd+unix:///disk?socket=/run/a.sock"), Some(found));
        for bad in ["nbd+unix:///disk", "nbd+unix:///disk?socket=", "nbd://host/disk"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
