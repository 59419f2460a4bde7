//! The state of a volume's samplers and the ghosts of its shards, as bytes for the next process.
//!
//! ```text
//!   layout, policy, slots     4 bytes each: another value means another cache
//!   is there a curve?         1 byte; if so: accesses, misses and nanoseconds of its window, 8
//!                             bytes each, and its parts (policy::Curve)
//!   is there an arbiter?      1 byte; if so: its parts (policy::Arbiter)
//!   the expectation
//!   share of the tier         4 bytes (policy::TierShare), in layout 2 only
//!   number of shards, 4 bytes; the ghosts of each (policy::saved)
//! ```
//!
//! Layout 1 is that of programs without a compressed tier. A cache that compresses nothing still
//! writes it, so that these programs can read it.
//!
//! It is saved in parts, and requests go on in between. So the parts are of different moments, each
//! of them consistent.

use super::{Sampling, Window};
use crate::geometry::Geometry;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use hotlist::Unusable;
use policy::saved::{COUNT_MAX, Saved, put_u32s, put_u64s};
use policy::{Arbiter, Curve, Expectation, Kind, TierShare};

/// Number of the layout: to be raised when saved parts, shares or sizes of samplers change.
const LAYOUT: u32 = 2;
/// The same without the share of the compressed tier.
const LAYOUT_WITHOUT_TIER: u32 = 1;
/// Maximum duration of a window that was saved: 36 years.
const WINDOW_NS_MAX: u64 = 1 << 60;

/// The state of a policy that an earlier process has saved.
pub struct PolicyState {
    arbiter: Option<Arbiter>,
    curve: Option<Window>,
    expectation: Expectation,
    tier: Option<TierShare>,
    pub(crate) ghosts: Vec<Vec<u16>>,
}

impl PolicyState {
    /// Reads a state. None: it is of a cache of another policy or size, or of a version of the
    /// program that is too old, so that this cache cannot use it.
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
        let is_known = [LAYOUT_WITHOUT_TIER, LAYOUT].contains(&head[0]);
        if !is_known || head[1..] != [kind as u32, geometry.slots] {
            return Ok(None);
        }
        let state = PolicyState::restored(head[0], kind, geometry, &mut saved);
        state.filter(|_| saved.0.is_empty()).map(Some).ok_or(Unusable::Damaged)
    }

    fn restored(
        layout: u32,
        kind: Kind,
        geometry: &Geometry,
        saved: &mut Saved<'_>,
    ) -> Option<PolicyState> {
        let curve = match saved.u8()? {
            0 => None,
            _ => Some(Window::restored(kind, geometry.slots, saved)?),
        };
        let arbiter = match saved.u8()? {
            0 => None,
            _ => Some(Arbiter::restored(geometry.slots, saved)?),
        };
        let expectation = Expectation::restored(kind, geometry.slots, saved)?;
        let tier = match layout {
            LAYOUT_WITHOUT_TIER => None,
            _ => Some(TierShare::from_bits(saved.u32()?)),
        };
        let shards = saved.u32().filter(|shards| [0, geometry.shards].contains(shards))?;
        let ghosts = (0..shards).map(|_| saved.ghosts()).collect::<Option<_>>()?;
        Some(PolicyState { arbiter, curve, expectation, tier, ghosts })
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
    /// The beginning, with the number of the layout.
    Head(u32),
    /// A part of the curve, if there is one.
    Curve(usize),
    /// A part of the arbiter, if there is one.
    Arbiter(usize),
    /// The expectation.
    Expectation,
    /// The share of the compressed tier.
    Tier,
}

impl Sampling {
    /// Returns the parts of the state, in their order.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let curve = self.curve.as_ref().map_or(1, |it| it.peek(|window| window.curve.parts()));
        let arbiter = self.arbiter.as_ref().map_or(1, |it| it.peek(|arbiter| arbiter.parts()));
        let has_tier = self.has_tier.load(Ordering::Relaxed);
        let layout = if has_tier { LAYOUT } else { LAYOUT_WITHOUT_TIER };
        let parts = core::iter::once(Part::Head(layout)).chain((0..curve).map(Part::Curve));
        let parts = parts.chain((0..arbiter).map(Part::Arbiter)).chain([Part::Expectation]);
        parts.chain(has_tier.then_some(Part::Tier)).collect()
    }

    /// Appends a part of the state, for a cache of this policy and number of slots.
    pub(crate) fn save(&self, part: Part, kind: Kind, slots: u32, bytes: &mut Vec<u8>) {
        match (part, &self.arbiter, &self.curve) {
            (Part::Head(layout), ..) => put_u32s(bytes, [layout, kind as u32, slots]),
            (Part::Arbiter(_), None, _) | (Part::Curve(_), _, None) => bytes.push(0),
            (Part::Arbiter(part), Some(arbiter), _) => {
                bytes.extend((part == 0).then_some(1));
                arbiter.peek(|arbiter| arbiter.save(part, bytes));
            }
            (Part::Curve(part), _, Some(window)) => {
                window.peek(|window| window.save(part, bytes));
            }
            (Part::Expectation, ..) => self.expectation.peek(|it| it.save(bytes)),
            (Part::Tier, ..) => put_u32s(bytes, [self.tier_share().bits()]),
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
        if let Some(share) = state.tier {
            self.restore_tier_share(share);
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
