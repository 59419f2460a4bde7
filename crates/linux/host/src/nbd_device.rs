//! Devices of the kernel's NBD client, created by generic netlink: such a device outlives the
//! process that has created it.
//!
//! Sources: include/uapi/linux/nbd-netlink.h, drivers/block/nbd.c,
//! Documentation/ABI/testing/sysfs-block-device.

use crate::netlink::{Attributes, Family, attributes, find, find_u32};
use crate::sysfs::number_in;
use rustix::net::sockopt::{Timeout, socket_timeout};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

const FAMILY: &str = "nbd";

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;
const STATUS: u8 = 5;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_BYTES: u16 = 3;
const TIMEOUT_S: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT_S: u16 = 8;
const DEVICE_LIST: u16 = 9;
const BACKEND: u16 = 10;

/// In a list of sockets: one socket, and its descriptor.
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
/// In a list of devices: one device, its number, and whether it is connected.
const DEVICE_ITEM: u16 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_CONNECTED: u16 = 2;

/// Maximum time that users of a device wait for a server, in seconds: 23 days, which fits into 32
/// bits as ticks.
const SERVERLESS_MAX_S: u64 = 2_000_000;

/// Settings of a device.
#[derive(Clone, Copy, Debug)]
pub struct NbdOptions {
    /// Size in bytes.
    pub bytes: u64,
    /// Block size in bytes: 512 to 4096.
    pub block_bytes: u32,
    /// Time after which a request is sent again on another connection, and its first connection is
    /// closed: at least a second.
    pub timeout: Duration,
    /// Time after which requests fail without a server: at least a second. None: after 23 days.
    pub serverless: Option<Duration>,
    /// `NBD_FLAG_...` of the export.
    pub flags: u16,
}

/// Converts a time limit to the kernel's unit, in which 0 means no limit.
fn seconds(limit: Duration) -> u64 {
    limit.as_secs().max(1)
}

impl NbdOptions {
    fn serverless_s(&self) -> u64 {
        self.serverless.map_or(SERVERLESS_MAX_S, seconds).min(SERVERLESS_MAX_S)
    }

    fn put(&self, into: &mut Attributes) {
        into.put_u64(SIZE_BYTES, self.bytes)
            .put_u64(BLOCK_BYTES, self.block_bytes.into())
            .put_u64(TIMEOUT_S, seconds(self.timeout))
            .put_u64(DEAD_CONNECTION_TIMEOUT_S, self.serverless_s());
    }
}

/// A device of the kernel's NBD client that is connected, or waits for its server.
#[derive(Debug)]
pub struct NbdDevice {
    number: u32,
}

fn open() -> io::Result<Family> {
    Family::open(FAMILY).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::NotFound, "the kernel has no NBD client (modprobe nbd?)")
        }
        _ => error,
    })
}

fn list_of<S: AsFd>(sockets: &[S]) -> Attributes {
    let mut list = Attributes::default();
    for socket in sockets {
        let mut item = Attributes::default();
        item.put_u32(SOCKET_FD, socket.as_fd().as_raw_fd().unsigned_abs());
        list.put_nested(SOCKET_ITEM, &item);
    }
    list
}

/// Whether the kernel uses the socket: it then has set a send timeout.
fn is_taken(socket: impl AsFd) -> bool {
    socket_timeout(socket, Timeout::Send).is_ok_and(|limit| limit.is_some())
}

impl NbdDevice {
    /// Whether this kernel has the client, or can load it on demand.
    pub fn is_possible() -> bool {
        open().is_ok()
    }

