//! Secrets: random words that cannot be guessed.

use std::fs::File;
use std::io::{self, Read};

/// Bytes of a secret.
const BYTES: usize = 32;

/// A secret as hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Returns a new secret from the kernel's random numbers.
    pub(crate) fn new() -> io::Result<Secret> {
        let mut bytes = [0_u8; BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Secret(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether it equals a text; the time does not depend on where they differ.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differences = own.iter().zip(other).fold(0, |found, (one, two)| found | (one ^ two));
        own.len() == other.len() && differences == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_equals_itself_only() {
        let (one, two) = (Secret::new().expect("random"), Secret::new().expect("random"));
        assert_eq!(one.text().len(), 2 * BYTES);
        assert!(one.is(one.text()) && !one.is(two.text()));
        for other in ["", &one.text()[1..], &format!("{}0", one.text())] {
            assert!(!one.is(other), "{other}");
        }
    }
}
