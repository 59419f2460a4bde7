//! A device of the kernel's driver ublk, whose queues our lanes serve. None of this runs on a lane:
//! it waits for the kernel, which waits for our lanes.

use super::LastRequest;
use super::helper_call::Call;
use super::place::Naming;
use super::{place, using};
use crate::front::UblkDevice;
use block::{Limits, stable_hash};
use ring::UblkControl;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use stack::Failure;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use ublk::{Command, Control, DeviceInfo, IO_BYTES_MAX, Params, STATE_DEAD, TAGS};

/// Number of waits until the driver notices that a server is dead, each as long as
/// [`using::wait_until`] waits.
const RECOVERY_TRIES: u32 = 10;
/// Number of a device that has no number yet.
const NO_NUMBER: u32 = u32::MAX;

pub(super) fn node(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

fn run_command(
    control: &mut UblkControl,
    command: Command,
    device: u32,
    data: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    control.ask(command as u32, Control { device, data }.encode(), buffer).map(|_| ())
}

/// Returns the driver's information on all its devices that outlive their servers.
fn all(control: &mut UblkControl) -> Vec<DeviceInfo> {
    let entries = fs::read_dir("/sys/class/ublk-char").ok().into_iter().flatten().flatten();
    let numbers = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("ublkc")?.parse::<u32>().ok());
    let info = |number| {
        let mut bytes = DeviceInfo::ROOM;
        run_command(control, Command::GetInfo, number, 0, &mut bytes).ok()?;
        DeviceInfo::parse(&bytes)
    };
    numbers.filter_map(info).collect()
}

/// Returns the upper half of the note in the driver, which is the same for all devices of a volume,
/// whatever their backing.
fn half_of(directory: &Path) -> u64 {
    stable_hash(format!("{}{}", place::OURS, directory.display()).bytes()) >> 32 << 32
}

fn is_of(info: &DeviceInfo, directory: &Path) -> bool {
    info.note >> 32 << 32 == half_of(directory)
}

/// Returns the numbers of a volume's devices, from the notes in the driver.
pub(super) fn all_of(directory: &Path) -> Vec<u32> {
    let Ok(mut control) = UblkControl::open() else { return Vec::new() };
    let found = all(&mut control).into_iter().filter(|info| is_of(info, directory));
    found.map(|info| info.device).collect()
}

/// Whether a volume has a device that still has its disk.
pub(super) fn has_disk(directory: &Path) -> bool {
    let Ok(mut control) = UblkControl::open() else { return false };
    let lives = |info: &DeviceInfo| is_of(info, directory) && info.state != STATE_DEAD;
    all(&mut control).iter().any(lives)
}

/// Removes a device; requests that wait for it fail.
///
/// # Errors
/// Those of the driver.
pub(super) fn give_up(number: u32) -> io::Result<PathBuf> {
    let mut control = UblkControl::open()?;
    run_command(&mut control, Command::Stop, number, 0, &mut [])?;
    delete_later(&mut control, number)?;
    Ok(node(number))
}

/// Removes a device that has lost its disk, even if a file system on it is still mounted. A driver
/// that cannot do that (before Linux 6.9) keeps the device, which has no function any more.
fn delete_later(control: &mut UblkControl, number: u32) -> io::Result<()> {
    match run_command(control, Command::DeleteLater, number, 0, &mut []) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        deleted => deleted,
    }
}

/// A volume, and the device to be made for it.
#[derive(Debug)]
pub(super) struct OverUblk {
    volume: String,
    directory: PathBuf,
    link: PathBuf,
    /// The note to be stored in the driver.
    note: u64,
    params: Params,
    /// The files and devices below the volume.
    keys: Vec<String>,
    /// Number of the device, while it is attached.
    number: AtomicU32,
}

/// A device whose queues are to be served now.
pub(super) struct Prepared {
    pub(super) opened: UblkDevice,
    number: u32,
    /// Held until a new device has its name.
    naming: Option<Naming>,
}

