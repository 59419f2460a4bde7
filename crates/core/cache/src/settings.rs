//! The settings, which may also change while the volume is served.

use crate::geometry::Geometry;
use block::{
    CacheSpec, Compress, Durability, Files, Fua, Limits, LinkDown, Policy, SECTOR, Size, Warm,
    WriteMode,
};
use lane::atomic::{AtomicBool, AtomicU64, Ordering};
use policy::Kind;

const BLOCK_BYTES: u64 = crate::BLOCK_SECTORS as u64 * SECTOR;

/// Minimum time without an answer before the backing counts as hanging: one second.
const STALL_TIME_NS_MIN: u64 = 1_000_000_000;

/// A shorter stream is cached even by the smallest cache: 1 MiB.
const STREAM_BLOCKS_LEAST: u32 = 256;

/// A setting in the engine's units: times in nanoseconds, sizes in blocks.
pub trait Measured: Sized {
    /// The engine's type.
    type Engine;

    /// Returns the setting in the engine's units, for a cache of this geometry.
    fn measured(&self, geometry: &Geometry) -> Self::Engine;

    /// Returns the setting for a value of the engine, rounded as the unit requires.
    fn from_engine(engine: Self::Engine) -> Self;
}

impl Measured for u64 {
    type Engine = u64;

    fn measured(&self, _: &Geometry) -> u64 {
        self.saturating_mul(1_000_000)
    }

    fn from_engine(engine: u64) -> u64 {
        engine / 1_000_000
    }
}

impl Measured for Size {
    type Engine = u32;

    fn measured(&self, _: &Geometry) -> u32 {
        u32::try_from(self.0 / BLOCK_BYTES).unwrap_or(u32::MAX)
    }

    fn from_engine(engine: u32) -> Size {
        Size(u64::from(engine) * BLOCK_BYTES)
    }
}

/// A part of the memory; by default a quarter.
impl Measured for Option<Size> {
    type Engine = u32;

    fn measured(&self, geometry: &Geometry) -> u32 {
        self.map_or(geometry.slots / 4, |size| size.measured(geometry))
    }

    fn from_engine(engine: u32) -> Option<Size> {
        Some(Size::from_engine(engine))
    }
}

/// Implements [`Measured`] for types that the engine uses unchanged.
macro_rules! as_it_is {
    ($($type:ty)+) => {
        $(impl Measured for $type {
            type Engine = $type;

            fn measured(&self, _: &Geometry) -> $type {
                *self
            }

            fn from_engine(engine: $type) -> $type {
                engine
            }
        })+
    };
}

as_it_is!(WriteMode Durability LinkDown Warm Compress Files bool);

/// A value that fits into the word in which a setting is stored.
trait Word: Copy {
    /// The order of its load: relaxed for an independent number; one total order for values that
    /// are combined with other words.
    const LOAD: Ordering;

    fn into_word(self) -> u64;
    /// Returns the value that was stored as this word.
    fn of_word(word: u64) -> Self;
}

impl Word for u64 {
    const LOAD: Ordering = Ordering::Relaxed;

    fn into_word(self) -> u64 {
        self
    }

    #[inline]
    fn of_word(word: u64) -> u64 {
        word
    }
}

impl Word for u32 {
    const LOAD: Ordering = Ordering::Relaxed;

    fn into_word(self) -> u64 {
        self.into()
    }

    #[inline]
    fn of_word(word: u64) -> u32 {
        word as u32
    }
}

impl Word for bool {
    const LOAD: Ordering = Ordering::Relaxed;

    fn into_word(self) -> u64 {
        self.into()
    }

    #[inline]
    fn of_word(word: u64) -> bool {
        word != 0
    }
}

/// A choice is stored as its index among all of them.
macro_rules! choices {
    ($($type:ty)+) => {
        $(impl Word for $type {
            const LOAD: Ordering = Ordering::SeqCst;

            fn into_word(self) -> u64 {
                let index = <$type>::ALL.iter().position(|other| *other == self);
                index.expect("every value is among all") as u64
            }

            #[inline]
            fn of_word(word: u64) -> $type {
                <$type>::ALL[word as usize]
            }
        })+
    };
}

choices!(WriteMode Durability LinkDown Warm Compress Files);

