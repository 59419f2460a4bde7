//! The driver's structures as bytes, with numbers in the machine's byte order. Nothing here panics,
//! whatever the driver sends.

use block::{Discard, Fua, Kind, Limits, SECTOR};

/// A device without a disk.
pub const STATE_DEAD: u16 = 0;
/// A device with a server.
pub const STATE_LIVE: u16 = 1;
/// A device that waits for its next server.
pub const STATE_QUIESCED: u16 = 2;

const USER_RECOVERY: u64 = 1 << 3;
const USER_RECOVERY_REISSUE: u64 = 1 << 4;
const IOCTL_ENCODE: u64 = 1 << 6;

/// `struct ublksrv_ctrl_cmd`.
pub(crate) const CONTROL_BYTES: usize = 32;
/// `struct ublksrv_ctrl_dev_info`.
const INFO_BYTES: usize = 64;
/// `struct ublk_params` up to and including the discard parameters.
const PARAMS_BYTES: usize = 60;
/// `struct ublksrv_io_desc`.
pub(crate) const DESCRIPTOR_BYTES: usize = 24;

/// A command to the driver about a device; the value is the number of the ioctl.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Command {
    /// Returns the device's [`DeviceInfo`].
    GetInfo = read(0x02),
    /// Adds a device from a [`DeviceInfo`], which the driver updates.
    Add = both(0x04),
    /// Deletes the device when no process has it open any more.
    Delete = both(0x05),
    /// Creates its disk when all queues are served; `data` is the server's process.
    Start = both(0x06),
    /// Removes its disk: waiting requests fail.
    Stop = both(0x07),
    /// Sets the [`Params`] of its disk.
    SetParams = both(0x08),
    /// Deletes the device without waiting for processes that have its disk open.
    DeleteLater = read(0x14),
    /// Announces that another process will serve its queues.
    StartRecovery = both(0x10),
    /// Ends the recovery: that process serves the queues now; `data` is its process.
    EndRecovery = both(0x11),
}

/// `_IOR('u', number, struct ublksrv_ctrl_cmd)`.
const fn read(number: u32) -> u32 {
    2 << 30 | (CONTROL_BYTES as u32) << 16 | (b'u' as u32) << 8 | number
}

/// `_IOWR('u', number, struct ublksrv_ctrl_cmd)`.
const fn both(number: u32) -> u32 {
    1 << 30 | read(number)
}

/// Arguments of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Number of the device; `u32::MAX` with [`Command::Add`]: any free number.
    pub device: u32,
    /// Argument of the command.
    pub data: u64,
}

impl Control {
    /// Encodes the arguments. Leaves the address and the length of the attached data at zero.
    pub fn encode(&self) -> [u8; CONTROL_BYTES] {
        let mut bytes = [0; CONTROL_BYTES];
        bytes[..4].copy_from_slice(&self.device.to_ne_bytes());
        // No particular queue.
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes
    }
}

/// Properties of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Number of the device; `u32::MAX`: any free number.
    pub device: u32,
    /// Number of queues. The driver creates at most one per processor.
    pub queues: u16,
    /// Requests per queue at a time.
    pub tags: u16,
    /// `STATE_...`.
    pub state: u16,
    /// Maximum size of a read or write, in bytes.
    pub io_bytes_max: u32,
    /// A number that the server chooses and the driver stores.
    pub note: u64,
}

impl DeviceInfo {
    /// Encodes the structure, for a device that outlives its server and sends unanswered requests
    /// again.
    pub fn encode(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        let flags = USER_RECOVERY | USER_RECOVERY_REISSUE | IOCTL_ENCODE;
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tags.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.io_bytes_max.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.device.to_ne_bytes());
        bytes[24..32].copy_from_slice(&flags.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.note.to_ne_bytes());
        bytes
    }

    /// Zeroed room for the driver's answer.
    pub const ROOM: [u8; INFO_BYTES] = [0; INFO_BYTES];

    /// Parses the driver's answer. None: the device does not outlive its server.
    pub fn parse(bytes: &[u8; INFO_BYTES]) -> Option<DeviceInfo> {
        let flags = long(bytes, 24);
        let kept = USER_RECOVERY | USER_RECOVERY_REISSUE;
        let is_kept = flags & kept == kept;
        let info = DeviceInfo {
            device: word(bytes, 12),
            queues: short(bytes, 0),
            tags: short(bytes, 2),
            state: short(bytes, 4),
            io_bytes_max: word(bytes, 8),
            note: long(bytes, 32),
        };
        (is_kept && info.queues > 0 && info.tags > 0).then_some(info)
    }
}

