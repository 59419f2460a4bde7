//! Replays the fuzzer's corpus without the fuzzer: all inputs, and some hundred mutations of each
//! kind, generated from a seed.
//!
//! To write missing seeds: `OVERDRIVE_WRITE_SEEDS=1 cargo test -p nbd --test replay`. To search
//! further, run the fuzzer at the root of the workspace, with cargo-fuzz installed:
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run connection` (or `codec`, `client`, `fence`, `tls`). The target
//! `device` has the corpus of `client`: `cargo fuzz run device fuzz/corpus/client`.

mod client;
mod codec;
mod connection;
mod device;
mod fence;
mod seeds;
mod tls;

use lane::Random;
use std::fs;
use std::path::PathBuf;

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target)
}

/// Returns all inputs of a target, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory(target)).expect("the corpus stands in fuzz/corpus");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file that can be read")).collect()
}

fn holds(target: &str, seeds: Vec<(String, Vec<u8>)>) {
    for (name, bytes) in seeds {
        let path = directory(target).join(&name);
        if std::env::var_os("OVERDRIVE_WRITE_SEEDS").is_some() {
            fs::write(&path, &bytes).expect("the corpus can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{target}/{name} is another one; write the seeds again");
    }
}

/// Applies one to four changes: flips a bit, sets a special byte, truncates, or removes, doubles or
/// replaces a piece.
fn mutate(random: &mut Random, from: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = from.to_vec();
    for _ in 0..=random.below(4) {
        let length = bytes.len();
        if length == 0 {
            return other.to_vec();
        }
        let at = random.below(length as u64) as usize;
        let end = at + random.below((length - at) as u64 + 1).min(64) as usize;
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => bytes.truncate(at),
            _ => {
                let from = random.below(other.len() as u64 + 1) as usize;
                let piece = &other[from..other.len().min(from + 200)];
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
    bytes
}

fn mutations(target: &str, count: usize, mut feed: impl FnMut(&[u8])) {
    let corpus = corpus(target);
    let mut random = Random::new(2026);
    for input in &corpus {
        feed(input);
    }
    for index in 0..count {
        let other = &corpus[random.below(corpus.len() as u64) as usize];
        feed(&mutate(&mut random, &corpus[index % corpus.len()], other));
    }
}

/// Peak memory of this process, in KiB.
fn memory_max_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("it is there");
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    number.expect("a number of KiB")
}

#[test]
fn the_corpus_holds_what_clients_say() {
    holds("connection", seeds::connections());
    holds("codec", seeds::messages());
    holds("client", seeds::servers());
    holds("fence", seeds::tables());
    holds("tls", seeds::encrypted());
}

#[test]
fn connections_survive_the_corpus_and_its_mutations() {
    mutations("connection", 500, connection::connection);
    assert!(memory_max_kib() < 256 << 10, "{} KiB", memory_max_kib());
}

#[test]
fn parsers_survive_the_corpus_and_its_mutations() {
    mutations("codec", 50_000, codec::codec);
}

#[test]
fn clients_survive_the_corpus_and_its_mutations() {
    mutations("client", 20_000, client::client);
}

#[test]
fn devices_survive_the_corpus_and_its_mutations() {
    let mut succeeded = 0;
    mutations("client", 2_000, |input| succeeded += device::device(input));
    assert!(succeeded > 0, "no input is a server that answers a read");
}

#[test]
fn fences_survive_the_corpus_and_its_mutations() {
    mutations("fence", 2_000, fence::fence);
}

#[test]
fn tls_survives_the_corpus_and_its_mutations() {
    let mut received = Vec::new();
    mutations("tls", 300, |input| received.push(tls::tls(input)));
    // Bytes before a change arrive, and none after it.
    assert!(received.contains(&0), "all inputs are harmless");
    assert!(received.contains(&tls::DATA_BYTES), "no input is a handshake");
    assert!(received.iter().any(|count| (1..tls::DATA_BYTES).contains(count)), "nothing is cut");
}
