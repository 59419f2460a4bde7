//! Backings as users write them, right and wrong.

mod any;

use lane::Random;

/// Backings that are right, and parts of others.
const PARTS: [&str; 29] = [
    "limit:",
    "iops",
    "bandwidth",
    "burst",
    "=",
    ",",
    ":",
    "3000",
    "125M",
    "30s",
    "0",
    "1T",
    "ms",
    "ram:1G",
    "null:4K",
    "pool:",
    "stripe:",
    "missing",
    "/dev/sdb",
    "a.img",
    "é",
    "%00",
    "nbds://",
    "nbd+unix://",
    "host",
    "?",
    "&",
    "socket=/s",
    "tls-certificates=c",
];
const WHOLE: [&str; 6] = [
    "limit:iops=3000,bandwidth=125M,burst=30s:/dev/sdb",
    "limit:iops=3000:limit:iops=300,burst=18000s:ram:1G",
    "limit:bandwidth=4K:stripe:a.img,b.img",
    "pool:a.img,missing,b.img",
    "nbds://[::1]:99/a%20b?tls-certificates=c&tls-hostname=host",
    "limit:iops=1:nbds+unix:///a?socket=/s&tls-certificates=/c&tls-hostname=host",
];

/// Returns a text of random parts, or a right backing with random changes.
fn text(random: &mut Random) -> String {
    let pick =
        |random: &mut Random, of: &[&'static str]| of[random.below(of.len() as u64) as usize];
    if random.one_in(2) {
        return (0..random.below(12)).map(|_| pick(random, &PARTS)).collect();
    }
    let mut letters: Vec<char> = pick(random, &WHOLE).chars().collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(letters.len() as u64) as usize;
        match random.below(3) {
            0 => drop(letters.remove(at)),
            1 => letters.insert(at, letters[random.below(letters.len() as u64) as usize]),
            _ => letters[at] = char::from(b' ' + random.below(95) as u8),
        }
    }
    letters.into_iter().collect()
}

#[test]
fn any_text_is_parsed_or_refused() {
    let mut random = Random::new(1);
    WHOLE.into_iter().for_each(any::check);
    for _ in 0..20_000 {
        any::check(&text(&mut random));
    }
}
