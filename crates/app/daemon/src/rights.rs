//! Capabilities (capabilities(7)): the parts of root's rights. A daemon needs some of them later,
//! or the program of an upgrade does; each thread gives the others up, and no program that it
//! executes gets them back. Other users have none.

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

/// Capabilities of every daemon. To open backings of other users (DAC), to lock memory (IPC_LOCK),
/// to be spared when memory is short, and to raise limits (RESOURCE). A holder that it starts finds
/// other users of an image (LEASE). An address for metrics is bound later (NET_BIND_SERVICE).
const DAEMON: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Capabilities of a broker: to mount, and to find the open files of all processes.
const BROKER: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Gives up the capabilities that no daemon needs, in the calling thread. One with
/// `kernel_devices`, whose drivers are commanded by ublk or netlink, remains an administrator.
/// Returns whether it has no others.
pub(crate) fn restrict_daemon(kernel_devices: bool) -> bool {
    let more = if kernel_devices { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
    restrict_to(DAEMON | more)
}

/// Capabilities of a process that queries drives: by NVMe commands (ADMIN), and by SCSI and ATA
/// commands (RAWIO).
#[cfg(feature = "history")]
const DRIVES: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_RAWIO);

/// Returns the kinds of drives that this thread can query: NVMe, others.
#[cfg(feature = "history")]
pub(crate) fn drives_that_can_be_queried() -> (bool, bool) {
    let own: Option<Pid> = None;
    let held = capabilities(own).map_or(CapabilitySet::empty(), |sets| sets.effective);
    (held.contains(CapabilitySet::SYS_ADMIN), held.contains(CapabilitySet::SYS_RAWIO))
}

/// Gives up the capabilities that no process needs which queries drives, in the calling thread.
#[cfg(feature = "history")]
pub(crate) fn restrict_drive_sampler() -> bool {
    restrict_to(DRIVES)
}

/// Gives up the capabilities that no broker needs, in the calling thread.
pub(crate) fn restrict_broker() -> bool {
    restrict_to(BROKER)
}

/// Gives up all capabilities, in the calling thread.
pub(crate) fn restrict_mapper() -> bool {
    restrict_to(CapabilitySet::empty())
}

fn restrict_to(kept: CapabilitySet) -> bool {
    for capability in (CapabilitySet::all() - kept).iter() {
        match remove_capability_from_bounding_set(capability) {
            // The kernel does not have this one.
            Ok(()) | Err(Errno::INVAL) => {}
            // Without the right to change the set, the thread's own sets are still reduced.
            Err(_) => break,
        }
    }
    let own: Option<Pid> = None;
    let Ok(sets) = capabilities(own) else { return false };
    let fewer = CapabilitySets {
        effective: sets.effective & kept,
        permitted: sets.permitted & kept,
        inheritable: sets.inheritable & kept,
    };
    fewer == sets || set_capabilities(own, fewer).is_ok()
}
