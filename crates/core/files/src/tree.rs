//! Walks the directories of a file system, and adds their files to the map.

use crate::class::Class;
use crate::classify::{Guess, HEAD_BYTES, Place, by_contents, classify};
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::map::{Builder, Owner};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// Number of entries, and bytes of their names, that are sorted by inode and read together: inodes
/// of a large directory are then read in the order of the volume.
const BATCH_ENTRIES: usize = 1 << 17;
const BATCH_NAME_BYTES: usize = 4 << 20;
/// Maximum number of extents of a directory.
const DIRECTORY_RUNS_MAX: usize = 1 << 17;
/// Maximum number of inodes with several names that are remembered.
const LINKED_MAX: usize = 1 << 18;

/// Contents of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Data of the file.
    Data,
    /// Blocks that list the file's extents or its attributes.
    Metadata,
}

/// Adjacent bytes of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Position in the file, in bytes. 0 for metadata.
    pub(crate) at: u64,
    /// Position in the partition, in bytes.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) length: u64,
    pub(crate) content: Content,
}

/// Type of an inode, as far as the map distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Directory,
    File,
    /// A symbolic link: it may have blocks.
    Link,
    /// A device, a pipe, a socket.
    Other,
}

impl Type {
    /// Returns the type in a mode, as stat(2) has it.
    pub(crate) fn of_mode(mode: u16) -> Type {
        match mode & 0xf000 {
            0x4000 => Type::Directory,
            0x8000 => Type::File,
            0xa000 => Type::Link,
            _ => Type::Other,
        }
    }
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) mode: u16,
    pub(crate) bytes: u64,
    pub(crate) links: u32,
}

/// A file system with inodes.
pub(crate) trait FileSystem<'d, 's: 'd> {
    /// An inode that was read.
    type Inode;

    /// Returns the partition.
    fn part(&mut self) -> &mut Part<'d, 's>;

    /// Reads an inode that is in use.
    fn inode(&mut self, number: u64) -> Step<Self::Inode>;

    fn attributes(&self, inode: &Self::Inode) -> Attributes;

    /// Calls `each` with all runs of an inode, until it returns an error.
    fn runs(&mut self, inode: &Self::Inode, each: &mut dyn FnMut(Run) -> Step) -> Step;

    /// Returns the size of the blocks of directories, in bytes.
    fn directory_block_bytes(&self) -> usize;

    /// Adds the entries that are in the inode itself.
    fn inline_entries(&mut self, inode: &Self::Inode, entries: &mut Entries) -> Step;

    /// Returns the contents of a file that are in the inode itself.
    fn inline_data<'i>(&self, inode: &'i Self::Inode) -> &'i [u8];

    /// Adds the entries in a block of a directory at this position.
    fn block_entries(&mut self, at: u64, block: &[u8], entries: &mut Entries) -> Step;
}

/// Entries of a directory: names and inode numbers.
#[derive(Default)]
pub(crate) struct Entries {
    names: Vec<u8>,
    /// Inode number, start of its name, length of its name.
    list: Vec<(u64, u32, u8)>,
}

impl Entries {
    /// Adds an entry. `.` and `..` are left out.
    pub(crate) fn add(&mut self, name: &[u8], inode: u64) {
        if inode == 0 || matches!(name, b"" | b"." | b"..") {
            return;
        }
        let name = &name[..name.len().min(255)];
        self.list.push((inode, self.names.len() as u32, name.len() as u8));
        self.names.extend_from_slice(name);
    }

    fn is_full(&self) -> bool {
        self.list.len() >= BATCH_ENTRIES || self.names.len() >= BATCH_NAME_BYTES
    }
}

/// A directory that was found and not read yet.
struct Pending {
    inode: u64,
    number: u32,
    depth: u32,
    place: Place,
}

/// A walk over one file system.
pub(crate) struct Walk<'b> {
    builder: &'b mut Builder,
    pending: Vec<Pending>,
    seen: BTreeSet<u64>,
    linked: BTreeSet<u64>,
    unreadable: u32,
    is_cut: bool,
}

/// Result of a walk.
pub(crate) struct Walked {
    /// Number of objects that could not be read.
    pub(crate) unreadable: u32,
    /// Whether a bound was reached.
    pub(crate) is_cut: bool,
}

