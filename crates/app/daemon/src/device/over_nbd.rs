//! A device of the kernel's NBD client, whose server this process is: all of this waits for the kernel, which waits for our
//! lanes.

use super::Last;
use super::apart::Call;
use super::{place, using};
use crate::units::WaitTime;
use host::{NbdDevice, NbdOptions};
use nbd::client::{Agreed, Connection, Wish};
use nbd::codec::*;
use stack::{Exit, Failure};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the kernel may hear of an export: the rest it does not ask for.
const FLAGS: u16 = NBD_FLAG_HAS_FLAGS
    | NBD_FLAG_READ_ONLY
    | NBD_FLAG_SEND_FLUSH
    | NBD_FLAG_ROTATIONAL
    | NBD_FLAG_SEND_TRIM
    | NBD_FLAG_SEND_WRITE_ZEROES
    | NBD_FLAG_CAN_MULTI_CONN;

/// A request may take so much longer than a write is tried again: the backing has answered by then, or is reported.
const BEYOND_RETRY: Duration = Duration::from_secs(10);

/// Between the volume's place and the hash of its backing in the name that the kernel remembers. No path has it.
const THEN: &str = "//";

/// What the kernel remembers of a server for the devices of this directory.
fn beginning(directory: &Path) -> String {
    format!("{}{}{THEN}", place::OURS, directory.display())
}

/// The devices of a volume, by what the kernel remembers, each with all of that.
pub(super) fn all_of(directory: &Path) -> Vec<(NbdDevice, String)> {
    let beginning = beginning(directory);
    NbdDevice::all(|name| name.starts_with(&beginning))
}

/// A volume, and the device that is to be its.
#[derive(Debug)]
pub(super) struct OverNbd {
    volume: String,
    /// The directory by which its devices are known.
    directory: PathBuf,
    link: PathBuf,
    /// What the kernel is to remember of its server.
    backend: String,
    block_bytes: u32,
    /// FUA is done by the backing itself; else the kernel flushes.
    is_fua_native: bool,
    retry_ms: AtomicU64,
    wait_time: WaitTime,
    /// The files and devices below it.
    keys: Vec<String>,
}

/// Of a volume.
pub(super) struct Terms<'a> {
    pub(super) identity: &'a str,
    pub(super) block_bytes: u32,
    pub(super) is_fua_native: bool,
    pub(super) retry_ms: u64,
    pub(super) wait_time: WaitTime,
    pub(super) keys: &'a [String],
}

impl OverNbd {
    pub(super) fn new(runtime: &Path, volume: &str, terms: &Terms<'_>) -> OverNbd {
        let directory = place::directory(runtime, volume);
        let backing = place::hash(terms.identity);
        OverNbd {
            volume: volume.to_owned(),
            link: place::link(volume),
            backend: format!("{}{backing:016x}", beginning(&directory)),
            directory,
            block_bytes: terms.block_bytes,
            is_fua_native: terms.is_fua_native,
            retry_ms: AtomicU64::new(terms.retry_ms),
            wait_time: terms.wait_time,
            keys: terms.keys.to_owned(),
        }
    }

    fn trouble(&self, what: &str) -> impl Fn(io::Error) -> Failure {
        using::trouble(&self.link, what)
    }

    /// The device that a process before this one has made.
    ///
    /// # Errors
    /// Busy: over another backing.
    fn found(&self) -> Result<Option<NbdDevice>, Failure> {
        let Some((device, backend)) = all_of(&self.directory).into_iter().next() else {
            return Ok(None);
        };
        if backend != self.backend {
            return Err(place::other_backing(&self.link, &self.volume));
        }
        Ok(Some(device))
    }

    /// Its node, by what the kernel remembers.
    pub(super) fn node(&self) -> Option<PathBuf> {
        all_of(&self.directory).into_iter().next().map(|(device, _)| device.path())
    }

