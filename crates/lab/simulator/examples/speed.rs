//! Speed of the simulation of each cache, alone, on one thread: block accesses per second.
//!
//! `cargo run --release -p simulator --example speed`

use simulator::{Footprint, Lru};
use std::hint::black_box;
use std::time::Duration;

const ACCESSES: usize = 1 << 23;
const CHUNK: usize = 1 << 14;
/// Slots of 1 GiB.
const SLOTS: u32 = 1 << 18;

/// Returns the processor time of this thread, so that other load counts less.
fn spent() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}

fn print_time(what: &str, work: impl FnOnce()) {
    let before = spent();
    work();
    let seconds = (spent() - before).as_secs_f64();
    let millions = ACCESSES as f64 / seconds / 1e6;
    println!("{what:<40} {millions:6.1} million accesses a second");
}

/// Returns a random number between 0 and 1.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

fn main() {
    let mut state = 7;
    // Ranks with a density of 1/rank over 16 GiB, scattered; and uniform accesses over 2 GiB.
    let span = (1u64 << 22) as f64;
    let zipf: Vec<u64> = (0..ACCESSES)
        .map(|_| (span.powf(random(&mut state)) as u64).wrapping_mul(2_654_435_761) & 0x3f_ffff)
        .collect();
    let uniform: Vec<u64> =
        (0..ACCESSES).map(|_| (random(&mut state) * f64::from(SLOTS) * 2.0) as u64).collect();
    // Requests of 16 blocks.
    let runs: Vec<u64> =
        zipf.iter().take(ACCESSES / 16).flat_map(|run| run * 16..run * 16 + 16).collect();
    let ten: Vec<u32> = (1..=10).map(|tenth| SLOTS / 10 * tenth).collect();
    for (name, blocks) in [("zipf", &zipf), ("uniform", &uniform), ("zipf, runs of 16", &runs)] {
        for (sizes, what) in [(&[SLOTS][..], "LRU, 1 GiB"), (&ten, "LRU, ten sizes to 1 GiB")] {
            print_time(&format!("{name}: {what}"), || {
                let mut lru = Lru::new(sizes);
                blocks.chunks(CHUNK).for_each(|chunk| lru.access_all(chunk));
                black_box(lru.misses(sizes[0]));
            });
        }
        print_time(&format!("{name}: footprint"), || {
            let mut footprint = Footprint::default();
            blocks.iter().for_each(|block| footprint.add(*block));
            black_box(footprint.count());
        });
    }
}
