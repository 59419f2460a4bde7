//! An export of an NBD server at a unix socket, by its URI: `nbd+unix:///NAME?socket=PATH`.

use block::Stack;
use nbd::client::{Connection, ExportAddress, Fault, Remote, ServerSocket, Wish};
use ring::{Ring, Socket};
use stack::{Exit, Failure};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the name of an export and the path of its server's socket.
fn parse(uri: &str) -> Option<(String, PathBuf)> {
    match ExportAddress::parse(uri).ok()? {
        ExportAddress { socket: ServerSocket::Unix(path), export } => Some((export, path)),
        _ => None,
    }
}

fn failure(uri: &str, error: &io::Error) -> Failure {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref());
    let exit = match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Exit::NoDaemon,
        ErrorKind::PermissionDenied => Exit::Permission,
        // The server answered with a refusal.
        _ if matches!(fault, Some(Fault::Refused { .. })) => Exit::Negative,
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{uri}: cannot reach the export: {error}"))
}

/// Opens the export as a device on the ring's lane.
pub(crate) fn open(uri: &str, ring: &Ring) -> Result<Stack, Failure> {
    let wrong = || {
        let message = format!("{uri}: an export is named nbd+unix:///NAME?socket=PATH");
        Failure::new(Exit::Usage, message)
    };
    let (export, socket) = parse(uri).ok_or_else(wrong)?;
    let wish = Wish { sizes: true, ..Wish::export(&export) };
    let connection = Connection::open(&socket, wish).map_err(|error| failure(uri, &error))?;
    let agreed = connection.agreed().clone();
    let file = Arc::new(OwnedFd::from(connection.into_stream()));
    let socket = Socket::new(ring, file);
    Ok(Stack::new(ring.lane(), Remote::from_wire(ring.lane(), socket, &agreed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_breaks_the_protocol_is_no_server_that_says_no() {
        let exit = |fault: Fault| failure("nbd+unix:///a?socket=b", &fault.into()).exit;
        let refused = Fault::Refused { reply: 0x8000_0006, text: "no such export".to_owned() };
        assert_eq!((exit(refused), exit(Fault::Nonsense("magic"))), (Exit::Negative, Exit::Io));
    }

    #[test]
    fn only_exports_at_unix_sockets_are_understood() {
        let found = ("disk".to_owned(), PathBuf::from("/run/a.sock"));
        assert_eq!(parse("nbd+unix:///disk?socket=/run/a.sock"), Some(found));
        for bad in ["nbd+unix:///disk", "nbd+unix:///disk?socket=", "nbd://host/disk"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
