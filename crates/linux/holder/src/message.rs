//! Messages of a holder, on stderr and in the system's log.

use crate::deadline::run_within;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Length of the longest line, in characters of at most four bytes; below PIPE_BUF.
const LINE_CHARACTERS: usize = 1000;
/// Longest time that writing a line may take.
const TELLING: Duration = Duration::from_millis(500);
/// syslog(3): facility daemon, severity warning.
const SYSLOG_WARNING: u8 = 3 << 3 | 4;

/// Prints a message on stderr and to the system's log. The daemon's terminal may be closed, so
/// nothing here may fail.
pub(crate) fn print_message(message: &str) {
    // A pipe that is ready takes this much without waiting for its reader.
    let line = format!("od-holder[{}]: {message}", std::process::id());
    let line: String = block::printable(&line).chars().take(LINE_CHARACTERS).collect();
    let log = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(format!("<{SYSLOG_WARNING}>{line}").as_bytes(), "/dev/log")
    });
    drop(log);
    let stderr = io::stderr();
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if rustix::event::poll(&mut polled, Some(&now)) == Ok(1) {
        // It may be a file, which always is ready, on the very file system that does not answer.
        run_within(TELLING, move || {
            drop(writeln!(io::stderr(), "{}", host::stamped(host::Severity::Notice, line)))
        });
    }
}