/// Adds all files and directories below the inode `root`, which is the directory `number` of the
/// map.
pub(crate) fn walk<'d, 's: 'd, F: FileSystem<'d, 's>>(
    system: &mut F,
    builder: &mut Builder,
    root: u64,
    number: u32,
) -> Walked {
    let mut walk = Walk {
        builder,
        pending: vec![Pending { inode: root, number, depth: 0, place: Place::ROOT }],
        seen: BTreeSet::from([root]),
        linked: BTreeSet::new(),
        unreadable: 0,
        is_cut: false,
    };
    while let Some(next) = walk.pending.pop() {
        let result = walk.directory(system, &next);
        if walk.survives(result).is_err() {
            walk.is_cut = true;
            break;
        }
    }
    Walked { unreadable: walk.unreadable, is_cut: walk.is_cut }
}

impl Walk<'_> {
    /// Counts an object that could not be read. Only a bound that is reached ends the walk.
    fn survives(&mut self, result: Step) -> Step {
        if let Err(fault) = result {
            if fault == Fault::Exhausted {
                return Err(fault);
            }
            self.unreadable = self.unreadable.saturating_add(1);
        }
        Ok(())
    }

    fn directory<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        directory: &Pending,
    ) -> Step {
        let inode = system.inode(directory.inode)?;
        let attributes = system.attributes(&inode);
        if Type::of_mode(attributes.mode) != Type::Directory {
            return Err(Fault::Damaged);
        }
        let mut runs = Vec::new();
        let mut is_long = false;
        let listed = system.runs(&inode, &mut |run| {
            if run.content == Content::Data {
                is_long = runs.len() >= DIRECTORY_RUNS_MAX;
                if is_long {
                    return Err(Fault::Damaged);
                }
                runs.push(run);
            }
            Ok(())
        });
        let owner = Owner::Directory(directory.number);
        let blocks = self.add_runs(system, &inode, Class::Directories, owner);
        self.survives(listed.and(blocks))?;
        let mut entries = Entries::default();
        let inline = system.inline_entries(&inode, &mut entries);
        self.survives(inline)?;
        runs.sort_unstable_by_key(|run| run.at);
        self.blocks(system, directory, &runs, attributes.bytes, &mut entries)?;
        self.entries(system, directory, &mut entries)
    }

    /// Reads the blocks of a directory, and the inodes of its entries whenever there are many.
    fn blocks<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        directory: &Pending,
        runs: &[Run],
        bytes: u64,
        entries: &mut Entries,
    ) -> Step {
        let length = system.directory_block_bytes();
        let mut block = vec![0; length];
        let mut next = 0;
        for (index, run) in runs.iter().enumerate() {
            let mut at = (run.at - run.at % length as u64).max(next);
            while at < run.at.saturating_add(run.length) && at < bytes {
                system.part().device.step()?;
                let read = read_at(system.part(), &runs[index..], at, &mut block);
                let result = read.and_then(|()| system.block_entries(at, &block, entries));
                self.survives(result)?;
                if entries.is_full() {
                    self.entries(system, directory, entries)?;
                }
                // The last block of the largest possible file has none behind it.
                let Some(after) = at.checked_add(length as u64) else { break };
                (at, next) = (after, after);
            }
        }
        Ok(())
    }

    /// Adds the files of these entries, and remembers the directories.
    fn entries<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        directory: &Pending,
        entries: &mut Entries,
    ) -> Step {
        entries.list.sort_unstable();
        for &(inode, start, length) in &entries.list {
            system.part().device.step()?;
            let name = &entries.names[start as usize..][..usize::from(length)];
            let result = self.entry(system, directory, inode, name);
            self.survives(result)?;
        }
        entries.list.clear();
        entries.names.clear();
        Ok(())
    }

    fn entry<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        directory: &Pending,
        number: u64,
        name: &[u8],
    ) -> Step {
        if self.linked.contains(&number) {
            return Ok(());
        }
        let inode = system.inode(number)?;
        let attributes = system.attributes(&inode);
        match Type::of_mode(attributes.mode) {
            Type::Directory => self.add_directory(system, directory, number, name),
            Type::File => {
                if attributes.links > 1 && self.linked.len() < LINKED_MAX {
                    self.linked.insert(number);
                }
                let class = self.class(system, directory.place, &inode, name)?;
                let file = self.builder.file(directory.number, name, class, attributes.bytes)?;
                self.add_runs(system, &inode, class, Owner::File(file))
            }
            Type::Link => self.add_runs(system, &inode, Class::Metadata, Owner::None),
            Type::Other => Ok(()),
        }
    }

    fn add_directory<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        parent: &Pending,
        inode: u64,
        name: &[u8],
    ) -> Step {
        if !self.seen.insert(inode) {
            return Err(Fault::Damaged);
        }
        if parent.depth >= system.part().device.depth_max() {
            self.is_cut = true;
            return Ok(());
        }
        let number = self.builder.directory(parent.number, name)?;
        let place = parent.place.below(name);
        self.pending.push(Pending { inode, number, depth: parent.depth + 1, place });
        Ok(())
    }

    /// Returns the class of a file, if necessary by its first bytes.
    fn class<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        place: Place,
        inode: &F::Inode,
        name: &[u8],
    ) -> Step<Class> {
        let Attributes { mode, bytes, .. } = system.attributes(inode);
        match classify(place, name, mode & 0o111 != 0, bytes) {
            Guess::Known(class) => Ok(class),
            Guess::Contents(class) if !system.part().device.may_peek() => Ok(class),
            Guess::Contents(class) => match first_bytes(system, inode) {
                Err(Fault::Exhausted) => Err(Fault::Exhausted),
                Err(_) => Ok(class),
                Ok(head) => Ok(by_contents(&head).unwrap_or(class)),
            },
        }
    }

    fn add_runs<'d, 's: 'd, F: FileSystem<'d, 's>>(
        &mut self,
        system: &mut F,
        inode: &F::Inode,
        class: Class,
        owner: Owner,
    ) -> Step {
        let (first, sectors) = (system.part().first_sector(), system.part().sectors());
        let builder = &mut *self.builder;
        system.runs(inode, &mut |run| {
            let (class, owner) = match run.content {
                Content::Data => (class, owner),
                Content::Metadata => (Class::Metadata, Owner::None),
            };
            add(builder, (first, sectors), run.start, run.length, class, owner)
        })
    }
}

