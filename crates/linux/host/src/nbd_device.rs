//! Devices of the kernel's NBD client, made over generic netlink: such a device outlives the process that made it.
//!
//! Sources: include/uapi/linux/nbd-netlink.h, drivers/block/nbd.c, Documentation/ABI/testing/sysfs-block-device.

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

/// Inside of a list of sockets: one of them, and its descriptor.
const SOCKET_ITEM: u16 = 1;
const SOCKET_FD: u16 = 1;
/// Inside of a list of devices: one of them, its number, whether it is connected.
const DEVICE_ITEM: u16 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_CONNECTED: u16 = 2;

/// The longest time that what uses a device waits for a server, in seconds: 23 days, which as ticks
/// fits into 32 bits.
const SERVERLESS_MAX_S: u64 = 2_000_000;

/// How a device behaves.
#[derive(Clone, Copy, Debug)]
pub struct NbdOptions {
    /// Its size, in bytes.
    pub bytes: u64,
    /// Bytes of a block: 512 to 4096.
    pub block_bytes: u32,
    /// After so long a request is sent again over another connection, and the one that it was sent over is given up: at
    /// least a second.
    pub timeout: Duration,
    /// Requests fail after this time without a server: at least a second. None: after 23 days.
    pub serverless: Option<Duration>,
    /// `NBD_FLAG_...` of the export.
    pub flags: u16,
}

/// A time limit as the kernel has it, for which 0 is none.
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

/// The kernel lets a socket that it has taken send for so long at most.
fn is_taken(socket: impl AsFd) -> bool {
    socket_timeout(socket, Timeout::Send).is_ok_and(|limit| limit.is_some())
}

impl NbdDevice {
    /// Whether this kernel has the client, or can load it when it is asked for a device.
    pub fn is_possible() -> bool {
        open().is_ok()
    }

    /// The devices whose server was told to the kernel by a name that this takes, each with that name.
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

    /// Makes a device whose server is at the other end of these connected sockets, which are in transmission. `backend`
    /// is its server's name.
    ///
    /// # Errors
    /// `Unsupported` where the kernel does not remember that name (before 5.14): nothing is left. What the system says.
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
        let told = open()?.ask(CONNECT, &asked)?;
        let number = find_u32(&told, INDEX).ok_or(io::ErrorKind::InvalidData)?;
        let device = NbdDevice { number };
        if device.says("backend").as_deref() != Some(backend) {
            device.disconnect()?;
            let message =
                "the kernel's NBD client does not remember its server (before Linux 5.14)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(device)
    }

    /// Gives it a further connection to its server in the place of one that is dead, and the size that the server has
    /// now. False: none is dead.
    ///
    /// # Errors
    /// What the system says.
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

    /// Sets after how long a request is sent again.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_timeout(&self, timeout: Duration, backend: &str) -> io::Result<()> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number).put_text(BACKEND, backend);
        asked.put_u64(TIMEOUT_S, seconds(timeout));
        open()?.ask(RECONFIGURE, &asked).map(|_| ())
    }

    /// Takes its server from it: what waits for an answer, and what is asked from now on, gets an error. One that has
    /// none is left as it is.
    ///
    /// # Errors
    /// What the system says.
    pub fn disconnect(&self) -> io::Result<()> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number);
        open()?.ask(DISCONNECT, &asked).map(|_| ())
    }

    /// Whether it has a server, or waits for one.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_connected(&self) -> io::Result<bool> {
        let mut asked = Attributes::default();
        asked.put_u32(INDEX, self.number);
        let told = open()?.ask(STATUS, &asked)?;
        Ok(is_connected_by(&told, self.number))
    }

    /// How many connections it has at once.
    pub fn connections(&self) -> usize {
        let queues = fs::read_dir(format!("/sys/block/nbd{}/mq", self.number));
        queues.map_or(1, |queues| queues.flatten().count())
    }

    /// Its node.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/nbd{}", self.number))
    }

    /// Its device number. None: it is not there.
    pub fn device(&self) -> Option<u64> {
        number_in(&self.says("dev")?)
    }

    fn says(&self, name: &str) -> Option<String> {
        let path = format!("/sys/block/nbd{}/{name}", self.number);
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
    }
}

/// What a list of devices says of this one.
fn is_connected_by(told: &[u8], number: u32) -> bool {
    let list = find(told, DEVICE_LIST).unwrap_or_default();
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
    fn a_list_of_devices_tells_which_are_connected() {
        let (mut list, mut told) = (Attributes::default(), Attributes::default());
        list.put_nested(DEVICE_ITEM, &device(3, 0)).put_nested(DEVICE_ITEM, &device(7, 1));
        told.put_nested(DEVICE_LIST, &list);
        let told = told.bytes();
        assert_eq!([3, 7, 1].map(|number| is_connected_by(told, number)), [false, true, false]);
        assert!(!is_connected_by(&told[..told.len() - 8], 7), "cut off");
        assert!(!is_connected_by(&[], 7));
    }

    #[test]
    fn a_time_limit_is_a_second_at_least() {
        assert_eq!(seconds(Duration::from_millis(20)), 1);
        assert_eq!(seconds(Duration::from_secs(20)), 20);
    }
}
