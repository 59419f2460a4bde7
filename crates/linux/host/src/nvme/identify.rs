//! The identity of controllers and namespaces.

use super::NvmeError;
use super::command::{Command, Drive};
use std::os::fd::AsFd;

const IDENTIFY: u8 = 0x06;
const PAGE_BYTES: usize = 4096;

/// A controller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Controller {
    /// The model's name.
    pub model: String,
    /// The serial number.
    pub serial: String,
    /// The firmware's version.
    pub firmware: String,
    /// All bytes of the drive; 0: not reported.
    pub capacity_bytes: u64,
    /// Temperature at which it warns, in degrees Celsius.
    pub temperature_max_c: Option<i64>,
    /// Whether it has the command Format NVM.
    pub can_format: bool,
    /// Whether a format erases all namespaces, whichever is named.
    pub formats_all: bool,
    /// Whether a format can erase the key of its encryption.
    pub can_erase_key: bool,
    /// Whether sanitize can erase by key, by block, and by overwriting.
    pub sanitizes: [bool; 3],
    /// Number of namespaces that it can have.
    pub namespaces: u32,
}

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Namespace {
    /// Its number.
    pub id: u32,
    /// Index of its format.
    pub format: u32,
    /// Its protection of data: its type, and its place.
    pub protection: u32,
    /// Whether metadata is part of each block.
    pub has_extended_blocks: bool,
}

pub(super) fn word(page: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([page[at], page[at + 1]]))
}

pub(super) fn double(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}

/// Returns a number of 128 bits, or the maximum of 64.
pub(super) fn wide(page: &[u8], at: usize) -> u64 {
    let bytes = page[at..at + 16].try_into().expect("16 bytes");
    u64::try_from(u128::from_le_bytes(bytes)).unwrap_or(u64::MAX)
}

/// Converts Kelvin. None: not reported.
pub(super) fn celsius(kelvin: u64) -> Option<i64> {
    (kelvin > 0).then(|| kelvin as i64 - 273)
}

fn text(page: &[u8]) -> String {
    String::from_utf8_lossy(page).trim_matches([' ', '\0']).to_owned()
}

fn identify(drive: &impl Drive, namespace: u32, kind: u32) -> Result<Vec<u8>, NvmeError> {
    let mut page = vec![0; PAGE_BYTES];
    let words_10 = [kind, 0, 0, 0, 0, 0];
    let command = Command { opcode: IDENTIFY, namespace, words_10, ..Command::default() };
    drive.run(command, &mut page)?;
    Ok(page)
}

/// Returns the identity of a device's controller.
///
/// # Errors
/// The device is not NVMe, or this user may not send it commands.
pub fn controller(device: &impl AsFd) -> Result<Controller, NvmeError> {
    Ok(controller_of(&identify(device, 0, 1)?))
}

fn controller_of(page: &[u8]) -> Controller {
    let (commands, formats, sanitizes) = (word(page, 256), page[524], double(page, 328));
    Controller {
        serial: text(&page[4..24]),
        model: text(&page[24..64]),
        firmware: text(&page[64..72]),
        capacity_bytes: wide(page, 280),
        temperature_max_c: celsius(word(page, 266)),
        can_format: commands & 2 != 0,
        formats_all: formats & 0b11 != 0,
        can_erase_key: formats & 0b100 != 0,
        sanitizes: [0, 1, 2].map(|bit| sanitizes >> bit & 1 == 1),
        namespaces: double(page, 516),
    }
}

/// Returns the identity of a block device's namespace.
///
/// # Errors
/// The device is not a namespace, or this user may not send it commands.
pub fn namespace(device: &impl AsFd) -> Result<Namespace, NvmeError> {
    let id = device.namespace_id()?;
    let page = identify(device, id, 0)?;
    let (format, protection) = (page[26], page[29]);
    Ok(Namespace {
        id,
        format: u32::from(format & 0xf) | u32::from(format >> 5 & 3) << 4,
        protection: u32::from(protection),
        has_extended_blocks: format & 0x10 != 0,
    })
}

