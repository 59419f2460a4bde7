//! The processes of a trace, numbered in order of appearance.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum number of names; further processes share one more.
pub const PROCESSES_MAX: usize = 1 << 14;
/// Maximum length of a name, in bytes; the rest is cut off.
const NAME_MAX: usize = 64;
/// The name of all processes beyond the maximum.
const OTHERS: &str = "others";

/// The names of processes seen by a reader.
#[derive(Default, Debug)]
pub struct Processes {
    names: Vec<String>,
    indexes: BTreeMap<String, u32>,
}

impl Processes {
    /// Returns their names, in the order of their indexes. Bytes that are not plain are `?`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the index of the process of this name.
    pub fn named(&mut self, raw: &[u8]) -> u32 {
        let plain = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '?',
        };
        let name: String = raw.iter().take(NAME_MAX).map(plain).collect();
        if let Some(index) = self.indexes.get(&name) {
            return *index;
        }
        if self.names.len() < PROCESSES_MAX {
            return self.add(name);
        }
        self.indexes.get(OTHERS).copied().unwrap_or_else(|| self.add(OTHERS.to_owned()))
    }

    fn add(&mut self, name: String) -> u32 {
        let index = self.names.len() as u32;
        self.names.push(name.clone());
        self.indexes.insert(name, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn processes_are_numbered_by_name_and_names_are_plain() {
        let mut processes = Processes::default();
        assert_eq!([&b"sh"[..], b"a b\x1b[", b"sh"].map(|name| processes.named(name)), [0, 1, 0]);
        assert_eq!(processes.names(), ["sh", "a b?["]);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut processes = Processes::default();
        (0..PROCESSES_MAX + 9).for_each(|number| {
            processes.named(format!("{number}").as_bytes());
        });
        assert_eq!(processes.names().len(), PROCESSES_MAX + 1);
        assert_eq!(processes.named(b"new"), PROCESSES_MAX as u32);
        assert_eq!(processes.named(b"7"), 7);
    }
}
