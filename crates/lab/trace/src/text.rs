//! Lines of text that are written from accesses: CSV, and the logs that fio replays.

use crate::access::Access;
use crate::event::Operation;
use alloc::format;
use alloc::string::String;

/// The first line of CSV; `formats/csv.rs` has the columns.
pub const CSV_HEAD: &str = "op,offset,length,time_ns,took_ns,device,process\n";

/// Returns the letters of an operation in CSV.
fn letters(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "R",
        Operation::Write { fua: false } => "W",
        Operation::Write { fua: true } => "WF",
        Operation::Flush => "F",
        Operation::Discard => "D",
        Operation::Zero { fua: false, .. } => "Z",
        Operation::Zero { fua: true, .. } => "ZF",
        Operation::Advise => "A",
    }
}

/// Appends a line of CSV. False: the operation has no letters, and nothing was appended.
pub fn csv_line(
    into: &mut String,
    access: &Access,
    device: &str,
    process: Option<&str>,
    time_ns: u64,
) -> bool {
    let Some(operation) = access.operation() else { return false };
    let took = access.details.took_ns.map_or(String::new(), |ns| format!("{ns}"));
    let (op, offset, bytes) = (letters(operation), access.first_byte, access.bytes);
    // A newline or blanks at the ends of a name would not be read again.
    let process = process.unwrap_or_default().trim();
    into.push_str(&format!("{op},{offset},{bytes},{time_ns},{took},{device},{process}\n"));
    true
}

/// The versions of fio's logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FioVersion {
    /// Version 2: times are lines `wait`, in milliseconds.
    Two,
    /// Version 3, from fio 3.31 on: each line has the time since the start.
    Three,
}

/// A log for fio's option `read_iolog` (fio, HOWTO, "Trace file format"). Version 3 has times in
/// microseconds. The manual says that a `wait` of version 2 is in microseconds since the one
/// before; fio 3.33 waits until this number of milliseconds after its own start, as written here.
///
/// ```text
///   fio version 2 iolog             fio version 3 iolog
///   sda add                         0 sda add
///   sda open                        0 sda open
///   sda read 0 4096                 0 sda read 0 4096
///   sda wait 2 0
///   sda write 8192 512              2500 sda write 8192 512
///   sda close                       2500 sda close
/// ```
#[derive(Debug)]
pub struct FioLog {
    version: FioVersion,
    /// Microseconds from the first request to the last one.
    now_us: u64,
    begin_ns: Option<u64>,
    /// The devices that are open, by their names in the log.
    open: alloc::vec::Vec<String>,
}

impl FioLog {
    /// Begins a log: appends its first line.
    pub fn begin(version: FioVersion, into: &mut String) -> FioLog {
        let number = if version == FioVersion::Two { 2 } else { 3 };
        into.push_str(&format!("fio version {number} iolog\n"));
        FioLog { version, now_us: 0, begin_ns: None, open: alloc::vec::Vec::new() }
    }

    /// Appends a request to the file of this name at this time. False: fio has no such operation,
    /// and nothing was appended.
    pub fn request(
        &mut self,
        into: &mut String,
        access: &Access,
        name: &str,
        time_ns: u64,
    ) -> bool {
        let action = match access.operation() {
            Some(Operation::Read) => "read",
            Some(Operation::Write { .. }) => "write",
            Some(Operation::Flush) => "sync",
            Some(Operation::Discard) => "trim",
            Some(Operation::Zero { .. } | Operation::Advise) | None => return false,
        };
        let name = file_name(name);
        let begin_ns = *self.begin_ns.get_or_insert(time_ns);
        if !self.open.contains(&name) {
            self.action(into, &format!("{name} add"));
            self.action(into, &format!("{name} open"));
            self.open.push(name.clone());
        }
        let at_us = time_ns.saturating_sub(begin_ns) / 1000;
        if self.version == FioVersion::Two && at_us / 1000 > self.now_us / 1000 {
            into.push_str(&format!("{name} wait {} 0\n", at_us / 1000));
        }
        self.now_us = self.now_us.max(at_us);
        self.action(into, &format!("{name} {action} {} {}", access.first_byte, access.bytes));
        true
    }

    /// Ends the log: closes its files.
    pub fn end(&mut self, into: &mut String) {
        for name in core::mem::take(&mut self.open) {
            self.action(into, &format!("{name} close"));
        }
    }

    fn action(&self, into: &mut String, action: &str) {
        if self.version == FioVersion::Three {
            into.push_str(&format!("{} ", self.now_us));
        }
        into.push_str(action);
        into.push('\n');
    }
}

/// Returns a name that fio takes as one file: a colon would separate two.
fn file_name(name: &str) -> String {
    name.chars().map(|letter| if letter == ':' || letter == ' ' { '_' } else { letter }).collect()
}