impl OverUblk {
    pub(super) fn new(
        runtime: &Path,
        volume: &str,
        identity: &str,
        limits: &Limits,
        keys: &[String],
    ) -> OverUblk {
        let directory = place::directory(runtime, volume);
        OverUblk {
            volume: volume.to_owned(),
            link: place::link(volume),
            note: half_of(&directory) | stable_hash(identity.bytes()) >> 32,
            directory,
            params: Params::of(limits, IO_BYTES_MAX),
            keys: keys.to_owned(),
            number: AtomicU32::new(NO_NUMBER),
        }
    }

    fn to_failure(&self, what: &str) -> impl Fn(io::Error) -> Failure {
        using::to_failure(&self.link, what)
    }

    fn control(&self) -> Result<UblkControl, Failure> {
        UblkControl::open().map_err(self.to_failure("the kernel has no ublk (modprobe ublk_drv?)"))
    }

    /// Returns its node, while it is attached.
    pub(super) fn node(&self) -> Option<PathBuf> {
        let number = self.number.load(Ordering::Relaxed);
        (number != NO_NUMBER).then(|| node(number))
    }

    /// Returns the device that an earlier process has made. One that has lost its disk is removed.
    fn find_device(&self, control: &mut UblkControl) -> Result<Option<DeviceInfo>, Failure> {
        for info in all(control).into_iter().filter(|info| is_of(info, &self.directory)) {
            if info.state == STATE_DEAD {
                delete_later(control, info.device)
                    .map_err(self.to_failure("the remains of its device cannot be removed"))?;
            } else if info.note == self.note {
                return Ok(Some(info));
            } else {
                return Err(place::other_backing(&self.link, &self.volume));
            }
        }
        Ok(None)
    }

    /// Continues with the existing device and its queues, or makes one with this number of queues.
    ///
    /// # Errors
    /// There can be no device; the name belongs to another device.
    pub(super) fn prepare(&self, queues: u16) -> Result<Prepared, Failure> {
        let mut control = self.control()?;
        let found = self.find_device(&mut control)?;
        let (info, naming) = match found {
            Some(info) => {
                self.take_over(&mut control, info.device)?;
                (info, None)
            }
            None => {
                let naming = place::claim_name(&self.link, &self.keys)?;
                let made = self.make(&mut control, queues);
                (made.map_err(self.to_failure("no ublk device can be made for it"))?, Some(naming))
            }
        };
        let number = info.device;
        let file = open_queues(number).map_err(|error| {
            if naming.is_some() {
                let _ = run_command(&mut control, Command::Delete, number, 0, &mut []);
            }
            self.to_failure("its queues cannot be opened")(error)
        })?;
        let DeviceInfo { queues, tags, io_bytes_max, .. } = info;
        let opened = UblkDevice { file: file.into(), queues, tags, io_bytes_max };
        Ok(Prepared { opened, number, naming })
    }

    fn make(&self, control: &mut UblkControl, queues: u16) -> io::Result<DeviceInfo> {
        let wanted = DeviceInfo {
            device: NO_NUMBER,
            queues,
            tags: TAGS,
            state: STATE_DEAD,
            io_bytes_max: IO_BYTES_MAX,
            note: self.note,
        };
        let mut bytes = wanted.encode();
        run_command(control, Command::Add, NO_NUMBER, 0, &mut bytes)?;
        let too_old = || {
            let message = "the kernel's ublk removes a device when its server ends (before Linux \
                           6.4)";
            io::Error::new(io::ErrorKind::Unsupported, message)
        };
        let made = DeviceInfo::parse(&bytes).ok_or_else(too_old)?;
        let set =
            run_command(control, Command::SetParams, made.device, 0, &mut self.params.encode());
        if let Err(error) = set {
            let _ = run_command(control, Command::Delete, made.device, 0, &mut []);
            return Err(error);
        }
        Ok(made)
    }

