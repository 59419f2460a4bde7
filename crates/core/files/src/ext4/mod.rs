//! A reader of ext2, ext3 and ext4.
//!
//! The journal is not replayed: the map shows the metadata that has reached its place.

mod blocks;
mod directory;
mod groups;
mod inode;
mod superblock;

pub(crate) use superblock::is_there;

use crate::class::Class;
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::map::{Builder, Owner};
use crate::tree::{Attributes, Content, Entries, FileSystem, Run, Walked, add, walk};
use blocks::Lister;
use inode::{Form, Inode};
use superblock::Superblock;

const ROOT: u64 = 2;
/// The inode that reserves room for group descriptors.
const RESIZE: u64 = 7;

struct Ext4<'d, 's> {
    part: Part<'d, 's>,
    superblock: Superblock,
}

/// Adds a file system to the map, with its root as the directory `directory`.
///
/// # Errors
/// The superblock cannot be used, or a bound is reached.
pub(crate) fn read(part: Part<'_, '_>, builder: &mut Builder, directory: u32) -> Step<Walked> {
    let mut part = part;
    let superblock = Superblock::read(&mut part)?;
    let mut system = Ext4 { part, superblock };
    let mut unreadable = groups::add_groups(&mut system.part, &system.superblock, builder)?;
    unreadable += system.hidden(builder)?;
    let walked = walk(&mut system, builder, ROOT, directory);
    Ok(Walked { unreadable: unreadable.saturating_add(walked.unreadable), ..walked })
}

impl Ext4<'_, '_> {
    /// Adds the inodes without a name. Returns the number of those that could not be read.
    fn hidden(&mut self, builder: &mut Builder) -> Step<u32> {
        let range = (self.part.first_sector(), self.part.sectors());
        let journal = (self.superblock.journal_inode, Class::Journal);
        let others = self.superblock.hidden_inodes.map(|inode| (inode, Class::Metadata));
        let resize = (RESIZE, Class::Metadata);
        let mut unreadable = 0;
        for (number, class) in [journal, resize].into_iter().chain(others) {
            if number == 0 {
                continue;
            }
            // An inode that is not in use is no fault.
            let Ok(inode) = self.inode(number) else { continue };
            let result = self.runs(&inode, &mut |run| {
                let class = if run.content == Content::Data { class } else { Class::Metadata };
                add(builder, range, run.start, run.length, class, Owner::None)
            });
            match result {
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                Err(_) => unreadable += 1,
                Ok(()) => {}
            }
        }
        if let Ok(start) = self.superblock.position(self.superblock.mmp_block)
            && start > 0
        {
            let length = self.superblock.block_bytes;
            add(builder, range, start, length, Class::Metadata, Owner::None)?;
        }
        Ok(unreadable)
    }
}

impl<'d, 's> FileSystem<'d, 's> for Ext4<'d, 's> {
    type Inode = Inode;

    fn part(&mut self) -> &mut Part<'d, 's> {
        &mut self.part
    }

    fn inode(&mut self, number: u64) -> Step<Inode> {
        Inode::read(&mut self.part, &self.superblock, number)
    }

    fn attributes(&self, inode: &Inode) -> Attributes {
        inode.attributes()
    }

    fn runs(&mut self, inode: &Inode, each: &mut dyn FnMut(Run) -> Step) -> Step {
        let attributes = inode.attribute_block();
        if attributes != 0
            && let Ok(start) = self.superblock.position(attributes)
        {
            let length = self.superblock.block_bytes;
            each(Run { at: 0, start, length, content: Content::Metadata })?;
        }
        let mut lister = Lister { part: &mut self.part, superblock: &self.superblock, each };
        match inode.form() {
            Form::Inline => Ok(()),
            Form::Extents => lister.root(inode.blocks()),
            Form::BlockMap => lister.block_map(inode.blocks()),
        }
    }

    fn directory_block_bytes(&self) -> usize {
        self.superblock.block_bytes as usize
    }

    fn inline_entries(&mut self, inode: &Inode, each: &mut Entries) -> Step {
        if inode.form() != Form::Inline {
            return Ok(());
        }
        // The first four bytes are the parent.
        directory::entries(inode.blocks().get(4..).unwrap_or_default(), each)?;
        directory::entries(inode.inline_rest(), each)
    }

    fn inline_data<'i>(&self, inode: &'i Inode) -> &'i [u8] {
        if inode.form() == Form::Inline { inode.blocks() } else { &[] }
    }

    fn block_entries(&mut self, _: u64, block: &[u8], each: &mut Entries) -> Step {
        directory::entries(block, each)
    }
}
