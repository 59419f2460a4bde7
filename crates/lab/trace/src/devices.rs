//! The devices of a trace, numbered in order of appearance.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of devices in a trace.
pub const DEVICES_MAX: usize = 1 << 16;
/// Maximum length of a device's name, in bytes.
const NAME_MAX: usize = 128;

/// The devices seen by a reader.
#[derive(Default, Debug)]
pub struct Devices {
    names: Vec<String>,
    /// The index of each by its name in the file.
    places: BTreeMap<Vec<u8>, u32>,
    /// The device looked up last: usually the next one, too.
    last: Vec<u8>,
    last_place: u32,
    /// The same for devices with a number.
    last_number: Option<(u64, u32)>,
}

impl Devices {
    /// Returns their names, in the order of their indexes: as in the file, with `:` for a comma.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the index of a device by its name in the file.
    pub(crate) fn named(&mut self, raw: &[u8]) -> Result<u32, &'static str> {
        if self.last == raw && !self.names.is_empty() {
            return Ok(self.last_place);
        }
        let place = match self.places.get(raw) {
            Some(place) => *place,
            None => self.add(raw)?,
        };
        self.last.clear();
        self.last.extend_from_slice(raw);
        self.last_place = place;
        Ok(place)
    }

    /// Returns the index of a device with a number.
    pub(crate) fn numbered(&mut self, number: u64) -> Result<u32, &'static str> {
        if let Some((last, place)) = self.last_number
            && last == number
        {
            return Ok(place);
        }
        let place = self.named(format!("{number}").as_bytes())?;
        self.last_number = Some((number, place));
        Ok(place)
    }

    fn add(&mut self, raw: &[u8]) -> Result<u32, &'static str> {
        if raw.is_empty() || raw.len() > NAME_MAX || !raw.iter().all(u8::is_ascii_graphic) {
            return Err("the device has no name of 1 to 128 plain characters");
        }
        if self.names.len() == DEVICES_MAX {
            return Err("there are more than 65,536 devices");
        }
        let place = self.names.len() as u32;
        let letters = raw.iter().map(|byte| if *byte == b',' { ':' } else { char::from(*byte) });
        self.names.push(letters.collect());
        self.places.insert(raw.to_vec(), place);
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_numbered_as_they_come() {
        let mut devices = Devices::default();
        assert_eq!(devices.named(b""), Err("the device has no name of 1 to 128 plain characters"));
        assert_eq!(devices.named(b"usr,0"), Ok(0));
        assert_eq!(devices.numbered(7), Ok(1));
        assert_eq!((devices.named(b"7"), devices.named(b"usr,0")), (Ok(1), Ok(0)));
        assert_eq!((devices.numbered(7), devices.numbered(8)), (Ok(1), Ok(2)));
        assert_eq!(devices.names(), ["usr:0", "7", "8"]);
        assert!(devices.named(b"a\x1b[2J").is_err() && devices.named(&[b'x'; 129]).is_err());
    }

    #[test]
    fn there_is_an_end_of_them() {
        let mut devices = Devices::default();
        assert!((0..DEVICES_MAX as u64).all(|number| devices.numbered(number).is_ok()));
        assert_eq!(devices.numbered(1 << 40), Err("there are more than 65,536 devices"));
        assert_eq!(devices.numbered(5), Ok(5));
    }
}