    /// Takes a device over from its former server, which is dead; the driver may take a moment to
    /// notice that.
    fn take_over(&self, control: &mut UblkControl, number: u32) -> Result<(), Failure> {
        let mut last = None;
        for _ in 0..RECOVERY_TRIES {
            let is_over = using::wait_until(|| {
                last = run_command(control, Command::StartRecovery, number, 0, &mut []).err();
                let busy = Some(Errno::BUSY.raw_os_error());
                last.as_ref().is_none_or(|error| error.raw_os_error() != busy)
            });
            if is_over {
                break;
            }
        }
        match last {
            None => Ok(()),
            Some(error) => Err(self.to_failure("its device cannot be taken over")(error)),
        }
    }

    /// Makes the disk of a new device, or continues with the existing one. The device's queues must
    /// be served by then. Sets the link.
    ///
    /// # Errors
    /// Those of the driver; then nothing is left of a new device.
    pub(super) fn start(&self, prepared: &Prepared) -> Result<(), Failure> {
        let command = if prepared.naming.is_some() { Command::Start } else { Command::EndRecovery };
        let mut control = self.control()?;
        let server = std::process::id().into();
        run_command(&mut control, command, prepared.number, server, &mut [])
            .map_err(self.to_failure("its device cannot be started"))?;
        let node = node(prepared.number);
        self.number.store(prepared.number, Ordering::Relaxed);
        // devtmpfs or udev creates the node.
        using::wait_until(|| node.exists());
        let _naming = match prepared.naming {
            Some(_) => None,
            None => place::claim_again(&self.link, &node, &self.keys)?,
        };
        place::set_link(&self.link, &node).map_err(self.to_failure("it cannot be named"))
    }

    /// Removes a new device whose queues could not be served, or that could not be started. An
    /// existing device continues to wait.
    pub(super) fn undo(&self, prepared: Prepared) {
        let Prepared { opened, number, naming } = prepared;
        drop(opened);
        if naming.is_some()
            && let Ok(mut control) = UblkControl::open()
        {
            // If this fails, the device stays without a disk, and the next attach removes it.
            let _ = run_command(&mut control, Command::Delete, number, 0, &mut []);
        }
    }

    /// Removes the device after its last request, unless it is in use.
    ///
    /// # Errors
    /// Busy, with its user; those of the driver.
    pub(super) fn detach(&self, last: LastRequest) -> Result<(), Failure> {
        let Some(node) = self.node() else { return Ok(()) };
        let number = self.number.load(Ordering::Relaxed);
        let claimed = using::claim(&self.link, &node)?;
        if last == LastRequest::Flush {
            Call::Flush { node: node.clone(), link: self.link.clone() }.run()?;
        }
        let mut control = self.control()?;
        run_command(&mut control, Command::Stop, number, 0, &mut [])
            .map_err(self.to_failure("its device cannot be removed"))?;
        drop(claimed);
        self.number.store(NO_NUMBER, Ordering::Relaxed);
        place::remove_link(&self.link, &node);
        run_command(&mut control, Command::Delete, number, 0, &mut [])
            .map_err(self.to_failure("its device cannot be removed"))
    }
}

/// Opens the node of a device's queues, which appears a moment after the device.
fn open_queues(number: u32) -> io::Result<std::os::fd::OwnedFd> {
    let path = format!("/dev/ublkc{number}");
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mut opened = Err(Errno::NOENT);
    using::wait_until(|| {
        opened = rustix::fs::open(&path, flags, Mode::empty());
        !matches!(opened, Err(Errno::NOENT | Errno::BUSY))
    });
    Ok(opened?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_contains_hashes_of_the_volume_and_its_backing() {
        let limits = Limits::plain(1 << 11, 512);
        let device_of = |volume: &str, identity: &str| {
            OverUblk::new(Path::new("/run/overdrive"), volume, identity, &limits, &[])
        };
        let db = device_of("db", "file:1");
        assert_eq!(db.note, device_of("db", "file:1").note);
        assert_ne!(db.note, device_of("db", "file:2").note);
        assert_eq!(db.note >> 32, device_of("db", "file:2").note >> 32);
        assert_ne!(db.note >> 32, device_of("db2", "file:1").note >> 32);
        assert_eq!(db.node(), None);
    }
}
