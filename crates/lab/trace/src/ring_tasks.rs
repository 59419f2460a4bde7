//! Events of threads in the kernel's buffer: a thread starts, or has another name.
//!
//! The tracepoints are `task_newtask` and `task_rename` of the kernel's
//! include/trace/events/task.h. A program that is executed renames its thread.

use crate::ring_fields::{Field, NAME_BYTES, id, name_of, plain, thread};

/// The flag of clone(2) by which the new thread belongs to the process of its parent.
const CLONE_THREAD: u64 = 0x1_0000;

/// An event of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskEvent {
    /// Time by the clock of the trace, in nanoseconds.
    pub time_ns: u64,
    /// The thread that starts or has another name.
    pub thread: u32,
    /// The change.
    pub change: TaskChange,
    name: [u8; NAME_BYTES],
}

impl TaskEvent {
    /// Returns an event.
    pub fn new(time_ns: u64, thread: u32, change: TaskChange, name: &[u8]) -> TaskEvent {
        TaskEvent { time_ns, thread, change, name: name_of(name) }
    }

    /// Returns the thread's name after the event.
    pub fn name(&self) -> &[u8] {
        plain(&self.name)
    }
}

/// A change of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskChange {
    /// It starts.
    Started {
        /// The thread that started it.
        parent: u32,
        /// Whether it belongs to the process of its parent; otherwise it is a process.
        is_of_parent: bool,
    },
    /// It has another name.
    Renamed,
}

/// The layouts of both tracepoints.
#[derive(Clone, Debug)]
pub(crate) struct TaskLayouts {
    started: u16,
    started_thread: Field,
    started_name: Field,
    flags: Field,
    renamed: u16,
    /// None: it is the thread of the event.
    renamed_thread: Option<Field>,
    renamed_name: Field,
}

impl TaskLayouts {
    pub(crate) fn of(started: &str, renamed: &str) -> Option<TaskLayouts> {
        Some(TaskLayouts {
            started: id(started)?,
            started_thread: Field::of(started, "pid")?,
            started_name: Field::of(started, "comm")?,
            flags: Field::of(started, "clone_flags")?,
            renamed: id(renamed)?,
            renamed_thread: Field::of(renamed, "pid"),
            renamed_name: Field::of(renamed, "newcomm")?,
        })
    }

    /// Reads an event. None: it is of another tracepoint. Some(None): it is damaged.
    pub(crate) fn event(&self, id: u16, time_ns: u64, bytes: &[u8]) -> Option<Option<TaskEvent>> {
        match id {
            id if id == self.started => Some(self.started(time_ns, bytes)),
            id if id == self.renamed => Some(self.renamed(time_ns, bytes)),
            _ => None,
        }
    }

    fn started(&self, time_ns: u64, bytes: &[u8]) -> Option<TaskEvent> {
        let is_of_parent = self.flags.number(bytes)? & CLONE_THREAD != 0;
        let change = TaskChange::Started { parent: thread(bytes)?, is_of_parent };
        let started = self.started_thread.number(bytes)? as u32;
        Some(TaskEvent::new(time_ns, started, change, self.started_name.get(bytes)?))
    }

    fn renamed(&self, time_ns: u64, bytes: &[u8]) -> Option<TaskEvent> {
        let renamed = match self.renamed_thread {
            Some(field) => field.number(bytes)? as u32,
            None => thread(bytes)?,
        };
        let name = self.renamed_name.get(bytes)?;
        Some(TaskEvent::new(time_ns, renamed, TaskChange::Renamed, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Of Linux 6.18.
    const STARTED: &str = "\
name: task_newtask
ID: 205
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;
\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;
";
    const RENAMED: &str = "\
name: task_rename
ID: 204
\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;
\tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;
";

    fn bytes(flags: u64) -> Vec<u8> {
        let mut bytes = vec![0; 48];
        bytes[4..8].copy_from_slice(&10u32.to_ne_bytes());
        bytes[8..12].copy_from_slice(&20u32.to_ne_bytes());
        bytes[12..14].copy_from_slice(b"sh");
        bytes[28..30].copy_from_slice(b"dd");
        bytes[32..40].copy_from_slice(&flags.to_ne_bytes());
        bytes
    }

    #[test]
    fn threads_and_processes_start_and_are_renamed() {
        let layouts = TaskLayouts::of(STARTED, RENAMED).expect("known");
        for (flags, is_of_parent) in [(0x3d_0f00, true), (0x4100, false)] {
            let event = layouts.event(205, 7, &bytes(flags)).expect("one").expect("whole");
            let change = TaskChange::Started { parent: 10, is_of_parent };
            assert_eq!(event, TaskEvent::new(7, 20, change, b"sh"));
        }
        let mut renamed = bytes(0);
        renamed[28..30].copy_from_slice(b"dd");
        let event = layouts.event(204, 8, &renamed).expect("one").expect("whole");
        assert_eq!(
            (event.thread, event.change, event.name()),
            (20, TaskChange::Renamed, &b"dd"[..])
        );
        assert_eq!(layouts.event(206, 8, &renamed), None);
        assert_eq!(layouts.event(205, 8, &renamed[..30]), Some(None));
        // Without a number of its own, the event's thread is the one.
        let older = RENAMED.replace("pid_t pid;", "pid_t it;");
        let layouts = TaskLayouts::of(STARTED, &older).expect("known");
        assert_eq!(layouts.event(204, 8, &renamed).expect("one").expect("whole").thread, 10);
        assert!(TaskLayouts::of(RENAMED, STARTED).is_none());
    }
}
