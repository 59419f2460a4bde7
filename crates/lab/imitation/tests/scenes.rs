//! Imitations of generated scenes: caches that chose nothing see the same in both.

use imitation::{DISTANCE_MAX, Judgement, Recorded, imitate, judge};
use lane::Random;
use simulator::families::FAMILIES;
use trace::recording::Entry;
use trace::{Event, Operation};

const WRITE: Operation = Operation::Write { fua: false };

/// Requests of 4 KiB blocks, each at its time.
#[derive(Default)]
struct Scene(Vec<Entry>);

impl Scene {
    fn add(&mut self, operation: Operation, block: u64, blocks: u32) {
        let number = self.0.len() as u64;
        self.0.push(Entry::from(Event {
            time_ns: number * 100_000 + number / 20 * 3_000_000,
            took_ns: Some(80_000 + number % 7 * 30_000),
            operation,
            device: 0,
            first: block * 8,
            sectors: blocks * 8,
            failed: None,
        }));
    }

    fn recorded(self) -> Recorded {
        Recorded { entries: self.0, is_complete: true, ..Recorded::default() }
    }
}

/// A number below `count`; low ones are more frequent, as with Zipf's law of exponent 1.
fn zipf(random: &mut Random, count: u64) -> u64 {
    let part = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (count as f64).powf(part) as u64 - 1
}

/// Reads of skewed blocks, a fifth of them written.
fn skewed() -> Scene {
    let (mut scene, mut random) = (Scene::default(), Random::new(1));
    for _ in 0..60_000 {
        let block = zipf(&mut random, 20_000);
        let operation = if random.one_in(5) { WRITE } else { Operation::Read };
        scene.add(operation, block * 7 % 20_000, 1);
    }
    scene
}

/// A loop that is read again and again beside skewed reads, and scans by large requests.
fn loops_and_scans() -> Scene {
    let (mut scene, mut random) = (Scene::default(), Random::new(2));
    let (mut round, mut scan) = (0, 0);
    for step in 0..60_000 {
        match step / 5_000 % 3 {
            0 => {
                scene.add(Operation::Read, 100_000 + round % 6_000, 1);
                round += 1;
            }
            1 if step % 4 == 0 => {
                scene.add(Operation::Read, 200_000 + scan % 12_000, 32);
                scan += 32;
            }
            _ => scene.add(Operation::Read, zipf(&mut random, 8_000), 1),
        }
    }
    scene
}

/// Users who read, and a burst of writes that reads come back to.
fn with_a_burst_of_writes() -> Scene {
    let (mut scene, mut random) = (Scene::default(), Random::new(3));
    for step in 0..70_000u64 {
        let in_burst = (20_000..35_000).contains(&step);
        match step % 4 {
            0..=2 if in_burst => scene.add(WRITE, 50_000 + zipf(&mut random, 15_000), 4),
            3 if step > 35_000 => scene.add(Operation::Read, 50_000 + zipf(&mut random, 15_000), 4),
            _ => scene.add(Operation::Read, zipf(&mut random, 10_000), 1),
        }
    }
    scene
}

/// Returns the judgement of the imitation; prints each difference if it is not good.
fn judged(name: &str, recorded: &Recorded) -> Judgement {
    let imitation = imitate(recorded, 7, &mut ()).expect("it can be imitated");
    assert_eq!(imitation.entries.len(), recorded.entries.len(), "{name}");
    check_properties(name, recorded, &imitation.entries);
    let judgement = judge(&recorded.entries, &imitation.entries, &mut ()).expect("to its end");
    for one in &judgement.compared {
        let (policy, percent, difference) = (one.policy, one.percent, one.difference());
        println!("{name}: {policy} {percent} %: {:.4} {difference:+.4}", one.recorded);
    }
    println!("{name}: window {}, {} replaced", imitation.window, imitation.replaced);
    judgement
}

