//! Numbers of variable length, written and read.

use super::Unusable;
use alloc::vec::Vec;

/// Appends a varint.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends the difference between two numbers.
pub(super) fn put_difference(bytes: &mut Vec<u8>, before: u32, number: u32) {
    let difference = i64::from(number) - i64::from(before);
    put(bytes, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Bytes that are read from the front.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Unusable> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Unusable::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Unusable> {
        let (first, rest) = self.0.split_first().ok_or(Unusable::Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    /// Reads a varint of at most 63 bits.
    pub(super) fn number(&mut self) -> Result<u64, Unusable> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Unusable::Damaged)
    }

    /// Reads the number that has this difference to `before`.
    pub(super) fn after(&mut self, before: u32) -> Result<u32, Unusable> {
        let number = self.number()?;
        let difference = (number >> 1) as i64 ^ -((number & 1) as i64);
        let sum = i64::from(before).checked_add(difference);
        sum.and_then(|sum| u32::try_from(sum).ok()).ok_or(Unusable::Damaged)
    }
}
