//! Recording of the requests of a volume, for the client of one connection.
//!
//! ```text
//!   lanes --events--> a ring for each place --pages--> the connection --> the client's file
//! ```
//!
//! The rings have a fixed size. Events that find a ring full are dropped and counted: no request
//! waits for a recording.

use super::recorders::{Recorders, Ticket};
use super::volume_service::VolumeService;
use crate::control::recorded::{PAGE_EVENTS_MAX, RecordedPage};
use crate::control::words::RecordAt;
use crate::device::blocking;
use layers::{RecorderShared, RecorderSwitch, Recording};
use stack::{Exit, Failure};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of events that wait for the client, for each place: 12 MiB.
const EVENTS_MAX: usize = 1 << 18;

/// A recording of a volume. It ends when this is dropped, for example with its connection.
///
/// It does not keep the volume open.
pub(super) struct VolumeRecording {
    /// The volume's name.
    pub(super) volume: String,
    parts: Vec<(Arc<RecorderSwitch>, Recording)>,
    ticket: Ticket,
}

impl VolumeRecording {
    /// Begins to record the requests of a volume at these places.
    ///
    /// # Errors
    /// Usage: no place, or one twice. Negative: there is no such place. Busy: another recording is
    /// on.
    pub(super) async fn begin(
        service: &Rc<VolumeService>,
        places: &[RecordAt],
        recorders: &Rc<Recorders>,
    ) -> Result<VolumeRecording, Failure> {
        let name = &service.name;
        let is_repeated = |at: usize| places[..at].contains(&places[at]);
        if places.is_empty() || (0..places.len()).any(is_repeated) {
            let message = format!("{name}: name each place to be recorded once");
            return Err(Failure::new(Exit::Usage, message));
        }
        let switches = places.iter().map(|place| switch_of(service, *place));
        let switches = switches.collect::<Result<Vec<_>, Failure>>()?;
        let count = switches.len() as u32;
        // The memory is large: it is initialized beside the lane, which continues to serve.
        let made = blocking(move || {
            (0..count).map(|device| RecorderShared::new(device, EVENTS_MAX)).collect::<Vec<_>>()
        });
        let made = made.await?;
        if switches.iter().any(|switch| switch.is_on()) {
            let message = format!(
                "{name}: is being recorded already; end that recording, or wait until it ends"
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        let begin = |(switch, (shared, recording)): (Arc<RecorderSwitch>, _)| {
            switch.switch_on(shared);
            (switch, recording)
        };
        let parts = switches.into_iter().zip(made).map(begin).collect();
        Ok(VolumeRecording { volume: name.clone(), parts, ticket: recorders.begin() })
    }

    /// Takes the next page of events.
    pub(super) fn page(&mut self) -> RecordedPage {
        let events_max = PAGE_EVENTS_MAX / self.parts.len();
        let mut page = RecordedPage::default();
        for (_, recording) in &mut self.parts {
            let before = page.events.len();
            page.dropped += recording.take_up_to(events_max, &mut page.events);
            page.is_more |= page.events.len() - before == events_max;
        }
        if page.events.is_empty() && page.dropped == 0 {
            self.ticket.note_empty();
        }
        page
    }
}

impl Drop for VolumeRecording {
    fn drop(&mut self) {
        self.parts.iter().for_each(|(switch, _)| switch.switch_off());
    }
}

fn switch_of(service: &VolumeService, place: RecordAt) -> Result<Arc<RecorderSwitch>, Failure> {
    let halves = service.volume.halves();
    let switch = match place {
        RecordAt::Above => Some(halves.recorder_above()),
        RecordAt::Below => halves.recorder_below(),
    };
    switch.cloned().ok_or_else(|| {
        let message = format!(
            "{}: has no cache, so that its backing receives the requests of clients; record \
             those, with --at above",
            service.name
        );
        Failure::new(Exit::Negative, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Buf, Extent, Ram, Request, Stack};
    use lane::{Prices, World};
    use layers::Recorder;

    #[test]
    fn pages_report_drops_and_the_switch_goes_off_with_the_recording() {
        let mut world = World::timed(Prices::default());
        let lane = world.lane();
        let switch = Arc::new(RecorderSwitch::default());
        let below = Stack::new(&lane, Ram::new(1 << 16, 16));
        let stack = Stack::new(&lane, Recorder::attach_switch(&switch, below));
        let room = PAGE_EVENTS_MAX + 3;
        let (shared, events) = RecorderShared::new(0, room);
        switch.switch_on(shared);
        let parts = vec![(switch.clone(), events)];
        let ticket = Rc::new(Recorders::default()).begin();
        let mut recording = VolumeRecording { volume: String::new(), parts, ticket };
        for number in 0..room as u64 + 5 {
            let (at, into) = (Extent::new(number, 1), Buf::new(1, 16));
            assert_eq!(stack.try_now(&Request::Read { at, into }), Some(Ok(())));
        }
        for (events, dropped, is_more) in [(PAGE_EVENTS_MAX, 5, true), (3, 0, false), (0, 0, false)]
        {
            let page = recording.page();
            assert_eq!((page.events.len(), page.dropped, page.is_more), (events, dropped, is_more));
        }
        assert!(switch.is_on());
        drop(recording);
        assert!(!switch.is_on());
    }
}
