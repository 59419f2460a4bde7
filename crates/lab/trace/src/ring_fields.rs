//! Fields of the kernel's tracepoints, by the texts of their `format` files.

/// Maximum length of a thread's name, in bytes.
pub(crate) const NAME_BYTES: usize = 16;

/// The place of a field in an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    offset: usize,
    bytes: usize,
}

impl Field {
    /// Finds a field in the text of a `format` file.
    pub(crate) fn of(format: &str, name: &str) -> Option<Field> {
        let declared = |line: &&str| {
            let declaration = line.trim().strip_prefix("field:").and_then(|it| it.split_once(';'));
            let words = declaration.map(|(declaration, _)| declaration);
            let last = words.and_then(|it| it.rsplit([' ', '*']).next());
            last.is_some_and(|last| last.split('[').next() == Some(name))
        };
        let line = format.lines().find(declared)?;
        let number = |key: &str| line.split_once(key)?.1.split(';').next()?.trim().parse().ok();
        Some(Field { offset: number("offset:")?, bytes: number("size:")? })
    }

    pub(crate) fn get<'a>(&self, event: &'a [u8]) -> Option<&'a [u8]> {
        event.get(self.offset..self.offset.checked_add(self.bytes)?)
    }

    pub(crate) fn number(&self, event: &[u8]) -> Option<u64> {
        let bytes = self.get(event)?;
        match bytes.len() {
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// Returns its offset in the event, in bytes.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Whether it has this offset and size, in bytes.
    pub(crate) fn is_at(&self, offset: usize, bytes: usize) -> bool {
        (self.offset, self.bytes) == (offset, bytes)
    }
}

/// Returns the number of a tracepoint.
pub(crate) fn id(format: &str) -> Option<u16> {
    format.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()
}

/// Returns the thread in whose context an event happened.
pub(crate) fn thread(event: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(event.get(4..8)?.try_into().ok()?))
}

/// Returns a name, ended by zeros.
pub(crate) fn name_of(bytes: &[u8]) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    let count = bytes.len().min(NAME_BYTES);
    name[..count].copy_from_slice(&bytes[..count]);
    name
}

/// Returns the part of a name before its zeros.
pub(crate) fn plain(name: &[u8; NAME_BYTES]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    &name[..end]
}
