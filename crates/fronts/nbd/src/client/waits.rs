//! Changes and flushes of an export that are not answered, and the reason why each of them waits.

use lane::Lock;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Event for which a request waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// A connection to the server.
    Connection,
    /// The end of a range's hold: an old copy of another change may still be executed.
    Hold,
    /// The answer to one of the changes under way, of which there are as many as possible.
    Room,
    /// Its own answer.
    Answer,
}

impl WaitsFor {
    /// Returns its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            WaitsFor::Connection => "connection",
            WaitsFor::Hold => "hold",
            WaitsFor::Room => "room",
            WaitsFor::Answer => "answer",
        }
    }
}

/// The requests that are not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitReport {
    /// Their number.
    pub unanswered: u64,
    /// The number of those that are held.
    pub held: u64,
    /// Begin of the oldest one, and the event for which it waits.
    pub oldest: Option<(u64, WaitsFor)>,
}

/// The requests that are not answered, in the order of their begin.
#[derive(Debug, Default)]
pub(super) struct Waits {
    requests: Lock<BTreeMap<u64, (u64, WaitsFor)>>,
}

impl Waits {
    /// Notes a request, until the result is dropped. `number`: its own, and higher than those
    /// before.
    pub(super) fn begin(&self, number: u64, now_ns: u64) -> Waiting<'_> {
        let waits_for = WaitsFor::Connection;
        self.requests.peek(|requests| requests.insert(number, (now_ns, waits_for)));
        Waiting { waits: self, number, waits_for: Cell::new(waits_for) }
    }

    /// Describes the requests.
    pub(super) fn report(&self) -> WaitReport {
        self.requests.peek(|requests| {
            let is_held = |request: &&(u64, WaitsFor)| request.1 == WaitsFor::Hold;
            WaitReport {
                unanswered: requests.len() as u64,
                held: requests.values().filter(is_held).count() as u64,
                oldest: requests.values().next().copied(),
            }
        })
    }
}

/// A request that is not answered.
pub(super) struct Waiting<'a> {
    waits: &'a Waits,
    number: u64,
    waits_for: Cell<WaitsFor>,
}

impl Waiting<'_> {
    /// Notes the event for which it waits from now on.
    pub(super) fn set(&self, waits_for: WaitsFor) {
        if self.waits_for.replace(waits_for) != waits_for {
            self.waits.requests.peek(|requests| {
                if let Some(request) = requests.get_mut(&self.number) {
                    request.1 = waits_for;
                }
            });
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.requests.peek(|requests| requests.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_is_reported_with_the_event_for_which_it_waits() {
        let waits = Waits::default();
        assert_eq!(waits.report(), WaitReport::default());
        let (first, second) = (waits.begin(1, 10), waits.begin(2, 20));
        second.set(WaitsFor::Hold);
        first.set(WaitsFor::Answer);
        let oldest = Some((10, WaitsFor::Answer));
        assert_eq!(waits.report(), WaitReport { unanswered: 2, held: 1, oldest });
        drop(first);
        let oldest = Some((20, WaitsFor::Hold));
        assert_eq!(waits.report(), WaitReport { unanswered: 1, held: 1, oldest });
        drop(second);
        assert_eq!(waits.report(), WaitReport::default());
    }
}
