//! Network file systems whose locks stay on this machine, so that other hosts are not kept out.
//!
//! Sources: proc_pid_mountinfo(5), nfs(5), mount.cifs(8).

/// Options of network file systems by which the server does not get locks.
const LOCAL_LOCKS: [(&str, &[&str]); 3] = [
    ("nfs", &["nolock", "local_lock=all", "local_lock=posix"]),
    ("nfs4", &["local_lock=all", "local_lock=posix"]),
    ("cifs", &["nobrl"]),
];

/// The option by which the file system of a number (`0:42`) keeps locks to this machine, by the
/// text of /proc/self/mountinfo.
pub(crate) fn local_locks<'a>(mounts: &'a str, number: &str) -> Option<(&'a str, &'static str)> {
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some(number))?;
    let (_, rest) = mount.split_once(" - ")?;
    let mut words = rest.split(' ');
    let (kind, options) = (words.next()?, words.nth(1)?);
    let (_, local) = LOCAL_LOCKS.iter().find(|(name, _)| *name == kind)?;
    let found = local.iter().find(|local| options.split(',').any(|option| option == **local))?;
    Some((kind, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_stay_on_this_machine_are_told_from_those_of_the_server() {
        let mounts = "\
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:41 / /a rw shared:2 - nfs host:/a rw,vers=3,nolock,local_lock=all\n\
            41 22 0:42 / /b rw - nfs4 host:/b rw,vers=4.2,local_lock=none\n\
            42 22 0:43 / /c rw - cifs //host/c rw,nobrl\n\
            broken\n";
        assert_eq!(local_locks(mounts, "0:41"), Some(("nfs", "nolock")));
        assert_eq!(local_locks(mounts, "0:42"), None);
        assert_eq!(local_locks(mounts, "0:43"), Some(("cifs", "nobrl")));
        assert_eq!(local_locks(mounts, "8:1"), None);
        assert_eq!(local_locks("", "8:1"), None);
    }
}