/// Adds bytes of a partition, which has these sectors (first, number), to the map.
pub(crate) fn add(
    builder: &mut Builder,
    (first, sectors): (u64, u64),
    start: u64,
    length: u64,
    class: Class,
    owner: Owner,
) -> Step {
    let from = (start / crate::SECTOR_BYTES).min(sectors);
    let to = start.saturating_add(length).div_ceil(crate::SECTOR_BYTES).min(sectors);
    builder.extent(first + from, to - from, class, owner)?;
    Ok(())
}

/// Fills `block` with the bytes at a position of a file, of whose runs the first one contains it,
/// or a part of the block. Holes are zeros.
fn read_at(part: &mut Part<'_, '_>, runs: &[Run], at: u64, block: &mut [u8]) -> Step {
    block.fill(0);
    let end = at.saturating_add(block.len() as u64);
    for run in runs.iter().take_while(|run| run.at < end) {
        let (from, to) = (run.at.max(at), run.at.saturating_add(run.length).min(end));
        if from < to {
            let into = &mut block[(from - at) as usize..(to - at) as usize];
            part.read(run.start.saturating_add(from - run.at), into)?;
        }
    }
    Ok(())
}

fn first_bytes<'d, 's: 'd, F: FileSystem<'d, 's>>(
    system: &mut F,
    inode: &F::Inode,
) -> Step<[u8; HEAD_BYTES]> {
    let mut head = [0; HEAD_BYTES];
    let inline = system.inline_data(inode);
    if !inline.is_empty() {
        let length = inline.len().min(HEAD_BYTES);
        head[..length].copy_from_slice(&inline[..length]);
        return Ok(head);
    }
    let mut first = None;
    // An error ends the list after the run that is needed.
    let listed = system.runs(inode, &mut |run| {
        if run.content == Content::Data && run.at == 0 {
            first = Some(run);
            return Err(Fault::Damaged);
        }
        Ok(())
    });
    match (first, listed) {
        (None, Err(fault)) => Err(fault),
        (None, Ok(())) => Err(Fault::Damaged),
        (Some(run), _) => {
            let length = HEAD_BYTES.min(run.length as usize);
            system.part().read(run.start, &mut head[..length])?;
            Ok(head)
        }
    }
}