    /// Returns the devices whose server name is accepted by `is_meant`, each with that name.
    pub fn all(is_meant: impl Fn(&str) -> bool) -> Vec<(NbdDevice, String)> {
        let entries = fs::read_dir("/sys/block").ok().into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("nbd")?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("backend")).ok()?;
            let name = name.trim_end_matches('\n').to_owned();
            is_meant(&name).then_some((NbdDevice { number }, name))
        });
        found.collect()
    }

    /// Creates a device whose server is at the other end of these connected sockets, which are in
    /// transmission. `backend` is the server's name.
    ///
    /// # Errors
    /// `Unsupported`: the kernel does not store that name (before 5.14); the device is removed
    /// again. Otherwise the system's errors.
    pub fn connect<S: AsFd>(
        sockets: &[S],
        options: &NbdOptions,
        backend: &str,
    ) -> io::Result<NbdDevice> {
        let mut asked = Attributes::default();
        options.put(&mut asked);
        asked
            .put_u64(SERVER_FLAGS, options.flags.into())
            .put_text(BACKEND, backend)
            .put_nested(SOCKETS, &list_of(sockets));
        let answer = open()?.ask(CONNECT, &asked)?;
        let number = find_u32(&answer, INDEX).ok_or(io::ErrorKind::InvalidData)?;
        let device = NbdDevice { number };
        if device.attribute("backend").as_deref() != Some(backend) {
            device.disconnect()?;
            let message =
                "the kernel's NBD client does not remember its server (before Linux 5.14)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(device)
    }

    /// Replaces a dead connection to its server, and sets the server's current size. Returns false
    /// if no connection is dead.
    ///
    /// # Errors
    /// The system's errors.
    pub fn reconnect(
        &self,
        socket: impl AsFd,
        options: &NbdOptions,
        backend: &str,
    ) -> io::Result<bool> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number).put_text(BACKEND, backend);
        options.put(&mut asked);
        asked.put_nested(SOCKETS, &list_of(&[socket.as_fd()]));
        open()?.ask(RECONFIGURE, &asked)?;
        Ok(is_taken(socket))
    }

    /// Sets the time after which a request is sent again.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_timeout(&self, timeout: Duration, backend: &str) -> io::Result<()> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number).put_text(BACKEND, backend);
        asked.put_u64(TIMEOUT_S, seconds(timeout));
        open()?.ask(RECONFIGURE, &asked).map(|_| ())
    }

    /// Disconnects its server: waiting and later requests fail. No effect on a device without a
    /// server.
    ///
    /// # Errors
    /// The system's errors.
    pub fn disconnect(&self) -> io::Result<()> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number);
        open()?.ask(DISCONNECT, &asked).map(|_| ())
    }

    /// Whether it has a server, or waits for one.
    ///
    /// # Errors
    /// The system's errors.
    pub fn is_connected(&self) -> io::Result<bool> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number);
        let answer = open()?.ask(STATUS, &asked)?;
        Ok(is_connected_by(&answer, self.number))
    }

    /// Maximum number of its parallel connections.
    pub fn connections(&self) -> usize {
        let queues = fs::read_dir(format!("/sys/block/nbd{}/mq", self.number));
        queues.map_or(1, |queues| queues.flatten().count())
    }

    /// Path of its node.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/nbd{}", self.number))
    }

    /// Its device number. None: the device does not exist.
    pub fn device(&self) -> Option<u64> {
        number_in(&self.attribute("dev")?)
    }

    fn attribute(&self, name: &str) -> Option<String> {
        let path = format!("/sys/block/nbd{}/{name}", self.number);
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }
}

/// Returns whether a device is connected, according to a list of devices.
fn is_connected_by(answer: &[u8], number: u32) -> bool {
    let list = find(answer, DEVICE_LIST).unwrap_or_default();
    let mut items = attributes(list).filter(|(kind, _)| *kind == DEVICE_ITEM);
    items.any(|(_, item)| {
        let is_on = find(item, DEVICE_CONNECTED).is_some_and(|value| value.first() == Some(&1));
        is_on && find_u32(item, DEVICE_INDEX) == Some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: u32, connected: u8) -> Attributes {
        let mut item = Attributes::default();
        item.put_u32(DEVICE_INDEX, number).put(DEVICE_CONNECTED, &[connected]);
        item
    }

    #[test]
    fn a_list_of_devices_shows_which_are_connected() {
        let (mut list, mut answer) = (Attributes::default(), Attributes::default());
        list.put_nested(DEVICE_ITEM, &device(3, 0)).put_nested(DEVICE_ITEM, &device(7, 1));
        answer.put_nested(DEVICE_LIST, &list);
        let answer = answer.bytes();
        assert_eq!([3, 7, 1].map(|number| is_connected_by(answer, number)), [false, true, false]);
        assert!(!is_connected_by(&answer[..answer.len() - 8], 7), "cut off");
        assert!(!is_connected_by(&[], 7));
    }

    #[test]
    fn a_time_limit_is_a_second_at_least() {
        assert_eq!(seconds(Duration::from_millis(20)), 1);
        assert_eq!(seconds(Duration::from_secs(20)), 20);
    }
}
