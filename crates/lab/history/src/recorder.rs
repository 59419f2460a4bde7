//! A thread that records samples of volumes, so that the daemon never waits for the file.
//!
//! ```text
//!   the daemon, each second --queue, dropped if full--> thread --each ten seconds--> the file
//! ```
//!
//! A full disk, a lock that another program holds, or a file system that does not answer delays the
//! thread only. Samples that could not be recorded are counted, and the first reason is reported.

use crate::error::Error;
use crate::samples::{Samples, VolumeSample, file_identity};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// Seconds that are recorded in one transaction.
pub const SECONDS_A_BATCH: i64 = 10;
/// Maximum number of seconds that wait for the thread.
const WAITING_MAX: usize = 64;
/// Longest time that seconds wait for later ones: an idle daemon has none.
const REST: Duration = Duration::from_secs(15);
/// Time between two removals of old samples, in seconds.
const THIN_EVERY_S: i64 = 300;
/// Memory of the thread's stack, in bytes: the daemon's memory is locked.
const STACK_BYTES: usize = 512 << 10;

enum Message {
    Seconds(Vec<VolumeSample>),
    End,
}

/// Receives sentences for the operator.
type Report = Box<dyn Fn(&str) + Send>;

/// The daemon's side.
pub struct Recorder {
    queue: SyncSender<Message>,
    ended: Receiver<()>,
    lost: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts the thread. The file is opened when the first ten seconds are recorded. `report`
    /// receives sentences for the operator, on the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(path: PathBuf, report: impl Fn(&str) + Send + 'static) -> io::Result<Recorder> {
        let (queue, messages) = sync_channel(WAITING_MAX);
        let (end, ended) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let (counted, report): (_, Report) = (lost.clone(), Box::new(report));
        let work = move || {
            let mut file = File { path, open: None, lost: counted, report, reported: None };
            file.run(&messages);
            // The daemon may have stopped waiting.
            let _ = end.send(());
        };
        let thread = std::thread::Builder::new().name("od-history".to_owned());
        thread.stack_size(STACK_BYTES).spawn(work)?;
        Ok(Recorder { queue, ended, lost })
    }

    /// Passes the samples of a second to the thread. Never waits: they are lost if its queue is
    /// full.
    pub fn record(&self, seconds: Vec<VolumeSample>) {
        let count = seconds.len() as u64;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Message::Seconds(seconds))
        {
            self.lost.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Returns the number of samples that could not be recorded.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records the last seconds, if the thread does it within this time, and ends the thread.
    pub fn finish(self, within: Duration) {
        if self.queue.try_send(Message::End).is_ok() {
            let _ = self.ended.recv_timeout(within);
        }
    }
}

/// The thread's side.
struct File {
    path: PathBuf,
    /// The open file, and its identity.
    open: Option<(Samples, (u64, u64))>,
    lost: Arc<AtomicU64>,
    report: Report,
    /// The last reported reason.
    reported: Option<String>,
}

impl File {
    fn run(&mut self, messages: &Receiver<Message>) {
        let mut seconds: Vec<VolumeSample> = Vec::new();
        let mut thinned_s = i64::MIN;
        loop {
            let next = match seconds.is_empty() {
                true => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => messages.recv_timeout(REST),
            };
            let more = match next {
                Ok(Message::Seconds(more)) => more,
                Err(RecvTimeoutError::Timeout) => {
                    self.write(&seconds);
                    seconds.clear();
                    continue;
                }
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            };
            let now_s = more.first().map_or(0, |sample| sample.at_s);
            seconds.extend(more);
            let first_s = seconds.first().map_or(now_s, |sample| sample.at_s);
            // A clock that jumps ends a batch as well.
            if (0..SECONDS_A_BATCH - 1).contains(&(now_s - first_s)) {
                continue;
            }
            self.write(&seconds);
            seconds.clear();
            if !(0..THIN_EVERY_S).contains(&now_s.saturating_sub(thinned_s)) {
                thinned_s = now_s;
                self.thin(now_s);
            }
        }
        // A daemon that has lived for less than a batch leaves no file.
        if self.open.is_some() && !seconds.is_empty() {
            self.write(&seconds);
        }
    }

    fn write(&mut self, seconds: &[VolumeSample]) {
        let result = self.try_write(seconds);
        match result {
            Ok(()) => self.reported = None,
            Err(error) => {
                self.lost.fetch_add(seconds.len() as u64, Ordering::Relaxed);
                if error.is_damage() {
                    // The next batch examines the file, and renames it.
                    self.open = None;
                }
                self.complain(error.to_string());
            }
        }
    }

    fn try_write(&mut self, seconds: &[VolumeSample]) -> Result<(), Error> {
        let path = self.path.clone();
        let samples = self.opened(&path)?;
        match samples.record_volumes(seconds) {
            Err(error) if error.is_full() => {
                if !samples.shorten()? {
                    return Err(error);
                }
                samples.record_volumes(seconds)
            }
            written => written,
        }
    }

    fn thin(&mut self, now_s: i64) {
        if let Some((samples, _)) = &mut self.open
            && let Err(error) = samples.thin(now_s)
        {
            self.complain(error.to_string());
        }
    }

    /// Returns the open file. It is opened again if another one is at its path.
    fn opened(&mut self, path: &Path) -> Result<&mut Samples, Error> {
        let is_there = |(samples, identity): &(Samples, _)| samples.is_at(*identity);
        if !self.open.as_ref().is_some_and(is_there) {
            self.open = None;
            let (samples, note) = Samples::open_or_renew(path)?;
            if let Some(note) = note {
                (self.report)(&note);
            }
            let identity = file_identity(path)
                .ok_or_else(|| Error::new(path, "was removed while it was opened"))?;
            self.open = Some((samples, identity));
        }
        Ok(&mut self.open.as_mut().expect("just opened").0)
    }

    fn complain(&mut self, reason: String) {
        if self.reported.as_ref() != Some(&reason) {
            (self.report)(&format!("the history is not recorded: {reason}"));
            self.reported = Some(reason);
        }
    }
}
