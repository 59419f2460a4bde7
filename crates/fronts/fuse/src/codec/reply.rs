//! Answers to the kernel.

use super::constants::*;
use super::{TRANSFER_BYTES_MAX, TRANSFER_PAGES_MAX};

/// Maximum length of an answer without data and directories, in bytes.
const BYTES_MAX: usize = 160;
/// Time for which the kernel may cache names, in seconds.
const NAMES_VALID_S: u64 = 1;
/// The same for attributes. With 0 the kernel requests them each time: the answer shows whether the
/// file is still served.
const ATTRIBUTES_VALID_S: u64 = 0;
/// Bytes of a directory entry without its name.
const ENTRY_BYTES: usize = 24;

/// An answer under construction: its header and body.
pub(crate) struct Reply {
    bytes: [u8; BYTES_MAX],
    length: usize,
}

/// Attributes of a file or of the directory, as sent to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attributes {
    pub(crate) node: u64,
    pub(crate) bytes: u64,
    /// Kind and permissions, as in stat(2).
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Seconds since 1970, for all three times.
    pub(crate) time_s: u64,
}

impl Reply {
    /// Starts the answer to this message; `error` is 0 or a negative errno.
    fn new(unique: u64, error: i32) -> Reply {
        let mut reply = Reply { bytes: [0; BYTES_MAX], length: 0 };
        reply.u32(0);
        reply.u32(error as u32);
        reply.u64(unique);
        reply
    }

    /// The answer for success.
    pub(crate) fn done(unique: u64) -> Reply {
        Reply::new(unique, 0)
    }

    /// The answer for this error.
    pub(crate) fn error(unique: u64, errno: i32) -> Reply {
        Reply::new(unique, -errno)
    }

    /// The notification that makes the kernel send all unanswered messages again.
    pub(crate) fn resend() -> Reply {
        Reply::new(0, NOTIFY_RESEND)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn u16(&mut self, number: u16) {
        self.put(&number.to_ne_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.put(&number.to_ne_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.put(&number.to_ne_bytes());
    }

    fn zeros(&mut self, bytes: usize) {
        self.length += bytes;
    }

    /// Completes the answer. `more_bytes` bytes that are stored elsewhere follow it.
    pub(crate) fn seal(&mut self, more_bytes: usize) -> &[u8] {
        let whole = (self.length + more_bytes) as u32;
        self.bytes[..4].copy_from_slice(&whole.to_ne_bytes());
        &self.bytes[..self.length]
    }

    /// The answer to the kernel's INIT: `flags` are the kernel's flags that this server uses.
    pub(crate) fn init(
        unique: u64,
        readahead_bytes_max: u32,
        flags: u64,
        in_flight_max: u16,
    ) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u32(VERSION_MAJOR);
        reply.u32(VERSION_MINOR);
        reply.u32(readahead_bytes_max);
        reply.u32(flags as u32);
        reply.u16(in_flight_max);
        reply.u16(in_flight_max);
        reply.u32(TRANSFER_BYTES_MAX as u32);
        reply.u32(1);
        reply.u16(TRANSFER_PAGES_MAX);
        reply.zeros(2 + 4 + 28);
        reply
    }

    /// The version, for a kernel with a newer one, which then sends INIT again.
    pub(crate) fn version(unique: u64) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u32(VERSION_MAJOR);
        reply.u32(VERSION_MINOR);
        reply.zeros(56);
        reply
    }

    pub(crate) fn entry(unique: u64, attributes: &Attributes) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u64(attributes.node);
        // A name refers to the same node as long as the file system is mounted.
        reply.u64(0);
        reply.u64(NAMES_VALID_S);
        reply.u64(ATTRIBUTES_VALID_S);
        reply.zeros(8);
        reply.attributes_of(attributes);
        reply
    }