/// Lists of IDENTIFY: the namespaces that this controller serves, and all that exist in the drive,
/// also those of its other controllers and of none.
const ACTIVE: u32 = 0x02;
const ALLOCATED: u32 = 0x10;

/// Returns the numbers of all namespaces of a device's drive, in ascending order.
///
/// # Errors
/// The device is not NVMe, or this user may not send it commands.
pub fn all_namespaces(device: &impl AsFd) -> Result<Vec<u32>, NvmeError> {
    all_of(device)
}

fn all_of(drive: &impl Drive) -> Result<Vec<u32>, NvmeError> {
    let mut all = listed(drive, ACTIVE)?;
    match listed(drive, ALLOCATED) {
        Ok(more) => all.extend(more),
        // A drive without management of namespaces does not have this list.
        Err(NvmeError::Drive(_)) => {}
        Err(error) => return Err(error),
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn listed(drive: &impl Drive, kind: u32) -> Result<Vec<u32>, NvmeError> {
    let page = identify(drive, 0, kind)?;
    let numbers = page.chunks_exact(4).map(|chunk| double(chunk, 0));
    Ok(numbers.take_while(|number| *number > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_read_from_its_page() {
        let mut page = vec![0; PAGE_BYTES];
        page[4..24].copy_from_slice(b"S3RIAL              ");
        page[24..64].copy_from_slice(&[b"A model".as_slice(), &[b' '; 33]].concat());
        page[64..72].copy_from_slice(b"1.0\0\0\0\0\0");
        page[256] = 0b10;
        page[266..268].copy_from_slice(&343u16.to_le_bytes());
        page[280..296].copy_from_slice(&1_000_204_886_016u128.to_le_bytes());
        page[328] = 0b011;
        page[524] = 0b101;
        let found = controller_of(&page);
        assert_eq!((&*found.serial, &*found.model, &*found.firmware), ("S3RIAL", "A model", "1.0"));
        assert_eq!((found.temperature_max_c, found.can_format), (Some(70), true));
        assert_eq!((found.formats_all, found.can_erase_key), (true, true));
        assert_eq!(found.sanitizes, [true, true, false]);
        assert_eq!(found.capacity_bytes, 1_000_204_886_016);
        page[280..296].fill(0xff);
        assert_eq!(controller_of(&page).capacity_bytes, u64::MAX);
        assert_eq!(controller_of(&vec![0; PAGE_BYTES]), Controller::default());
    }

    /// A drive with these lists of namespaces.
    struct Lists {
        active: &'static [u32],
        allocated: Result<&'static [u32], NvmeError>,
    }

    impl Drive for Lists {
        fn run(&self, command: Command, data: &mut [u8]) -> Result<(), NvmeError> {
            assert_eq!((command.opcode, command.namespace), (IDENTIFY, 0));
            let list = match command.words_10[0] {
                ACTIVE => self.active,
                ALLOCATED => self.allocated?,
                kind => panic!("{kind:#x}"),
            };
            let bytes = list.iter().flat_map(|number| number.to_le_bytes());
            data.iter_mut().zip(bytes).for_each(|(at, byte)| *at = byte);
            Ok(())
        }

        fn namespace_id(&self) -> Result<u32, NvmeError> {
            Ok(1)
        }
    }

    #[test]
    fn namespaces_of_other_controllers_and_of_none_are_on_the_drive() {
        let gone = NvmeError::System(rustix::io::Errno::IO);
        for (active, allocated, all) in [
            (&[1][..], Ok(&[1][..]), Ok(vec![1])),
            (&[2], Ok(&[1, 2, 7]), Ok(vec![1, 2, 7])),
            (&[1, 3], Ok(&[]), Ok(vec![1, 3])),
            (&[1], Err(NvmeError::Drive(0x2002)), Ok(vec![1])),
            (&[1], Err(gone), Err(gone)),
        ] {
            assert_eq!(all_of(&Lists { active, allocated }), all);
        }
    }
}
