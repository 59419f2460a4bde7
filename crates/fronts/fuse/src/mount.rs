//! What all lanes that serve a mount share.

use crate::codec::Attributes;
use crate::file::{File, ROOT, attributes_of_root, node_of};
use crate::listing::Listing;
use crate::outline::{Outline, OutlineFile};
use export::{Budget, Export, Stop};
use lane::Event;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A directory with a file for each volume, as it is mounted.
pub struct Mount {
    files: Mutex<Vec<Arc<File>>>,
    /// Ends it.
    stop: Arc<Stop>,
    /// What all clients of the server may have under way.
    pub(crate) budget: Arc<Budget>,
    /// There is more to do than one lane does: another takes messages, too.
    pub(crate) work: Event,
    /// User and group of everything in it.
    owner: (u32, u32),
    /// When it was mounted, in seconds since 1970.
    time_s: u64,
    /// Of the handle that is opened next.
    handle: AtomicU64,
}

/// How a mount is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the clients of all fronts may have under way together.
    pub budget: Arc<Budget>,
    /// User and group of the directory and its files.
    pub owner: (u32, u32),
    /// When it was mounted, in seconds since 1970: the time of everything in it.
    pub time_s: u64,
    /// The number of the first handle. A process that goes on with the mount of another must begin with a larger one
    /// than that has ended with: a clock of nanoseconds does.
    pub handle: u64,
}

/// Whether volumes of these names can be files of one directory.
///
/// # Errors
/// Why they cannot. (Two names that have the same node are as likely as two hashes of 64 bits that are the same.)
pub fn check_names(names: &[String]) -> Result<(), String> {
    names.iter().try_for_each(|name| check_name(name))?;
    for (index, name) in names.iter().enumerate() {
        if let Some(other) = names[..index].iter().find(|other| node_of(other) == node_of(name)) {
            return Err(format!(
                "'{other}' and '{name}' cannot be told apart; give one another name"
            ));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let mend = "give it another name";
    match name {
        "" | "." | ".." => Err(format!("'{name}' is no name of a file; {mend}")),
        _ if name.contains(['/', '\0']) => Err(format!("'{name}' has a '/' in it; {mend}")),
        _ if name.len() > 255 => Err(format!("its name is longer than 255 bytes; {mend}")),
        _ => Ok(()),
    }
}

impl Mount {
    /// A mount of these volumes, whose names are good ([`check_names`]).
    pub fn new(exports: &[Export], options: Options) -> Arc<Mount> {
        let Options { budget, owner, time_s, handle } = options;
        let file = |export: &Export| {
            let limits = export.limits(u32::MAX);
            let stop = export.stop.clone().unwrap_or_default();
            // A block that is not whole cannot be reached.
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

    /// Whether it is to end.
    pub fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Asks it to end: no message is taken any more. What is under way is answered.
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

    /// Takes a volume off the list: nothing finds it any more, and what has it open gets errors.
    pub fn remove(&self, name: &str) {
        let mut list = self.list();
        for file in list.iter().filter(|file| file.name == name) {
            file.is_removed.store(true, Ordering::SeqCst);
        }
        list.retain(|file| file.name != name);
    }

    /// Whether no volume is left in it.
    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<Arc<File>> {
        self.list().iter().find(|file| file.name.as_bytes() == name).cloned()
    }

    /// Returns the directory as plain data, for the process that keeps the mount when this one
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
