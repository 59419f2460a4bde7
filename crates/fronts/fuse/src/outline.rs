//! A mount's directory as plain data, for the process that keeps the connection while no daemon
//! serves it.

use crate::codec::*;
use crate::file::{ROOT, attributes_of_root, node_of};
use crate::listing::{Described, Listing, describe};
use serde::{Deserialize, Serialize};

/// A file of a mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutlineFile {
    /// Name of the file.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether changes are refused.
    pub read_only: bool,
}

/// A mount's directory: enough to answer messages about names and attributes without the volumes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Outline {
    /// The files, in the order of the directory.
    pub files: Vec<OutlineFile>,
    /// User and group of the directory and all files.
    pub owner: (u32, u32),
    /// Time of mounting, in seconds since 1970.
    pub time_s: u64,
}

/// How a message is handled while no daemon serves the mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Send these bytes as the answer.
    Answer(Vec<u8>),
    /// Only a daemon can serve it.
    NeedsDaemon {
        /// Identifies its answer.
        unique: u64,
        /// The process that waits for the answer; 0: the kernel itself.
        process: u32,
    },
    /// A process that waits for the answer to this message has received a signal.
    Interrupt {
        /// Identifies that answer.
        unique: u64,
    },
    /// Needs no answer.
    Silent,
}

/// Maximum size of a message from the kernel, in bytes. The kernel refuses to read into a smaller
/// buffer.
pub const MESSAGE_BYTES_MAX: usize = WRITE_HEAD_BYTES + TRANSFER_BYTES_MAX;

/// Returns the notification that makes the kernel send all unanswered messages again (Linux 6.9).
pub fn resend_message() -> Vec<u8> {
    Reply::resend().seal(0).to_vec()
}

/// Decides how to handle a message from the kernel to a mount with this outline. Never reads,
/// writes or flushes data. Without an outline, names and attributes need a daemon too.
pub fn verdict(outline: Option<&Outline>, message: &[u8]) -> Verdict {
    let shown = &message[..message.len().min(LOOKED_AT_BYTES)];
    let Some(header) = Header::parse(shown) else { return Verdict::Silent };
    let plain = |mut reply: Reply| reply.seal(0).to_vec();
    let question = Question::parse(&header, shown, message.len());
    match (question, outline) {
        (Question::Silent, _) => Verdict::Silent,
        (Question::Interrupt { unique }, _) => Verdict::Interrupt { unique },
        (Question::Release { .. }, _) => Verdict::Answer(plain(Reply::done(header.unique))),
        (question, Some(outline)) if !needs_volume(&question) => {
            Verdict::Answer(match describe(outline, &header, question) {
                Described::Plain(reply) => plain(reply),
                Described::Data(mut reply, data) => [reply.seal(data.len()), &data].concat(),
            })
        }
        _ => Verdict::NeedsDaemon { unique: header.unique, process: header.process },
    }
}

/// Returns the answer that refuses a message with an error (EIO), or ends it for a killed process
/// (EINTR).
pub fn refusal(unique: u64, is_killed: bool) -> Vec<u8> {
    Reply::error(unique, if is_killed { EINTR } else { EIO }).seal(0).to_vec()
}

/// Whether only a daemon can answer. (Closing a descriptor flushes the data written through it.)
fn needs_volume(question: &Question<'_>) -> bool {
    use Question::*;
    matches!(
        question,
        Read { .. } | Write { .. } | Sync { .. } | Close | Allocate { .. } | Seek { .. } | Open
    )
}

impl Listing for Outline {
    fn attributes_of(&self, node: u64) -> Option<Attributes> {
        if node == ROOT {
            return Some(attributes_of_root(self.owner, self.time_s));
        }
        let file = self.files.iter().find(|file| node_of(&file.name) == node)?;
        Some(Attributes::of_file(node, file.bytes, file.read_only, self.owner, self.time_s))
    }

