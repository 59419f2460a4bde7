//! Records of a volume's backings: those of the earlier process, and those that this one writes.
//!
//! ```text
//!   open:            is there a record of this backing?
//!                    yes: it was accepted, its contents are not examined again
//!   before serving:  if a device or a mount of the former process waits, and the record names a
//!                    memory that this process has not found: answered writes are lost
//!   at a clean end:  the record is removed; for a device that waits, only its memory is removed
//! ```

use crate::node::{Identity, OpenNode};
use crate::planted::{Bug, planted};
use block::{Error, Kind, Limits, Stack};
use holder::{Record, Records};
use lane::Lane;
use pool::MissingDevice;
use std::cell::{Cell, RefCell};
use std::fmt;

/// Loss of data from a volume while a device or a mount in use waited for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The process that served it and the holder of its memory both ended: answered writes that
    /// were not flushed are lost.
    Memory,
    /// The backing has shrunk.
    Size {
        /// Size of the backing when it was served before.
        bytes_before: u64,
    },
}

impl Loss {
    /// Returns the stack to serve after this loss. It has these limits, and fails every request, as
    /// a disk that was pulled out does.
    pub fn stack(self, lane: &Lane, limits: &Limits) -> Stack {
        let reason = match self {
            Loss::Memory => "use a device whose memory was lost; detach it, and attach it again",
            Loss::Size { .. } => {
                "use a device whose backing has shrunk; detach it, and attach it again"
            }
        };
        Stack::new(lane, MissingDevice::with(limits.clone(), Error::new(Kind::Io, reason)))
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Memory => f.write_str(
                "its memory was lost with its daemon; writes that were answered and not flushed may be missing",
            ),
            Loss::Size { bytes_before } => write!(
                f,
                "its backing has shrunk from {}; data beyond its end is gone",
                block::Size(*bytes_before)
            ),
        }
    }
}

/// The records of a volume's backings.
#[derive(Debug, Default)]
pub(crate) struct BackingRecords {
    /// None: no records are written.
    records: Option<Records>,
    /// Records that were found, by the key of the backing.
    former: RefCell<Vec<(String, Record)>>,
    /// Whether the records must not change, so that a loss stays noted until nothing waits for the
    /// volume.
    is_frozen: Cell<bool>,
}

/// Returns the identity and the size of each backing that outlives this process.
fn lasting(node: &dyn OpenNode) -> Vec<(Identity, u64)> {
    node.backings().filter_map(|node| Some((node.identity()?, node.limits().bytes()))).collect()
}

impl BackingRecords {
    pub(crate) fn new(records: Option<Records>) -> BackingRecords {
        BackingRecords { records, ..BackingRecords::default() }
    }

    /// Looks for the record of a backing that was opened. True: the earlier process accepted the
    /// backing.
    pub(crate) fn find(&self, identity: &Identity) -> bool {
        let Some(record) = self.records.as_ref().and_then(|records| records.read(&identity.key))
        else {
            return false;
        };
        let is_same = record.birth == identity.birth;
        let mut former = self.former.borrow_mut();
        if is_same && former.iter().all(|(key, _)| *key != identity.key) {
            former.push((identity.key.clone(), record));
        }
        is_same
    }

    /// Removes the memory from the record with this key: all its data is on the backing now.
    pub(crate) fn clear_memory(&self, key: &str, memory: &str) {
        if let Some(records) = &self.records {
            // If this fails, the next process is only more careful than necessary.
            let _ = records.clear_memory(key, memory);
        }
        let mut former = self.former.borrow_mut();
        let found = former.iter_mut().find(|(found, _)| found == key);
        if let Some((_, record)) = found
            && record.memory.as_deref() == Some(memory)
        {
            record.memory = None;
        }
    }

    /// Returns the loss since the former process, given the memory that this process has.
    pub(crate) fn loss(&self, memory: Option<&str>, node: &dyn OpenNode) -> Option<Loss> {
        if planted(Bug::ServeLostDevice) {
            return None;
        }
        let former = self.former.borrow();
        let is_another = |(_, record): &&(String, Record)| {
            record.memory.is_some() && record.memory.as_deref() != memory
        };
        if former.iter().any(|one| is_another(&one)) {
            return Some(Loss::Memory);
        }
        let shrunk = |(identity, bytes): (Identity, u64)| {
            let (_, record) = former.iter().find(|(key, _)| *key == identity.key)?;
            let bytes_before = record.bytes;
            (bytes < bytes_before).then_some(Loss::Size { bytes_before })
        };
        lasting(node).into_iter().find_map(shrunk)
    }

    /// Refuses further changes of the records; only [`remove`](Self::remove) still works.
    pub(crate) fn freeze(&self) {
        self.is_frozen.set(true);
    }

    /// Records the backings that this process serves, and the memory whose loss would lose data.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn write(&self, memory: Option<&str>, node: &dyn OpenNode) -> std::io::Result<()> {
        let Some(records) = self.records.as_ref().filter(|_| !self.is_frozen.get()) else {
            return Ok(());
        };
        for (identity, bytes) in lasting(node) {
            let Identity { key, birth, .. } = identity;
            records.write(&key, &Record { memory: memory.map(str::to_owned), bytes, birth })?;
        }
        Ok(())
    }

    /// Restores the records of the former process, and removes those that it did not have.
    pub(crate) fn restore(&self, node: &dyn OpenNode) {
        let Some(records) = self.records.as_ref().filter(|_| !self.is_frozen.get()) else {
            return;
        };
        for (identity, _) in lasting(node) {
            match self.former.borrow().iter().find(|(key, _)| *key == identity.key) {
                // If this fails, the next process is only more careful than necessary.
                Some((key, record)) => drop(records.write(key, record)),
                None => records.remove(&identity.key),
            }
        }
    }

    /// Removes the records: nothing waits for the volume, and no data of it is missing.
    pub(crate) fn remove(&self, node: &dyn OpenNode) {
        if let Some(records) = &self.records {
            lasting(node).iter().for_each(|(identity, _)| records.remove(&identity.key));
        }
    }
}
