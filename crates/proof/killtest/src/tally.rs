//! Counts of a run.

use std::time::Duration;

/// The counts of a run.
#[derive(Clone, Default, Debug, serde::Serialize)]
pub struct Tally {
    /// Lives of the daemon.
    pub lives: u64,
    /// Of these, lives with `ordered` durability.
    pub ordered: u64,
    /// Lives that took over from one with another durability.
    pub changed: u64,
    /// SIGKILLs of the daemon; the following five counts are among them.
    pub kills: u64,
    /// Before it served.
    pub kills_early: u64,
    /// While clients were still verifying the recovered data.
    pub kills_verifying: u64,
    /// At a chosen request of the backing.
    pub kills_at_points: u64,
    /// With requests in progress, whose connections broke.
    pub kills_loaded: u64,
    /// During a flush of the backing that failed after the kill.
    pub flushes_lost: u64,
    /// Lives that began in doubt about a flush, so that the first flush of every client had to
    /// fail.
    pub doubts: u64,
    /// Of these, lives of volumes whose order was promised, which had failed and were cleared.
    pub orders_doubted: u64,
    /// Flushes that failed for that reason.
    pub flushes_doubted: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Power cuts at a chosen request of the backing.
    pub cuts_at_points: u64,
    /// Power cuts of daemons with `ordered` durability.
    pub cuts_ordered: u64,
    /// Power cuts after an operator's flush.
    pub flushes: u64,
    /// Power cuts once nothing was dirty.
    pub quiets: u64,
    /// Units of 4 KiB that were not flushed when the power was cut.
    pub units_unflushed: u64,
    /// Of these, units that were reset to the flushed version.
    pub units_lost: u64,
    /// Units whose newest version a failed flush had dropped.
    pub units_given_up: u64,
    /// Stops by SIGTERM.
    pub stops: u64,
    /// Starts with another size of memory after a kill.
    pub settles: u64,
    /// Upgrades.
    pub upgrades: u64,
    /// Holders killed while the daemon lived on.
    pub holders: u64,
    /// Freezes.
    pub freezes: u64,
    /// Lives in which compression was switched several times; the next two counts are of these.
    pub switches: u64,
    /// Blocks that were compressed.
    pub compressed_stored: u64,
    /// Blocks that were answered from the compressed tier.
    pub compressed_used: u64,
    /// Failed volumes that were repaired.
    pub retries: u64,
    /// Failed volumes whose dirty data was rescued to a file.
    pub rescues: u64,
    /// Bytes in the rescue files.
    pub rescued_bytes: u64,
    /// Answered requests of clients.
    pub requests: u64,
    /// Of these, with an expected error.
    pub errors: u64,
    /// Bytes read by clients and judged.
    pub judged_bytes: u64,
    /// Bytes of acknowledged writes that daemons found retained.
    pub recovered_bytes: u64,
    /// Starts that found retained data.
    pub recoveries: u64,
    /// From the start of each daemon until clients could connect, in nanoseconds.
    #[serde(skip)]
    pub serving: Vec<Duration>,
    /// For each power cut of an `ordered` daemon after which an acknowledged change is missing: the
    /// age of the oldest one.
    #[serde(skip)]
    pub ages: Vec<Duration>,
}

/// The median and the maximum, in milliseconds.
fn median_and_most_ms(times: &[Duration]) -> (f64, f64) {
    let mut all = times.to_vec();
    all.sort();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    (ms(all.get(all.len() / 2)), ms(all.last()))
}

impl Tally {
    /// The median and the maximum of the times from start to serving, in milliseconds.
    pub fn serving_ms(&self) -> (f64, f64) {
        median_and_most_ms(&self.serving)
    }

    /// The median and the maximum of [`Tally::ages`], in milliseconds.
    pub fn ages_ms(&self) -> (f64, f64) {
        median_and_most_ms(&self.ages)
    }

    /// Returns the report printed at the end.
    pub fn report(&self, seconds: f64) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (median, most) = self.serving_ms();
        let (age, oldest) = self.ages_ms();
        format!(
            "{} lives of the daemon in {seconds:.0} s, {} of them ordered, {} after one of the other \
             durability\n\
             {} kills: {} at a chosen request, {} before it served, {} while its recovery was \
             read, {} under load, {} in a flush that failed later\n\
             {} lives in doubt about a flush, {} of them about the order, {} flushes that failed \
             for that\n\
             {} power cuts ({} at a chosen request, {} after an operator's flush, {} when nothing \
             was dirty): {} unflushed units, {} of them lost; {} given up by failed flushes\n\
             {} power cuts of ordered lives, {} of them lost something acknowledged, which was at \
             most {age:.0} ms (median), {oldest:.0} ms (most) old\n\
             {} stops, {} other sizes, {} upgrades, {} holders killed, {} freezes, {} mended, {} \
             rescued ({:.1} MiB)\n\
             {} switches of compression: {} blocks compressed, {} answered compressed\n\
             {} requests ({} errors that were due), {:.0} MiB judged\n\
             {:.1} MiB recovered in {} starts; from start to serving {median:.0} ms (median), \
             {most:.0} ms (most)",
            self.lives,
            self.ordered,
            self.changed,
            self.kills,
            self.kills_at_points,
            self.kills_early,
            self.kills_verifying,
            self.kills_loaded,
            self.flushes_lost,
            self.doubts,
            self.orders_doubted,
            self.flushes_doubted,
            self.cuts,
            self.cuts_at_points,
            self.flushes,
            self.quiets,
            self.units_unflushed,
            self.units_lost,
            self.units_given_up,
            self.cuts_ordered,
            self.ages.len(),
            self.stops,
            self.settles,
            self.upgrades,
            self.holders,
            self.freezes,
            self.retries,
            self.rescues,
            mib(self.rescued_bytes),
            self.switches,
            self.compressed_stored,
            self.compressed_used,
            self.requests,
            self.errors,
            mib(self.judged_bytes),
            mib(self.recovered_bytes),
            self.recoveries,
        )
    }
}