macro_rules! engine {
    ($(
        $key:ident: $type:ty = $usual:expr, $field:ident $(=> $engine:ident)? $(-> $change:ident)?
        $(in $least:expr, $most:expr)?, $meaning:literal;
    )*) => {
        /// The settings that may differ between volumes and change later, in the engine's units:
        /// the table [`block::cache_settings`], and values that no user sets.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct Settings {
            $($(#[doc = $meaning] pub $engine: <$type as Measured>::Engine,)?)*
            /// C8: how long a request to the backing may go unanswered before the backing counts as
            /// hanging, in nanoseconds; 0: it is not watched.
            pub stall_time_ns: u64,
            /// The policy that chooses the clean slot to evict. Fixed while the volume is served.
            pub policy: Kind,
            /// Writeback requests that each lane may have in flight.
            pub workers: u32,
            /// Readahead requests that each lane may have in flight.
            pub readers: u32,
            /// Blocks after which a stream of reads is too long to be cached, unless slots are
            /// free.
            pub stream_blocks_max: u32,
            /// Maximum size of a compressed block that is stored, in percent of a block.
            pub compressed_percent_max: u32,
            /// The cost of admitting a block after a miss, in nanoseconds; 0: every miss is
            /// admitted. Measured: `cargo xtask bench prices`.
            pub fill_cost_ns: u64,
        }

        impl Settings {
            /// Returns the settings of a spec, over a cache of this geometry.
            pub fn from_spec(spec: &CacheSpec, geometry: &Geometry) -> Settings {
                let settings = Settings {
                    $($($engine: spec.$field.measured(geometry),)?)*
                    stall_time_ns: stall_time_ns(spec.retry_time_ms.measured(geometry)),
                    policy: kind_of(spec.policy),
                    workers: 32,
                    readers: 32,
                    stream_blocks_max: (geometry.slots / 16).max(STREAM_BLOCKS_LEAST),
                    compressed_percent_max: 83,
                    fill_cost_ns: 400,
                };
                settings.fitted(geometry)
            }

            /// Writes into a spec the settings that differ from its own: a setting that was left to
            /// its default stays so until it is changed.
            pub fn write_to(&self, spec: &mut CacheSpec, geometry: &Geometry) {
                let asked = Settings::from_spec(spec, geometry);
                $($(if self.$engine != asked.$engine {
                    spec.$field = Measured::from_engine(self.$engine);
                })?)*
            }

            /// Returns the settings with these changes.
            pub(crate) fn changed(self, changes: &Changes, geometry: &Geometry) -> Settings {
                let stall = changes.retry_time_ns.map(stall_time_ns);
                let settings = Settings {
                    $($($engine: changes.$engine.unwrap_or(self.$engine),)?)*
                    stall_time_ns: stall.unwrap_or(self.stall_time_ns),
                    ..self
                };
                match changes.dirty_blocks_max {
                    Some(_) => settings.fitted(geometry),
                    None => settings,
                }
            }
        }

        /// The changes, in the engine's units; `None`: unchanged.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Changes {
            $(
                $(#[doc = $meaning] pub $engine: Option<<$type as Measured>::Engine>,)?
                $(#[doc = $meaning] pub $change: Option<$type>,)?
            )*
        }

        /// The settings in effect. Each setting that can change while the volume is served is one
        /// word, read without a lock wherever it is needed; `operator/reconfigure.rs` changes them,
        /// and decides the order.
        #[derive(Debug)]
        pub(crate) struct Live {
            $($($engine: AtomicU64,)?)*
            stall_time_ns: AtomicU64,
            /// Whether the order of flushes is promised from now on, or is about to be: see
            /// [`crate::shared::Shared::publish_closed`].
            order_wanted: AtomicBool,
            pub(crate) policy: Kind,
            pub(crate) workers: u32,
            pub(crate) readers: u32,
            pub(crate) stream_blocks_max: u32,
            pub(crate) compressed_percent_max: u32,
            pub(crate) fill_cost_ns: u64,
        }

        impl Live {
            pub(crate) fn new(settings: &Settings) -> Live {
                Live {
                    $($($engine: AtomicU64::new(settings.$engine.into_word()),)?)*
                    stall_time_ns: AtomicU64::new(settings.stall_time_ns),
                    order_wanted: AtomicBool::new(settings.durability == Durability::Ordered),
                    policy: settings.policy,
                    workers: settings.workers,
                    readers: settings.readers,
                    stream_blocks_max: settings.stream_blocks_max,
                    compressed_percent_max: settings.compressed_percent_max,
                    fill_cost_ns: settings.fill_cost_ns,
                }
            }

            /// Returns all current settings.
            #[inline]
            pub(crate) fn now(&self) -> Settings {
                Settings {
                    $($($engine: self.$engine(),)?)*
                    stall_time_ns: self.stall_time_ns(),
                    policy: self.policy,
                    workers: self.workers,
                    readers: self.readers,
                    stream_blocks_max: self.stream_blocks_max,
                    compressed_percent_max: self.compressed_percent_max,
                    fill_cost_ns: self.fill_cost_ns,
                }
            }

            /// Puts all of them into effect.
            fn store(&self, settings: &Settings) {
                $($(self.$engine.store(settings.$engine.into_word(), Ordering::SeqCst);)?)*
                self.stall_time_ns.store(settings.stall_time_ns, Ordering::SeqCst);
            }

            $($(
                #[inline]
                pub(crate) fn $engine(&self) -> <$type as Measured>::Engine {
                    let load = <<$type as Measured>::Engine as Word>::LOAD;
                    Word::of_word(self.$engine.load(load))
                }
            )?)*
        }
    };
}

block::cache_settings!(engine);

/// The defaults of the table over the smallest cache, whose backing is not watched, and which
/// admits every miss.
impl Default for Settings {
    fn default() -> Settings {
        let usual = Settings::from_spec(&CacheSpec::default(), &Geometry::default());
        Settings { stall_time_ns: 0, fill_cost_ns: 0, ..usual }
    }
}

impl Settings {
    /// Limits the settings to this geometry: at most fifteen sixteenths of the slots may be dirty,
    /// and at least two.
    fn fitted(self, geometry: &Geometry) -> Settings {
        let most = u64::from(geometry.slots) * 15 / 16;
        let dirty_blocks_max = u64::from(self.dirty_blocks_max).min(most).max(2) as u32;
        Settings { dirty_blocks_max, ..self }
    }
}

/// Returns the policy of this name.
fn kind_of(policy: Policy) -> Kind {
    match policy {
        Policy::Adaptive => Kind::Adaptive,
        Policy::Lru => Kind::Lru,
        Policy::Fifo => Kind::Fifo,
        Policy::Clock => Kind::Clock,
        Policy::Sieve => Kind::Sieve,
        Policy::WTinyLfu => Kind::WTinyLfu,
        Policy::WTinyLfu10 => Kind::WTinyLfu10,
    }
}

/// Returns the time for which a request may go unanswered where errors are retried for
/// `retry_time_ns`. Even where no error is retried, a slow answer gets a minimum time: disks that
/// spin up or repair a sector need some.
fn stall_time_ns(retry_time_ns: u64) -> u64 {
    retry_time_ns.max(STALL_TIME_NS_MIN)
}

impl Live {
    /// Puts settings into effect, except the durability of flushes.
    pub(crate) fn put(&self, settings: &Settings) {
        self.store(&Settings { durability: self.durability(), ..*settings });
    }

    pub(crate) fn set_write(&self, write: WriteMode) {
        self.write.store(write.into_word(), Ordering::SeqCst);
    }

    /// To be called in a section of the epochs.
    pub(crate) fn set_durability(&self, durability: Durability, order_wanted: bool) {
        self.order_wanted.store(order_wanted, Ordering::SeqCst);
        self.durability.store(durability.into_word(), Ordering::SeqCst);
    }

    /// Whether a flush makes data durable.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.durability() == Durability::Flush
    }

    pub(crate) fn wants_order(&self) -> bool {
        self.order_wanted.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn stall_time_ns(&self) -> u64 {
        self.stall_time_ns.load(Ordering::Relaxed)
    }
}

/// Returns the limits that the cache shows above a backing with these limits.
pub(crate) fn limits_above(below: &Limits) -> Limits {
    // The cache makes an FUA write durable whether or not the backing supports FUA.
    Limits { io_best_bytes: below.io_best_bytes.max(4096), fua: Fua::Native, ..below.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_that_can_be_served_can_be_asked_for_by_its_name() {
        for policy in Policy::ALL {
            assert_eq!(kind_of(*policy).name(), policy.word());
        }
        let served = Kind::ALL.into_iter().filter(|kind| kind.is_served()).count();
        assert_eq!(Policy::ALL.len(), served);
    }
}
