//! The shared halves of an open stack: what every lane's handles are attached to.
//!
//! A new kind of half stands in [`Half::children`], [`Half::limits`] and [`Half::attach`]; whatever is
//! looked for in a stack is found by walking over the children.

use block::{Block, Limits, Null, Ram, Stack};
use cache::{Cache, Shared};
use drive_backend::Modelled;
use host::FileVolume;
use layers::{Delay, DelayShared, Faults, FaultsShared};
use pool::{Gone, PoolShared};
use ring::{Fence, FileBackend, Ring, SharedMemory};
use std::sync::Arc;

/// A half of a stack, with those that it stands on.
pub(crate) enum Half {
    File(Arc<FileVolume>),
    Ram(Ram),
    Null(Null),
    Model(Arc<drive_backend::Shared>),
    Pool { shared: Arc<PoolShared>, members: Vec<Option<Half>> },
    Stripe { limits: Limits, chunk_bytes: u32, members: Vec<Half> },
    Delay(Arc<DelayShared>, Box<Half>),
    Faults(Arc<FaultsShared>, Box<Half>),
    Cache(Box<CacheHalf>),
}

/// A cache: its engine, its memory, and what it stands on.
pub(crate) struct CacheHalf {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memory: SharedMemory,
    pub(crate) fence: Option<Fence>,
    pub(crate) below: Half,
}

/// A volume's stack on one lane.
pub struct Attached {
    /// Its top.
    pub stack: Stack,
    /// Its cache, if it has one.
    pub cache: Option<Cache>,
}

impl Half {
    /// What it stands on, in order. Members that are gone are left out.
    fn children(&self) -> Vec<&Half> {
        match self {
            Half::File(_) | Half::Ram(_) | Half::Null(_) | Half::Model(_) => Vec::new(),
            Half::Pool { members, .. } => members.iter().flatten().collect(),
            Half::Stripe { members, .. } => members.iter().collect(),
            Half::Delay(_, below) | Half::Faults(_, below) => vec![below],
            Half::Cache(cache) => vec![&cache.below],
        }
    }

    /// This one and all below it, top first.
    pub(crate) fn walk(&self) -> impl Iterator<Item = &Half> {
        let mut left = vec![self];
        std::iter::from_fn(move || {
            let next = left.pop()?;
            left.extend(next.children().into_iter().rev());
            Some(next)
        })
    }

    /// This one and those below it down to the backing: a pool or a stripe is one, whatever its members
    /// are.
    fn chain(&self) -> impl Iterator<Item = &Half> {
        std::iter::successors(Some(self), |half| match half.has_members() {
            true => None,
            false => half.children().into_iter().next(),
        })
    }

    fn has_members(&self) -> bool {
        matches!(self, Half::Pool { .. } | Half::Stripe { .. })
    }

    /// Whether it lies on several devices.
    pub(crate) fn is_of_several(&self) -> bool {
        self.chain().any(Half::has_members)
    }

    pub(crate) fn limits(&self) -> Limits {
        match self {
            Half::File(file) => file.limits().clone(),
            Half::Ram(ram) => Block::limits(ram).clone(),
            Half::Null(null) => Block::limits(null).clone(),
            Half::Model(model) => model.limits().clone(),
            Half::Pool { shared, .. } => shared.limits().clone(),
            Half::Stripe { limits, .. } => limits.clone(),
            // These layers show what is below them.
            Half::Delay(_, below) | Half::Faults(_, below) => below.limits(),
            Half::Cache(cache) => cache.below.limits(),
        }
    }

    /// The file at the bottom.
    pub(crate) fn file(&self) -> Option<&Arc<FileVolume>> {
        self.chain().find_map(|half| if let Half::File(file) = half { Some(file) } else { None })
    }

    /// The files that it uses.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<FileVolume>> {
        self.walk().filter_map(|half| if let Half::File(file) = half { Some(file) } else { None })
    }

    /// The modelled drive at the bottom.
    pub(crate) fn model(&self) -> Option<&Arc<drive_backend::Shared>> {
        self.chain().find_map(|half| if let Half::Model(model) = half { Some(model) } else { None })
    }

    /// The pool at the bottom.
    pub(crate) fn pool(&self) -> Option<&Arc<PoolShared>> {
        self.chain().find_map(|half| match half {
            Half::Pool { shared, .. } => Some(shared),
            _ => None,
        })
    }

    /// The cache, wherever it stands above the backing.
    pub(crate) fn cache(&self) -> Option<&CacheHalf> {
        self.chain()
            .find_map(|half| if let Half::Cache(cache) = half { Some(&**cache) } else { None })
    }

    /// As the ring's lane uses it.
    pub(crate) fn attach(&self, ring: &Ring) -> Attached {
        let lane = ring.lane();
        let plain = |stack| Attached { stack, cache: None };
        let on = |below: &Half, layer: &dyn Fn(Stack) -> Stack| {
            let Attached { stack, cache } = below.attach(ring);
            Attached { stack: layer(stack), cache }
        };
        match self {
            Half::File(file) => plain(Stack::new(lane, FileBackend::attach(file, ring))),
            Half::Ram(ram) => plain(Stack::new(lane, ram.clone())),
            Half::Null(null) => plain(Stack::new(lane, null.clone())),
            Half::Model(model) => plain(Stack::new(lane, Modelled::attach(model, lane))),
            Half::Pool { shared, members } => {
                let members = attach_members(members, ring);
                plain(Stack::new(lane, pool::Pool::attach(shared, lane, members)))
            }
            Half::Stripe { chunk_bytes, members, .. } => {
                let members = members.iter().map(|member| member.attach(ring).stack).collect();
                let stripe = pool::Stripe::attach(members, *chunk_bytes);
                plain(Stack::new(lane, stripe.expect("its limits were found")))
            }
            Half::Delay(shared, below) => {
                on(below, &|below| Stack::new(lane, Delay::attach(shared.clone(), lane, below)))
            }
            Half::Faults(shared, below) => {
                on(below, &|below| Stack::new(lane, Faults::attach(shared.clone(), below)))
            }
            Half::Cache(half) => {
                let cache = Cache::attach(&half.shared, lane, half.below.attach(ring).stack);
                Attached { stack: Stack::new(lane, cache.clone()), cache: Some(cache) }
            }
        }
    }
}

/// The members of a pool on a ring's lane.
fn attach_members(members: &[Option<Half>], ring: &Ring) -> Vec<Stack> {
    let lane = ring.lane();
    let there = members.iter().flatten().next().expect("a pool was opened with a member at least");
    let member = |member: &Option<Half>| match member {
        Some(half) => half.attach(ring).stack,
        None => Stack::new(lane, Gone::new(there.limits())),
    };
    members.iter().map(member).collect()
}
