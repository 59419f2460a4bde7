//! A run: one volume, one history, many lives of the daemon.

use crate::backing;
use crate::ledger::{Ledger, Violation};
use crate::lossy::Flushes;
use crate::plan::{self, Event, Mode, Only, Strike};
use crate::stage::{Backing, Daemon, Mount, Place};
use crate::tally::Tally;
use crate::time::{now, rest};
use crate::worker::{End, Habits, Scene, Worker};
use anyhow::{Context, Result, ensure};
use block::Durability;
use lane::Random;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The volume's size in bytes.
const VOLUME_BYTES: u64 = 32 << 20;
/// Clients at a time.
const CLIENTS: u64 = 4;
/// How long a chosen point is waited for.
const POINT: Duration = Duration::from_secs(2);
/// How long a daemon is waited for that is to serve first.
const SERVING: Duration = Duration::from_secs(30);

/// What to do.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The `overdrive` program.
    pub program: PathBuf,
    /// Where all choices come from.
    pub seed: u64,
    /// Stop after so long.
    pub time: Option<Duration>,
    /// Stop after so many kills; None where cuts are given: none of them.
    pub kills: Option<u64>,
    /// Stop after so many power cuts; None where kills are given: none of them.
    pub cuts: Option<u64>,
    /// Let only this happen.
    pub only: Option<Only>,
    /// What the daemons make of a flush.
    pub mode: Mode,
    /// The write buffers of the daemons, one after the other and then again from the first on; `default`: what
    /// they make of it. None: that always.
    pub dirty_bytes: Vec<String>,
    /// Serve with this durability, whatever is judged: a lie that power cuts must show.
    pub serve_as: Option<String>,
    /// Serve without a holder: what is acknowledged then dies with the daemon, and must be missed.
    pub no_holder: bool,
    /// What the backing does at a flush: of what it does not do, power cuts must show something.
    pub flushes: Flushes,
}

/// What came of it.
pub struct Outcome {
    /// What was done.
    pub tally: Tally,
    /// What must not be.
    pub violations: Vec<Violation>,
    /// What the last daemon has said.
    pub said: String,
    /// How long it took.
    pub time: Duration,
}

/// Everything that outlives a daemon.
pub(crate) struct Run {
    pub(crate) terms: Terms,
    pub(crate) place: Place,
    pub(crate) backing: Backing,
    pub(crate) mount: Option<Mount>,
    pub(crate) scene: Arc<Scene>,
    pub(crate) random: Random,
    pub(crate) tally: Tally,
    /// The durability of the daemon whose memory the next one may find; None: it finds nothing.
    pub(crate) left: Option<Durability>,
    /// What has happened last.
    last: Event,
    /// The memory that the daemon has, in MiB.
    pub(crate) memory_mib: u64,
    pub(crate) said: String,
    pub(crate) habits: Habits,
    signals: uring::File,
    /// The last to go: the mount is in it.
    _directory: TempDir,
}

/// The clients of a life.
#[derive(Default)]
pub(crate) struct Crew(Vec<JoinHandle<End>>);

impl Crew {
    /// Waits for all of them.
    pub(crate) fn join(self) -> Vec<End> {
        let panicked = |_| End::Lost("it panicked".to_owned());
        self.0.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.iter().any(JoinHandle::is_finished)
    }
}

/// Runs until the terms are met or something is violated; `progress` is called after every life.
///
/// # Errors
/// What keeps the run from going on and is no violation: a program that is missing, no FUSE.
pub fn run(terms: Terms, progress: &mut dyn FnMut(&Tally)) -> Result<Outcome> {
    let start = now();
    let mut run = Run::new(terms)?;
    while !run.is_over(start) {
        let event = plan::choose(&mut run.random, &run.terms, &run.tally, &run.last);
        let lived = run.life(&event);
        run.last = event;
        run.take_counts();
        progress(&run.tally);
        if !run.ledger().violations().is_empty() {
            break;
        }
        lived?;
    }
    if run.ledger().violations().is_empty() {
        // Whatever the last life has left behind must be whole as well.
        run.ledger().doubt();
        run.life(&Event::Stop)?;
        run.take_counts();
    }
    let violations = run.ledger().violations().to_vec();
    run.place.kill_holders()?;
    Ok(Outcome {
        tally: run.tally.clone(),
        violations,
        said: run.said.clone(),
        time: start.elapsed(),
    })
}

