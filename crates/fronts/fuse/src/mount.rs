//! The part of a mount that all its lanes share.

use crate::codec::Attributes;
use crate::file::{File, ROOT, attributes_of_root, node_of};
use crate::listing::Listing;
use crate::outline::{Outline, OutlineFile};
use export::{Budget, Export, Stop};
use lane::Event;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A directory with one file per volume, as mounted.
pub struct Mount {
    files: Mutex<Vec<Arc<File>>>,
    /// Ends the mount.
    stop: Arc<Stop>,
    /// Limits on the requests in flight of all clients of the server.
    pub(crate) budget: Arc<Budget>,
    /// Triggered when one lane is not enough: another lane takes messages too.
    pub(crate) work: Event,
    /// User and group of the directory and all files.
    owner: (u32, u32),
    /// Time of mounting, in seconds since 1970.
    time_s: u64,
    /// Number of the handle that is opened next.
    handle: AtomicU64,
}

/// Settings of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits on the requests in flight of all fronts' clients together.
    pub budget: Arc<Budget>,
    /// User and group of the directory and its files.
    pub owner: (u32, u32),
    /// Time of mounting, in seconds since 1970; the timestamp of all files.
    pub time_s: u64,
    /// Number of the first handle. A process that takes over a mount must start with a number above
    /// all earlier ones: a clock in nanoseconds is suitable.
    pub handle: u64,
}

/// Checks that volumes with these names can be files of one directory.
///
/// # Errors
/// The reason if they cannot. (Two names may have the same node, but as rarely as two equal 64-bit
/// hashes.)
pub fn check_names(names: &[String]) -> Result<(), String> {
    names.iter().try_for_each(|name| check_name(name))?;
    for (index, name) in names.iter().enumerate() {
        if let Some(other) = names[..index].iter().find(|other| node_of(other) == node_of(name)) {
            return Err(format!(
                "'{other}' and '{name}' would have the same inode number; choose another name for \
                 one"
            ));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let mend = "choose another name";
    match name {
        "" | "." | ".." => Err(format!("'{name}' is not a file name; {mend}")),
        _ if name.contains(['/', '\0']) => {
            Err(format!("'{name}' contains a '/' or a zero byte; {mend}"))
        }
        _ if name.len() > 255 => {
            Err(format!("the name of a volume is longer than 255 bytes; {mend}"))
        }
        _ => Ok(()),
    }
}

impl Mount {
    /// Creates a mount of these volumes, whose names have passed [`check_names`].
    pub fn new(exports: &[Export], options: Options) -> Arc<Mount> {
        let Options { budget, owner, time_s, handle } = options;
        let file = |export: &Export| {
            let limits = export.limits(u32::MAX);
            let stop = export.stop.clone().unwrap_or_default();
            // A partial block at the end cannot be addressed.
            let block = u64::from(limits.block_logical_bytes);
            let bytes = limits.bytes() / block * block;
            Arc::new(File::new(&export.name, bytes, limits.read_only, stop))
        };
        Arc::new(Mount {
            files: Mutex::new(exports.iter().map(file).collect()),
            stop: Arc::new(Stop::new()),
            budget,
            work: Event::new(),
            owner,
            time_s,
            handle: AtomicU64::new(handle),
        })
    }

    /// The stop that ends the mount.
    pub fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Asks the mount to end: no more messages are taken. Requests in flight are still answered.
    pub fn close(&self) {
        self.stop.ask();
        self.work.notify();
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<File>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn files(&self) -> Vec<Arc<File>> {
        self.list().clone()
    }

    /// Removes a volume: its name is no longer found, and open handles get errors.
    pub fn remove(&self, name: &str) {
        let mut list = self.list();
        for file in list.iter().filter(|file| file.name == name) {
            file.is_removed.store(true, Ordering::SeqCst);
        }
        list.retain(|file| file.name != name);
    }

    /// Whether the mount has no volumes left.
    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<Arc<File>> {
        self.list().iter().find(|file| file.name.as_bytes() == name).cloned()
    }

    /// Returns the directory as plain data, for the process that keeps the mount when this process
    /// dies.
    pub fn outline(&self) -> Outline {
        let file = |file: &Arc<File>| OutlineFile {
            name: file.name.clone(),
            bytes: file.bytes,
            read_only: file.read_only,
        };
        let files = self.list().iter().map(file).collect();
        Outline { files, owner: self.owner, time_s: self.time_s }
    }

    pub(crate) fn next_handle(&self) -> u64 {
        self.handle.fetch_add(1, Ordering::Relaxed)
    }
}

impl Listing for Mount {
    fn attributes_of(&self, node: u64) -> Option<Attributes> {
        if node == ROOT {
            return Some(attributes_of_root(self.owner, self.time_s));
        }
        let list = self.list();
        let file = list.iter().find(|file| file.node == node)?;
        Some(file.attributes(self.owner, self.time_s))
    }

    fn each_file(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.list().iter().for_each(|file| visit(&file.name, file.bytes));
    }
}
