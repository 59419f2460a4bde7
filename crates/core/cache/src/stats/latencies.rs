//! The latencies that a volume's cache measures: one definition gives the fields, their
//! documentation and the texts of [`Histograms::explained`].

use histogram::{Histogram, Snapshot};
use serde::{Deserialize, Serialize};

macro_rules! histograms {
    ($($(#[doc = $doc:literal])+ $name:ident: $label:literal,)*) => {
        /// The latencies of a volume's cache, each as a histogram in nanoseconds.
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Histograms { $($(#[doc = $doc])+ pub $name: Snapshot,)* }

        /// The histograms in which the latencies are counted.
        #[derive(Default)]
        pub(crate) struct Latencies { $(pub(crate) $name: Histogram,)* }

        impl Latencies {
            pub(crate) fn snapshot(&self) -> Histograms {
                Histograms { $($name: self.$name.snapshot(),)* }
            }
        }

        impl Histograms {
            /// Calls `each` with every histogram and its name, in the order of the definition.
            pub fn each(&self, mut each: impl FnMut(&'static str, &Snapshot)) {
                $(each(stringify!($name), &self.$name);)*
            }

            /// Returns the description of every histogram, in the same order: its name, its label
            /// in a table, and the documentation of its field.
            pub fn explained() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
                [$((stringify!($name), $label, concat!($($doc),+).trim_ascii()),)*].into_iter()
            }

            /// Returns the counts since an earlier snapshot.
            pub fn since(&self, earlier: &Histograms) -> Histograms {
                Histograms { $($name: self.$name.since(&earlier.$name),)* }
            }

            /// Adds the counts of another one.
            pub fn merge(&mut self, other: &Histograms) {
                $(self.$name.merge(&other.$name);)*
            }
        }
    };
}

histograms! {
    /// Reads answered from memory, as sampled by the layer that has a clock: from the request's
    /// arrival to its answer, without the transmission to the client.
    hit_ns: "hit (sampled)",
    /// Reads that the backing answered; each part of a read that was fetched separately counts.
    /// From the decision to fetch until the data arrived, to the loop's round. Reads that the
    /// backing answers immediately are not included.
    miss_ns: "miss (fetch)",
    /// Flushes of clients, from their arrival to their answer, including errors, to the loop's
    /// round.
    flush_ns: "flush (client's)",
    /// Writeback requests to the backing, including failed ones, to the loop's round.
    run_ns: "write-out request",
    /// Commits of epochs: from the start of the commit until the epoch was durable, including
    /// retries and the flush of the backing, to the loop's round.
    write_out_ns: "write-out of an epoch",
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_histogram_is_explained() {
        let mut names = Vec::new();
        Histograms::default().each(|name, _| names.push(name));
        let explained: Vec<_> = Histograms::explained().collect();
        assert_eq!(names, explained.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        assert!(explained.iter().all(|(.., meaning)| meaning.len() > 20 && meaning.ends_with('.')));
        assert!(explained.iter().all(|(_, label, _)| !label.is_empty()));
    }
}
