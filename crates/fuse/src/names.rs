//! The directory, its files, and what is told of them.

use crate::codec::*;
use crate::device::Device;
use crate::file::ROOT;
use crate::session::Session;

impl<D: Device> Session<D> {
    /// Answers everything that concerns no volume's data.
    pub(crate) fn describe(&self, header: &Header, question: Question<'_>) {
        match question {
            Question::Init { major, minor, offered, readahead_bytes_max } => {
                self.reply(init(header.unique, (major, minor), offered, readahead_bytes_max));
            }
            Question::Lookup { name } => self.look_up(header, name),
            Question::Attributes => self.attributes(header),
            Question::SetAttributes { valid, size } => self.set_attributes(header, valid, size),
            Question::Open => self.open(header),
            Question::Release { handle } => {
                if let Some(volume) = self.volume(header.node) {
                    volume.file.released(handle);
                }
                self.reply(Reply::done(header.unique));
            }
            Question::StatFs => {
                let files = self.mount.files();
                let bytes = files.iter().map(|file| file.bytes).sum();
                self.reply(Reply::space(header.unique, bytes, files.len() as u64));
            }
            Question::OpenDirectory if header.node == ROOT => {
                self.reply(Reply::opened(header.unique, 0, 0));
            }
            Question::OpenDirectory => self.refuse(header, ENOTDIR),
            Question::ReadDirectory { offset, length } => self.list(header, offset, length),
            Question::Nothing | Question::Destroy => self.reply(Reply::done(header.unique)),
            Question::Naming => self.refuse(header, EPERM),
            Question::Malformed => self.refuse(header, EINVAL),
            _ => self.refuse(header, ENOSYS),
        }
    }

    fn attributes_of(&self, node: u64) -> Option<Attributes> {
        match node {
            ROOT => Some(self.mount.root()),
            _ => Some(self.mount.attributes_of(&self.volume(node)?.file)),
        }
    }

    fn look_up(&self, header: &Header, name: &[u8]) {
        let found = self.mount.named(name).filter(|_| header.node == ROOT);
        match found {
            Some(file) => {
                self.reply(Reply::entry(header.unique, &self.mount.attributes_of(&file)));
            }
            None => self.refuse(header, ENOENT),
        }
    }

    fn attributes(&self, header: &Header) {
        match self.attributes_of(header.node) {
            Some(attributes) => self.reply(Reply::attributes(header.unique, &attributes)),
            None => self.refuse(header, ENOENT),
        }
    }

    /// Nothing can be set. To set the size that it has is allowed.
    fn set_attributes(&self, header: &Header, valid: u32, size: u64) {
        let Some(attributes) = self.attributes_of(header.node) else {
            return self.refuse(header, ENOENT);
        };
        let only_size = valid & SET_SIZE != 0 && valid & !(SET_SIZE | SET_HARMLESS) == 0;
        match only_size && size == attributes.bytes {
            true => self.reply(Reply::attributes(header.unique, &attributes)),
            false => self.refuse(header, EPERM),
        }
    }

    fn open(&self, header: &Header) {
        let Some(volume) = self.volume(header.node) else {
            let errno = if header.node == ROOT { EISDIR } else { ENOENT };
            return self.refuse(header, errno);
        };
        let Some(_busy) = volume.file.begin() else { return self.refuse(header, ENODEV) };
        let handle = self.mount.next_handle();
        volume.file.opened(handle, (volume.session)());
        let flags = OPEN_DIRECT_IO | OPEN_PARALLEL_DIRECT_WRITES;
        self.reply(Reply::opened(header.unique, handle, flags));
    }

    fn list(&self, header: &Header, offset: u64, length: u32) {
        let mut directory = Directory::new((length as usize).min(TRANSFER_BYTES_MAX));
        let files = self.mount.files();
        let dots = [".", ".."].map(|name| (name.to_owned(), ROOT, true));
        let named = files.iter().map(|file| (file.name.clone(), file.node, false));
        for (index, (name, node, is_directory)) in dots.into_iter().chain(named).enumerate() {
            let index = index as u64;
            let is_next = index >= offset;
            if is_next && !directory.add(name.as_bytes(), node, is_directory, index + 1) {
                break;
            }
        }
        self.send(&self.outbox.copied(Reply::done(header.unique), directory.bytes()));
    }
}

/// How to speak with a kernel that speaks this version and offers this.
fn init(unique: u64, version: (u32, u32), offered: u64, readahead_bytes_max: u32) -> Reply {
    let wanted = ASYNC_READ | BIG_WRITES | ASYNC_DIO | PARALLEL_DIROPS | ABORT_ERROR | MAX_PAGES;
    match version {
        (VERSION_MAJOR, VERSION_MINOR_MIN..) => Reply::init(
            unique,
            readahead_bytes_max,
            offered & wanted,
            crate::session::BACKGROUND_MAX,
        ),
        // It asks again, in our version.
        (major, _) if major > VERSION_MAJOR => Reply::version(unique),
        _ => Reply::error(unique, EPROTO),
    }
}