    /// How many connections to attach by: those that the device has had, or a new one with so many.
    pub(super) fn connections(&self, fresh: usize) -> usize {
        let found = all_of(&self.directory).into_iter().next();
        found.map_or(fresh, |(device, _)| device.connections())
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.retry_ms.load(Ordering::Relaxed)) + BEYOND_RETRY
    }

    fn options(&self, agreed: &Agreed) -> NbdOptions {
        let fua = if self.is_fua_native { NBD_FLAG_SEND_FUA } else { 0 };
        NbdOptions {
            bytes: agreed.export.bytes,
            block_bytes: self.block_bytes,
            timeout: self.timeout(),
            serverless: self.wait_time.duration(),
            flags: agreed.export.flags & (FLAGS | fua),
        }
    }

    /// Has the kernel's client use these connections: for the device that is there, or a new one. Sets the link.
    ///
    /// # Errors
    /// There can be no device; the name is another device's.
    pub(super) fn attach(&self, sockets: Vec<UnixStream>) -> Result<(), Failure> {
        let wish = Wish { sizes: true, ..Wish::export(&self.volume) };
        let greet = |socket| Connection::over(socket, wish.clone());
        let greeted: io::Result<Vec<_>> = sockets.into_iter().map(greet).collect();
        let greeted = greeted.map_err(self.trouble("it cannot be connected"))?;
        let options = self.options(greeted[0].agreed());
        let sockets: Vec<UnixStream> = greeted.into_iter().map(Connection::into_stream).collect();
        let (device, _naming) = match self.found()? {
            Some(device) => {
                let naming = place::claim_again(&self.link, &device.path(), &self.keys)?;
                self.reconnect(&device, &sockets, &options)?;
                (device, naming)
            }
            None => {
                let naming = place::claim_name(&self.link, &self.keys)?;
                let device = NbdDevice::connect(&sockets, &options, &self.backend)
                    .map_err(self.trouble("there can be no NBD device of it"))?;
                (device, Some(naming))
            }
        };
        // The first opening has its partitions found; a device without any is as good.
        let _ = Call::Open { node: device.path(), link: self.link.clone() }.run();
        place::set_link(&self.link, &device.path()).map_err(self.trouble("it cannot be named"))
    }

    /// Gives the device these connections. The kernel may hear a moment later that the former ones are dead.
    fn reconnect(
        &self,
        device: &NbdDevice,
        sockets: &[UnixStream],
        options: &NbdOptions,
    ) -> Result<(), Failure> {
        for socket in sockets {
            let mut failed = None;
            let is_taken =
                using::wait_until(|| match device.reconnect(socket, options, &self.backend) {
                    Ok(is_taken) => is_taken,
                    Err(error) => {
                        failed = Some(error);
                        true
                    }
                });
            if let Some(error) = failed {
                return Err(self.trouble("its device cannot be connected again")(error));
            }
            if !is_taken {
                let message = format!("{}: has a server already", self.link.display());
                return Err(Failure::new(Exit::Busy, message));
            }
        }
        Ok(())
    }

    /// From now on changes are tried again for so long.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn set_retry(&self, retry_ms: u64) -> Result<(), Failure> {
        if self.retry_ms.swap(retry_ms, Ordering::Relaxed) == retry_ms {
            return Ok(());
        }
        let Some(device) = self.found()? else { return Ok(()) };
        let set = device.set_timeout(self.timeout(), &self.backend);
        set.map_err(self.trouble("its time limit cannot be set"))
    }

    /// Takes the device away after its last request, unless something uses it.
    ///
    /// # Errors
    /// Busy, with what uses it; what the system says.
    pub(super) fn detach(&self, last: Last) -> Result<(), Failure> {
        let Some(device) = self.found()? else { return Ok(()) };
        let claimed = using::claim(&self.link, &device.path())?;
        if last == Last::Flush {
            Call::Flush { node: device.path(), link: self.link.clone() }.run()?;
        }
        device.disconnect().map_err(self.trouble("it does not go"))?;
        drop(claimed);
        if !using::wait_until(|| !device.is_connected().unwrap_or(false)) {
            return Err(using::busy(&self.link, &device.path()));
        }
        place::remove_link(&self.link, &device.path());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(volume: &str, identity: &str) -> OverNbd {
        let wait_time = WaitTime(Some(30_000));
        let terms = Terms {
            identity,
            block_bytes: 512,
            is_fua_native: false,
            retry_ms: 10_000,
            wait_time,
            keys: &[],
        };
        OverNbd::new(Path::new("/run/overdrive"), volume, &terms)
    }

    #[test]
    fn the_kernel_is_told_which_volume_over_which_backing() {
        let db = over("db", "file:1");
        assert_eq!(db.backend, over("db", "file:1").backend);
        assert_ne!(db.backend, over("db", "file:2").backend);
        let beginning = beginning(&db.directory);
        assert!(db.backend.starts_with(&beginning));
        assert!(!over("db2", "file:1").backend.starts_with(&beginning));
        assert_eq!(db.wait_time.duration(), Some(Duration::from_secs(30)));
        assert!(db.timeout() > Duration::from_secs(10), "above the time of retries");
    }

    #[test]
    fn fua_is_told_where_it_is_native() {
        let export = ExportInfo { bytes: 1 << 20, flags: u16::MAX };
        let agreed = Agreed { export, sizes: None, structured: false, contexts: Vec::new() };
        let mut db = over("db", "file:1");
        assert_eq!(db.options(&agreed).flags & NBD_FLAG_SEND_FUA, 0);
        assert_ne!(db.options(&agreed).flags & NBD_FLAG_SEND_FLUSH, 0);
        db.is_fua_native = true;
        assert_ne!(db.options(&agreed).flags & NBD_FLAG_SEND_FUA, 0);
    }
}
