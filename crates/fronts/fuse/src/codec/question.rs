//! Messages from the kernel.

use super::constants::*;
use super::{HEADER_BYTES, TRANSFER_BYTES_MAX, WRITE_HEAD_BYTES};

/// Maximum length of a name, in bytes, as in other file systems.
const NAME_BYTES_MAX: usize = 255;
/// Number of bytes of a message that are parsed, without its data: no valid argument or name is
/// longer.
pub(crate) const LOOKED_AT_BYTES: usize = HEADER_BYTES + 512;

/// The header of each message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Length of the whole message, in bytes.
    pub(crate) bytes: u32,
    pub(crate) opcode: u32,
    /// Identifies the answer.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    /// The process that waits for the answer; 0: the kernel itself.
    pub(crate) process: u32,
}

/// A parsed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Question<'a> {
    Init {
        major: u32,
        minor: u32,
        offered: u64,
        readahead_bytes_max: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    Attributes,
    SetAttributes {
        valid: u32,
        size: u64,
    },
    Open,
    Read {
        offset: u64,
        length: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        length: u32,
        durable: bool,
    },
    StatFs,
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
    },
    /// A descriptor of an open file is closed. Other descriptors of it may stay open.
    Close,
    OpenDirectory,
    ReadDirectory {
        offset: u64,
        length: u32,
    },
    /// Needs no action, only an answer.
    Nothing,
    Allocate {
        offset: u64,
        length: u64,
        mode: u32,
    },
    Seek {
        offset: u64,
        whence: u32,
    },
    /// A process that waits for the answer to this message has received a signal.
    Interrupt {
        unique: u64,
    },
    /// Needs no answer.
    Silent,
    /// The last message: the file system was unmounted.
    Destroy,
    /// Creates, renames or removes a name. Refused: only serving a volume changes the names.
    Naming,
    /// Not supported; the kernel does without it or reports that to the program.
    Unknown,
    /// Shorter than its header says, or than its kind requires.
    Malformed,
}

/// Reads numbers from the front of a byte slice. Returns none past its end.
struct Fields<'a>(Option<&'a [u8]>);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.0.and_then(|bytes| bytes.split_first_chunk::<N>());
        self.0 = taken.map(|(_, rest)| rest);
        taken.map_or([0; N], |(first, _)| *first)
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    /// Returns the bytes up to a zero.
    fn name(&mut self) -> &'a [u8] {
        let bytes = self.0.unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == 0);
        self.0 = end.filter(|end| *end <= NAME_BYTES_MAX).map(|end| &bytes[end + 1..]);
        self.0.map_or(&[], |_| &bytes[..end.unwrap_or(0)])
    }

    fn is_short(&self) -> bool {
        self.0.is_none()
    }
}

impl Header {
    pub(crate) fn parse(message: &[u8]) -> Option<Header> {
        let mut fields = Fields(Some(message));
        let header = Header {
            bytes: fields.u32(),
            opcode: fields.u32(),
            unique: fields.u64(),
            node: fields.u64(),
            process: {
                let _user_and_group = fields.u64();
                fields.u32()
            },
        };
        (message.len() >= HEADER_BYTES).then_some(header)
    }
}