impl Run {
    fn new(terms: Terms) -> Result<Run> {
        let signals = uring::signals()?;
        let directory = tempfile::Builder::new().prefix("k").rand_bytes(5).tempdir()?;
        let mut random = Random::new(terms.seed);
        let place =
            Place { directory: directory.path().to_owned(), program: terms.program.clone() };
        let seed = random.next_u64();
        let (socket, bytes, flushes) = (&place.path("b"), VOLUME_BYTES, terms.flushes);
        let backing = Backing::start(&backing::Terms { socket, bytes, seed, flushes })?;
        let mount = Mount::start(&place.path("disk"), &place.path("b"), VOLUME_BYTES)?;
        let ledger = Ledger::new(terms.seed, VOLUME_BYTES / block::SECTOR);
        let scene = Scene {
            ledger: Mutex::new(ledger),
            stop: AtomicBool::new(false),
            errors_expected: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            judged_bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            verifying: AtomicU64::new(0),
            start: now(),
        };
        Ok(Run {
            terms,
            place,
            backing,
            mount: Some(mount),
            scene: Arc::new(scene),
            random,
            tally: Tally::default(),
            left: None,
            last: Event::Stop,
            memory_mib: 16,
            said: String::new(),
            habits: Habits { depth: 8, flush_in: 30, pause_us: 0, verifies: true },
            signals,
            _directory: directory,
        })
    }

