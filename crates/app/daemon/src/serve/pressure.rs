//! Measures CPU pressure, with figures of the kernel.
//!
//! Files of a few bytes, opened once: `/proc/thread-self/schedstat` of every lane shows how long
//! its thread has run and how long it was ready and waited; `/proc/pressure/cpu` (PSI) shows how
//! long any task has waited. If both are available, the smaller one is used: tasks wait for a
//! processor, and these threads are among them.

use cache::Pressure;
use ring::Polled;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernel's counts for a thread, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Thread {
    ran: u64,
    waited: u64,
}

/// The kernel's counts, in nanoseconds.
#[derive(Clone, Default)]
struct Reading {
    at: u64,
    /// None: the kernel does not report it.
    threads: Vec<Option<Thread>>,
    stalled: Option<u64>,
}

/// A thread that drives a lane.
struct Driver {
    file: Option<OwnedFd>,
    polled: Arc<Polled>,
}

impl Driver {
    /// Reads the time that the thread has run, without its polling, which others could have used
    /// instead.
    fn read(&self) -> Option<Thread> {
        let thread = read(self.file.as_ref(), of_thread)?;
        Some(Thread { ran: thread.ran.saturating_sub(self.polled.spent_ns()), ..thread })
    }
}

/// The threads of a daemon's lanes.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Mutex<Vec<Driver>>>);

impl Threads {
    fn drivers(&self) -> MutexGuard<'_, Vec<Driver>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the calling thread, which drives a lane from now on; `polled` counts its ring's
    /// polling.
    pub(crate) fn join(&self, polled: &Arc<Polled>) {
        let file = open("/proc/thread-self/schedstat");
        self.drivers().push(Driver { file, polled: polled.clone() });
    }

    fn read(&self) -> Vec<Option<Thread>> {
        self.drivers().iter().map(Driver::read).collect()
    }

    /// Returns the time that all lanes have polled, in nanoseconds.
    pub(crate) fn poll_spent_ns(&self) -> u64 {
        self.drivers().iter().map(|driver| driver.polled.spent_ns()).sum()
    }

    /// Returns the part of that time after which there was no work.
    pub(crate) fn poll_vain_ns(&self) -> u64 {
        self.drivers().iter().map(|driver| driver.polled.vain_ns()).sum()
    }
}

fn open(path: &str) -> Option<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn read<T>(file: Option<&OwnedFd>, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut bytes = [0; 256];
    let length = rustix::io::pread(file?, &mut bytes, 0).ok()?;
    parse(std::str::from_utf8(&bytes[..length]).ok()?)
}

