//! Recorded requests of a volume, as they are sent: in pages, so that neither side needs memory in
//! proportion to their number.
//!
//! ```text
//!   dropped 8 | is more, 8 | event 40 | ...          little-endian
//! ```
//!
//! `dropped` is the number of events that were lost since the page before, because the daemon's
//! memory for them was full. `is more` is 1 if further events can be fetched now. An event's bytes
//! are its words ([`Event::to_words`]); its device is the index of its place in the request.

use trace::{Event, WORDS};

/// Maximum number of events of a page.
pub(crate) const PAGE_EVENTS_MAX: usize = 4096;
/// Maximum length of a page, in bytes.
pub(crate) const PAGE_BYTES_MAX: usize = HEAD_BYTES + PAGE_EVENTS_MAX * EVENT_BYTES;

const HEAD_BYTES: usize = 16;
const EVENT_BYTES: usize = WORDS * size_of::<u64>();

/// A page of recorded requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RecordedPage {
    /// Number of events that were lost since the page before.
    pub dropped: u64,
    /// Whether further events can be fetched now.
    pub is_more: bool,
    /// The events, those of each place in the order of their answers.
    pub events: Vec<Event>,
}

impl RecordedPage {
    /// Returns the page as it is sent.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.events.len() * EVENT_BYTES);
        let mut put = |word: u64| bytes.extend_from_slice(&word.to_le_bytes());
        put(self.dropped);
        put(self.is_more.into());
        self.events.iter().flat_map(Event::to_words).for_each(put);
        bytes
    }

    /// Reads a page.
    ///
    /// # Errors
    /// These bytes are not a page.
    pub(crate) fn parse(bytes: &[u8]) -> Result<RecordedPage, &'static str> {
        let head = bytes.split_first_chunk::<HEAD_BYTES>();
        let (head, rest) = head.ok_or("it sent a page of recorded requests without a head")?;
        let (events, []) = rest.as_chunks::<EVENT_BYTES>() else {
            return Err("it sent a part of a recorded request");
        };
        let [dropped, more] = words(head);
        if more > 1 {
            return Err("it sent a page of recorded requests with an unknown head");
        }
        let event = |bytes| Event::from_words(words(bytes)).ok_or("it sent an invalid request");
        let events = events.iter().map(event).collect::<Result<_, _>>()?;
        Ok(RecordedPage { dropped, is_more: more == 1, events })
    }
}

/// Returns the words of as many bytes.
fn words<const BYTES: usize, const COUNT: usize>(bytes: &[u8; BYTES]) -> [u64; COUNT] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(words[index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Operation;

    fn page() -> RecordedPage {
        let write = Event {
            time_ns: 1 << 60,
            took_ns: Some(70),
            operation: Operation::Write { fua: true },
            device: 1,
            first: 8,
            sectors: 16,
            failed: Some(5),
        };
        let flush = Event { operation: Operation::Flush, first: 0, sectors: 0, ..write };
        RecordedPage { dropped: 9, is_more: true, events: vec![write, flush] }
    }

    #[test]
    fn pages_are_read_as_they_were_written() {
        for page in [page(), RecordedPage::default()] {
            let bytes = page.encode();
            assert!(bytes.len() <= PAGE_BYTES_MAX);
            assert_eq!(RecordedPage::parse(&bytes), Ok(page));
        }
    }

    #[test]
    fn other_bytes_are_no_page() {
        let good = page().encode();
        for length in [0, HEAD_BYTES - 1, HEAD_BYTES + 1, good.len() - 1] {
            assert!(RecordedPage::parse(&good[..length]).is_err(), "{length}");
        }
        // The mark of more, and the operation.
        for at in [8, HEAD_BYTES + 32] {
            let mut bad = good.clone();
            bad[at] = 9;
            assert!(RecordedPage::parse(&bad).is_err(), "{at}");
        }
    }
}