/// Operations, sizes and times are those of the recording.
fn check_properties(name: &str, recorded: &Recorded, imitated: &[Entry]) {
    let count = |entries: &[Entry], reads: bool| {
        let those = entries.iter().filter(|entry| entry.event.is_read() == reads);
        those
            .map(|entry| (1, u64::from(entry.event.sectors)))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    for reads in [true, false] {
        assert_eq!(count(&recorded.entries, reads), count(imitated, reads), "{name}");
    }
    assert!(imitated.windows(2).all(|pair| pair[0].event.time_ns <= pair[1].event.time_ns));
    let end = |entries: &[Entry]| entries.last().map_or(0, |entry| entry.event.time_ns);
    let (one, other) = (end(&recorded.entries), end(imitated));
    assert!((other as f64 / one as f64 - 1.0).abs() < 0.01, "{name}: {one}, {other}");
    let took =
        |entries: &[Entry]| -> u64 { entries.iter().filter_map(|entry| entry.event.took_ns).sum() };
    assert_eq!(took(&recorded.entries), took(imitated), "{name}");
}

#[test]
fn caches_see_the_same_in_an_imitation_of_each_scene() {
    let scenes = [
        ("skewed", skewed()),
        ("loops and scans", loops_and_scans()),
        ("burst of writes", with_a_burst_of_writes()),
    ];
    for (name, scene) in scenes {
        let judgement = judged(name, &scene.recorded());
        assert!(judgement.is_good(), "{name}: {:.4}", judgement.worst());
        assert_eq!(judgement.compared.len(), 32);
    }
}

/// Virtual machines that take turns have too many kinds of history at the same time. The judgement
/// says so.
#[test]
fn caches_see_the_same_in_an_imitation_of_each_other_family_of_loads() {
    let mut bad = Vec::new();
    for family in FAMILIES {
        let mut scene = Scene::default();
        for block in family.generate(5, 60_000) {
            scene.add(Operation::Read, block & 0xff_ffff_ffff, 1);
        }
        if !judged(family.name, &scene.recorded()).is_good() {
            bad.push(family.name);
        }
    }
    assert_eq!(bad, ["tenants"]);
}

#[test]
fn an_imitation_is_another_sequence_and_follows_from_its_seed() {
    let recorded = skewed().recorded();
    let one = imitate(&recorded, 7, &mut ()).expect("it can be imitated");
    let again = imitate(&recorded, 7, &mut ()).expect("it can be imitated");
    let other = imitate(&recorded, 8, &mut ()).expect("it can be imitated");
    assert_eq!(one.entries, again.entries);
    assert_ne!(one.entries, other.entries);
    let same = one.entries.iter().zip(&recorded.entries);
    let same = same.filter(|(one, other)| one.event.first == other.event.first).count();
    assert!(same < 15_000, "{same} of 60,000 requests are where they were");
    assert!(one.replaced > 20_000, "{} have another extent", one.replaced);
}

/// An order of requests that is the opposite of the recorded one is judged as bad.
#[test]
fn a_judgement_can_be_negative() {
    let recorded = loops_and_scans().recorded();
    let mut turned = recorded.entries.clone();
    let mut random = Random::new(1);
    for last in (1..turned.len()).rev() {
        turned.swap(last, random.below(last as u64 + 1) as usize);
    }
    let judgement = judge(&recorded.entries, &turned, &mut ()).expect("to its end");
    assert!(judgement.worst() > 2.0 * DISTANCE_MAX, "{:.4}", judgement.worst());
}

#[test]
fn a_trace_of_few_requests_is_refused_in_one_sentence() {
    let mut scene = Scene::default();
    (0..999).for_each(|block| scene.add(Operation::Read, block, 1));
    let refused = imitate(&scene.recorded(), 1, &mut ()).expect_err("too few").to_string();
    assert_eq!(refused, "has 999 reads and writes; an imitation needs at least 1000");
}
