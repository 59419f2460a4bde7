//! Limit of open files of the process (RLIMIT_NOFILE).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stack::{Exit, Failure};

/// Size of a ring's table of registered files; the kernel refuses one larger than the limit.
const REGISTERED_FILES: u64 = 256;
/// Descriptors of a lane: its ring, its bell, its thread's statistics in /proc, its cgroup files.
const FILES_PER_LANE: u64 = 16;
/// Descriptors of a daemon besides its volumes and clients.
const FILES_PER_DAEMON: u64 = 32;
/// Descriptors of a volume: its backing, its memory, its fence, its holder.
const FILES_PER_VOLUME: u64 = 8;
/// Connections that a listener accepts at a time.
const FILES_PER_LISTENER: u64 = 128;

/// Returns the number of descriptors that a daemon requires without clients, and with as many as it
/// accepts.
fn needed(volumes: u64, listeners: u64, threads: u64) -> (u64, u64) {
    let open = FILES_PER_LANE * threads + FILES_PER_DAEMON + FILES_PER_VOLUME * volumes + listeners;
    (open.max(REGISTERED_FILES), (open + FILES_PER_LISTENER * listeners).max(REGISTERED_FILES))
}

/// Raises the limit of open files, if the system allows it, so that a daemon with these volumes,
/// listeners and threads can open them all.
///
/// # Errors
/// Exit status 4 if not even the volumes could be opened: the limit, the number required,
/// and how to raise it.
pub fn allow_descriptors(volumes: usize, listeners: usize, threads: usize) -> Result<(), Failure> {
    let (least, wanted) = needed(volumes as u64, listeners as u64, threads as u64);
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted.min(most)), ..limit };
        // If that is refused, the limit stays as it was read.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    match getrlimit(Resource::Nofile).current {
        Some(current) if current < least => {
            let message = format!(
                "this process may have {current} files open (RLIMIT_NOFILE), but needs at least \
                 {least}: raise the limit with ulimit -n {wanted} in its shell, or LimitNOFILE= \
                 in its systemd unit"
            );
            Err(Failure::new(Exit::Permission, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limit_suffices_for_a_volume_and_all_its_clients() {
        let (least, wanted) = needed(1, 1, 1);
        assert!(least == REGISTERED_FILES && wanted < 1024, "{least}, {wanted}");
        assert!(needed(100, 100, 1).1 > 10_000);
        assert!(needed(1, 1, 8).1 < 1024, "as many threads as are taken by themselves");
        assert!(needed(1, 1, 64).0 > 1024);
    }
}
