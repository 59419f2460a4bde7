//! A process, its threads and its children.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of parents that are followed.
const PARENTS_MAX: usize = 64;
/// Words in the label of a process. The kernel's names have 15 letters at most, so that no other
/// process can have a label.
const OF_PROCESS: &str = ", process ";

/// A process, its threads and its children, also those that have ended.
pub(super) struct Family {
    proc: PathBuf,
    root: u32,
    threads: HashMap<u32, Thread>,
    /// Events of threads that had ended before they were identified.
    pub(super) unidentified: u64,
    /// The largest numbers of bytes read and written that the process itself has reported.
    pub(super) own_bytes: Option<(u64, u64)>,
}

enum Thread {
    /// It belongs to the family: the label of its process.
    Own(String),
    Other,
    /// It had ended before it was identified.
    Gone,
}

impl Family {
    pub(super) fn of(root: u32) -> Family {
        Family::below(Path::new("/proc"), root)
    }

    fn below(proc: &Path, root: u32) -> Family {
        let (threads, unidentified) = (HashMap::new(), 0);
        Family { proc: proc.to_owned(), root, threads, unidentified, own_bytes: None }
    }

    /// Whether the process exists, and has not ended.
    pub(super) fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(self.file(self.root, "stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !stat.is_empty() && !state.starts_with(['Z', 'X'])
    }

    /// Notes the threads that exist now, which may have ended when their requests are seen.
    pub(super) fn refresh(&mut self) {
        let (mut left, mut seen) = (vec![self.root], 0);
        while let Some(process) = left.pop() {
            seen += 1;
            let label = self.label_of(process);
            let threads = fs::read_dir(self.file(process, "task")).into_iter().flatten().flatten();
            for thread in threads {
                let number = thread.file_name().to_str().and_then(|it| it.parse().ok());
                if let (Some(number), Some(label)) = (number, &label) {
                    self.threads.insert(number, Thread::Own(label.clone()));
                }
                let children = fs::read_to_string(thread.path().join("children"));
                let children = children.unwrap_or_default();
                left.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
            }
            // Children change while they are read.
            if seen > 1 << 16 {
                break;
            }
        }
        let counts = fs::read_to_string(self.file(self.root, "io")).unwrap_or_default();
        let count = |name: &str| {
            counts.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        if let (Some(read), Some(written)) = (count("read_bytes:"), count("write_bytes:")) {
            self.own_bytes = Some((read, written));
        }
    }

    /// Returns the label of a thread's process, if it belongs to the family.
    pub(super) fn label(&mut self, thread: u32) -> Option<&str> {
        if !self.threads.contains_key(&thread) {
            let found = self.found(thread);
            self.threads.insert(thread, found);
        }
        match self.threads.get(&thread)? {
            Thread::Own(label) => Some(label),
            Thread::Other => None,
            Thread::Gone => {
                self.unidentified += 1;
                None
            }
        }
    }

    /// Whether this name is a label.
    pub(super) fn is_label(name: &str) -> bool {
        name.contains(OF_PROCESS) && name.len() > 15
    }

    /// Finds out whether a thread belongs to the family, by its parents.
    fn found(&self, thread: u32) -> Thread {
        let Some(process) = self.status(thread, "Tgid:") else { return Thread::Gone };
        let mut parent = process;
        for _ in 0..PARENTS_MAX {
            if parent == self.root {
                return self.label_of(process).map_or(Thread::Gone, Thread::Own);
            }
            match self.status(parent, "PPid:") {
                Some(next) if next > 1 => parent = next,
                _ => return Thread::Other,
            }
        }
        Thread::Other
    }

    fn label_of(&self, process: u32) -> Option<String> {
        let name = fs::read(self.file(process, "comm")).ok()?;
        let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        Some(format!("{name}{OF_PROCESS}{process}"))
    }

    fn status(&self, thread: u32, name: &str) -> Option<u32> {
        let status = fs::read_to_string(self.file(thread, "status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    fn file(&self, process: u32, name: &str) -> PathBuf {
        self.proc.join(format!("{process}/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a process with one thread.
    fn process(proc: &Path, number: u32, parent: u32, name: &str, children: &str) {
        let task = proc.join(format!("{number}/task/{number}"));
        fs::create_dir_all(&task).expect("created");
        let status = format!("Name:\t{name}\nTgid:\t{number}\nPPid:\t{parent}\n");
        fs::write(proc.join(format!("{number}/status")), status).expect("written");
        fs::write(proc.join(format!("{number}/comm")), format!("{name}\n")).expect("written");
        fs::write(task.join("children"), children).expect("written");
    }

    #[test]
    fn threads_belong_to_the_process_by_their_parents_also_after_their_end() {
        let proc = tempfile::tempdir().expect("a directory");
        process(proc.path(), 10, 1, "server", "20 ");
        process(proc.path(), 20, 10, "worker", "");
        process(proc.path(), 30, 1, "other", "");
        let mut family = Family::below(proc.path(), 10);
        assert_eq!(family.label(30), None);
        family.refresh();
        fs::remove_dir_all(proc.path().join("20")).expect("removed");
        assert_eq!(family.label(20), Some("worker, process 20"));
        assert_eq!(family.label(10), Some("server, process 10"));
        assert_eq!(family.label(99), None);
        assert_eq!(family.unidentified, 1);
        process(proc.path(), 40, 10, "late", "");
        assert_eq!(family.label(40), Some("late, process 40"));
        assert!(Family::is_label("late, process 40") && !Family::is_label(", process 40"));
        assert!(!Family::is_label("123456789012345"));
    }
}
