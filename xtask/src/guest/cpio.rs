//! The archive of a kernel's initial root: cpio in the format `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

/// Name of the entry that ends the archive.
const TRAILER: &str = "TRAILER!!!";

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive under construction.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory. Its contents must be added after it.
    pub(super) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds an executable file.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    /// Returns the complete archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (length, name_length) = (content.len() as u32, path.len() as u32 + 1);
        // Inode, mode, owner, group, links, time, length, device (two numbers), device number of a
        // device node (two numbers), length of the name with its zero, checksum (none in this
        // format).
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Pads to a multiple of four bytes, after each name and each content.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_entries_and_the_trailer_at_multiples_of_four() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("bin/x", b"hello");
        let bytes = archive.finish();
        let places: Vec<usize> =
            (0..bytes.len() - 5).filter(|&place| bytes[place..].starts_with(b"070701")).collect();
        assert_eq!(places, [0, 116, 116 + 116 + 8], "a header has 110 bytes");
        let header = std::str::from_utf8(&bytes[116..116 + 110]).expect("it is text");
        assert_eq!(&header[6 + 8..6 + 16], "000081ed", "the mode");
        assert_eq!(&header[6 + 48..6 + 56], "00000005", "the content");
        assert_eq!(&header[6 + 88..6 + 96], "00000006", "the name");
        assert_eq!(&bytes[116 + 110..116 + 116], b"bin/x\0");
        assert_eq!(&bytes[232..237], b"hello");
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }
}
