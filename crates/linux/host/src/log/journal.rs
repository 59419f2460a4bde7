//! Messages with fields for systemd's journal, by its own protocol: a datagram for each message,
//! with a line `FIELD=VALUE` for each field (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL>).
//!
//! The journal may write to a file system on a device of this very daemon. The daemon never waits
//! for it, as crates for this protocol do: a message that the journal does not accept is counted,
//! and the next accepted one is followed by that number.

use super::Severity;
use block::printable;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The socket of the journal.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Length of the longest text of a message, in bytes: as that of a line on a stream to the journal
/// (`LineMax` in journald.conf(5)), and short enough for a datagram.
const TEXT_BYTES_MAX: usize = 48 << 10;

/// A socket to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    /// Messages that the journal has not accepted and that are not reported yet.
    lost: AtomicU64,
}

/// Returns the fields of a message.
fn datagram(severity: Severity, volume: Option<&str>, text: &str) -> String {
    let text = text.trim_end().strip_prefix("overdrive: ").unwrap_or(text.trim_end());
    let mut lengths = (0..=TEXT_BYTES_MAX.min(text.len())).rev();
    let length = lengths.find(|length| text.is_char_boundary(*length));
    let text = &text[..length.unwrap_or_default()];
    let volume = volume.map_or(String::new(), |name| format!("VOLUME={}\n", printable(name)));
    let level = severity.level();
    format!("PRIORITY={level}\nSYSLOG_IDENTIFIER=overdrive\n{volume}MESSAGE={}\n", printable(text))
}

impl Journal {
    /// Creates a socket to the journal at this path. None: no descriptor is left.
    pub(super) fn at(path: &Path) -> Option<Journal> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Journal { socket, path: path.to_owned(), lost: AtomicU64::new(0) })
    }

    /// Sends a message of one line. False: no journal listens, so the message is to be written
    /// elsewhere.
    pub(super) fn send(&self, severity: Severity, volume: Option<&str>, text: &str) -> bool {
        let sent = self.socket.send_to(datagram(severity, volume, text).as_bytes(), &self.path);
        match sent.map_err(|error| error.kind()) {
            Ok(_) => self.report_lost(),
            Err(ErrorKind::WouldBlock) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
            Err(_) => return false,
        }
        true
    }

    /// Reports messages that were lost before.
    fn report_lost(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost == 0 {
            return;
        }
        let text = format!("{lost} messages are lost: the journal has not accepted them");
        let report = datagram(Severity::Error, None, &text);
        if self.socket.send_to(report.as_bytes(), &self.path).is_err() {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket in place of the journal's.
    struct Fake {
        _place: tempfile::TempDir,
        path: PathBuf,
        socket: UnixDatagram,
    }

    impl Fake {
        fn start() -> Fake {
            let place = tempfile::tempdir().expect("room");
            let path = place.path().join("socket");
            let socket = UnixDatagram::bind(&path).expect("a fresh directory");
            socket.set_nonblocking(true).expect("a socket");
            Fake { _place: place, path, socket }
        }

        fn next(&self) -> Option<String> {
            let mut bytes = vec![0; 1 << 20];
            let length = self.socket.recv(&mut bytes).ok()?;
            Some(String::from_utf8(bytes[..length].to_vec()).expect("text"))
        }
    }

    #[test]
    fn a_message_has_its_fields_and_no_other_field_comes_from_a_name_or_a_text() {
        let fake = Fake::start();
        let journal = Journal::at(&fake.path).expect("a descriptor");
        assert!(journal.send(Severity::Error, Some("db"), "overdrive: db: has failed\n"));
        assert_eq!(
            fake.next().as_deref(),
            Some("PRIORITY=3\nSYSLOG_IDENTIFIER=overdrive\nVOLUME=db\nMESSAGE=db: has failed\n")
        );
        assert!(journal.send(Severity::Notice, Some("a\nPRIORITY=0"), "x\nMESSAGE_ID=1"));
        let hostile = fake.next().expect("it was sent");
        assert_eq!(hostile.lines().count(), 4, "{hostile}");
        assert!(journal.send(Severity::Debug, None, &"é".repeat(TEXT_BYTES_MAX)));
        let long = fake.next().expect("it is short enough for a datagram");
        assert!(long.starts_with("PRIORITY=7\n") && !long.contains("VOLUME="));
    }

    #[test]
    fn a_journal_that_does_not_read_is_not_waited_for_and_learns_of_its_loss() {
        let fake = Fake::start();
        let journal = Journal::at(&fake.path).expect("a descriptor");
        // More than any queue of datagrams holds.
        let count = 100_000;
        for number in 0..count {
            assert!(journal.send(Severity::Notice, Some("db"), &number.to_string()));
        }
        let received = std::iter::from_fn(|| fake.next()).count();
        assert!(received < count, "nothing was lost: this proves nothing");
        assert!(journal.send(Severity::Notice, Some("db"), "later"));
        assert!(fake.next().expect("there is room").contains("MESSAGE=later\n"));
        let report = fake.next().expect("the number of lost messages");
        assert!(report.contains(&format!("MESSAGE={} messages are lost", count - received)));
        assert!(fake.next().is_none());
    }

    #[test]
    fn a_message_is_handed_back_if_nothing_listens() {
        let place = tempfile::tempdir().expect("room");
        let journal = Journal::at(&place.path().join("socket")).expect("a descriptor");
        assert!(!journal.send(Severity::Error, Some("db"), "lost?"));
    }
}
