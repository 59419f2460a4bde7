//! The settings of a cache, as one table.
//!
//! A setting is one row of [`cache_settings`], and the code that uses it. The row generates: the
//! field of [`CacheSpec`], and with it the stack as data; the engine's field, the word that the
//! engine reads while the volume is served, and the code that changes it; the key of a config file
//! and of `volume set`, with its range; the option of the command line with its help; and its line
//! in docs/OPTIONS.md.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Calls a macro with all settings of a cache, one row each:
///
/// ```text
/// KEY: TYPE = DEFAULT, FIELD => ENGINE in LEAST, MOST, "MEANING";
/// ```
///
/// KEY is the name that users see. TYPE determines the unit: a `Size` is in bytes, a `u64` in
/// milliseconds. FIELD is the name in [`CacheSpec`]. ENGINE is the name among the engine's
/// settings, in nanoseconds or blocks; a setting that has one may change while the volume is
/// served. A setting with `-> ENGINE` may change, too, but is not stored among them. LEAST and MOST
/// are the range, and optional.
#[macro_export]
macro_rules! cache_settings {
    ($then:ident) => {
        $then! {
            memory: $crate::Size = $crate::Size(1 << 30), memory,
            "Memory for cached blocks (4K = 4KiB = 4096, 4KB = 4000); 0: no cache layer.";

            policy: $crate::Policy = $crate::Policy::Adaptive, policy,
            "How the block to evict is chosen.";

            write: $crate::WriteMode = $crate::WriteMode::Back, write => write,
            "How writes are handled.";

            durability: $crate::Durability = $crate::Durability::Flush, durability => durability,
            "Guarantee of a flush.";

            dirty_bytes: Option<$crate::Size> = None, dirty_bytes => dirty_blocks_max,
            "Maximum amount of dirty data.";

            dirty_age: u64 = 5_000, dirty_age_ms => dirty_age_ns,
            "Maximum age of dirty data.";

            flush_target: u64 = 500, flush_target_ms => flush_target_ns,
            "Maximum time to write back all dirty data, as predicted from measurements; 0: no \
             limit.";

            retry_time: u64 = 10_000, retry_time_ms => retry_time_ns,
            "Time for which errors of the backing are retried before the volume fails.";

            link_down: $crate::LinkDown = $crate::LinkDown::Fail, link_down => link_down,
            "How requests are handled while the link to an NBD export is down.";

            absorb_bytes_max: $crate::Size = $crate::Size(128 << 10), absorb_bytes_max => absorb_blocks_max
            in $crate::Size(4 << 10), $crate::Size(512 << 10),
            "Largest write that is absorbed; larger ones are written through.";

            readahead: bool = true, readahead => readahead,
            "Read ahead of sequential reads, as far as this has been useful.";

            warm: $crate::Warm = $crate::Warm::List, warm => warm,
            "How the cache is filled after a restart.";

            warm_save: u64 = 180_000, warm_save_ms => warm_save_ns in 100, 86_400_000,
            "Time between two saves of the list of hot blocks, and from the first read until the \
             start-up list is saved.";

            compress: $crate::Compress = $crate::Compress::Off, compress => compress,
            "Whether evicted blocks stay in memory compressed.";

            files: $crate::Files = $crate::Files::Off, files => files,
            "Whether blocks are kept by the kind of file that they belong to.";

            rules: $crate::Rules = $crate::Rules::default(), rules,
            "Rules for kinds of files, endings, directories and sizes of files.";

            guard: bool = true, guard -> guard,
            "Bypass the cache automatically while it costs more than it gains, as when processors are \
             busy; 'volume stats' shows why.";
        }
    };
}

/// An enum of words, each with its meaning. The first word is the default.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $($value:ident $word:literal $meaning:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum $name { $(#[doc = $meaning] #[serde(rename = $word)] $value,)+ }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$($name::$value),+];

            /// The value as users write it.
            pub fn word(self) -> &'static str {
                match self { $($name::$value => $word,)+ }
            }

            /// The meaning of the value, in one or two sentences.
            pub fn meaning(self) -> &'static str {
                match self { $($name::$value => $meaning,)+ }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::ALL[0]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                let is_it = |value: &$name| value.word().eq_ignore_ascii_case(text);
                let found = $name::ALL.iter().copied().find(is_it);
                found.ok_or_else(|| {
                    let words: Vec<&str> = $name::ALL.iter().map(|value| value.word()).collect();
                    let (last, others) = words.split_last().expect("there is one");
                    format!("'{text}': {} or {last}", others.join(", "))
                })
            }
        }
    };
}

words! {
    /// How the cache handles writes.
    WriteMode {
        Back "back" "Absorbed in memory, once a client has sent a flush and thus shown that it \
                     uses them.",
        BackNow "back-now" "Absorbed in memory from the first write on.",
        Through "through" "Written to the backing, and cached for reads.",
        None "none" "Nothing is cached, neither reads nor writes.",
    }
}

