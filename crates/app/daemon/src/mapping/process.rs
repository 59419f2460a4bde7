//! The process that maps the files of a volume.

use super::MapSummary;
use crate::confine::confine_mapper;
use crate::control::Daemon;
use crate::control::words::{Ask, READ_BYTES_MAX};
use files::{Bounds, ReadAt, ReadFailed, map_volume};
use hints::{FileRules, class_list};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setpriority_process};
use stack::{Exit, Failure};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The program's hidden command of this process.
pub const MAP_FILES: &str = "map-files";

/// The lowest priority.
const NICE: i32 = 19;

/// A volume that is read through its daemon, without a trace in the cache.
pub struct VolumeReader<'a> {
    daemon: &'a mut Daemon,
    volume: String,
    bytes: u64,
}

impl<'a> VolumeReader<'a> {
    /// Reads a volume of this size.
    pub fn new(daemon: &'a mut Daemon, volume: &str, bytes: u64) -> VolumeReader<'a> {
        VolumeReader { daemon, volume: volume.to_owned(), bytes }
    }
}

impl ReadAt for VolumeReader<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        for (number, part) in into.chunks_mut(READ_BYTES_MAX as usize).enumerate() {
            let first_byte = offset + number as u64 * u64::from(READ_BYTES_MAX);
            self.daemon.read(&self.volume, first_byte, part).map_err(|_| ReadFailed)?;
        }
        Ok(())
    }
}

/// Maps the files of a volume for the daemon with this process number, and writes the classes of
/// its blocks to stdout: a [`MapSummary`] as JSON, a line feed, and a [`hotlist::ClassList`].
///
/// # Errors
/// No daemon has started this process; the daemon does not answer.
pub fn map_files(
    daemon: i32,
    control: &Path,
    volume: &str,
    rules: &str,
    memory_bytes: u64,
) -> Result<(), Failure> {
    let wrong = || Failure::new(Exit::Usage, format!("{MAP_FILES}: only a daemon starts this"));
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| Failure::new(Exit::Io, format!("{MAP_FILES}: {errno}")))?;
    // The daemon may have died before the signal was requested.
    if getppid() != Pid::from_raw(daemon) {
        return Err(wrong());
    }
    let _ = setpriority_process(None, NICE);
    let rules = rules.parse().and_then(|rules| FileRules::new(&rules)).map_err(|_| wrong())?;
    let failed = |error: io::Error| Failure::new(Exit::Io, format!("{MAP_FILES}: {error}"));
    let mut output = io::stdout().as_fd().try_clone_to_owned().map(File::from).map_err(failed)?;
    let mut connection = Daemon::connect(control)?;
    let rows = connection.rows()?;
    let row = rows.iter().find(|row| row.name == volume).ok_or_else(wrong)?;
    let size_bytes = row.size_bytes;
    // An older daemon does not limit the connection.
    let _ = connection.ask(&Ask::Observe { volume: volume.to_owned() });
    let mut reader = VolumeReader::new(&mut connection, volume, size_bytes);
    let bounds = Bounds::default();
    // Before the first byte that others may have written.
    confine_mapper(&bounds);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let map = map_volume(&mut reader, &bounds, seconds);
    let list = class_list(&map, &rules, memory_bytes);
    let mut summary = serde_json::to_vec(&MapSummary::of(&map)).expect("plain data");
    drop(map);
    summary.push(b'\n');
    let written = output.write_all(&summary).and_then(|()| output.write_all(&list.encode()));
    written.map_err(failed)
}