impl<'a> Question<'a> {
    /// Parses a message of `bytes` bytes in total, from its first bytes.
    pub(crate) fn parse(header: &Header, message: &'a [u8], bytes: usize) -> Question<'a> {
        if header.bytes as usize != bytes {
            return Question::Malformed;
        }
        let mut fields = Fields(message.get(HEADER_BYTES..));
        let question = Question::read(header.opcode, &mut fields);
        match question {
            Question::Write { length, .. } if bytes != WRITE_HEAD_BYTES + length as usize => {
                Question::Malformed
            }
            Question::Read { length, .. } | Question::Write { length, .. }
                if length as usize > TRANSFER_BYTES_MAX =>
            {
                Question::Malformed
            }
            _ if fields.is_short() => Question::Malformed,
            question => question,
        }
    }

    fn read(opcode: u32, fields: &mut Fields<'a>) -> Question<'a> {
        match opcode {
            INIT => Question::init(fields),
            LOOKUP => Question::Lookup { name: fields.name() },
            GETATTR => Question::Attributes,
            SETATTR => {
                let valid = fields.u32();
                let _ = (fields.u32(), fields.u64());
                Question::SetAttributes { valid, size: fields.u64() }
            }
            OPEN => Question::Open,
            READ => {
                let _handle = fields.u64();
                Question::Read { offset: fields.u64(), length: fields.u32() }
            }
            WRITE => Question::write(fields),
            STATFS => Question::StatFs,
            RELEASE => Question::Release { handle: fields.u64() },
            FSYNC => Question::Sync { handle: fields.u64() },
            FLUSH => Question::Close,
            OPENDIR => Question::OpenDirectory,
            READDIR => {
                let _handle = fields.u64();
                Question::ReadDirectory { offset: fields.u64(), length: fields.u32() }
            }
            RELEASEDIR | FSYNCDIR => Question::Nothing,
            FALLOCATE => {
                let _handle = fields.u64();
                let (offset, length) = (fields.u64(), fields.u64());
                Question::Allocate { offset, length, mode: fields.u32() }
            }
            LSEEK => {
                let _handle = fields.u64();
                Question::Seek { offset: fields.u64(), whence: fields.u32() }
            }
            INTERRUPT => Question::Interrupt { unique: fields.u64() },
            FORGET | BATCH_FORGET => Question::Silent,
            DESTROY => Question::Destroy,
            _ if NAMING.contains(&opcode) => Question::Naming,
            _ => Question::Unknown,
        }
    }

    fn init(fields: &mut Fields<'a>) -> Question<'a> {
        let (major, minor) = (fields.u32(), fields.u32());
        let (readahead_bytes_max, flags) = (fields.u32(), fields.u32());
        Question::Init { major, minor, offered: u64::from(flags), readahead_bytes_max }
    }

    fn write(fields: &mut Fields<'a>) -> Question<'a> {
        let (handle, offset, length) = (fields.u64(), fields.u64(), fields.u32());
        let _ = (fields.u32(), fields.u64());
        let durable = fields.u32() & O_DSYNC != 0;
        Question::Write { handle, offset, length, durable }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let bytes = (HEADER_BYTES + arguments.len()) as u32;
        let mut message = [bytes, opcode].map(u32::to_ne_bytes).concat();
        message.extend([7u64, 9].map(u64::to_ne_bytes).concat());
        message.extend([0; 16]);
        message.extend(arguments);
        message
    }

    fn parse(message: &[u8]) -> Question<'_> {
        let header = Header::parse(message).expect("a whole header");
        Question::parse(&header, message, message.len())
    }

    #[test]
    fn messages_are_read_as_the_kernel_lays_them_out() {
        let read = [[5u64, 4096].map(u64::to_ne_bytes).concat(), vec![0; 24]].concat();
        let read = message(READ, &read);
        let header = Header { bytes: 80, opcode: READ, unique: 7, node: 9, process: 0 };
        assert_eq!(Header::parse(&read), Some(header));
        assert_eq!(parse(&read), Question::Read { offset: 4096, length: 0 });
        assert_eq!(parse(&message(LOOKUP, b"disk\0")), Question::Lookup { name: b"disk" });
        let mut write = [1u64, 512].map(u64::to_ne_bytes).concat();
        write.extend([8u32, 0, 0, 0, O_DSYNC, 0].map(u32::to_ne_bytes).concat());
        write.extend([1; 8]);
        let wanted = Question::Write { handle: 1, offset: 512, length: 8, durable: true };
        assert_eq!(parse(&message(WRITE, &write)), wanted);
        write.pop();
        assert_eq!(parse(&message(WRITE, &write)), Question::Malformed, "its data is short");
    }

    #[test]
    fn what_is_short_or_not_known_is_distinguished() {
        assert_eq!(parse(&message(READ, &[0; 8])), Question::Malformed);
        assert_eq!(parse(&message(LOOKUP, b"no end")), Question::Malformed);
        assert_eq!(parse(&message(LOOKUP, &[b'a'; 400])), Question::Malformed);
        assert_eq!(parse(&message(9, b"name\0")), Question::Naming);
        assert_eq!(parse(&message(999, b"")), Question::Unknown);
        assert_eq!(Header::parse(&[0; 39]), None);
        let lies = message(GETATTR, &[]);
        let header = Header::parse(&lies).expect("a whole header");
        assert_eq!(Question::parse(&header, &lies, lies.len() + 1), Question::Malformed);
    }

    #[test]
    fn no_message_is_too_strange() {
        let mut random = lane::Random::new(7);
        for _ in 0..20_000 {
            let length = random.below(600) as usize;
            let arguments: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            let message = message(random.below(60) as u32, &arguments);
            let shown = &message[..message.len().min(LOOKED_AT_BYTES)];
            let header = Header::parse(shown).expect("a whole header");
            let _ = Question::parse(&header, shown, message.len());
        }
    }
}
