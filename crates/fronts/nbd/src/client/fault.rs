//! What ends a connection from the client's side.

use std::fmt;
use std::io;

/// Why a client cannot go on with a server. The connection is of no use afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The server sent what the protocol does not allow.
    Nonsense(&'static str),
    /// The server refuses the export, with an `NBD_REP_ERR_...` and the text that it gave.
    Refused {
        /// The reply to the option.
        reply: u32,
        /// For people; what is no text is replaced.
        text: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Nonsense(what) => write!(out, "the NBD server breaks the protocol: {what}"),
            Fault::Refused { reply, text } => {
                // A terminal would do what control characters say.
                let text = text.replace(char::is_control, " ");
                write!(out, "the NBD server refuses the export ({reply:#x}): {text}")
            }
        }
    }
}

impl std::error::Error for Fault {}

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
