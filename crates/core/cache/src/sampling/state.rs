//! The state of a volume's samplers and the ghosts of its shards, as bytes for the next process.
//!
//! ```text
//!   layout, policy, slots     4 bytes each: another value means another cache
//!   is there a curve?         1 byte; if so: accesses, misses and nanoseconds of its window, 8
//!                             bytes each, and its parts (policy::Curve)
//!   is there an arbiter?      1 byte; if so: its parts (policy::Arbiter)
//!   the expectation
//!   number of shards, 4 bytes; the ghosts of each (policy::saved)
//! ```
//!
//! It is saved in parts, and requests go on in between. So the parts are of different moments, each
//! of them consistent.

use super::{Sampling, Window};
use crate::geometry::Geometry;
use alloc::vec::Vec;
use hotlist::Unusable;
use policy::saved::{COUNT_MAX, Saved, put_u32s, put_u64s};
use policy::{Arbiter, Curve, Expectation, Kind};

/// Number of the layout: to be raised when saved parts, shares or sizes of samplers change.
const LAYOUT: u32 = 1;
/// Maximum duration of a window that was saved: 36 years.
const WINDOW_NS_MAX: u64 = 1 << 60;

/// The state of a policy that an earlier process has saved.
pub struct PolicyState {
    arbiter: Option<Arbiter>,
    curve: Option<Window>,
    expectation: Expectation,
    pub(crate) ghosts: Vec<Vec<u16>>,
}

impl PolicyState {
    /// Reads a state. None: it is of a cache of another policy or size, or of an earlier version of
    /// the program, so that this cache cannot use it.
    ///
    /// # Errors
    /// The bytes are damaged, or of a later version.
    pub fn parse(
        bytes: &[u8],
        kind: Kind,
        geometry: &Geometry,
    ) -> Result<Option<PolicyState>, Unusable> {
        let mut saved = Saved(bytes);
        let mut head = [0; 3];
        for number in &mut head {
            *number = saved.u32().ok_or(Unusable::Damaged)?;
        }
        if head[0] > LAYOUT {
            return Err(Unusable::Newer(head[0]));
        }
        if head != [LAYOUT, kind as u32, geometry.slots] {
            return Ok(None);
        }
        let state = PolicyState::restored(kind, geometry, &mut saved);
        state.filter(|_| saved.0.is_empty()).map(Some).ok_or(Unusable::Damaged)
    }

    fn restored(kind: Kind, geometry: &Geometry, saved: &mut Saved<'_>) -> Option<PolicyState> {
        let curve = match saved.u8()? {
            0 => None,
            _ => Some(Window::restored(kind, geometry.slots, saved)?),
        };
        let arbiter = match saved.u8()? {
            0 => None,
            _ => Some(Arbiter::restored(geometry.slots, saved)?),
        };
        let expectation = Expectation::restored(kind, geometry.slots, saved)?;
        let shards = saved.u32().filter(|shards| [0, geometry.shards].contains(shards))?;
        let ghosts = (0..shards).map(|_| saved.ghosts()).collect::<Option<_>>()?;
        Some(PolicyState { arbiter, curve, expectation, ghosts })
    }
}

impl Window {
    fn restored(kind: Kind, slots: u32, saved: &mut Saved<'_>) -> Option<Window> {
        let accesses = saved.count(COUNT_MAX)?;
        let (misses, elapsed_ns) = (saved.count(accesses)?, saved.count(WINDOW_NS_MAX)?);
        let curve = Curve::restored(kind, slots, saved)?;
        Some(Window { curve, accesses, misses, elapsed_ns, until_ns: 0, earlier_ns: elapsed_ns })
    }
}

/// A part of the samplers' state.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// The beginning.
    Head,
    /// A part of the curve, if there is one.
    Curve(usize),
    /// A part of the arbiter, if there is one.
    Arbiter(usize),
    /// The expectation.
    Expectation,
}

impl Sampling {
    /// Returns the parts of the state, in their order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let curve = self.curve.as_ref().map_or(1, |it| it.peek(|window| window.curve.parts()));
        let arbiter = self.arbiter.as_ref().map_or(1, |it| it.peek(|arbiter| arbiter.parts()));
        let parts = core::iter::once(Part::Head).chain((0..curve).map(Part::Curve));
        parts.chain((0..arbiter).map(Part::Arbiter)).chain([Part::Expectation]).collect()
    }

    /// Appends a part of the state, for a cache of this policy and number of slots.
    pub(crate) fn save(&self, part: Part, kind: Kind, slots: u32, bytes: &mut Vec<u8>) {
        match (part, &self.arbiter, &self.curve) {
            (Part::Head, ..) => put_u32s(bytes, [LAYOUT, kind as u32, slots]),
            (Part::Arbiter(_), None, _) | (Part::Curve(_), _, None) => bytes.push(0),
            (Part::Arbiter(part), Some(arbiter), _) => {
                bytes.extend((part == 0).then_some(1));
                arbiter.peek(|arbiter| arbiter.save(part, bytes));
            }
            (Part::Curve(part), _, Some(window)) => {
                window.peek(|window| window.save(part, bytes));
            }
            (Part::Expectation, ..) => self.expectation.peek(|it| it.save(bytes)),
        }
    }

    /// Goes on from the state of an earlier process. Accesses that were sampled before this call
    /// are not in it.
    pub(crate) fn restore(&self, state: PolicyState, now_ns: u64) {
        let share = state.arbiter.as_ref().map(Arbiter::share);
        if let (Some(arbiter), Some(restored)) = (&self.arbiter, state.arbiter) {
            drop(arbiter.peek(|arbiter| core::mem::replace(arbiter, restored)));
        }
        if let (Some(window), Some(restored)) = (&self.curve, state.curve) {
            let restored = Window { until_ns: now_ns, ..restored };
            drop(window.peek(|window| core::mem::replace(window, restored)));
        }
        let restored = state.expectation;
        drop(self.expectation.peek(|it| core::mem::replace(it, restored)));
        if let Some(share) = share {
            self.set_window_share(share);
        }
    }
}

impl Window {
    fn save(&self, part: usize, bytes: &mut Vec<u8>) {
        if part == 0 {
            bytes.push(1);
            put_u64s(bytes, [self.accesses, self.misses, self.elapsed_ns]);
        }
        self.curve.save(part, bytes);
    }
}