/// Parameters of a device's disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    sectors: u64,
    block_shift: u8,
    physical_shift: u8,
    io_bytes_max: u32,
    discards: bool,
    attributes: u32,
}

const READ_ONLY: u32 = 1;
const ROTATIONAL: u32 = 1 << 1;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;

const BASIC: u32 = 1;
const DISCARD: u32 = 1 << 1;

/// Maximum size of a discard, in sectors: below 4 GiB.
const DISCARD_SECTORS_MAX: u32 = u32::MAX >> 9;
/// Blocks of a disk are at most a page.
const SHIFT_MAX: u32 = 12;

impl Params {
    /// Returns the parameters for a volume with these limits, with requests of at most
    /// `io_bytes_max` bytes. The disk always has a volatile cache.
    pub fn of(limits: &Limits, io_bytes_max: u32) -> Params {
        let block = limits.block_logical_bytes.max(SECTOR as u32);
        let block_shift = block.trailing_zeros().min(SHIFT_MAX);
        let physical_shift = limits.block_physical_bytes.trailing_zeros();
        let is_fua_native = limits.fua == Fua::Native || !limits.flush_needed;
        let said = [
            (limits.read_only, READ_ONLY),
            (limits.rotational, ROTATIONAL),
            (true, VOLATILE_CACHE),
            (is_fua_native, FUA),
        ];
        let sectors_of_block = u64::from(block) / SECTOR;
        Params {
            // A partial block at the end cannot be addressed.
            sectors: limits.sectors / sectors_of_block * sectors_of_block,
            block_shift: block_shift as u8,
            physical_shift: physical_shift.clamp(block_shift, SHIFT_MAX) as u8,
            io_bytes_max,
            discards: limits.discard != Discard::Ignored && !limits.read_only,
            attributes: said.iter().filter(|said| said.0).fold(0, |all, said| all | said.1),
        }
    }

