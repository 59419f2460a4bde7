//! Messages of generic netlink as bytes. Nothing here panics, whatever the kernel sends.
//!
//! ```text
//!   header  length 4, type 2, flags 2, sequence 4, port 4      numbers in the machine's byte order
//!   generic command 1, version 1, reserved 2
//!   then attributes, each at a multiple of 4: length 2 (with its own header of 4), type 2, value
//! ```
//!
//! Sources: include/uapi/linux/netlink.h, genetlink.h.

/// The family that resolves the names of other families.
pub(super) const CONTROL: u16 = 0x10;
pub(super) const GET_FAMILY: u8 = 3;
pub(super) const FAMILY_ID: u16 = 1;
pub(super) const FAMILY_NAME: u16 = 2;

const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

const HEADER_BYTES: usize = 16;
const GENERIC_BYTES: usize = 4;
const ATTRIBUTE_BYTES: usize = 4;
/// Flag of an attribute's type: it contains attributes itself.
const NESTED: u16 = 1 << 15;
const TYPE: u16 = 0x3fff;

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Encoded attributes.
#[derive(Default, Debug)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// Appends an attribute.
    pub(crate) fn put(&mut self, kind: u16, value: &[u8]) -> &mut Attributes {
        let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).expect("values are short");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn put_u32(&mut self, kind: u16, value: u32) -> &mut Attributes {
        self.put(kind, &value.to_ne_bytes())
    }

    pub(crate) fn put_u64(&mut self, kind: u16, value: u64) -> &mut Attributes {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Appends a text with its terminating zero.
    pub(crate) fn put_text(&mut self, kind: u16, text: &str) -> &mut Attributes {
        self.put(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute that contains these.
    pub(crate) fn put_nested(&mut self, kind: u16, inner: &Attributes) -> &mut Attributes {
        self.put(kind | NESTED, inner.bytes())
    }

    /// The encoded bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Parses the attributes in these bytes, up to the first invalid one.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(short(bytes, 0)?), short(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE, value))
    })
}

/// The value of the first attribute of this type.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

pub(crate) fn find_u16(bytes: &[u8], kind: u16) -> Option<u16> {
    short(find(bytes, kind)?, 0)
}

pub(crate) fn find_u32(bytes: &[u8], kind: u16) -> Option<u32> {
    word(find(bytes, kind)?, 0)
}

/// Encodes a request, whose end the kernel must acknowledge.
pub(super) fn request(family: u16, command: u8, sequence: u32, attributes: &Attributes) -> Vec<u8> {
    let length = HEADER_BYTES + GENERIC_BYTES + attributes.bytes().len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&(length as u32).to_ne_bytes());
    bytes.extend_from_slice(&family.to_ne_bytes());
    bytes.extend_from_slice(&(REQUEST | ACKNOWLEDGE).to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&[command, 1, 0, 0]);
    bytes.extend_from_slice(attributes.bytes());
    bytes
}

/// A message from the kernel.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Answer<'a> {
    /// The request has ended: 0, or a negative errno.
    Ended(i32),
    /// These attributes.
    Attributes(&'a [u8]),
}

/// Returns the messages in these bytes that answer the request with this number, up to the first
/// invalid one.
pub(super) fn answers(mut bytes: &[u8], sequence: u32) -> impl Iterator<Item = Answer<'_>> {
    std::iter::from_fn(move || {
        loop {
            let length = word(bytes, 0)? as usize;
            let message = bytes.get(..length).filter(|_| length >= HEADER_BYTES)?;
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
            if word(message, 8) != Some(sequence) {
                continue;
            }
            return match short(message, 4)? {
                ERROR => Some(Answer::Ended(word(message, HEADER_BYTES)?.cast_signed())),
                _ => Some(Answer::Attributes(message.get(HEADER_BYTES + GENERIC_BYTES..)?)),
            };
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let (mut inner, mut outer) = (Attributes::default(), Attributes::default());
        inner.put_u32(1, 7).put_text(2, "nbd");
        outer.put_u64(3, u64::MAX).put_nested(4, &inner).put(5, &[9]);
        assert_eq!(outer.0.len(), 12 + (4 + 8 + 8) + 8);
        let found: Vec<u16> = attributes(&outer.0).map(|(kind, _)| kind).collect();
        assert_eq!(found, [3, 4, 5]);
        let nested = find(&outer.0, 4).expect("it is there");
        assert_eq!(find_u32(nested, 1), Some(7));
        assert_eq!(find(nested, 2), Some(&b"nbd\0"[..]));
        assert_eq!(
            (find_u32(nested, 3), find_u32(&outer.0, 5)),
            (None, None),
            "none, or too short"
        );
    }

    #[test]
    fn a_request_is_as_the_kernel_requires_it() {
        let mut name = Attributes::default();
        name.put_text(FAMILY_NAME, "nbd");
        let bytes = request(CONTROL, GET_FAMILY, 5, &name);
        let expected = [
            &28u32.to_ne_bytes()[..],
            &[0x10, 0, 5, 0],
            &5u32.to_ne_bytes(),
            &[0; 4],
            &[3, 1, 0, 0],
            &[8, 0, 2, 0],
            b"nbd\0",
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, expected.concat());
        }
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let length = (HEADER_BYTES + body.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn answers_to_other_requests_are_left_out() {
        let all = [
            message(ERROR, 1, &(-5i32).to_ne_bytes()),
            message(30, 2, &[1, 1, 0, 0, 6, 0, 1, 0, 42, 0, 0, 0]),
            message(ERROR, 2, &0i32.to_ne_bytes()),
        ];
        let all = all.concat();
        let found: Vec<Answer<'_>> = answers(&all, 2).collect();
        let [Answer::Attributes(reply), Answer::Ended(0)] = found[..] else { panic!("{found:?}") };
        assert_eq!(find_u16(reply, FAMILY_ID), Some(42));
    }

    #[test]
    fn what_makes_no_sense_ends_and_does_no_harm() {
        let good = message(30, 2, &[1, 1, 0, 0, 6, 0, 1, 0, 42, 0, 0, 0]);
        // Tries every value of every byte, and every length.
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                for answer in answers(&bad, 2) {
                    if let Answer::Attributes(reply) = answer {
                        assert!(attributes(reply).count() <= reply.len());
                    }
                }
            }
            assert_eq!(answers(&good[..at], 2).count(), 0);
        }
        assert_eq!(attributes(&[0, 0, 1, 0]).count(), 0, "shorter than its own header");
    }
}
