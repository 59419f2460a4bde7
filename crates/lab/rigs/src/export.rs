//! An export of an NBD server at a unix socket, by its URI: `nbd+unix:///NAME?socket=PATH`.

use block::Stack;
use nbd::client::{Connection, Fault, Remote, Wish};
use ring::{Ring, Socket};
use stack::{Exit, Failure};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The parts of a URI.
#[derive(PartialEq, Eq, Debug)]
struct ExportAddress {
    export: String,
    socket: PathBuf,
}

/// Decodes `%XX`. None: a `%` without two digits after it, or the result is not UTF-8.
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
    String::from_utf8(bytes).ok()
}

fn place(uri: &str) -> Option<ExportAddress> {
    let (path, query) = uri.strip_prefix("nbd+unix://")?.split_once('?')?;
    let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="))?;
    let export = percent_decode(path.strip_prefix('/').unwrap_or(path))?;
    let socket = percent_decode(socket).filter(|socket| !socket.is_empty())?;
    Some(ExportAddress { export, socket: socket.into() })
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
    let place = place(uri).ok_or_else(wrong)?;
    let wish = Wish { sizes: true, ..Wish::export(&place.export) };
    let connection = Connection::open(&place.socket, wish).map_err(|error| failure(uri, &error))?;
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
    fn uris_are_understood() {
        let good = |uri: &str, export: &str, socket: &str| {
            let wanted = ExportAddress { export: export.to_owned(), socket: socket.into() };
            assert_eq!(place(uri), Some(wanted), "{uri}");
        };
        good("nbd+unix:///disk?socket=/run/a.sock", "disk", "/run/a.sock");
        good("nbd+unix://?socket=a%20b.sock", "", "a b.sock");
        good("nbd+unix:///a%2Fb?x=1&socket=/s", "a/b", "/s");
        for bad in [
            "nbd+unix:///disk",
            "nbd+unix:///disk?socket=",
            "nbd+unix:///%zz?socket=/s",
            "nbd+unix:///%+1?socket=/s",
            "nbd://host/disk",
        ] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }
}
