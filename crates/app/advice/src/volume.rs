//! A verdict on a volume in words: how much of the cache is used, its benefit, and what limits it.

use block::{Durability, Size};
use cache::Counters;
use daemon::control::statistics::Statistics;
use daemon::control::words::State;
use daemon::units::nanoseconds as time;

/// The numbers on which the sentences are based.
struct Verdict<'a>(&'a Statistics);

/// Returns the verdict on a volume's statistics, one sentence each, the most important first.
pub fn of(stats: &Statistics) -> Vec<String> {
    let verdict = Verdict(stats);
    let sentences = [
        verdict.state(),
        verdict.errors(),
        verdict.losses(),
        verdict.compression(),
        verdict.memory(),
        verdict.reads(),
        verdict.readahead(),
        verdict.taken_over(),
        verdict.start_up_list(),
        verdict.warm_list(),
        verdict.uncached_reads(),
        verdict.writes(),
        verdict.written_through(),
        verdict.slowed(),
        verdict.flush(),
        verdict.bypass(),
    ];
    sentences.into_iter().flatten().collect()
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / all.max(1) as f64)
}

/// Returns the part of an amount that falls on a minute of this time.
fn per_minute(amount: u64, time_ns: u64) -> u64 {
    (amount as f64 * 6e10 / time_ns.max(1) as f64) as u64
}

fn blocks(count: u64) -> Size {
    Size(count * 4096)
}

/// Returns the largest of these reasons, if any is positive: its number and its sentence.
fn most<'a>(reasons: &[(u64, &'a str)]) -> Option<(u64, &'a str)> {
    reasons.iter().copied().max_by_key(|(number, _)| *number).filter(|(number, _)| *number > 0)
}

