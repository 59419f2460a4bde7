//! Network file systems whose locks are local to this machine, so that other hosts are not
//! excluded.
//!
//! Sources: proc_pid_mountinfo(5), nfs(5), mount.cifs(8).

use crate::mounts::Mount;

/// Options of network file systems with which the server gets no locks.
const LOCAL_LOCKS: [(&str, &[&str]); 3] = [
    ("nfs", &["nolock", "local_lock=all", "local_lock=posix"]),
    ("nfs4", &["local_lock=all", "local_lock=posix"]),
    ("cifs", &["nobrl"]),
];

/// Returns the type of the file system with this number, and the option that keeps its locks local.
pub(crate) fn local_locks(mounts: &[Mount], device: u64) -> Option<(String, &'static str)> {
    let mount = mounts.iter().find(|mount| mount.device == device)?;
    let (_, local) = LOCAL_LOCKS.iter().find(|(name, _)| *name == mount.kind)?;
    let has = |local: &&&str| mount.system_options.split(',').any(|option| option == **local);
    Some((mount.kind.clone(), local.iter().find(has)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::tests::list;
    use rustix::fs::makedev;

    #[test]
    fn locks_that_stay_on_this_machine_are_distinguished_from_those_of_the_server() {
        let mounts = list(
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:41 / /a rw shared:2 - nfs host:/a rw,vers=3,nolock,local_lock=all\n\
            41 22 0:42 / /b rw - nfs4 host:/b rw,vers=4.2,local_lock=none\n\
            42 22 0:43 / /c rw - cifs //host/c rw,nobrl\n\
            broken\n",
        );
        let found = |minor| local_locks(&mounts, makedev(0, minor));
        assert_eq!(found(41), Some(("nfs".to_owned(), "nolock")));
        assert_eq!(found(42), None);
        assert_eq!(found(43), Some(("cifs".to_owned(), "nobrl")));
        assert_eq!(local_locks(&mounts, makedev(8, 1)), None);
        assert_eq!(local_locks(&[], makedev(8, 1)), None);
    }
}
