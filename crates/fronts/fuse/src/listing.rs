//! Messages about a mount's directory, answered in the same way for a mount and for its outline.

use crate::codec::*;
use crate::file::{ROOT, node_of};

/// Number of requests that the kernel sends without waiting for answers. Its default of 12 would
/// throttle a loop device.
const BACKGROUND_MAX: u16 = 512;

/// A directory with a file for each volume.
pub(crate) trait Listing {
    /// Returns the attributes of the directory or of a file in it.
    fn attributes_of(&self, node: u64) -> Option<Attributes>;

    /// Calls `visit` with the name and the size in bytes of each file.
    fn each_file(&self, visit: &mut dyn FnMut(&str, u64));
}

/// An answer that needs no volume.
pub(crate) enum Described {
    Plain(Reply),
    /// An answer followed by these bytes.
    Data(Reply, Vec<u8>),
}

/// Answers a message about the directory, its names and its attributes.
pub(crate) fn describe(
    listing: &impl Listing,
    header: &Header,
    question: Question<'_>,
) -> Described {
    let unique = header.unique;
    let refuse = |errno| Reply::error(unique, errno);
    Described::Plain(match question {
        Question::Init { major, minor, offered, readahead_bytes_max } => {
            init(unique, (major, minor), offered, readahead_bytes_max)
        }
        Question::Lookup { name } => look_up(listing, header, name),
        Question::Attributes => match listing.attributes_of(header.node) {
            Some(attributes) => Reply::attributes(unique, &attributes),
            None => refuse(ENOENT),
        },
        Question::SetAttributes { valid, size } => set_attributes(listing, header, valid, size),
        Question::StatFs => {
            let (mut bytes, mut files) = (0, 0);
            listing.each_file(&mut |_, file_bytes| {
                bytes += file_bytes;
                files += 1;
            });
            Reply::space(unique, bytes, files)
        }
        Question::OpenDirectory if header.node == ROOT => Reply::opened(unique, 0, 0),
        Question::OpenDirectory => refuse(ENOTDIR),
        Question::ReadDirectory { offset, length } => {
            return Described::Data(Reply::done(unique), list(listing, offset, length));
        }
        Question::Nothing | Question::Destroy => Reply::done(unique),
        Question::Naming => refuse(EPERM),
        Question::Malformed => refuse(EINVAL),
        _ => refuse(ENOSYS),
    })
}

fn look_up(listing: &impl Listing, header: &Header, name: &[u8]) -> Reply {
    let mut found = None;
    listing.each_file(&mut |file, _| {
        if file.as_bytes() == name {
            found = Some(node_of(file));
        }
    });
    let found = found.filter(|_| header.node == ROOT);
    match found.and_then(|node| listing.attributes_of(node)) {
        Some(attributes) => Reply::entry(header.unique, &attributes),
        None => Reply::error(header.unique, ENOENT),
    }
}

/// Refuses all changes of attributes, except setting the size to its current value.
fn set_attributes(listing: &impl Listing, header: &Header, valid: u32, size: u64) -> Reply {
    let Some(attributes) = listing.attributes_of(header.node) else {
        return Reply::error(header.unique, ENOENT);
    };
    let only_size = valid & SET_SIZE != 0 && valid & !(SET_SIZE | SET_HARMLESS) == 0;
    match only_size && size == attributes.bytes {
        true => Reply::attributes(header.unique, &attributes),
        false => Reply::error(header.unique, EPERM),
    }
}

/// Returns the directory's entries from an offset on, as many as fit.
fn list(listing: &impl Listing, offset: u64, length: u32) -> Vec<u8> {
    let mut directory = Directory::new((length as usize).min(TRANSFER_BYTES_MAX));
    let (mut index, mut is_full) = (0, false);
    let mut add = |name: &str, node: u64, is_directory: bool| {
        let is_next = index >= offset;
        index += 1;
        if is_next && !is_full {
            is_full = !directory.add(name.as_bytes(), node, is_directory, index);
        }
    };
    [".", ".."].iter().for_each(|name| add(name, ROOT, true));
    listing.each_file(&mut |name, _| add(name, node_of(name), false));
    directory.bytes().to_vec()
}

/// Negotiates with a kernel of this version that offers these flags.
fn init(unique: u64, version: (u32, u32), offered: u64, readahead_bytes_max: u32) -> Reply {
    let wanted = ASYNC_READ | BIG_WRITES | ASYNC_DIO | PARALLEL_DIROPS | ABORT_ERROR | MAX_PAGES;
    match version {
        (VERSION_MAJOR, VERSION_MINOR_MIN..) => {
            Reply::init(unique, readahead_bytes_max, offered & wanted, BACKGROUND_MAX)
        }
        // The kernel then sends INIT again, with this server's version.
        (major, _) if major > VERSION_MAJOR => Reply::version(unique),
        _ => Reply::error(unique, EPROTO),
    }
}
