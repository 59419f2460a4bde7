//! The pauses of a TCP connection between retransmissions.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The option in milliseconds, from 1 s to 2 min. Source: `TCP_RTO_MAX_MS` in `linux/tcp.h`, since
/// Linux 6.15.
const TCP_RTO_MAX_MS: libc::c_int = 44;

/// Limits the pauses between retransmissions of a TCP socket, which double otherwise, up to two
/// minutes: a connection goes on within this time after its link has returned.
///
/// # Errors
/// It is no TCP socket, the time is not between 1 s and 2 min, or the kernel is older than 6.15.
pub fn limit_retransmission_pauses(socket: impl AsFd, longest: Duration) -> io::Result<()> {
    let milliseconds = u32::try_from(longest.as_millis()).unwrap_or(u32::MAX);
    let length = size_of_val(&milliseconds) as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes from the number, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const milliseconds).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_tcp_socket_takes_the_limit_where_the_kernel_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        if let Err(error) = limit_retransmission_pauses(&stream, Duration::from_secs(1)) {
            assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT), "older than Linux 6.15");
        }
        assert!(limit_retransmission_pauses(&stream, Duration::ZERO).is_err());
        let (unix, _other) = UnixStream::pair().expect("a pair");
        assert!(limit_retransmission_pauses(&unix, Duration::from_secs(1)).is_err());
    }
}