    /// Whether somebody wants an end, by SIGINT or SIGTERM.
    fn is_interrupted(&self) -> bool {
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn is_over(&self, start: Instant) -> bool {
        if self.is_interrupted() {
            return true;
        }
        let time = self.terms.time.is_some_and(|time| start.elapsed() >= time);
        let (kills, cuts) = (self.terms.kills, self.terms.cuts);
        let done = self.tally.kills >= kills.unwrap_or(0) && self.tally.cuts >= cuts.unwrap_or(0);
        time || ((kills.is_some() || cuts.is_some()) && done)
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.scene.ledger.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn accuse(&self, what: String) {
        self.ledger().accuse(what);
    }

    fn take_counts(&mut self) {
        self.tally.requests = self.scene.requests.load(Ordering::Relaxed);
        self.tally.judged_bytes = self.scene.judged_bytes.load(Ordering::Relaxed);
        self.tally.errors = self.scene.errors.load(Ordering::Relaxed);
    }

    /// The durability of the next daemon.
    fn durability(&mut self) -> Durability {
        let durability = self.terms.mode.next(&mut self.random, self.left, &self.last);
        self.tally.ordered += u64::from(durability == Durability::Ordered);
        self.tally.changed += u64::from(self.left.is_some_and(|left| left != durability));
        self.left = Some(durability);
        durability
    }

    /// The arguments of the next daemon. What it holds in memory outlives any of these changes.
    fn arguments(&mut self, event: &Event, durability: Durability) -> Vec<String> {
        let write = if self.random.one_in(3) { "back" } else { "back-now" };
        let age = ["200ms", "1s", "5s"][self.random.below(3) as usize];
        let retry = if event.fails() { "300ms" } else { "30s" };
        let memory = format!("{}M", self.memory_mib);
        let mut all = vec!["--memory", &memory, "--write", write];
        all.extend(["--dirty-age", age, "--retry-time", retry, "--flush-target", "2s"]);
        // By number: what else is chosen is the same without it.
        let buffers = &self.terms.dirty_bytes;
        let turn = self.tally.lives as usize % buffers.len().max(1);
        if let Some(bytes) = buffers.get(turn).filter(|bytes| *bytes != "default") {
            all.extend(["--dirty-bytes", bytes.as_str()]);
        }
        let honest = match durability {
            Durability::Flush => "flush",
            Durability::Ordered => "ordered",
            Durability::Scratch => "scratch",
        };
        all.extend(["--durability", self.terms.serve_as.as_deref().unwrap_or(honest)]);
        if self.terms.no_holder {
            all.push("--no-holder");
        }
        all.into_iter().map(str::to_owned).collect()
    }

    /// One life of the daemon, from its start to its end by `event`.
    fn life(&mut self, event: &Event) -> Result<()> {
        self.tally.lives += 1;
        self.habits = Habits {
            depth: 1 + self.random.below(12) as usize,
            flush_in: [8, 40, 400, 2000][self.random.below(4) as usize],
            pause_us: [0, 0, 200, 1000][self.random.below(4) as usize],
            verifies: self.random.below(3) > 0,
        };
        if self.random.one_in(16) {
            self.ledger().doubt();
        }
        self.scene.stop.store(false, Ordering::SeqCst);
        self.scene.errors_expected.store(event.fails(), Ordering::SeqCst);
        let durability = self.durability();
        self.ledger().begin_life(durability);
        let arguments = self.arguments(event, durability);
        self.ledger().note(&format!("serve {}, to end by {event:?}", arguments.join(" ")));
        let mount = self.mount.as_ref().context("the backing is mounted")?.path.clone();
        let mut daemon = Daemon::start(&self.place, &mount, &arguments)?;
        let result = self.end_by(event, &mut daemon);
        self.said = daemon.said();
        let recovered = daemon.recovered_bytes();
        self.tally.recovered_bytes += recovered;
        self.tally.recoveries += u64::from(recovered > 0);
        // Whatever happened: nothing of this life goes on.
        daemon.signal(Signal::KILL);
        result
    }

    fn end_by(&mut self, event: &Event, daemon: &mut Daemon) -> Result<()> {
        match event {
            Event::Kill(strike) => self.kill(strike, daemon),
            Event::Cut(strike) => self.cut(strike, daemon),
            Event::Change => {
                let strike = Strike::Served(100 + self.random.below(600));
                self.kill(&strike, daemon)
            }
            Event::Resize => {
                let strike = Strike::After(self.random.below(400));
                self.kill(&strike, daemon)?;
                self.memory_mib = if self.memory_mib == 16 { 24 } else { 16 };
                self.tally.settles += 1;
                self.ledger().doubt();
                Ok(())
            }
            _ => {
                let Some(crew) = self.serve(daemon)? else { return Ok(()) };
                rest(Duration::from_millis(100 + self.random.below(500)));
                self.happen(event, daemon, crew)
            }
        }
    }

    /// Clients for a daemon that serves.
    pub(crate) fn crew(&mut self) -> Crew {
        let socket = self.place.socket();
        let spawn = |index: u64| {
            let random = self.random.fork();
            let worker = Worker::new(self.scene.clone(), index, CLIENTS, self.habits, random);
            let socket = socket.clone();
            std::thread::spawn(move || worker.run(&socket))
        };
        Crew((0..CLIENTS).map(spawn).collect())
    }

    /// Waits until the daemon serves, and lets clients at it. None: it did not, and was accused.
    pub(crate) fn serve(&mut self, daemon: &mut Daemon) -> Result<Option<Crew>> {
        match daemon.wait_serving() {
            Some(time) => {
                self.tally.serving.push(time);
                Ok(Some(self.crew()))
            }
            None => {
                let status = daemon.wait()?;
                self.accuse(format!(
                    "the daemon did not serve: status {status}: {}",
                    daemon.said()
                ));
                Ok(None)
            }
        }
    }

    /// Serves until it is time to strike. Returns the clients, and whether a point was reached.
    fn until(&mut self, strike: &Strike, pid: u32, daemon: &mut Daemon) -> Result<(Crew, bool)> {
        let mut crew = Crew::default();
        let mut deadline = match strike {
            Strike::After(ms) => {
                self.backing.disarm()?;
                daemon.started() + Duration::from_millis(*ms)
            }
            Strike::Served(_) => {
                self.backing.disarm()?;
                daemon.started() + SERVING
            }
            Strike::At(point) => {
                self.backing.arm(pid, point)?;
                daemon.started() + POINT
            }
        };
        let mut serves = false;
        let mut ended = false;
        while now() < deadline && !self.backing.has_reached() && !ended {
            if !serves && let Some(time) = daemon.serving() {
                serves = true;
                self.tally.serving.push(time);
                crew = self.crew();
                if let Strike::Served(ms) = strike {
                    deadline = now() + Duration::from_millis(*ms);
                }
            }
            ended = crew.has_ended() || daemon.has_ended();
            rest(Duration::from_micros(500));
        }
        let reached = self.backing.has_reached();
        // At a point the backing kills, and clients are the first to see it.
        let early = ended && !reached && !self.reaches_soon();
        if early && self.ledger().violations().is_empty() {
            let ends = format!("the daemon or a client ended by itself: {}", daemon.said());
            self.scene.stop.store(true, Ordering::SeqCst);
            daemon.signal(Signal::KILL);
            let how = crew.join();
            self.accuse(format!("{ends} {how:?}"));
            return Ok((Crew::default(), false));
        }
        if !serves {
            self.tally.kills_early += u64::from(pid != 0);
        }
        Ok((crew, self.backing.has_reached()))
    }

    fn reaches_soon(&self) -> bool {
        crate::time::wait_until(Duration::from_millis(200), || self.backing.has_reached())
    }

    /// SIGKILL, and nothing is lost.
    pub(crate) fn kill(&mut self, strike: &Strike, daemon: &mut Daemon) -> Result<()> {
        let pid = daemon.pid();
        let (crew, reached) = self.until(strike, pid, daemon)?;
        self.tally.kills_at_points += u64::from(reached);
        self.finish(daemon, crew)
    }

    /// Kills the daemon, and sees its clients off.
    pub(crate) fn finish(&mut self, daemon: &mut Daemon, crew: Crew) -> Result<()> {
        let verifying = self.scene.verifying.load(Ordering::Relaxed) > 0;
        self.tally.kills_verifying += u64::from(verifying);
        daemon.signal(Signal::KILL);
        self.backing.disarm()?;
        let ends = crew.join();
        let lost = ends.iter().any(|end| matches!(end, End::Lost(_)));
        self.tally.kills_loaded += u64::from(lost);
        self.tally.kills += 1;
        self.ledger().note("killed");
        let status = daemon.wait()?;
        if status != 137 {
            self.accuse(format!("the daemon ended with status {status}: {}", daemon.said()));
        }
        Ok(())
    }

    /// Serves until the power is cut.
    fn cut(&mut self, strike: &Strike, daemon: &mut Daemon) -> Result<()> {
        let (crew, reached) = self.until(strike, 0, daemon)?;
        self.tally.cuts_at_points += u64::from(reached);
        self.cut_now(daemon, crew)
    }

    /// The power is cut: what is durable survives, and the order is kept.
    pub(crate) fn cut_now(&mut self, daemon: &mut Daemon, crew: Crew) -> Result<()> {
        let seed = self.random.next_u64();
        let said = self.backing.ask(&format!("cut {seed}"))?;
        let mut numbers = said.split(' ').skip(1).map(|word| word.parse().unwrap_or(0));
        self.tally.units_unflushed += numbers.next().unwrap_or(0);
        self.tally.units_lost += numbers.next().unwrap_or(0);
        self.tally.cuts += 1;
        let time = self.scene.start.elapsed();
        daemon.signal(Signal::KILL);
        self.mount = None;
        daemon.wait()?;
        crew.join();
        self.place.kill_holders()?;
        let (image, _) = self.dump("left")?;
        self.judge_cut(&image, time);
        ensure!(self.backing.ask("serve")? == "serving", "the backing comes back");
        let (file, socket) = (self.place.path("disk"), self.place.path("b"));
        self.mount = Some(Mount::start(&file, &socket, VOLUME_BYTES)?);
        Ok(())
    }
    /// Judges what a power cut at this time has left.
    fn judge_cut(&mut self, image: &[u8], time: Duration) {
        let age = {
            let mut ledger = self.ledger();
            ledger.pass_time(time);
            ledger.note("power cut");
            ledger.cut(image)
        };
        if self.left == Some(Durability::Ordered) {
            self.tally.cuts_ordered += 1;
            self.tally.ages.extend(age);
        }
        self.left = None;
    }
}