impl WriteMode {
    /// Whether writes may be answered before they are on the backing.
    pub fn absorbs(self) -> bool {
        matches!(self, WriteMode::Back | WriteMode::BackNow)
    }
}

words! {
    /// The policy that chooses the block to evict.
    Policy {
        Adaptive "adaptive" "New blocks enter a queue first, and stay cached if they are used again; \
                             the length of the queue adapts to the lowest miss ratio.",
        Lru "lru" "Evicts the least recently used block.",
        Fifo "fifo" "Evicts the block that was cached first.",
        Clock "clock" "Evicts the first block that was not read since it was last examined, in \
                       circular order.",
        Sieve "sieve" "Evicts the oldest block that was not read since it was last examined.",
        WTinyLfu "w-tinylfu" "Evicts a rarely used block; new blocks enter a queue of 1 % first.",
        WTinyLfu10 "w-tinylfu-10" "The same with a queue of 10 %.",
    }
}

words! {
    /// Blocks that are cached again after a restart.
    Warm {
        List "list" "Lists of the hot blocks, and of the blocks read in the first minutes, are saved. \
                     After a restart the latter are read ahead of clients, and then the hot \
                     blocks, hottest first.",
        Off "off" "The cache starts empty, and no lists are saved.",
    }
}

words! {
    /// The compression of evicted blocks.
    Compress {
        Off "off" "Evicted blocks are dropped.",
        Auto "auto" "As lz4, while the hits that this brings save more time than it costs.",
        Lz4 "lz4" "Evicted clean blocks that become smaller by 17 % are kept compressed, in up to \
                   three quarters of the memory; a hit of one takes some microseconds more.",
        Zstd "zstd" "As lz4, with Zstandard: the blocks become smaller by another fifth to third, \
                     and their compression and hits take about three times as long.",
    }
}

words! {
    /// Knowledge of the files on a volume.
    Files {
        Off "off" "The files on the volume are not looked at.",
        Auto "auto" "A map of the volume's files is made, and made anew in at most a hundredth of \
                     the time. Blocks are kept by the class of their file, as far as this saves \
                     reads.",
    }
}

words! {
    /// How requests are handled while the link to the backing is down.
    LinkDown {
        Fail "fail" "As for a backing that does not answer: the volume fails after retry-time.",
        Wait "wait" "Requests wait for the link as long as it takes, and nothing fails.",
        ServeClean "serve-clean" "Reads of cached data continue, and other requests get errors until \
                                  the link is up again. The volume does not fail.",
    }
}

words! {
    /// The guarantee of a completed flush or FUA write.
    Durability {
        Flush "flush" "A completed flush or FUA write is on the backing, and the backing was flushed.",
        Ordered "ordered" "Flushes and FUA writes are answered immediately. A power cut may lose \
                           the newest of them, up to dirty-age, but keeps the order: a flushed \
                           write is only there if all writes flushed before it are.",
        Scratch "scratch" "Flushes are ignored. For volumes that are discarded after a power cut.",
    }
}

macro_rules! spec {
    ($(
        $key:ident: $type:ty = $usual:expr, $field:ident $(=> $engine:ident)? $(-> $change:ident)?
        $(in $least:expr, $most:expr)?, $meaning:literal;
    )*) => {
        /// The cache as data. Times are in milliseconds.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct CacheSpec { $(#[doc = $meaning] pub $field: $type,)* }

        impl Default for CacheSpec {
            fn default() -> CacheSpec {
                CacheSpec { $($field: $usual,)* }
            }
        }
    };
}

cache_settings!(spec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for mode in WriteMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(*mode));
            assert_eq!(serde_json::json!(mode), serde_json::json!(mode.word()));
        }
        for durability in Durability::ALL {
            assert_eq!(durability.word().parse(), Ok(*durability));
            assert!(durability.meaning().ends_with('.'));
        }
        assert_eq!(
            (WriteMode::default(), Durability::default()),
            (WriteMode::Back, Durability::Flush)
        );
        let wrong = "scr".parse::<Durability>().expect_err("typed in full");
        assert_eq!(wrong, "'scr': flush, ordered or scratch");
    }

    #[test]
    fn a_spec_of_nothing_is_the_default() {
        let read: CacheSpec = serde_json::from_str("{}").expect("plain data");
        assert_eq!(read, CacheSpec::default());
        let text = serde_json::to_value(&read).expect("plain data");
        for key in ["memory", "write", "dirty_bytes", "dirty_age_ms", "retry_time_ms", "guard"] {
            assert!(text.get(key).is_some(), "{key}");
        }
    }
}
