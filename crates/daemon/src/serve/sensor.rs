//! The guard's senses: how processors are to be had, read from the kernel on the lane itself.
//!
//! Two files of a few bytes, opened once: `/proc/thread-self/schedstat`, how long this thread has run
//! and how long it was ready and waited; and `/proc/pressure/cpu` (PSI), how long any task has. Where
//! there are both, the smaller tells: tasks wait for a processor, and this thread is among them.

use super::captive::either;
use super::site::Site;
use cache::{Aside, Pressure, Standing};
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use uring::Ring;

/// Between two looks, in nanoseconds.
const WINDOW_NS: u64 = 50_000_000;
/// Between two messages, in nanoseconds.
const TELL_NS: u64 = 1_000_000_000;

/// What the kernel has counted, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Reading {
    at: u64,
    ran: u64,
    waited: u64,
    stalled: Option<u64>,
}

/// The senses of a lane's thread.
struct Senses {
    thread: Option<OwnedFd>,
    pressure: Option<OwnedFd>,
    before: Reading,
}

fn open(path: &str) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn read<T>(file: Option<&OwnedFd>, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; 256];
    let length = rustix::io::pread(file?, &mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// `RAN WAITED SLICES`, in nanoseconds.
fn of_thread(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`, and another line.
fn of_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

/// Thousandths.
fn share(part: u64, whole: u64) -> u32 {
    (u128::from(part) * 1000 / u128::from(whole.max(1))).min(1000) as u32
}

/// How processors were to be had between two readings.
fn between(before: &Reading, now: &Reading, knows_thread: bool) -> Pressure {
    let elapsed = now.at.saturating_sub(before.at);
    let stalled = now.stalled.zip(before.stalled);
    let stalled = stalled.map(|(now, before)| share(now.saturating_sub(before), elapsed));
    if !knows_thread {
        return Pressure { waited: stalled.unwrap_or(0), wanted: 1000 };
    }
    let waited = now.waited.saturating_sub(before.waited);
    let wanted = waited + now.ran.saturating_sub(before.ran);
    let own = share(waited, wanted);
    Pressure {
        waited: stalled.map_or(own, |stalled| own.min(stalled)),
        wanted: share(wanted, elapsed),
    }
}

impl Senses {
    /// To be called on the lane's thread.
    fn open() -> Senses {
        let thread = open("/proc/thread-self/schedstat");
        Senses { thread, pressure: open("/proc/pressure/cpu"), before: Reading::default() }
    }

    /// How processors were to be had since the last time. Two system calls, some microseconds.
    fn look(&mut self, now_ns: u64) -> Pressure {
        let thread = read(self.thread.as_ref(), of_thread);
        let (ran, waited) = thread.unwrap_or_default();
        let stalled = read(self.pressure.as_ref(), of_pressure);
        let now = Reading { at: now_ns, ran, waited, stalled };
        let before = std::mem::replace(&mut self.before, now);
        between(&before, &now, thread.is_some())
    }
}

/// What is told of the guard: no more than one message a second.
#[derive(Default)]
struct Told {
    bits: (bool, bool),
    at_ns: Option<u64>,
}

fn bits(aside: &Aside) -> (bool, bool) {
    (aside.reads.is_some(), aside.writes.is_some())
}

impl Told {
    fn news(&mut self, standing: &Standing, now_ns: u64) -> Option<String> {
        let aside = &standing.aside;
        let soon = self.at_ns.is_some_and(|at| now_ns < at + TELL_NS);
        if soon || bits(aside) == self.bits {
            return None;
        }
        (self.bits, self.at_ns) = (bits(aside), Some(now_ns));
        let reads = aside.reads.map(|why| format!("what is read is not kept ({why})"));
        let writes = aside.writes.map(|why| format!("writes go to the backing ({why})"));
        let parts: Vec<String> = reads.into_iter().chain(writes).collect();
        Some(match parts.is_empty() {
            true => format!(
                "the cache is back; it has stepped aside {} times, for {:.1} s in all",
                standing.times,
                standing.bypass_ns as f64 / 1e9
            ),
            false => format!("the cache steps aside: {}", parts.join("; ")),
        })
    }
}

/// Has a volume's guard decide while there are clients, until the volume is no longer served.
pub(crate) fn start(ring: &Ring, site: &Rc<Site>, quiet: bool) {
    if site.shared().is_none() {
        return;
    }
    let site = site.clone();
    let lane = ring.lane().clone();
    let sensing = async move { sense(&site, quiet).await };
    lane.spawn(sensing).expect("a fresh lane has room");
}

async fn sense(site: &Site, quiet: bool) {
    let lane = site.ring.lane();
    let shared = site.shared().expect("looked before");
    let mut senses = Senses::open();
    let mut told = Told::default();
    loop {
        let (changed, ended) = (site.changed.seen(), site.ended.seen());
        if site.has_ended() {
            return;
        }
        let standing = shared.guard_standing(lane.now());
        if site.clients() == 0 && bits(&standing.aside) == (false, false) {
            either(site.changed.after(changed), site.ended.after(ended)).await;
            senses.look(lane.now());
            continue;
        }
        either(site.ended.after(ended), lane.sleep_until(lane.now() + WINDOW_NS)).await;
        let now_ns = lane.now();
        let pressure = senses.look(now_ns);
        shared.guard(now_ns, pressure);
        if let Some(news) = told.news(&shared.guard_standing(now_ns), now_ns)
            && !quiet
        {
            crate::tell!("overdrive: {}: {news}", site.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::Why;

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(of_thread("2714338 43 1\n"), Some((2_714_338, 43)));
        assert_eq!(of_thread("x 43 1"), None);
        let text = "some avg10=3.12 avg60=1.62 avg300=2.65 total=28247296\nfull avg10=0 total=7\n";
        assert_eq!(of_pressure(text), Some(28_247_296_000));
        assert_eq!(of_pressure("full total=7"), None);
    }

    #[test]
    fn pressure_is_what_somebody_waits_and_we_do() {
        let before = Reading { stalled: Some(0), ..Reading::default() };
        let after = |ran, waited, stalled| Reading { at: 100, ran, waited, stalled };
        let busy = between(&before, &after(20, 60, Some(90)), true);
        assert_eq!(busy, Pressure { waited: 750, wanted: 800 });
        let others = between(&before, &after(20, 0, Some(90)), true);
        assert_eq!(others.waited, 0, "others wait, we do not");
        let unknown = between(&before, &after(0, 0, Some(90)), false);
        assert_eq!(unknown, Pressure { waited: 900, wanted: 1000 });
        assert_eq!(between(&before, &after(20, 60, None), true).waited, 750);
        let idle = between(&before, &Reading { at: 100, ..before }, true);
        assert_eq!(idle, Pressure::default());
    }

    #[test]
    fn this_machine_is_felt() {
        let mut senses = Senses::open();
        assert!(senses.thread.is_some() || senses.pressure.is_some(), "neither file is there");
        senses.look(0);
        let mut sum = 0u64;
        (0..3_000_000u64).for_each(|number| sum = std::hint::black_box(sum ^ number));
        let felt = senses.look(1_000_000_000);
        assert!(felt.waited <= 1000 && felt.wanted <= 1000, "{felt:?}");
    }

    #[test]
    fn at_most_one_message_a_second_and_the_last_state_is_told() {
        let mut told = Told::default();
        let busy = Aside { writes: Some(Why::Busy { waited: 430 }), ..Aside::default() };
        let out = Standing { on: true, aside: busy, times: 1, bypass_ns: 0 };
        let back = Standing { aside: Aside::default(), bypass_ns: 500_000_000, ..out };
        assert_eq!(told.news(&back, 0), None);
        let news = told.news(&out, 1).expect("it has stepped aside");
        assert!(news.contains("writes go to the backing (processors busy: waited 43 %"), "{news}");
        assert_eq!(told.news(&back, 2), None, "too soon");
        assert_eq!(told.news(&out, 3), None);
        let news = told.news(&back, TELL_NS + 1).expect("late, but told");
        assert!(news.contains("back") && news.contains("0.5 s"), "{news}");
    }
}
