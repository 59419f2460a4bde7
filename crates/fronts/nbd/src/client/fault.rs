//! Failures of a connection, seen from the client.

use std::fmt;
use std::io;
use tls::Refusal;

/// The reason why a client cannot continue with a server. The connection is unusable afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The server violates the protocol.
    Nonsense(&'static str),
    /// The server refuses to start TLS.
    NoTls,
    /// One side does not trust the other.
    Untrusted(Refusal),
    /// The server refuses the export, with an `NBD_REP_ERR_...` and a text.
    Refused {
        /// The reply to the option.
        reply: u32,
        /// Text for people; bytes that are no text are replaced.
        text: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoTls => write!(out, "the NBD server refuses TLS"),
            Fault::Untrusted(refusal) => write!(out, "no TLS with the NBD server: {refusal}"),
            Fault::Nonsense(what) => write!(out, "the NBD server breaks the protocol: {what}"),
            Fault::Refused { reply, text } => {
                // A terminal would obey control characters.
                let text = text.replace(char::is_control, " ");
                write!(out, "the NBD server refuses the export ({reply:#x}): {text}")
            }
        }
    }
}

impl std::error::Error for Fault {}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Fault {
        Fault::Untrusted(refusal)
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_does_nothing_to_a_terminal() {
        let fault = Fault::Refused { reply: 3, text: "no\u{1b}[31m\nroot".to_owned() };
        assert!(!fault.to_string().contains(char::is_control), "{fault:?}");
    }
}