    /// Encodes the parameters.
    pub fn encode(&self) -> [u8; PARAMS_BYTES] {
        let mut bytes = [0; PARAMS_BYTES];
        bytes[0..4].copy_from_slice(&(PARAMS_BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&(BASIC | DISCARD).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.attributes.to_ne_bytes());
        // Logical and physical block size, then optimal and minimum transfer size.
        let best = self.physical_shift.max(SHIFT_MAX as u8);
        bytes[12..16].copy_from_slice(&[
            self.block_shift,
            self.physical_shift,
            best,
            self.physical_shift,
        ]);
        bytes[16..20].copy_from_slice(&(self.io_bytes_max >> 9).to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        let granularity = 1u32 << self.physical_shift;
        let discard_max = if self.discards { DISCARD_SECTORS_MAX } else { 0 };
        let zeroes_max = if self.attributes & READ_ONLY == 0 { DISCARD_SECTORS_MAX } else { 0 };
        bytes[44..48].copy_from_slice(&granularity.to_ne_bytes());
        bytes[48..52].copy_from_slice(&discard_max.to_ne_bytes());
        bytes[52..56].copy_from_slice(&zeroes_max.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_ne_bytes());
        bytes
    }
}

/// The operation of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Flush,
    Discard,
    Zero { may_unmap: bool },
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    pub(crate) kind: RequestKind,
    pub(crate) fua: bool,
    pub(crate) first: u64,
    pub(crate) sectors: u32,
}

const FLAG_FUA: u32 = 1 << 13;
const FLAG_NO_UNMAP: u32 = 1 << 15;

impl Descriptor {
    /// Parses a request's descriptor. None: an operation that the device does not support.
    pub(crate) fn parse(bytes: &[u8; DESCRIPTOR_BYTES]) -> Option<Descriptor> {
        let operation = word(bytes, 0);
        let flags = operation & !0xff;
        let kind = match operation & 0xff {
            0 => RequestKind::Read,
            1 => RequestKind::Write,
            2 => RequestKind::Flush,
            3 => RequestKind::Discard,
            5 => RequestKind::Zero { may_unmap: flags & FLAG_NO_UNMAP == 0 },
            _ => return None,
        };
        let fua = flags & FLAG_FUA != 0;
        Some(Descriptor { kind, fua, first: long(bytes, 8), sectors: word(bytes, 4) })
    }
}

/// Returns the errno of a failed request. `change`: the request was a change. Source: errno(3).
pub(crate) fn errno_of(kind: Kind, change: bool) -> i32 {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    const EOPNOTSUPP: i32 = 95;
    match kind {
        Kind::NoSpace => ENOSPC,
        Kind::OutOfRange if change => ENOSPC,
        Kind::Unsupported => EOPNOTSUPP,
        _ => EIO,
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let (low, high) = (u64::from(word(bytes, at)), u64::from(word(bytes, at + 4)));
    if cfg!(target_endian = "little") { high << 32 | low } else { low << 32 | high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // Values of include/uapi/linux/ublk_cmd.h, as a C compiler computes them.
        let found = [Command::GetInfo, Command::Add, Command::DeleteLater, Command::EndRecovery];
        let expected = [0x8020_7502, 0xc020_7504, 0x8020_7514, 0xc020_7511];
        assert_eq!(found.map(|command| command as u32), expected);
        let control = Control { device: 7, data: 0x1122 }.encode();
        assert_eq!((word(&control, 0), short(&control, 4)), (7, u16::MAX));
        assert_eq!((short(&control, 6), long(&control, 8), long(&control, 16)), (0, 0, 0x1122));
    }

    #[test]
    fn a_device_is_read_as_it_was_written() {
        let info = DeviceInfo {
            device: 3,
            queues: 2,
            tags: 128,
            state: STATE_QUIESCED,
            io_bytes_max: 128 << 10,
            note: u64::MAX - 5,
        };
        let bytes = info.encode();
        assert_eq!(DeviceInfo::parse(&bytes), Some(info));
        let mut foreign = bytes;
        foreign[24] = 0;
        assert_eq!(DeviceInfo::parse(&foreign), None, "it dies with its server");
        assert_eq!(DeviceInfo::parse(&DeviceInfo::ROOM), None);
    }

    #[test]
    fn a_disk_has_a_volatile_cache_and_native_fua_only() {
        let plain = Limits::plain(1001, 512);
        let slow = Limits {
            flush_needed: true,
            fua: Fua::None,
            block_logical_bytes: 4096,
            ..plain.clone()
        };
        let bytes = Params::of(&slow, 128 << 10).encode();
        assert_eq!(word(&bytes, 0) as usize, bytes.len());
        assert_eq!(word(&bytes, 8), VOLATILE_CACHE);
        assert_eq!(bytes[12..16], [12, 12, 12, 12]);
        assert_eq!((word(&bytes, 16), long(&bytes, 24)), (256, 1000), "whole blocks only");
        let native = Params::of(&plain, 4096).encode();
        assert_eq!(word(&native, 8), VOLATILE_CACHE | FUA);
        let read_only = Limits { read_only: true, ..plain };
        let bytes = Params::of(&read_only, 4096).encode();
        assert_eq!(word(&bytes, 8), READ_ONLY | VOLATILE_CACHE | FUA);
        assert_eq!((word(&bytes, 48), word(&bytes, 52)), (0, 0), "nothing is discarded");
        assert_eq!(short(&bytes, 56), 1, "in one piece");
    }

    #[test]
    fn every_descriptor_is_understood_or_refused() {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[4..8].copy_from_slice(&8u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&77u64.to_ne_bytes());
        for asked in 0..=255u32 {
            for flags in [0, FLAG_FUA, FLAG_NO_UNMAP, !0xff] {
                bytes[..4].copy_from_slice(&(asked | flags).to_ne_bytes());
                let found = Descriptor::parse(&bytes);
                assert_eq!(found.is_some(), matches!(asked, 0..=3 | 5), "{asked}");
                let Some(found) = found else { continue };
                assert_eq!((found.first, found.sectors), (77, 8));
                assert_eq!(found.fua, flags & FLAG_FUA != 0);
            }
        }
        bytes[..4].copy_from_slice(&(5 | FLAG_NO_UNMAP).to_ne_bytes());
        let zero = Descriptor::parse(&bytes).expect("it was announced");
        assert_eq!(zero.kind, RequestKind::Zero { may_unmap: false });
    }
}
