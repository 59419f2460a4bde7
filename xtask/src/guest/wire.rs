//! Messages between host and guest over a virtual serial port: the host sends one line, the
//! request; the guest sends messages until the command has ended.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::path::PathBuf;

/// Path of the first port in the guest.
pub(super) const PORT: &str = "/dev/vport0p1";

/// Name of the host's directory that the guest may change.
pub(super) const WRITTEN: &str = "written";

/// The host's request to the guest.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub(super) struct Request {
    /// The command and its arguments.
    pub(super) command: Vec<OsString>,
    /// Its complete environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub(super) directory: PathBuf,
    /// Paths of the host that stay visible, even below a directory that is empty in the guest.
    pub(super) kept: Vec<PathBuf>,
    /// The host's directory that the guest may change.
    pub(super) write_to: Option<PathBuf>,
    /// The kernel's directory of modules.
    pub(super) module_place: PathBuf,
    /// Modules to load, each with its parameters.
    pub(super) modules: Vec<String>,
}

impl Request {
    /// Returns the line to send.
    ///
    /// # Errors
    /// A path is not text.
    pub(super) fn line(&self) -> anyhow::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self).context("a guest needs paths that are text")?;
        line.push(b'\n');
        Ok(line)
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// No valid request was received.
    pub(super) fn receive(mut from: impl BufRead) -> anyhow::Result<Self> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line).context("no request can be received")?;
        serde_json::from_slice(&line).context("the request cannot be read")
    }
}

/// A message of the guest.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// Output of the command on standard output.
    Output(Vec<u8>),
    /// Output of the command on standard error.
    Errors(Vec<u8>),
    /// The command has ended with this status. No more messages follow.
    Ended(u8),
    /// The command could not be run, with the reason. No more messages follow.
    Failed(String),
}

impl Message {
    /// Sends the message: its kind, its length (four bytes, little-endian), and its bytes.
    ///
    /// # Errors
    /// Sending failed.
    pub(super) fn send(&self, mut to: impl Write) -> io::Result<()> {
        let (kind, bytes) = match self {
            Self::Output(bytes) => (b'o', bytes.as_slice()),
            Self::Errors(bytes) => (b'e', bytes.as_slice()),
            Self::Ended(status) => (b's', std::slice::from_ref(status)),
            Self::Failed(why) => (b'f', why.as_bytes()),
        };
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        to.write_all(&[&[kind], &length.to_le_bytes()[..], bytes].concat())
    }

    /// Receives a message. None: there are no more.
    ///
    /// # Errors
    /// A message is incomplete or invalid.
    pub(super) fn receive(mut from: impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 5];
        match from.read_exact(&mut head[..1]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        from.read_exact(&mut head[1..])?;
        let [kind, length @ ..] = head;
        let mut bytes = Vec::new();
        let length = u64::from(u32::from_le_bytes(length));
        from.take(length).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match (kind, bytes.as_slice()) {
            (b'o', _) => Ok(Some(Self::Output(bytes))),
            (b'e', _) => Ok(Some(Self::Errors(bytes))),
            (b's', &[status]) => Ok(Some(Self::Ended(status))),
            (b'f', why) => Ok(Some(Self::Failed(String::from_utf8_lossy(why).into_owned()))),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "the guest says what is no message")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_as_it_was_sent() -> anyhow::Result<()> {
        let request = Request {
            command: vec!["sh".into(), "a \n\"b\"".into()],
            environment: vec![("PATH".into(), "/bin".into())],
            directory: "/work".into(),
            kept: vec!["/tmp/x".into()],
            write_to: None,
            module_place: "/lib/modules/6".into(),
            modules: vec!["null_blk nr_devices=0".to_owned()],
        };
        assert_eq!(Request::receive(request.line()?.as_slice())?, request);
        assert!(Request::receive(&b""[..]).is_err());
        Ok(())
    }

    #[test]
    fn messages_arrive_in_order_and_one_that_is_cut_off_is_an_error() -> io::Result<()> {
        let messages = [
            Message::Output(vec![0; 70_000]),
            Message::Errors(Vec::new()),
            Message::Failed("no".to_owned()),
            Message::Ended(7),
        ];
        let mut bytes = Vec::new();
        for message in &messages {
            message.send(&mut bytes)?;
        }
        let mut from = bytes.as_slice();
        for message in &messages {
            assert_eq!(Message::receive(&mut from)?.as_ref(), Some(message));
        }
        assert_eq!(Message::receive(from)?, None);
        for cut in [1, 3, bytes.len() - 1] {
            let mut from = &bytes[bytes.len() - 6..][..cut.min(5)];
            assert!(Message::receive(&mut from).is_err(), "{cut}");
        }
        assert!(Message::receive(&b"x\0\0\0\0"[..]).is_err());
        Ok(())
    }
}
