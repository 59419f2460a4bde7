//! The interface to the bytes of a volume.

/// The bytes could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadFailed;

/// A source of bytes: an image, a served volume, a test.
pub trait ReadAt {
    /// Returns the number of bytes that can be read.
    fn bytes(&self) -> u64;

    /// Fills `into` with the bytes from `offset` on. The range is within [`ReadAt::bytes`].
    ///
    /// # Errors
    /// The bytes could not be read.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed>;
}

impl ReadAt for &[u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        let start = usize::try_from(offset).map_err(|_| ReadFailed)?;
        let end = start.checked_add(into.len()).ok_or(ReadFailed)?;
        into.copy_from_slice(self.get(start..end).ok_or(ReadFailed)?);
        Ok(())
    }
}
