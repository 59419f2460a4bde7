//! A loop device over a file that this process serves. None of this runs on a lane: it waits for
//! the kernel, which waits for our lanes.

use super::LastRequest;
use super::helper_call::Call;
use super::{place, using};
use host::{LoopDevice, LoopOptions};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use stack::Failure;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A file, and the device to be made over it.
#[derive(Clone, Debug)]
pub(super) struct OverFile {
    pub(super) file: PathBuf,
    pub(super) link: PathBuf,
    /// Size of the file, in bytes.
    pub(super) bytes: u64,
    /// Block size of the device, in bytes.
    pub(super) block_bytes: u32,
    /// Refuse changes.
    pub(super) read_only: bool,
    /// The files and devices below the file.
    pub(super) keys: Vec<String>,
}

/// Whether the kernel has closed the connection to the server of a FUSE file system.
fn is_server_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOTCONN, Errno::CONNABORTED];
    gone.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl OverFile {
    fn to_failure(&self, what: &str) -> impl Fn(io::Error) -> Failure {
        using::to_failure(&self.link, what)
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let access = if self.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.file, flags, Mode::empty())?)
    }

    /// Returns the device that exists over the file.
    fn find_device(&self) -> Option<LoopDevice> {
        LoopDevice::all_over(&self.file).into_iter().next()
    }

    /// Returns its node, from the kernel's lists.
    pub(super) fn node(&self) -> Option<PathBuf> {
        self.find_device().map(|device| device.path())
    }

    /// Continues with the device over this very file, or makes one; sets the link.
    ///
    /// # Errors
    /// There can be no device, or none with direct I/O; the name belongs to another
    /// device.
    pub(super) fn attach(&self) -> Result<(), Failure> {
        let OverFile { file, link, bytes, block_bytes, read_only, keys } = self.clone();
        Call::Attach { file, link, bytes, block_bytes, read_only, keys }.run()
    }

    /// Attaches in this process, which does not serve the file.
    pub(super) fn attach_here(&self) -> Result<(), Failure> {
        let file = self.open().map_err(self.to_failure("its file cannot be opened"))?;
        let (device, _naming) = match self.adopt(&file)? {
            Some(device) => {
                let naming = place::claim_again(&self.link, &device.path(), &self.keys)?;
                (device, naming)
            }
            None => {
                self.end_former(&file)?;
                let naming = place::claim_name(&self.link, &self.keys)?;
                (self.make(&file)?, Some(naming))
            }
        };
        place::set_link(&self.link, &device.path()).map_err(self.to_failure("it cannot be named"))
    }

    /// Makes the device; its name must be claimed before.
    fn make(&self, file: &OwnedFd) -> Result<LoopDevice, Failure> {
        // The process of a daemon that was killed may have been making the device, with the name
        // claimed, until just now.
        if let Some(device) = self.adopt(file)? {
            return Ok(device);
        }
        let (block_bytes, read_only) = (self.block_bytes, self.read_only);
        LoopDevice::attach(file, LoopOptions { block_bytes, read_only })
            .map_err(self.to_failure("no loop device can be made for it (modprobe loop?)"))
    }

    /// Returns the device that an earlier process has made, resized to the file's present size.
    /// Devices over files of this name whose server has ended for good are removed.
    fn adopt(&self, file: &OwnedFd) -> Result<Option<LoopDevice>, Failure> {
        let mut adopted = None;
        for device in LoopDevice::all_over(&self.file) {
            if self.is_over(&device, file)? && adopted.is_none() {
                self.resize(&device, file)?;
                adopted = Some(device);
            } else {
                // Its users get errors already.
                device
                    .detach()
                    .map_err(self.to_failure("the remains of its device cannot be removed"))?;
            }
        }
        Ok(adopted)
    }

    /// Whether there is a device that differs in size from the volume.
    pub(super) fn is_to_be_resized(&self) -> bool {
        self.find_device().is_some_and(|device| device.bytes() != Some(self.bytes))
    }

    /// Gives the file and the device the volume's size. The kernel ignores a file size in a FUSE
    /// reply if a write to the same file is in progress. The file could then keep its former size,
    /// and reads beyond it would fail. Therefore changes are held back during this. The first call
    /// queries the server, and the second one shows the size that the kernel has accepted. A seek
    /// would wait for the lock of the file, which a discard that is held back has.
    fn resize(&self, device: &LoopDevice, file: &OwnedFd) -> Result<(), Failure> {
        let size = |sync| {
            rustix::fs::statx(file, "", AtFlags::EMPTY_PATH | sync, StatxFlags::SIZE)
                .map(|found| found.stx_size)
        };
        using::wait_until(|| {
            size(AtFlags::STATX_FORCE_SYNC).is_ok()
                && size(AtFlags::STATX_DONT_SYNC) == Ok(self.bytes)
        });
        device.resize().map_err(self.to_failure("its size cannot be set"))
    }

    /// Whether a device is over the file that is served now. If this cannot be determined, no
    /// second device may be made: both would show the same disk.
    fn is_over(&self, device: &LoopDevice, file: &OwnedFd) -> Result<bool, Failure> {
        match device.is_over(file) {
            Err(error) if is_server_gone(&error) => Ok(false),
            result => {
                result.map_err(self.to_failure("the file of its device cannot be determined"))
            }
        }
    }

    /// Removes a device of this name whose server has ended for good: its users get errors, and
    /// close it.
    fn end_former(&self, file: &OwnedFd) -> Result<(), Failure> {
        let linked = fs::read_link(&self.link).ok().and_then(|node| LoopDevice::at(&node));
        if let Some((device, _)) = linked
            && device.is_over(file).is_err_and(|error| is_server_gone(&error))
        {
            device
                .detach()
                .map_err(self.to_failure("the remains of its device cannot be removed"))?;
        }
        Ok(())
    }

    /// Removes the device after its last request, unless it is in use.
    ///
    /// # Errors
    /// Busy, with its user; those of the system.
    pub(super) fn detach(&self, last: LastRequest) -> Result<(), Failure> {
        let Some(device) = self.find_device() else { return Ok(()) };
        let claimed = using::claim(&self.link, &device.path())?;
        if last == LastRequest::Flush {
            Call::Flush { node: device.path(), link: self.link.clone() }.run()?;
        }
        if !device
            .detach_claimed(claimed)
            .map_err(self.to_failure("its device cannot be removed"))?
        {
            return Err(using::busy(&self.link, &device.path()));
        }
        place::remove_link(&self.link, &device.path());
        Ok(())
    }
}
