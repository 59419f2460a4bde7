//! Load times on a mounted file system: reads its files as an application does when it starts.

use super::cold::{Coldness, look_at};
use super::look::{Look, failed, now_ns};
use super::quiet::open;
use super::set::TRANSFER_BYTES;
use super::site::TestDirectory;
use super::walk::found;
use crate::machine;
use load::Latency;
use stack::Failure;
use std::io::Read;
use std::path::{Path, PathBuf};
use suites::{Halt, Outcome, Plan, Row, Watch};

/// Size of the first read of a file: an application finds the type and the layout of the file in
/// it.
const HEAD_BYTES: usize = 4096;

/// A run that is ready to start.
pub struct LoadTime {
    site: TestDirectory,
    plan: Plan,
}

/// The results of loading files.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Files that were read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The total time in nanoseconds.
    pub took_ns: u64,
    /// Latency of each file, from before it was opened until its end was read.
    pub of_files: Latency,
    /// Latency of each read.
    pub of_reads: Latency,
    /// Files that could not be opened: removed since, or not permitted.
    pub left_out: u64,
    /// Files whose access times the reads may have changed.
    pub touched: u64,
}

impl Loaded {
    /// Reads a file: first its head, then the rest, 128 KiB at a time. Calls `goes_on` after each
    /// read with the bytes so far.
    fn read(
        &mut self,
        path: &Path,
        buffer: &mut [u8],
        mut goes_on: impl FnMut(u64) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let start_ns = now_ns();
        let Ok((mut file, is_untouched)) = open(path) else {
            self.left_out += 1;
            return Ok(());
        };
        let (mut before_ns, mut size) = (start_ns, HEAD_BYTES);
        loop {
            let count = file.read(&mut buffer[..size]).map_err(failed("read a file"))?;
            let now = now_ns();
            if count == 0 {
                break;
            }
            self.of_reads.record(now - before_ns);
            self.bytes += count as u64;
            goes_on(self.bytes)?;
            // The time of the watch is not part of a read.
            (before_ns, size) = (now_ns(), buffer.len());
        }
        self.of_files.record(now_ns() - start_ns);
        self.files += 1;
        self.touched += u64::from(!is_untouched);
        Ok(())
    }
}

/// Reads all of these files, one after the other. Results before an error are returned with it.
///
/// # Errors
/// The file system fails, or the watch interrupts.
pub fn load(
    files: &[(PathBuf, u64)],
    stage: &str,
    look: &mut Look<'_>,
) -> (Loaded, Result<(), Halt>) {
    let (mut loaded, mut buffer) = (Loaded::default(), vec![0; TRANSFER_BYTES]);
    let all: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let start_ns = now_ns();
    let mut goes_on = |bytes| look.goes_on(stage, bytes, all);
    let result = files.iter().try_for_each(|(path, _)| {
        goes_on(loaded.bytes)?;
        loaded.read(path, &mut buffer, &mut goes_on)
    });
    loaded.took_ns = now_ns() - start_ns;
    (loaded, result)
}

impl LoadTime {
    /// Checks the directory.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn open(directory: &Path, plan: &Plan) -> Result<LoadTime, Failure> {
        let site = TestDirectory::find(directory)?;
        Ok(LoadTime { site, plan: plan.clone() })
    }

    /// Reads the files twice. In any case the outcome contains everything measured until then.
    ///
    /// # Errors
    /// Returned with the outcome: why it is not complete.
    pub fn run(self, watch: &mut dyn Watch) -> (Outcome, Result<(), Halt>) {
        let mut outcome = Outcome::new(&self.plan);
        outcome.time = "real";
        outcome.facts = machine();
        outcome.facts.extend(self.site.facts());
        let start_ns = now_ns();
        let result = self.passes(&mut Look::new(watch), &mut outcome);
        outcome.elapsed_ns = now_ns() - start_ns;
        outcome.complete = result.is_ok();
        (outcome, result)
    }

    fn passes(&self, look: &mut Look<'_>, outcome: &mut Outcome) -> Result<(), Halt> {
        let found = found(self.site.path(), look)?;
        let text = &self.plan.target.text;
        if found.files.is_empty() {
            return Err(Halt::Plan("the directory contains no file to read".to_owned()));
        }
        outcome.method.push(format!(
            "All {} files of {text} ({:.1} MB) were read twice, one after the other in the order \
             of their folders: first 4 KiB of a file, then the rest, 128 KiB at a time. Nothing \
             was written. Before the first load the files were dropped from the page cache \
             (posix_fadvise); names and inodes stay cached. The time in which an application works \
             between its reads is not included. In rows of seconds, latencies are those of whole \
             files; in rows of MB/s, those of single reads.",
            found.files.len(),
            found.bytes as f64 / 1e6
        ));
        if found.left_out > 0 {
            outcome.method.push(format!(
                "{} entries were omitted: links, devices, other file systems, and files without \
                 permission.",
                found.left_out
            ));
        }
        for (pass, drops) in [("first load", true), ("second load", false)] {
            let coldness = look_at(&found.files, |path| Ok(open(path)?.0), drops, look)?;
            let (loaded, result) = load(&found.files, pass, look);
            add(outcome, pass, &loaded, coldness, result.is_err());
            result?;
        }
        Ok(())
    }
}

/// Adds the rows of a pass, and its notes.
fn add(outcome: &mut Outcome, pass: &str, loaded: &Loaded, coldness: Coldness, partial: bool) {
    if loaded.bytes == 0 {
        return;
    }
    let seconds = loaded.took_ns.max(1) as f64 / 1e9;
    let of = |what: &str, unit, value, latency: Option<&Latency>| Row {
        latency: latency.cloned(),
        cold: coldness.is_cold(),
        prepared: match pass {
            "first load" => format!("dropped from the page cache: {}", coldness.text()),
            _ => format!("after the first load: {}", coldness.text()),
        },
        partial,
        ..Row::plain(format!("{pass}{what}"), unit, value)
    };
    // If the first file was not read to its end, there are reads only.
    let of_files = (loaded.files > 0).then_some(&loaded.of_files);
    let rows = [
        of("", "s", seconds, of_files),
        of(", data", "MB/s", loaded.bytes as f64 / 1e6 / seconds, Some(&loaded.of_reads)),
        of(", files", "files/s", loaded.files as f64 / seconds, None),
    ];
    let wanted = rows.into_iter().filter(|row| outcome.plan.selects(&row.test));
    outcome.rows.extend(wanted.collect::<Vec<_>>());
    if loaded.left_out > 0 {
        outcome
            .method
            .push(format!("In the {pass}, {} files could not be opened.", loaded.left_out));
    }
    if loaded.touched > 0 {
        outcome.method.push(format!(
            "In the {pass}, access times of {} files may have changed, because other users own \
             them.",
            loaded.touched
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::look::Impatient;
    use super::*;
    use std::fs::File;

    #[test]
    fn a_load_is_interrupted_within_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, bytes) = (directory.path().join("large"), 64 << 30);
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("it grows");
        let mut watch = Impatient(0);
        let (loaded, ended) = load(&[(path, bytes)], "load", &mut Look::new(&mut watch));
        assert_eq!(ended, Err(Halt::Interrupted));
        assert!((1..bytes).contains(&loaded.bytes), "{loaded:?}");
        assert_eq!(loaded.files, 0);
    }
}
