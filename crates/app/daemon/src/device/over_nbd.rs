//! A device of the kernel's NBD client, whose server is this process. None of this runs on a lane:
//! it waits for the kernel, which waits for our lanes.

use super::LastRequest;
use super::helper_call::Call;
use super::{place, using};
use crate::units::WaitTime;
use block::stable_hash;
use host::{NbdDevice, NbdOptions};
use nbd::client::{Agreed, Connection, Wish};
use nbd::codec::*;
use stack::{Exit, Failure};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Export flags that are passed to the kernel; it does not use the others.
const FLAGS: u16 = NBD_FLAG_HAS_FLAGS
    | NBD_FLAG_READ_ONLY
    | NBD_FLAG_SEND_FLUSH
    | NBD_FLAG_ROTATIONAL
    | NBD_FLAG_SEND_TRIM
    | NBD_FLAG_SEND_WRITE_ZEROES
    | NBD_FLAG_CAN_MULTI_CONN;

/// Time that a request may take beyond the retries of a write: by then the backing has answered, or
/// its stall has been reported.
const BEYOND_RETRY: Duration = Duration::from_secs(10);

/// Separator between the volume's directory and the hash of its backing in the name that the kernel
/// stores. No path contains it.
const SEPARATOR: &str = "//";

/// Returns the name_prefix of the server's name that the kernel stores for the devices of this
/// directory.
fn name_prefix(directory: &Path) -> String {
    format!("{}{}{SEPARATOR}", place::OURS, directory.display())
}

/// Returns the devices of a volume, from the names that the kernel stores, each with its full name.
pub(super) fn all_of(directory: &Path) -> Vec<(NbdDevice, String)> {
    let name_prefix = name_prefix(directory);
    NbdDevice::all(|name| name.starts_with(&name_prefix))
}

/// A volume, and the device to be made for it.
#[derive(Debug)]
pub(super) struct OverNbd {
    volume: String,
    /// The directory that identifies its devices.
    directory: PathBuf,
    link: PathBuf,
    /// The server's name, which the kernel stores.
    backend: String,
    block_bytes: u32,
    /// Whether the backing itself carries out FUA; otherwise the kernel flushes.
    is_fua_native: bool,
    retry_ms: AtomicU64,
    wait_time: WaitTime,
    /// The files and devices below the volume.
    keys: Vec<String>,
}

/// Properties of a volume.
pub(super) struct VolumeProperties<'a> {
    pub(super) identity: &'a str,
    pub(super) block_bytes: u32,
    pub(super) is_fua_native: bool,
    pub(super) retry_ms: u64,
    pub(super) wait_time: WaitTime,
    pub(super) keys: &'a [String],
}

impl OverNbd {
    pub(super) fn new(runtime: &Path, volume: &str, properties: &VolumeProperties<'_>) -> OverNbd {
        let directory = place::directory(runtime, volume);
        let backing = stable_hash(properties.identity.bytes());
        OverNbd {
            volume: volume.to_owned(),
            link: place::link(volume),
            backend: format!("{}{backing:016x}", name_prefix(&directory)),
            directory,
            block_bytes: properties.block_bytes,
            is_fua_native: properties.is_fua_native,
            retry_ms: AtomicU64::new(properties.retry_ms),
            wait_time: properties.wait_time,
            keys: properties.keys.to_owned(),
        }
    }

    fn to_failure(&self, what: &str) -> impl Fn(io::Error) -> Failure {
        using::to_failure(&self.link, what)
    }

    /// Returns the device that an earlier process has made.
    ///
    /// # Errors
    /// Busy: it belongs to another backing.
    fn find_device(&self) -> Result<Option<NbdDevice>, Failure> {
        let Some((device, backend)) = all_of(&self.directory).into_iter().next() else {
            return Ok(None);
        };
        if backend != self.backend {
            return Err(place::other_backing(&self.link, &self.volume));
        }
        Ok(Some(device))
    }

    /// Returns its node, from the name that the kernel stores.
    pub(super) fn node(&self) -> Option<PathBuf> {
        all_of(&self.directory).into_iter().next().map(|(device, _)| device.path())
    }

    /// Returns the number of connections to attach by: that of the existing device, or `fresh` for
    /// a new one.
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

