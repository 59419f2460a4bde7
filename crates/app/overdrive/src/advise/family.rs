//! A process, its threads and its children.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use trace::{TaskChange, TaskEvent};

/// Maximum number of parents that are followed.
const PARENTS_MAX: usize = 64;
/// Words in the label of a process. Other processes whose names have them are renamed.
const OF_PROCESS: &str = ", process ";

/// A process, its threads and its children, also those that have ended.
pub(super) struct Family {
    proc: PathBuf,
    root: u32,
    threads: HashMap<u32, Thread>,
    /// The labels of its processes, by their numbers.
    labels: HashMap<u32, String>,
    /// Whether the start of the root was seen: then that of each thread of the family is.
    is_whole: bool,
    /// Events of threads that had ended before they were identified.
    pub(super) unidentified: u64,
    /// The largest numbers of bytes read and written that the process itself has reported.
    pub(super) own_bytes: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
enum Thread {
    /// It belongs to the family, and to this process.
    Own(u32),
    Other,
    /// It had ended before it was identified.
    Gone,
}

impl Family {
    pub(super) fn of(root: u32) -> Family {
        Family::below(Path::new("/proc"), root)
    }

    fn below(proc: &Path, root: u32) -> Family {
        Family {
            proc: proc.to_owned(),
            root,
            threads: HashMap::new(),
            labels: HashMap::new(),
            is_whole: false,
            unidentified: 0,
            own_bytes: None,
        }
    }

    /// Whether the process exists, and has not ended.
    pub(super) fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(self.file(self.root, "stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        !stat.is_empty() && !state.starts_with(['Z', 'X'])
    }

    /// Notes the threads that exist now, which may have ended when their requests are seen.
    /// Threads that are known keep the names of their events.
    pub(super) fn refresh(&mut self) {
        let (mut left, mut seen) = (vec![self.root], 0);
        while let Some(process) = left.pop() {
            seen += 1;
            self.add_label(process);
            let threads = fs::read_dir(self.file(process, "task")).into_iter().flatten().flatten();
            for thread in threads {
                let number = thread.file_name().to_str().and_then(|it| it.parse().ok());
                if let Some(number) = number.filter(|_| self.labels.contains_key(&process)) {
                    self.threads.insert(number, Thread::Own(process));
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

    /// Notes a thread that starts, or that has another name.
    pub(super) fn note(&mut self, event: &TaskEvent) {
        let thread = event.thread;
        match event.change {
            TaskChange::Started { .. } if thread == self.root => {
                self.is_whole = true;
                self.threads.insert(thread, Thread::Own(thread));
                self.name(thread, event.name());
            }
            TaskChange::Started { parent, is_of_parent } => match self.find(parent) {
                Thread::Own(process) if is_of_parent => {
                    self.threads.insert(thread, Thread::Own(process));
                }
                Thread::Own(_) => {
                    self.threads.insert(thread, Thread::Own(thread));
                    self.name(thread, event.name());
                }
                // Its number may have been that of another thread.
                Thread::Other | Thread::Gone => {
                    self.threads.remove(&thread);
                }
            },
            // The name of a process is that of its first thread.
            TaskChange::Renamed if self.labels.contains_key(&thread) => {
                self.name(thread, event.name());
            }
            TaskChange::Renamed => {}
        }
    }

    /// Returns the label of a thread's process, if it belongs to the family.
    pub(super) fn label(&mut self, thread: u32) -> Option<&str> {
        match self.find(thread) {
            Thread::Own(process) => self.labels.get(&process).map(String::as_str),
            Thread::Other => None,
            Thread::Gone => {
                self.unidentified += 1;
                None
            }
        }
    }

    /// Whether this name is that of a label.
    pub(super) fn is_label(name: &[u8]) -> bool {
        name.windows(OF_PROCESS.len()).any(|part| part == OF_PROCESS.as_bytes())
    }

    /// Returns what is known of a thread; one that is unknown is looked up, if it may belong to the
    /// family.
    fn find(&mut self, thread: u32) -> Thread {
        if let Some(known) = self.threads.get(&thread) {
            return *known;
        }
        if self.is_whole {
            return Thread::Other;
        }
        let found = self.look_up(thread);
        self.threads.insert(thread, found);
        found
    }

    /// Finds out whether a thread belongs to the family, by its parents.
    fn look_up(&mut self, thread: u32) -> Thread {
        let Some(process) = self.status(thread, "Tgid:") else { return Thread::Gone };
        let mut parent = process;
        for _ in 0..PARENTS_MAX {
            if parent == self.root {
                self.add_label(process);
                return match self.labels.contains_key(&process) {
                    true => Thread::Own(process),
                    false => Thread::Gone,
                };
            }
            match self.status(parent, "PPid:") {
                Some(next) if next > 1 => parent = next,
                _ => return Thread::Other,
            }
        }
        Thread::Other
    }

    /// Adds the label of a process that has none, if it exists.
    fn add_label(&mut self, process: u32) {
        if self.labels.contains_key(&process) {
            return;
        }
        if let Ok(name) = fs::read(self.file(process, "comm")) {
            self.name(process, name.trim_ascii_end());
        }
    }

    fn name(&mut self, process: u32, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        self.labels.insert(process, format!("{name}{OF_PROCESS}{process}"));
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
        // Also with short names and numbers.
        assert!(Family::is_label(b"dd, process 4") && !Family::is_label(b"123456789012345"));
    }

    #[test]
    fn events_name_processes_that_have_ended_before_a_look() {
        let proc = tempfile::tempdir().expect("a directory");
        process(proc.path(), 10, 1, "make", "");
        let mut family = Family::below(proc.path(), 10);
        let started = |parent, thread, is_of_parent, name: &[u8]| {
            let change = TaskChange::Started { parent, is_of_parent };
            TaskEvent::new(1, thread, change, name)
        };
        let renamed = |thread, name: &[u8]| TaskEvent::new(2, thread, TaskChange::Renamed, name);
        // None of these is ever in /proc.
        family.note(&started(10, 20, false, b"make"));
        assert_eq!(family.label(20), Some("make, process 20"));
        family.note(&renamed(20, b"cc1"));
        family.note(&started(20, 21, true, b"cc1"));
        family.note(&renamed(21, b"worker"));
        assert_eq!(
            [20, 21].map(|it| family.label(it).map(str::to_owned)),
            [Some("cc1, process 20".to_owned()), Some("cc1, process 20".to_owned())]
        );
        // A later look keeps the names of events.
        process(proc.path(), 20, 10, "other", "");
        family.refresh();
        assert_eq!(family.label(20), Some("cc1, process 20"));
        // The number of a thread is used again, by a process of others.
        process(proc.path(), 30, 1, "shell", "");
        family.note(&started(30, 21, false, b"shell"));
        process(proc.path(), 21, 30, "shell", "");
        assert_eq!(family.label(21), None);
        assert_eq!(family.unidentified, 0);
        // The root itself, of a command that ends immediately.
        let gone = tempfile::tempdir().expect("a directory");
        let mut family = Family::below(gone.path(), 50);
        family.note(&started(7, 50, false, b"overdrive"));
        family.note(&renamed(50, b"dd"));
        assert_eq!(family.label(50), Some("dd, process 50"));
        // All of the family are known then.
        assert_eq!(family.label(77), None);
        assert_eq!(family.unidentified, 0);
    }
}
