//! A reader of XFS, versions 4 and 5.
//!
//! The log is not replayed: the map shows the metadata that has reached its place.

mod allocation;
mod directory;
mod forks;
mod inode;
mod superblock;

pub(crate) use superblock::is_there;

use crate::class::Class;
use crate::device::Part;
use crate::fault::{Fault, Step};
use crate::map::{Builder, Owner};
use crate::tree::{Attributes, Content, Entries, FileSystem, Run, Walked, add, walk};
use inode::Inode;
use superblock::Superblock;

struct Xfs<'d, 's> {
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
    let root = superblock.root_inode;
    let mut system = Xfs { part, superblock };
    let mut unreadable = allocation::add_groups(&mut system.part, &system.superblock, builder)?;
    unreadable += system.hidden(builder)?;
    let walked = walk(&mut system, builder, root, directory);
    Ok(Walked { unreadable: unreadable.saturating_add(walked.unreadable), ..walked })
}

impl Xfs<'_, '_> {
    /// Adds the log, and the inodes without a name. Returns the number of those that could not be
    /// read.
    fn hidden(&mut self, builder: &mut Builder) -> Step<u32> {
        let range = (self.part.first_sector(), self.part.sectors());
        let superblock = &self.superblock;
        let mut unreadable = 0;
        if superblock.log_start > 0 {
            match superblock.position(superblock.log_start) {
                Ok(start) => {
                    let length = superblock.log_blocks * superblock.block_bytes;
                    add(builder, range, start, length, Class::Journal, Owner::None)?;
                }
                Err(_) => unreadable += 1,
            }
        }
        for number in self.superblock.hidden_inodes {
            let Ok(inode) = self.inode(number) else { continue };
            let result = self.runs(&inode, &mut |run| {
                add(builder, range, run.start, run.length, Class::Metadata, Owner::None)
            });
            match result {
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                Err(_) => unreadable += 1,
                Ok(()) => {}
            }
        }
        Ok(unreadable)
    }
}

impl<'d, 's> FileSystem<'d, 's> for Xfs<'d, 's> {
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
        let mut lister = forks::Lister { part: &mut self.part, superblock: &self.superblock, each };
        if let Some(fork) = inode.attribute_fork() {
            lister.fork(&fork, Content::Metadata)?;
        }
        // The data of a file on the realtime device is on another device.
        match inode.is_realtime() {
            true => Ok(()),
            false => lister.fork(&inode.data_fork(), Content::Data),
        }
    }

    fn directory_block_bytes(&self) -> usize {
        self.superblock.directory_block_bytes
    }

    fn inline_entries(&mut self, inode: &Inode, each: &mut Entries) -> Step {
        directory::short_form(inode, self.superblock.has_types, each)
    }

    fn inline_data<'i>(&self, _: &'i Inode) -> &'i [u8] {
        &[]
    }

    fn block_entries(&mut self, at: u64, block: &[u8], each: &mut Entries) -> Step {
        directory::block(at, block, self.superblock.has_types, each)
    }
}