    /// Passes these connections to the kernel's client: for the existing device, or a new one. Sets
    /// the link.
    ///
    /// # Errors
    /// There can be no device; the name belongs to another device.
    pub(super) fn attach(&self, sockets: Vec<UnixStream>) -> Result<(), Failure> {
        let wish = Wish { sizes: true, ..Wish::export(&self.volume) };
        let greet = |socket| Connection::from_stream(socket, wish.clone());
        let greeted: io::Result<Vec<_>> = sockets.into_iter().map(greet).collect();
        let greeted = greeted.map_err(self.to_failure("it cannot be connected"))?;
        let options = self.options(greeted[0].agreed());
        let sockets: Vec<UnixStream> = greeted.into_iter().map(Connection::into_stream).collect();
        let (device, _naming) = match self.find_device()? {
            Some(device) => {
                let naming = place::claim_again(&self.link, &device.path(), &self.keys)?;
                self.reconnect(&device, &sockets, &options)?;
                (device, naming)
            }
            None => {
                let naming = place::claim_name(&self.link, &self.keys)?;
                let device = NbdDevice::connect(&sockets, &options, &self.backend)
                    .map_err(self.to_failure("no NBD device can be made for it"))?;
                (device, Some(naming))
            }
        };
        // The first opening scans the partitions. Without them the device works as well, so an
        // error is ignored.
        let _ = Call::Open { node: device.path(), link: self.link.clone() }.run();
        place::set_link(&self.link, &device.path()).map_err(self.to_failure("it cannot be named"))
    }

    /// Passes these connections to the device. The kernel may notice a moment later that the former
    /// ones are dead.
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
                return Err(self.to_failure("its device cannot be reconnected")(error));
            }
            if !is_taken {
                let message = format!("{}: already has a server", self.link.display());
                return Err(Failure::new(Exit::Busy, message));
            }
        }
        Ok(())
    }

    /// Sets the time for which failed changes are tried again.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn set_retry(&self, retry_ms: u64) -> Result<(), Failure> {
        if self.retry_ms.swap(retry_ms, Ordering::Relaxed) == retry_ms {
            return Ok(());
        }
        let Some(device) = self.find_device()? else { return Ok(()) };
        let set = device.set_timeout(self.timeout(), &self.backend);
        set.map_err(self.to_failure("its time limit cannot be set"))
    }

    /// Removes the device after its last request, unless it is in use.
    ///
    /// # Errors
    /// Busy, with its user; those of the system.
    pub(super) fn detach(&self, last: LastRequest) -> Result<(), Failure> {
        let Some(device) = self.find_device()? else { return Ok(()) };
        let claimed = using::claim(&self.link, &device.path())?;
        if last == LastRequest::Flush {
            Call::Flush { node: device.path(), link: self.link.clone() }.run()?;
        }
        device.disconnect().map_err(self.to_failure("its device cannot be removed"))?;
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

    fn device_of(volume: &str, identity: &str) -> OverNbd {
        let wait_time = WaitTime(Some(30_000));
        let properties = VolumeProperties {
            identity,
            block_bytes: 512,
            is_fua_native: false,
            retry_ms: 10_000,
            wait_time,
            keys: &[],
        };
        OverNbd::new(Path::new("/run/overdrive"), volume, &properties)
    }

    #[test]
    fn the_server_name_contains_the_volume_and_a_hash_of_its_backing() {
        let db = device_of("db", "file:1");
        assert_eq!(db.backend, device_of("db", "file:1").backend);
        assert_ne!(db.backend, device_of("db", "file:2").backend);
        let name_prefix = name_prefix(&db.directory);
        assert!(db.backend.starts_with(&name_prefix));
        assert!(!device_of("db2", "file:1").backend.starts_with(&name_prefix));
        assert_eq!(db.wait_time.duration(), Some(Duration::from_secs(30)));
        assert!(db.timeout() > Duration::from_secs(10), "above the time of retries");
    }

    #[test]
    fn fua_is_announced_only_if_the_backing_has_it() {
        let export = ExportInfo { bytes: 1 << 20, flags: u16::MAX };
        let agreed = Agreed { export, sizes: None, structured: false, contexts: Vec::new() };
        let mut db = device_of("db", "file:1");
        assert_eq!(db.options(&agreed).flags & NBD_FLAG_SEND_FUA, 0);
        assert_ne!(db.options(&agreed).flags & NBD_FLAG_SEND_FLUSH, 0);
        db.is_fua_native = true;
        assert_ne!(db.options(&agreed).flags & NBD_FLAG_SEND_FUA, 0);
    }
}