/// Parses `RAN WAITED SLICES`, in nanoseconds.
fn of_thread(text: &str) -> Option<Thread> {
    let mut words = text.split_ascii_whitespace();
    Some(Thread { ran: words.next()?.parse().ok()?, waited: words.next()?.parse().ok()? })
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS`, and another line.
fn of_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

/// Returns thousandths.
fn share(part: u64, whole: u64) -> u32 {
    (u128::from(part) * 1000 / u128::from(whole.max(1))).min(1000) as u32
}

/// Returns the CPU pressure between two readings: how much of the time in which any of the threads
/// was runnable they waited; and how much of the time the busiest one was runnable.
fn between(before: &Reading, now: &Reading) -> Pressure {
    let elapsed = now.at.saturating_sub(before.at);
    let stalled = now.stalled.zip(before.stalled);
    let stalled = stalled.map(|(now, before)| share(now.saturating_sub(before), elapsed));
    if now.threads.iter().any(Option::is_none) {
        return Pressure { waited: stalled.unwrap_or(0), wanted: 1000 };
    }
    let (mut waited_all, mut wanted_all, mut wanted_most) = (0, 0, 0);
    for (index, thread) in now.threads.iter().enumerate() {
        let then = before.threads.get(index).copied().flatten().unwrap_or_default();
        let thread = thread.unwrap_or_default();
        let waited = thread.waited.saturating_sub(then.waited);
        let wanted = waited + thread.ran.saturating_sub(then.ran);
        waited_all += waited;
        wanted_all += wanted;
        wanted_most = wanted_most.max(wanted);
    }
    let own = share(waited_all, wanted_all);
    Pressure {
        waited: stalled.map_or(own, |stalled| own.min(stalled)),
        wanted: share(wanted_most, elapsed),
    }
}

/// Measures the CPU pressure from one reading to the next.
pub(crate) struct Senses {
    threads: Threads,
    pressure: Option<OwnedFd>,
    before: Reading,
}

impl Senses {
    pub(crate) fn of(threads: &Threads) -> Senses {
        let pressure = open("/proc/pressure/cpu");
        Senses { threads: threads.clone(), pressure, before: Reading::default() }
    }

    /// Returns the CPU pressure since the last call. It makes one system call per lane, and one
    /// more: some microseconds.
    pub(crate) fn look(&mut self, now_ns: u64) -> Pressure {
        let stalled = read(self.pressure.as_ref(), of_pressure);
        let now = Reading { at: now_ns, threads: self.threads.read(), stalled };
        let pressure = between(&self.before, &now);
        self.before = now;
        pressure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let thread = of_thread("2714338 43 1\n").expect("as it writes");
        assert_eq!((thread.ran, thread.waited), (2_714_338, 43));
        assert!(of_thread("x 43 1").is_none());
        let text = "some avg10=3.12 avg60=1.62 avg300=2.65 total=28247296\nfull avg10=0 total=7\n";
        assert_eq!(of_pressure(text), Some(28_247_296_000));
        assert_eq!(of_pressure("full total=7"), None);
    }

    fn after(threads: &[(u64, u64)], stalled: Option<u64>) -> Reading {
        let thread = |&(ran, waited): &(u64, u64)| Some(Thread { ran, waited });
        Reading { at: 100, threads: threads.iter().map(thread).collect(), stalled }
    }

    #[test]
    fn pressure_is_what_somebody_waits_and_we_do() {
        let before = Reading { stalled: Some(0), ..Reading::default() };
        let busy = between(&before, &after(&[(20, 60)], Some(90)));
        assert_eq!(busy, Pressure { waited: 750, wanted: 800 });
        let others = between(&before, &after(&[(20, 0)], Some(90)));
        assert_eq!(others.waited, 0, "others wait, we do not");
        let unknown = Reading { threads: vec![None], ..after(&[], Some(90)) };
        assert_eq!(between(&before, &unknown), Pressure { waited: 900, wanted: 1000 });
        assert_eq!(between(&before, &after(&[(20, 60)], None)).waited, 750);
        assert_eq!(between(&before, &Reading { at: 100, ..before.clone() }), Pressure::default());
    }

    #[test]
    fn all_lanes_count_and_the_busiest_reports_how_busy() {
        let before = Reading::default();
        let two = between(&before, &after(&[(20, 60), (20, 0)], None));
        assert_eq!(two, Pressure { waited: 600, wanted: 800 });
        let idle = between(&before, &after(&[(0, 0), (0, 0), (100, 0)], None));
        assert_eq!(idle, Pressure { waited: 0, wanted: 1000 });
    }

    #[test]
    fn this_machine_is_felt() {
        let threads = Threads::default();
        threads.join(&Arc::default());
        let mut senses = Senses::of(&threads);
        assert!(
            threads.drivers()[0].file.is_some() || senses.pressure.is_some(),
            "neither file is there"
        );
        senses.look(0);
        let mut sum = 0u64;
        (0..3_000_000u64).for_each(|number| sum = std::hint::black_box(sum ^ number));
        let felt = senses.look(1_000_000_000);
        assert!(felt.waited <= 1000 && felt.wanted <= 1000, "{felt:?}");
    }
}