    pub(crate) fn attributes(unique: u64, attributes: &Attributes) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u64(ATTRIBUTES_VALID_S);
        reply.zeros(8);
        reply.attributes_of(attributes);
        reply
    }

    fn attributes_of(&mut self, of: &Attributes) {
        self.u64(of.node);
        self.u64(of.bytes);
        self.u64(of.bytes.div_ceil(512));
        (0..3).for_each(|_| self.u64(of.time_s));
        self.zeros(12);
        self.u32(of.mode);
        self.u32(of.links);
        self.u32(of.user);
        self.u32(of.group);
        self.u32(0);
        self.u32(4096);
        self.u32(0);
    }

    /// The flags of an open file or directory.
    pub(crate) fn opened(unique: u64, handle: u64, flags: u32) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u64(handle);
        reply.u32(flags);
        reply.u32(0);
        reply
    }

    pub(crate) fn written(unique: u64, bytes: u32) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u32(bytes);
        reply.u32(0);
        reply
    }

    pub(crate) fn seek_result(unique: u64, offset: u64) -> Reply {
        let mut reply = Reply::done(unique);
        reply.u64(offset);
        reply
    }

    /// The file system's statistics: `bytes` bytes in `files` files, and no free space.
    pub(crate) fn space(unique: u64, bytes: u64, files: u64) -> Reply {
        const BLOCK: u64 = 4096;
        let mut reply = Reply::done(unique);
        reply.u64(bytes.div_ceil(BLOCK));
        reply.zeros(16);
        reply.u64(files);
        reply.u64(0);
        reply.u32(BLOCK as u32);
        reply.u32(255);
        reply.u32(BLOCK as u32);
        reply.zeros(28);
        reply
    }
}

/// Directory entries, as many as fit.
pub(crate) struct Directory {
    bytes: Vec<u8>,
    most: usize,
}

impl Directory {
    /// Creates a list with room for `most` bytes.
    pub(crate) fn new(most: usize) -> Directory {
        Directory { bytes: Vec::new(), most }
    }

    /// Adds an entry; `next` is the offset of the entry after it. Returns false if it does not fit.
    pub(crate) fn add(&mut self, name: &[u8], node: u64, is_directory: bool, next: u64) -> bool {
        let length = (ENTRY_BYTES + name.len()).next_multiple_of(8);
        if self.bytes.len() + length > self.most {
            return false;
        }
        let end = self.bytes.len() + length;
        self.bytes.extend([node, next].map(u64::to_ne_bytes).concat());
        let kind = if is_directory { DT_DIR } else { DT_REG };
        self.bytes.extend([name.len() as u32, kind].map(u32::to_ne_bytes).concat());
        self.bytes.extend(name);
        self.bytes.resize(end, 0);
        true
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the header of each answer.
    const HEADER_BYTES: usize = 16;

    /// Sizes of the structures in fuse.h.
    #[test]
    fn answers_have_the_sizes_that_the_kernel_expects() {
        let attributes =
            Attributes { node: 1, bytes: 4097, mode: 0, links: 1, user: 0, group: 0, time_s: 5 };
        let sizes = [
            (Reply::init(1, 0, 0, 9), 64),
            (Reply::version(1), 64),
            (Reply::entry(1, &attributes), 128),
            (Reply::attributes(1, &attributes), 104),
            (Reply::opened(1, 2, 3), 16),
            (Reply::written(1, 2), 8),
            (Reply::seek_result(1, 2), 8),
            (Reply::space(1, 2, 3), 80),
            (Reply::error(1, EIO), 0),
            (Reply::resend(), 0),
        ];
        for (mut reply, bytes) in sizes {
            let sealed = reply.seal(0);
            assert_eq!(sealed.len(), HEADER_BYTES + bytes);
            assert_eq!(sealed[..4], (sealed.len() as u32).to_ne_bytes());
        }
        let mut reply = Reply::error(7, EIO);
        assert_eq!(reply.seal(4)[..8], [20u32, -EIO as u32].map(u32::to_ne_bytes).concat());
    }

    #[test]
    fn a_directory_takes_what_fits() {
        let mut directory = Directory::new(64);
        assert!(directory.add(b"disk", 5, false, 1));
        assert_eq!(directory.bytes().len(), 32);
        assert!(directory.add(b"12345678", 6, false, 2));
        assert!(!directory.add(b"x", 7, false, 3));
        assert_eq!(directory.bytes()[24..28], *b"disk");
    }
}