    fn each_file(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.files.iter().for_each(|file| visit(&file.name, file.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline() -> Outline {
        let file = OutlineFile { name: "disk".to_owned(), bytes: 8192, read_only: false };
        Outline { files: vec![file], owner: (7, 8), time_s: 9 }
    }

    fn message(opcode: u32, node: u64, arguments: &[u8]) -> Vec<u8> {
        let bytes = (HEADER_BYTES + arguments.len()) as u32;
        let mut message = [bytes, opcode].map(u32::to_ne_bytes).concat();
        message.extend([5u64, node].map(u64::to_ne_bytes).concat());
        message.extend([0; 16]);
        message.extend(arguments);
        message
    }

    fn answered(opcode: u32, node: u64, arguments: &[u8]) -> (i32, Vec<u8>) {
        let Verdict::Answer(bytes) = verdict(Some(&outline()), &message(opcode, node, arguments))
        else {
            panic!("{opcode} needs no daemon");
        };
        assert_eq!(bytes[..4], (bytes.len() as u32).to_ne_bytes());
        let error = i32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"));
        (error, bytes[16..].to_vec())
    }

    #[test]
    fn names_and_attributes_are_answered_without_a_daemon() {
        let node = node_of("disk");
        let (error, body) = answered(GETATTR, node, &[0; 16]);
        assert_eq!(error, 0);
        // After 16 bytes of cache times: node, size.
        assert_eq!(body[16..32], [node, 8192].map(u64::to_ne_bytes).concat());
        let (error, body) = answered(LOOKUP, ROOT, b"disk\0");
        assert_eq!((error, &body[..8]), (0, &node.to_ne_bytes()[..]));
        assert_eq!(answered(LOOKUP, ROOT, b"other\0").0, -ENOENT);
        assert_eq!(answered(GETATTR, 99, &[0; 16]).0, -ENOENT);
        let (error, body) = answered(STATFS, ROOT, &[]);
        assert_eq!((error, &body[..8]), (0, &2u64.to_ne_bytes()[..]));
        assert_eq!(answered(RELEASE, node, &[0; 24]), (0, Vec::new()));
        let (error, body) = answered(
            READDIR,
            ROOT,
            &[[0; 16], [0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat(),
        );
        assert_eq!(error, 0);
        assert!(body.windows(4).any(|window| window == b"disk"));
    }

    #[test]
    fn data_waits_for_a_daemon_and_is_refused_with_an_error() {
        let needs = [(OPEN, 8), (READ, 40), (FSYNC, 16), (FLUSH, 24), (FALLOCATE, 32), (LSEEK, 24)];
        for (opcode, bytes) in needs {
            let message = message(opcode, node_of("disk"), &vec![0; bytes]);
            let verdict = verdict(Some(&outline()), &message);
            assert_eq!(verdict, Verdict::NeedsDaemon { unique: 5, process: 0 }, "{opcode}");
            let refusal = refusal(5, false);
            assert_eq!(refusal.len(), 16);
            assert_eq!(refusal[4..8], (-EIO).to_ne_bytes());
            assert_eq!(refusal[8..], 5u64.to_ne_bytes());
        }
        let write = message(WRITE, node_of("disk"), &[0; 40]);
        let verdict_of = |message: &[u8]| verdict(Some(&outline()), message);
        assert!(matches!(verdict_of(&write), Verdict::NeedsDaemon { .. }));
        let interrupt = message(INTERRUPT, 0, &77u64.to_ne_bytes());
        assert_eq!(verdict_of(&interrupt), Verdict::Interrupt { unique: 77 });
        assert_eq!(verdict_of(&message(FORGET, 1, &[0; 8])), Verdict::Silent);
        assert_eq!(verdict_of(b"short"), Verdict::Silent);
        let unknown = verdict(None, &message(GETATTR, ROOT, &[0; 16]));
        assert!(matches!(unknown, Verdict::NeedsDaemon { .. }), "without an outline");
    }
}
