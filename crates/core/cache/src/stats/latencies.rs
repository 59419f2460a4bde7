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
    /// Reads answered from memory, as sampled by the layer that has a clock: from the arrival
    /// of the request to its answer, without the time on the wire to the client.
    hit_ns: "hit (sampled)",
    /// Reads answered by the backing, each separately fetched part of a read: from the decision
    /// to fetch to the arrival of the data, precise to one turn of the event loop. Reads that
    /// the backing answers without a wait are not included.
    miss_ns: "miss (fetch)",
    /// Flushes requested by clients, from their arrival to their answer, including errors,
    /// precise to one turn of the event loop.
    flush_ns: "flush (by client)",
    /// Writeback requests to the backing, including those that failed, precise to one turn of
    /// the event loop.
    run_ns: "writeback request",
    /// Commits of whole epochs: from the closing of an epoch until it was durable, including
    /// retries and the flush of the backing, precise to one turn of the event loop.
    write_out_ns: "commit of an epoch",
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