impl Verdict<'_> {
    fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn state(&self) -> Option<String> {
        let sentence = match self.0.state {
            State::Failed => {
                "It has failed: dirty data cannot be written to the backing; repair it, then see \
                 'overdrive volume clear-error --help'."
            }
            State::LinkDown => return Some(self.link_down()),
            State::Stalled => {
                "Its backing does not answer: requests that need it fail until it answers."
            }
            State::Lost => {
                "Its memory was lost while its device was in use: every request fails until \
                 'overdrive detach'."
            }
            State::Frozen => "It is frozen: changes wait until 'overdrive volume resume'.",
            State::Paused => {
                "It is paused: all requests bypass the cache until 'overdrive volume resume'."
            }
            State::Ending => "It is ending: dirty data is being written back.",
            State::Serving | State::Orphaned | State::Waiting | State::NoAnswer => return None,
        };
        Some(sentence.to_owned())
    }

    fn link_down(&self) -> String {
        let link = self.0.link.clone().unwrap_or_default();
        let (since, consequence) = (time(link.down_since_ns), link.consequence());
        format!("The link to its backing's server has been down for {since}: {consequence}.")
    }

    fn errors(&self) -> Option<String> {
        let backing = &self.0.backing;
        let errors = Some(backing.errors).filter(|errors| *errors > 0)?;
        let kinds = match backing.errors_by_kind.sum() {
            // An older daemon, which does not count kinds.
            0 => String::new(),
            _ => format!(" ({})", backing.errors_by_kind),
        };
        let requests = if errors == 1 { "request" } else { "requests" };
        Some(format!(
            "The backing has failed {errors} {requests}{kinds}; see the daemon's log, and check \
             the disk below."
        ))
    }

    fn losses(&self) -> Option<String> {
        let missing = self.0.losses.sentence()?;
        Some(format!("Since its daemon began: {missing}."))
    }

    fn memory(&self) -> Option<String> {
        if !self.0.has_cache() {
            return Some("It has no cache (--memory 0): every request goes to the backing.".into());
        }
        let evicted = match self.counters().evictions {
            0 => "no block had to be evicted yet".to_owned(),
            evicted => format!("{} were evicted to make room", blocks(evicted)),
        };
        let memory = Size(self.0.memory_bytes);
        Some(format!(
            "It uses {} of {memory} of memory; {evicted}.",
            blocks(self.counters().blocks_held)
        ))
    }

    /// Returns the sentence on compressed blocks: how much more memory holds because of them, and
    /// what they have cost and saved.
    fn compression(&self) -> Option<String> {
        let counters = self.counters();
        let tried = counters.blocks_compressed();
        let paused = match counters.compression_paused {
            0 => "",
            _ => " It is paused, because it would cost more than it saves at the moment.",
        };
        if tried == 0 {
            return (!paused.is_empty()).then(|| format!("No block has been compressed.{paused}"));
        }
        let took = time(counters.compression_ns);
        if counters.compressed_blocks == 0 {
            return Some(format!(
                "No compressed blocks are held: {} of {tried} compressed blocks did not become \
                 small enough; that took {took} of a processor.{paused}",
                percent(counters.compressed_refused, tried),
            ));
        }
        let held = counters.blocks_held + counters.compressed_blocks;
        let used = counters.blocks_held + counters.compressed_slots;
        let hits = counters.compressed_hits;
        // A hit is also decoded, which takes less than half of the time of a compression.
        let hit_ns = counters.hit_ns + counters.compression_ns / tried / 2;
        let saved_ns = hits.saturating_mul(counters.backing_read_ns.saturating_sub(hit_ns));
        let (cost, saved) = match counters.compression_on_ns {
            // An older daemon does not report that time.
            0 => (took, format!("{} of waiting", time(saved_ns))),
            on_ns => (
                percent(counters.compression_ns, on_ns),
                format!("{} of waiting a minute", time(per_minute(saved_ns, on_ns))),
            ),
        };
        Some(format!(
            "By compression it holds {:.1} times its memory ({}); that cost {cost} of a processor, \
             and saved {saved} ({hits} reads).{paused}",
            held as f64 / used as f64,
            blocks(held),
        ))
    }

    fn reads(&self) -> Option<String> {
        if !self.0.has_cache() {
            return None;
        }
        let hits = self.counters().read_hits;
        let all = hits + self.counters().read_misses + self.counters().read_joins;
        if all == 0 {
            return Some("No reads yet.".to_owned());
        }
        let mut sentence = format!("{} of {all} reads came from memory", percent(hits, all));
        let (hit_ns, backing_ns) = (self.counters().hit_ns, self.counters().backing_read_ns);
        if hits > 0 && hit_ns > 0 && backing_ns > 0 {
            let (hit, backing) = (time(hit_ns), time(backing_ns));
            sentence += &format!(": {hit} each, as sampled, while the backing takes {backing}");
        }
        Some(sentence + ".")
    }

    /// Returns the sentence on readahead: how much was read ahead, and how much of it was used.
    fn readahead(&self) -> Option<String> {
        let Counters { readahead_issued: issued, readahead_used: used, .. } = *self.counters();
        let late = self.counters().readahead_late;
        (issued > 0).then(|| {
            format!(
                "{} were read ahead of sequential reads; {} of them were used, and {late} reads \
                 had to wait for one.",
                blocks(issued),
                percent(used, issued),
            )
        })
    }

    /// Returns the sentence on the blocks that an earlier process has left in memory.
    fn taken_over(&self) -> Option<String> {
        let Counters { blocks_retained: taken, blocks_retained_used: used, .. } = *self.counters();
        let Counters { blocks_recovered: unwritten, takeover_ns, .. } = *self.counters();
        let wasted = self.counters().blocks_retained_wasted;
        // An older daemon does not report the time.
        let took = match takeover_ns {
            0 => String::new(),
            ns => format!(" in {}", time(ns)),
        };
        if taken == 0 && unwritten > 0 {
            let unwritten = blocks(unwritten);
            return Some(format!(
                "{unwritten} of unwritten data were taken over from an earlier process{took}."
            ));
        }
        (taken > 0).then(|| {
            format!(
                "{} of cached data were taken over from an earlier process{took}; {} of them were \
                 used, and {} were evicted or replaced unused.",
                blocks(taken),
                percent(used, taken),
                percent(wasted, taken),
            )
        })
    }

    /// Returns the sentence on the start-up list that was read at the start.
    fn start_up_list(&self) -> Option<String> {
        let Counters { start_listed: listed, start_cached: cached, .. } = *self.counters();
        let Counters { start_used: used, start_wasted: wasted, .. } = *self.counters();
        if listed == 0 {
            return None;
        }
        let how = match self.counters().start_state {
            1 => "is followed",
            2 => "was followed until that gained less than it cost or the backing failed a read",
            _ => "was followed",
        };
        Some(format!(
            "The start-up list ({}) {how}: {} were read ahead in {}, of which {} were used, and {} \
             were evicted or changed unused.",
            blocks(listed),
            blocks(cached),
            time(self.counters().start_ns),
            percent(used, cached),
            percent(wasted, cached),
        ))
    }

    /// Returns the sentence on the list of hot blocks that was read at the start.
    fn warm_list(&self) -> Option<String> {
        let Counters { warm_listed: listed, warm_cached: cached, .. } = *self.counters();
        let Counters { warm_used: used, warm_wasted: wasted, .. } = *self.counters();
        if listed == 0 {
            return None;
        }
        let took = time(self.counters().warm_ns);
        let how = match self.counters().warm_state {
            1 => format!("is being read back, for {took} until now"),
            2 => format!(
                "was read back for {took}, until that gained less than it cost or the backing \
                 failed a read"
            ),
            _ => format!("was read back in {took}"),
        };
        Some(format!(
            "The list of hot blocks ({}) {how}: {} were cached, of which {} were used, and {} were \
             evicted or changed unused.",
            blocks(listed),
            blocks(cached),
            percent(used, cached),
            percent(wasted, cached),
        ))
    }

    /// Returns the reason why reads are not cached, if that applies to a large part of them.
    fn uncached_reads(&self) -> Option<String> {
        let misses = self.counters().read_misses;
        let reasons = [
            (
                self.counters().bypass_sequential,
                "they belong to long sequential streams, such as copies and scans, which would \
                 evict everything else",
            ),
            (self.counters().bypass_not_admitted, "the policy values the cached blocks higher"),
            (
                self.counters().bypass_guard,
                "they bypass the cache while caching costs more than it gains: the backing is \
                 fast, blocks are not read again, or processors are busy",
            ),
            (self.counters().bypass_no_slot, "dirty data fills the memory"),
        ];
        if self.0.write == "none" && misses > 0 && self.0.state != State::Paused {
            return Some("Reads are not cached: the write mode is none.".to_owned());
        }
        let (number, why) = most(&reasons)?;
        (number * 4 > misses)
            .then(|| format!("{number} of {misses} misses were not cached: {why}."))
    }

    fn writes(&self) -> Option<String> {
        if !self.0.has_cache() {
            return None;
        }
        let asked = self.counters().asked_write_bytes;
        if self.counters().changes == 0 {
            return Some("No writes yet.".to_owned());
        }
        Some(format!(
            "Clients wrote {}; {} were absorbed, and {} of that never had to be written back.",
            Size(asked),
            blocks(self.counters().blocks_absorbed),
            blocks(self.counters().blocks_saved),
        ))
    }

    /// Returns the reason why changes bypassed the cache, if a large part of them did.
    fn written_through(&self) -> Option<String> {
        let (passes, changes) = (self.counters().writes_through, self.counters().changes);
        if passes * 4 <= changes {
            return None;
        }
        let reasons = [
            (
                self.counters().writes_through_unproven,
                "no write is absorbed until a connected client has flushed (--write back-now \
                 does not wait for that)",
            ),
            (self.counters().writes_through_mode, "the write mode absorbs no writes"),
            (self.counters().writes_through_fua, "their clients require each to be durable (FUA)"),
            (self.counters().writes_through_large, "they are large"),
            (self.counters().writes_through_full, "the write buffer was full"),
            (self.counters().writes_through_late, "dirty data was older than dirty_age"),
            (self.counters().writes_through_guard, "they bypassed the cache"),
        ];
        let (_, why) = most(&reasons)?;
        let word = if passes == changes { "All" } else { "Most" };
        Some(match passes * 2 > changes {
            true => format!("{word} changes ({passes} of {changes}) were written through: {why}."),
            false => {
                format!("{passes} of {changes} changes were written through, most because {why}.")
            }
        })
    }

    fn slowed(&self) -> Option<String> {
        let slowed = self.counters().changes_slowed;
        if slowed == 0 {
            return None;
        }
        let rate = match self.counters().drain_blocks_per_second {
            0 => String::new(),
            rate => format!(", and the backing writes {} per second", Size(rate * 4096)),
        };
        let limit = self.counters().dirty_blocks_max.min(self.counters().allowance_blocks);
        Some(format!(
            "Writers were throttled for {} (summed over {slowed} changes) because the write \
             buffer was nearly full: it may hold {}{rate}.",
            time(self.counters().slowed_ns),
            Size(limit * 4096),
        ))
    }

    fn flush(&self) -> Option<String> {
        if self.counters().blocks_dirty == 0 {
            return None;
        }
        let epochs =
            match (self.0.durability == Some(Durability::Ordered), self.counters().epochs_closed) {
                (true, closed @ 2..) => {
                    format!(", with a flush of the backing for each of {closed} epochs")
                }
                _ => String::new(),
            };
        Some(format!(
            "{} are not durable on the backing, for up to {}; flushing them would take about \
             {}{epochs}.",
            blocks(self.counters().blocks_dirty),
            time(self.counters().dirty_age_ns),
            time(self.counters().flush_predicted_ns),
        ))
    }

    fn bypass(&self) -> Option<String> {
        let guard = self.0.guard.as_ref()?;
        let why = guard.reads_bypass.as_ref().or(guard.writes_bypass.as_ref())?;
        Some(format!("Requests bypass the cache now: {why}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(counters: Value, more: Value) -> String {
        let mut stats = json!({
            "volume": "v", "state": "serving", "memory_bytes": 8 << 20, "write": "back",
            "durability": "flush", "counters": counters, "backing": {}, "guard": {},
        });
        let more = more.as_object().expect("keys").clone();
        stats.as_object_mut().expect("keys").extend(more);
        of(&serde_json::from_value(stats).expect("statistics")).join("\n")
    }

    fn has(said: &str, words: &[&str]) {
        for word in words {
            assert!(said.contains(word), "no '{word}' in:\n{said}");
        }
    }

    #[test]
    fn a_volume_that_was_not_used_yet_says_so() {
        let fresh = said(json!({}), json!({}));
        has(&fresh, &["0 B of 8 MiB of memory; no block had to be evicted", "No reads yet"]);
        has(&fresh, &["No writes yet"]);
        assert!(!fresh.contains("because"), "{fresh}");
        has(&said(json!({}), json!({ "memory_bytes": 0 })), &["no cache (--memory 0)"]);
    }

    #[test]
    fn what_is_used_and_what_it_brings_is_said() {
        let counters = json!({
            "blocks_held": 1024, "evictions": 512, "read_hits": 75, "read_misses": 25,
            "hit_ns": 900, "backing_read_ns": 100_000, "changes": 10, "asked_write_bytes": 40_960,
            "blocks_absorbed": 10, "blocks_saved": 5, "blocks_dirty": 5, "dirty_age_ns": 2_000_000_000u64,
            "flush_predicted_ns": 300_000_000, "epochs_closed": 4,
        });
        let used = said(counters.clone(), json!({}));
        has(&used, &["4 MiB of 8 MiB", "2 MiB were evicted", "75.0 % of 100 reads", "900 ns each"]);
        has(
            &used,
            &[
                "Clients wrote 40 KiB",
                "20 KiB of that never",
                "20 KiB are not durable",
                "300.0 ms.",
            ],
        );
        let ordered = said(counters, json!({ "durability": "ordered" }));
        has(&ordered, &["a flush of the backing for each of 4 epochs"]);
    }

    #[test]
    fn what_compression_costs_and_brings_is_said() {
        let counters = json!({
            "blocks_held": 1024, "compressed_blocks": 2304, "compressed_slots": 768,
            "compressed_stored": 3000, "compressed_refused": 100, "compressed_hits": 500,
            "compression_ns": 12_000_000, "hit_ns": 900, "backing_read_ns": 100_900,
        });
        has(
            &said(counters.clone(), json!({})),
            &[
                "it holds 1.9 times its memory (13 MiB)",
                "cost 12.0 ms of a processor, and saved 49",
            ],
        );
        let mut timed = counters;
        timed["compression_on_ns"] = 3_000_000_000u64.into();
        let first = "By compression it holds 1.9 times its memory (13 MiB); that cost 0.4 % of a \
                     processor, and saved 980.6 ms of waiting a minute (500 reads).";
        let timed = said(timed, json!({}));
        assert!(timed.starts_with(first), "{timed}");
        let media = json!({ "compressed_refused": 300, "compression_ns": 300_000 });
        has(&said(media, json!({})), &["No compressed blocks are held: 100.0 % of 300"]);
        let paused = json!({ "compression_paused": 1 });
        has(&said(paused, json!({})), &["compressed. It is paused, because it would cost more"]);
        assert!(!said(json!({}), json!({})).contains("compress"));
    }

    #[test]
    fn why_nothing_is_kept_or_absorbed_is_said() {
        let unproven = json!({ "changes": 9, "writes_through": 9, "writes_through_unproven": 8, "writes_through_large": 1 });
        has(
            &said(unproven, json!({})),
            &["All changes (9 of 9)", "until a connected client has flushed"],
        );
        let through = json!({ "changes": 9, "writes_through": 9, "writes_through_mode": 9 });
        has(&said(through, json!({})), &["the write mode absorbs no writes"]);
        let few = json!({ "changes": 90, "writes_through": 9, "writes_through_large": 9 });
        assert!(
            !said(few, json!({})).contains("were written through"),
            "a tenth need no explanation"
        );
        let scans = json!({ "read_misses": 10, "bypass_sequential": 9, "bypass_not_admitted": 1 });
        has(&said(scans, json!({})), &["9 of 10 misses were not cached", "copies and scans"]);
        let ahead = json!({ "readahead_issued": 512, "readahead_used": 384, "readahead_late": 7 });
        has(&said(ahead, json!({})), &["2 MiB were read ahead", "75.0 %", "7 reads had to wait"]);
        let warm = json!({
            "warm_listed": 1024, "warm_cached": 512, "warm_used": 384, "warm_wasted": 64,
            "warm_ns": 2_000_000_000u64, "warm_state": 1,
        });
        let reading = said(warm.clone(), json!({}));
        has(&reading, &["The list of hot blocks (4 MiB) is being read back, for 2.0 s until now"]);
        has(&reading, &["2 MiB were cached, of which 75.0 % were used, and 12.5 % were evicted"]);
        let mut done = warm;
        done["warm_state"] = 0.into();
        has(&said(done.clone(), json!({})), &["was read back in 2.0 s:"]);
        done["warm_state"] = 2.into();
        has(&said(done, json!({})), &["gained less than it cost"]);
        let taken = json!({
            "blocks_retained": 512, "blocks_retained_used": 384, "blocks_retained_wasted": 64,
        });
        let taken = said(taken, json!({}));
        has(&taken, &["2 MiB of cached data were taken over", "75.0 % of them were used"]);
        has(&taken, &["12.5 % were evicted or replaced unused"]);
        let took = json!({ "blocks_retained": 512, "takeover_ns": 30_000_000 });
        has(&said(took, json!({})), &["taken over from an earlier process in 30.0 ms; 0.0 %"]);
        let unwritten = json!({ "blocks_recovered": 512, "takeover_ns": 30_000_000 });
        has(
            &said(unwritten, json!({})),
            &["2 MiB of unwritten data were taken over", "in 30.0 ms."],
        );
        let mut start = json!({
            "start_listed": 1024, "start_cached": 512, "start_used": 384, "start_wasted": 64,
            "start_ns": 2_000_000_000u64, "start_state": 1,
        });
        let followed = said(start.clone(), json!({}));
        has(&followed, &["The start-up list (4 MiB) is followed: 2 MiB were read ahead in 2.0 s"]);
        has(&followed, &["of which 75.0 % were used, and 12.5 % were evicted"]);
        start["start_state"] = 2.into();
        has(&said(start, json!({})), &["until that gained less than it cost"]);
        let none = said(json!({ "read_misses": 10 }), json!({ "write": "none" }));
        has(&none, &["the write mode is none"]);
        let guard = json!({ "reads_aside": "processors are busy" });
        has(
            &said(json!({}), json!({ "guard": guard })),
            &["bypass the cache", "processors are busy"],
        );
    }

    #[test]
    fn what_holds_clients_up_is_said_with_its_cause() {
        let counters = json!({
            "changes_slowed": 1234, "slowed_ns": 9_500_000_000u64, "drain_blocks_per_second": 2560,
            "dirty_blocks_max": 512, "allowance_blocks": 256,
        });
        let slowed = said(counters, json!({}));
        has(&slowed, &["throttled for 9.5 s (summed over 1234 changes) because", "may hold 1 MiB"]);
        has(&slowed, &["writes 10 MiB per second"]);
        let broken = said(json!({}), json!({ "state": "failed", "backing": { "errors": 3 } }));
        has(&broken, &["It has failed", "has failed 3 requests;"]);
        let kinds = json!({ "errors": 6, "errors_by_kind": { "writes": 5, "discards": 1 } });
        let errors = said(json!({}), json!({ "backing": kinds }));
        let first = "The backing has failed 6 requests (5 writes, 1 discard)";
        assert!(errors.starts_with(first), "{errors}");
    }
}
