//! The control groups of this process.
//!
//! Sources: the kernel's Documentation/admin-guide/cgroup-v1/cgroups.rst and cgroup-v2.rst,
//! proc_pid_mountinfo(5).

use crate::mounts::{Mount, mounts, mounts_in};
use std::fs;
use std::path::{Path, PathBuf};

/// The two generations of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    /// One hierarchy per controller, or per few controllers.
    First,
    /// One hierarchy for all controllers.
    Second,
}

/// A control group.
#[derive(PartialEq, Debug)]
pub struct Group {
    /// Directory of the group.
    pub path: PathBuf,
    /// The generation of its interface.
    pub generation: Generation,
}

/// Returns the groups of this process with this controller (`memory`, `cpu`), from its own up to
/// the outermost visible one.
pub fn own_groups(controller: &str) -> Vec<Group> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups(&own, &mounts(), controller)
}

/// Returns the same of a machine whose file systems are below this directory.
pub fn own_groups_in(root: &Path, controller: &str) -> Vec<Group> {
    let process = root.join("proc/self");
    let own = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    let mut found = groups(&own, &mounts_in(&process), controller);
    for group in &mut found {
        group.path = root.join(group.path.strip_prefix("/").unwrap_or(&group.path));
    }
    found
}

/// Returns the mount of a generation's hierarchy with this controller.
fn mount_of<'a>(
    mounts: &'a [Mount],
    generation: Generation,
    controller: &str,
) -> Option<&'a Mount> {
    mounts.iter().find(|mount| match generation {
        Generation::First => {
            mount.kind == "cgroup"
                && mount.system_options.split(',').any(|option| option == controller)
        }
        Generation::Second => mount.kind == "cgroup2",
    })
}

fn groups(own: &str, mounts: &[Mount], controller: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let generation = match controllers {
            "" => Generation::Second,
            _ if controllers.split(',').any(|one| one == controller) => Generation::First,
            _ => continue,
        };
        let Some(mount) = mount_of(mounts, generation, controller) else { continue };
        // In a container, the mounted group may be far down in the hierarchy.
        let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let below = below.strip_prefix("/").unwrap_or(below);
        groups.extend(
            below.ancestors().map(|below| Group { path: mount.point.join(below), generation }),
        );
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mounts::tests::list;

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
         32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";

    fn group(path: &str, generation: Generation) -> Group {
        Group { path: path.into(), generation }
    }

    #[test]
    fn groups_of_both_generations_are_found_with_their_ancestors() {
        let memory = |own, mounts: &str| groups(own, &list(mounts), "memory");
        let first = memory("4:memory:/a/b\n2:cpu:/c\n0::/\n", MOUNTS);
        let place = "/sys/fs/cgroup/memory";
        let expected = [format!("{place}/a/b"), format!("{place}/a"), format!("{place}/")];
        assert_eq!(first, expected.map(|one| group(&one, Generation::First)));
        let second = "40 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = memory("0::/system.slice/x.service\n", second);
        assert_eq!(found[0], group("/sys/fs/cgroup/system.slice/x.service", Generation::Second));
        assert_eq!(found.len(), 3);
        // In a container the process is in the mounted group.
        let inside = "35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let found = memory("4:memory:/docker/1\n", inside);
        assert_eq!(found, [group("/sys/fs/cgroup/memory/", Generation::First)]);
        assert_eq!(memory("garbage\n:\n4:memory\n", MOUNTS), []);
    }

    #[test]
    fn each_controller_of_the_first_generation_has_groups_of_its_own() {
        let found = groups("4:memory:/a\n2:cpu:/c\n", &list(MOUNTS), "cpu");
        let paths: Vec<_> = found.iter().map(|group| group.path.display().to_string()).collect();
        assert_eq!(paths, ["/sys/fs/cgroup/cpu/c", "/sys/fs/cgroup/cpu/"]);
    }
}
