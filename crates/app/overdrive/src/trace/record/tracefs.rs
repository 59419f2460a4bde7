//! A private buffer of block events in tracefs, so that other users of tracing are not disturbed.

use stack::{Exit, Failure};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use trace::Step;

/// Directories where tracefs may be mounted.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The names of all instances of this program begin with it; a process number follows.
const PREFIX: &str = "overdrive-record-";
/// Size of the buffers of all processors together, in KiB.
const BUFFERS_KIB: u64 = 32 << 10;
/// Bytes of a text that are read at a time.
const READ_BYTES: usize = 1 << 16;

/// An instance of tracefs, which is removed when it is dropped.
pub(super) struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Makes an instance that collects the events of requests to these disks. Its pages are read
    /// from [`Instance::raw_pipes`], which must be closed before it is dropped.
    ///
    /// # Errors
    /// Exit status 4 if this user may not; 1 if the kernel has no such events.
    pub(super) fn open(filter_numbers: &[u64]) -> Result<Instance, Failure> {
        let root = root()?;
        remove_abandoned(&root);
        let path = root.join(format!("instances/{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| failure(&path, &error))?;
        let instance = Instance { path };
        let filter = filter_numbers.iter().map(|number| format!("dev == {number}"));
        let filter = filter.collect::<Vec<_>>().join(" || ");
        instance.start(&filter).map_err(|error| failure(&instance.path, &error))?;
        Ok(instance)
    }

    fn start(&self, filter: &str) -> io::Result<()> {
        let processors = self.processors()?.len() as u64;
        let buffer_kib = (BUFFERS_KIB / processors.max(1)).clamp(64, 16 << 10);
        self.set("buffer_size_kb", &buffer_kib.to_string())?;
        // The clock of the monotonic time is the same on all processors.
        self.set("trace_clock", "mono")?;
        // Events that do not fit are lost, and counted. The oldest ones remain.
        self.set("options/overwrite", "0")?;
        for step in Step::ALL {
            let event = format!("events/block/{}", step.tracepoint());
            self.set(&format!("{event}/filter"), filter)?;
            self.enable(&event)?;
        }
        Ok(())
    }

    /// Collects the events of this tracepoint, too.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn enable(&self, event: &str) -> io::Result<()> {
        self.set(&format!("{event}/enable"), "1")
    }

    /// Opens the pages of each processor.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn raw_pipes(&self) -> io::Result<Vec<File>> {
        let processors = self.processors()?.into_iter();
        processors.map(|path| open_pipe(&path.join("trace_pipe_raw"))).collect()
    }

    /// Returns the text of a file of the instance.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn text(&self, name: &str) -> io::Result<String> {
        let mut file = File::open(self.join(name))?;
        // The kernel cuts off `header_page` after a read into a small buffer.
        let (mut text, mut piece) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                count => text.extend_from_slice(&piece[..count]),
            }
        }
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn set(&self, name: &str, value: &str) -> io::Result<()> {
        fs::write(self.join(name), value)
    }

    fn processors(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(self.join("per_cpu"))?.map(|entry| Ok(entry?.path())).collect()
    }

    /// Collects no more events; those in the buffer can still be read.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn stop(&self) -> io::Result<()> {
        self.set("tracing_on", "0")
    }

    /// Returns the number of events that were lost up to now.
    ///
    /// # Errors
    /// The system's errors.
    pub(super) fn lost(&self) -> io::Result<u64> {
        let texts =
            self.processors()?.into_iter().map(|path| fs::read_to_string(path.join("stats")));
        texts.map(|text| Ok(lost(&text?))).sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        _ = self.stop();
        if let Err(error) = fs::remove_dir(&self.path) {
            daemon::complain!("{}: cannot be removed: {error}", self.path.display());
        }
    }
}

fn open_pipe(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Returns the events that a processor's statistics report as lost.
fn lost(text: &str) -> u64 {
    let counts = text.lines().filter_map(|line| line.split_once(": "));
    let is_loss = |name: &str| matches!(name, "overrun" | "commit overrun" | "dropped events");
    let losses = counts.filter(|(name, _)| is_loss(name));
    losses.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// Returns the directory of tracefs, if this user may use it and it has block events.
fn root() -> Result<PathBuf, Failure> {
    for root in ROOTS.map(Path::new) {
        match fs::metadata(root.join("instances")) {
            Ok(_) if root.join("events/block").exists() => return Ok(root.to_owned()),
            Ok(_) => {
                let message = "this kernel has no tracepoints of block devices \
                               (CONFIG_BLK_DEV_IO_TRACE); record a served volume instead";
                return Err(Failure::new(Exit::Negative, message));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failure(root, &error)),
        }
    }
    let message =
        format!("tracefs is not mounted; 'mount -t tracefs nodev {}' mounts it", ROOTS[0]);
    Err(Failure::new(Exit::Negative, message))
}

/// Removes the instances of processes that were killed: they would collect events forever.
fn remove_abandoned(root: &Path) {
    let Ok(entries) = fs::read_dir(root.join("instances")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // One that is in use, by a process that is not visible here, cannot be removed.
            _ = fs::remove_dir(entry.path());
        }
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let message = format!("{path}: {error}; recording a device needs root");
            Failure::new(Exit::Permission, message)
        }
        _ => Failure::new(Exit::Io, format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_losses_of_a_buffer_count() {
        let text = "entries: 7\noverrun: 1\ncommit overrun: 20\nbytes: 9\noldest event ts:  1.5\n\
                    dropped events: 300\nread events: 15\n";
        assert_eq!(lost(text), 321);
        assert_eq!(lost("overrun: x\ndropped events\n: 5"), 0);
    }
}
