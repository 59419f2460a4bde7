//! Settings of the machine that cost speed or lifetime: its disks, processors and memory.
//!
//! All files are read below a root directory, so that tests can bring their own machine.

mod disk;
mod disks;
mod format;
mod limits;
mod power;
#[cfg(test)]
mod tests;
mod trim;

use super::{Check, Group, State};
use disk::Disk;
use std::fs;
use std::path::{Path, PathBuf};

/// Room in a mounted file system, and its block size.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Space {
    total_bytes: u64,
    free_bytes: u64,
    block_bytes: u64,
}

/// A machine.
struct Machine {
    /// Usually `/`.
    root: PathBuf,
    /// Returns the room in the file system of this mount point. None: it does not answer.
    space: fn(&Path) -> Option<Space>,
}

/// A judgement of one disk.
struct Finding {
    state: State,
    found: String,
    effect: Option<String>,
    mend: Option<String>,
}

impl Finding {
    fn ok(found: impl Into<String>) -> Finding {
        Finding { state: State::Ok, found: found.into(), effect: None, mend: None }
    }

    /// Returns a finding that needs mending: its effect with a source, and the line that mends it.
    fn costs(
        found: impl Into<String>,
        effect: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        let (effect, mend) = (Some(effect.into()), Some(mend.into()));
        Finding { state: State::Costly, found: found.into(), effect, mend }
    }

    fn limited(self) -> Finding {
        Finding { state: State::Limited, ..self }
    }

    fn check(self, name: &'static str) -> Check {
        let check = Check::new(Group::Machine, name, self.state, self.found);
        Check { effect: self.effect, mend: self.mend, ..check }
    }
}

pub(super) fn checks() -> Vec<Check> {
    checks_of(&Machine { root: "/".into(), space: space_of })
}

/// A check of a disk: its name, and its judgement. None: it does not apply to this disk.
type OfDisk = (&'static str, fn(&Machine, &Disk) -> Option<Finding>);

const OF_DISKS: [OfDisk; 7] = [
    ("I/O scheduler", |_, disk| Some(disks::scheduler(disk))),
    ("write cache", |_, disk| Some(disks::write_cache(disk))),
    ("read-ahead", |_, disk| Some(disks::read_ahead(disk))),
    ("alignment", |_, disk| Some(format::alignment(disk))),
    ("sector size", |_, disk| Some(format::sector_size(disk))),
    ("TRIM", trim::trim),
    ("full SSD", |_, disk| trim::full(disk)),
];

fn checks_of(machine: &Machine) -> Vec<Check> {
    let disks = disk::disks(machine);
    let mut checks = Vec::new();
    for (name, judge) in OF_DISKS {
        let judged = disks.iter().filter_map(|disk| Some((disk, judge(machine, disk)?)));
        checks.extend(joined(name, judged));
    }
    checks.extend([power::governor(machine).check("CPU governor")]);
    checks.extend(limits::limits(machine).into_iter().map(|it| it.check("cgroup limits")));
    checks.push(power::transparent_pages(machine).check("transparent pages"));
    checks
}

/// Returns a check for each disk that is not in order, and one for all others.
fn joined<'a>(name: &'static str, judged: impl Iterator<Item = (&'a Disk, Finding)>) -> Vec<Check> {
    let (fine, other): (Vec<_>, Vec<_>) = judged.partition(|(_, it)| it.state == State::Ok);
    let mut checks: Vec<Check> = Vec::new();
    if !fine.is_empty() {
        let words = fine.iter().map(|(disk, it)| format!("{}: {}", disk.name, it.found));
        let found = words.collect::<Vec<_>>().join("; ");
        checks.push(Finding::ok(found).check(name));
    }
    checks.extend(other.into_iter().map(|(disk, mut it)| {
        it.found = format!("{}: {}", disk.name, it.found);
        it.check(name)
    }));
    checks
}

fn space_of(point: &Path) -> Option<Space> {
    let found = rustix::fs::statvfs(point).ok()?;
    Some(Space {
        total_bytes: found.f_blocks * found.f_frsize,
        free_bytes: found.f_bfree * found.f_frsize,
        block_bytes: found.f_bsize,
    })
}

impl Machine {
    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// Returns the trimmed text of a file. None: it cannot be read.
    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    fn has(&self, path: &str) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// Returns the names in a directory, sorted; none if it is missing.
    fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Returns the choice in brackets of a file such as `[none] mq-deadline`.
fn chosen(text: &str) -> &str {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(inside, _)| inside)
}
