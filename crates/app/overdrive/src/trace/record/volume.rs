//! The requests of a served volume, as its daemon records them.

use super::output::Output;
use super::recorder::{Source, SourceCounts};
use crate::volumes::{self, Target};
use daemon::control::Daemon;
use daemon::control::words::{RecordAt, Row};
use stack::{Exit, Failure};
use std::path::Path;
use trace::Event;
use trace::recording::Entry;

/// Longest time without a daemon that serves the volume, in nanoseconds. An upgrade and a restart
/// are shorter.
const AWAY_NS_MAX: u64 = 30_000_000_000;
/// Maximum number of pages between two looks at signals and clocks.
const ROUND_PAGES_MAX: usize = 64;

/// The requests of a volume.
pub(super) struct VolumeSource {
    name: String,
    places: Vec<RecordAt>,
    /// Names of the places in the recording, by the device numbers of the events.
    devices: Vec<String>,
    /// The connection that records. None: there is no daemon at present.
    daemon: Option<Daemon>,
    /// Time of the last page that was received.
    received_ns: u64,
    begin_ns: u64,
    counts: SourceCounts,
}

impl VolumeSource {
    /// Begins to record a volume at these places.
    ///
    /// # Errors
    /// It is not served, or is being recorded already; it has no such place.
    pub(super) fn begin(target: Target, places: &[RecordAt]) -> Result<VolumeSource, Failure> {
        let Target { mut daemon, row } = target;
        let begin_ns = host::now_ns();
        daemon.record(&row.name, places)?;
        let device = |place: &RecordAt| match place {
            RecordAt::Above => row.name.clone(),
            RecordAt::Below => format!("{}.backing", row.name),
        };
        Ok(VolumeSource {
            devices: places.iter().map(device).collect(),
            places: places.to_vec(),
            name: row.name,
            daemon: Some(daemon),
            received_ns: begin_ns,
            begin_ns,
            counts: SourceCounts::default(),
        })
    }

    /// Moves a page of requests to the output. Returns whether there are more. A daemon that has
    /// ended is noted.
    fn take_page(&mut self, output: &mut Output) -> Result<bool, Failure> {
        let Some(daemon) = &mut self.daemon else { return Ok(false) };
        let mut page = match daemon.recorded() {
            Ok(page) => page,
            // A daemon that is ending has no volume any more before it has ended.
            Err(failure) if is_passing(&failure) => {
                self.daemon = None;
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        };
        self.received_ns = host::now_ns();
        self.counts.dropped += page.dropped;
        // A page has the events of each place for itself.
        let answered_ns = |event: &Event| event.time_ns.saturating_add(event.took_ns.unwrap_or(0));
        page.events.sort_by_key(answered_ns);
        for event in page.events {
            let Some(device) = self.devices.get(event.device as usize) else {
                let message = format!("{}: its daemon sends unknown requests", self.name);
                return Err(Failure::new(Exit::Integrity, message));
            };
            let time_ns = event.time_ns.saturating_sub(self.begin_ns);
            output.put(Entry::from(Event { time_ns, ..event }), device, None)?;
        }
        Ok(page.is_more)
    }

    /// Tries to continue with the next daemon that serves the volume.
    ///
    /// # Errors
    /// There was none for too long, or it cannot record.
    fn reconnect(&mut self) -> Result<(), Failure> {
        let found = volumes::find_served(&self.name).and_then(|Target { mut daemon, .. }| {
            daemon.record(&self.name, &self.places).map(|()| daemon)
        });
        let away_ns = host::now_ns() - self.received_ns;
        match found {
            Ok(daemon) => {
                self.daemon = Some(daemon);
                self.counts.gaps += 1;
                self.counts.gap_ns += away_ns;
                daemon::complain!(
                    "{}: another daemon serves it; requests of {:.2} s are missing",
                    self.name,
                    away_ns as f64 / 1e9
                );
                Ok(())
            }
            Err(failure) if is_passing(&failure) && away_ns < AWAY_NS_MAX => Ok(()),
            Err(failure) if is_passing(&failure) => Err(self.is_gone()),
            Err(failure) => Err(failure),
        }
    }

    fn is_gone(&self) -> Failure {
        let message = format!("{}: is not served any more; the recording ends there", self.name);
        Failure::new(Exit::Negative, message)
    }
}

/// Whether a daemon that is just starting may be the reason for a failure.
fn is_passing(failure: &Failure) -> bool {
    matches!(failure.exit, Exit::NoDaemon | Exit::Negative)
}

impl Source for VolumeSource {
    fn take(&mut self, output: &mut Output) -> Result<bool, Failure> {
        if self.daemon.is_none() {
            self.reconnect()?;
        }
        for _ in 0..ROUND_PAGES_MAX {
            if !self.take_page(output)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self, output: &mut Output) -> Result<(), Failure> {
        // Requests continue to arrive: those up to now are the last ones.
        let end_ns = host::now_ns();
        while self.take_page(output)? && host::now_ns() - end_ns < FINISH_NS_MAX {}
        self.daemon = None;
        Ok(())
    }

    fn counts(&self) -> SourceCounts {
        self.counts
    }
}

/// Longest time for the last requests, in nanoseconds.
const FINISH_NS_MAX: u64 = 2_000_000_000;

/// Whether the file system of this directory is on the volume, as far as the kernel and the daemons
/// show it, so that a recording there would record itself.
pub(super) fn is_on_volume(directory: &Path, volume: &Row, mut rows: Vec<Row>) -> bool {
    let mut below = host::keys_below(directory);
    loop {
        let is_below = |row: &Row| keys_of(row).iter().any(|key| below.contains(key));
        let Some(index) = rows.iter().position(is_below) else { return false };
        let row = rows.swap_remove(index);
        if (row.pid, &row.name) == (volume.pid, &volume.name) {
            return true;
        }
        // This volume may be on another one.
        for key in row.keys {
            let path = Path::new(&row.backing);
            below.extend(host::keys_below_backing(&key, std::iter::once(path)));
            below.push(key);
        }
    }
}

/// Returns the keys of a volume's device and of its mounted file.
fn keys_of(row: &Row) -> Vec<String> {
    let paths = [&row.device, &row.uri].into_iter().map(Path::new);
    paths.filter(|path| path.is_absolute()).filter_map(|path| holder::key_at(path).ok()).collect()
}
