//! Modelled drives: in the memory of this process.

use super::{Attached, OpenNode};
use crate::failure::{Exit, Failure};
use crate::model_name::{self, Refusal};
use block::{DriveState, Limits, ModelSpec, Size, Stack};
use drive_backend::{Keep, Modelled, Shared};
use drives::{Model, SLOT_BYTES};
use ring::Ring;
use std::io::ErrorKind;
use std::sync::Arc;

/// Bytes of the mapping table per slot.
const ENTRY_BYTES: u64 = 4;

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let exit = match refusal.unread {
            None | Some(ErrorKind::InvalidData) => Exit::Usage,
            Some(ErrorKind::PermissionDenied) => Exit::Permission,
            Some(_) => Exit::Negative,
        };
        Failure::new(exit, refusal.to_string())
    }
}

/// A modelled drive.
pub(crate) struct ModelNode(pub(crate) Arc<Shared>);

impl OpenNode for ModelNode {
    fn limits(&self) -> Limits {
        self.0.limits().clone()
    }

    fn attach(&self, ring: &Ring) -> Attached {
        let stack = Stack::new(ring.lane(), Modelled::attach(&self.0, ring.lane()));
        Attached { stack, cache: None }
    }
}

/// Opens a drive that stores its data, in the state that the spec describes, and returns a sentence
/// about it for the operator.
pub(crate) fn open(spec: &ModelSpec) -> Result<(Arc<Shared>, String), Failure> {
    let broken = |error| Failure::new(Exit::Usage, format!("model:{}: {error}", spec.drive));
    let model = model_name::model(spec)?;
    let bytes = spec.size.map_or(model.user_bytes(), |size| size.0);
    check_memory(spec, &model, bytes)?;
    let shared = Shared::new(&model, &model_name::options(spec), Keep::Data).map_err(broken)?;
    if spec.state != DriveState::Purged {
        shared.age(spec.state).map_err(broken)?;
    }
    let note = format!(
        "{}, modelled: {}, {}; its data is in the memory of this process and is lost with it; \
         written data takes memory, and its mapping table takes {}",
        model.title,
        Size(bytes),
        spec.state,
        Size(table_bytes(&model, bytes)),
    );
    Ok((shared, note))
}

/// Returns the size of the mapping table of a drive of this capacity.
fn table_bytes(model: &Model, bytes: u64) -> u64 {
    match model.kind {
        drives::Kind::Flash(_) => bytes / SLOT_BYTES * ENTRY_BYTES,
        drives::Kind::Disk(_) => 0,
    }
}

/// Checks that the machine has memory for the mapping table. The whole table is written
/// immediately, so without enough memory the kernel would kill a process.
fn check_memory(spec: &ModelSpec, model: &Model, bytes: u64) -> Result<(), Failure> {
    let table = table_bytes(model, bytes);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match kib.map(|kib| kib.saturating_mul(1024)) {
        Some(free) if table > free => Err(Failure::new(
            Exit::Usage,
            format!(
                "model:{}: its mapping table would take {}, but only {} of memory is free; give \
                 a smaller ?size=",
                spec.drive,
                Size(table),
                Size(free)
            ),
        )),
        _ => Ok(()),
    }
}
