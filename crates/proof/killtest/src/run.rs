//! The state of a run that outlives a daemon, and the steps of its lives: serving, kills, power
//! cuts.

use crate::backing;
use crate::ledger::Ledger;
use crate::plan::{Event, RunOptions, Strike};
use crate::stage::{Backing, Daemon, Mount, Workspace};
use crate::tally::Tally;
use crate::time::{here, now, rest, wait_until};
use crate::worker::{End, Habits, SharedState, Worker};
use anyhow::{Context, Result, ensure};
use block::Durability;
use lane::Random;
use rustix::process::Signal;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// The volume's size in bytes.
const VOLUME_BYTES: u64 = 32 << 20;
/// Clients at a time.
const CLIENTS: u64 = 4;
/// Longest wait for a chosen point.
const POINT: Duration = Duration::from_secs(2);
/// Longest wait for a daemon that must serve first.
const SERVING: Duration = Duration::from_secs(30);

/// State that outlives a daemon.
pub(crate) struct Run {
    pub(crate) options: RunOptions,
    pub(crate) workspace: Workspace,
    pub(crate) backing: Backing,
    pub(crate) mount: Option<Mount>,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) random: Random,
    pub(crate) tally: Tally,
    /// Durability of the daemon whose memory the next one may take over; None: there is no such
    /// memory.
    pub(crate) left: Option<Durability>,
    /// The last event.
    pub(crate) last: Event,
    /// Memory of the daemon, in MiB.
    pub(crate) memory_mib: u64,
    pub(crate) said: String,
    pub(crate) habits: Habits,
    pub(crate) signals: host::File,
    /// Dropped last: it contains the mount.
    _directory: TempDir,
}

/// The clients of a life.
#[derive(Default)]
pub(crate) struct Clients(Vec<JoinHandle<End>>);

impl Clients {
    /// Waits for all of them.
    pub(crate) fn join(self) -> Vec<End> {
        let panicked = |_| End::Lost("it panicked".to_owned());
        self.0.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.iter().any(JoinHandle::is_finished)
    }
}

impl Run {
    pub(crate) fn new(options: RunOptions) -> Result<Run> {
        let signals = host::signals()?;
        let directory = tempfile::Builder::new().prefix("k").rand_bytes(5).tempdir()?;
        let mut random = Random::new(options.seed);
        let memory_mib = options.memory_mib;
        let workspace =
            Workspace { directory: directory.path().to_owned(), program: options.program.clone() };
        let seed = random.next_u64();
        let (socket, bytes, flushes) = (&workspace.path("b"), VOLUME_BYTES, options.flushes);
        let backing = Backing::start(&backing::DiskOptions { socket, bytes, seed, flushes })?;
        let mount = Mount::start(&workspace.path("disk"), &workspace.path("b"), VOLUME_BYTES)?;
        let ledger = Ledger::new(options.seed, VOLUME_BYTES / block::SECTOR);
        let shared = SharedState {
            ledger: Mutex::new(ledger),
            stop: AtomicBool::new(false),
            errors_expected: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            judged_bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            verifying: AtomicU64::new(0),
            in_doubt: AtomicBool::new(false),
            doubted: AtomicU64::new(0),
            start: now(),
        };
        Ok(Run {
            options,
            workspace,
            backing,
            mount: Some(mount),
            shared: Arc::new(shared),
            random,
            tally: Tally::default(),
            left: None,
            last: Event::Stop,
            memory_mib,
            said: String::new(),
            habits: Habits { depth: 8, flush_in: 30, pause_us: 0, verifies: true },
            signals,
            _directory: directory,
        })
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn accuse(&self, what: String) {
        self.ledger().accuse(what);
    }

    /// Starts clients for a daemon that serves.
    pub(crate) fn clients(&mut self, daemon: &Daemon) -> Clients {
        let in_doubt = daemon.is_in_doubt();
        self.shared.in_doubt.store(in_doubt, Ordering::SeqCst);
        self.tally.doubts += u64::from(in_doubt);
        if in_doubt && !(self.ledger().excuse() && self.clear_order_in_doubt()) {
            return Clients::default();
        }
        let socket = self.workspace.socket();
        let spawn = |index: u64| {
            let random = self.random.fork();
            let worker = Worker::new(self.shared.clone(), index, CLIENTS, self.habits, random);
            let socket = socket.clone();
            std::thread::spawn(move || worker.run(&socket))
        };
        Clients((0..CLIENTS).map(spawn).collect())
    }

    /// Clears the failure of a volume that is in doubt and whose order was promised, as an operator
    /// does. False: the daemon died.
    fn clear_order_in_doubt(&mut self) -> bool {
        if self.workspace.state() != "failed" {
            return true;
        }
        self.tally.orders_doubted += 1;
        self.ledger().note("failed in doubt about the order, and cleared");
        self.workspace.well(&["volume", "clear-error", "v", "--retry"]).is_ok()
    }

    /// Waits until the daemon serves, and starts clients. None: it did not serve, which was noted
    /// as a violation.
    pub(crate) fn serve(&mut self, daemon: &mut Daemon) -> Result<Option<Clients>> {
        match daemon.wait_serving() {
            Some(time) => {
                self.tally.serving.push(time);
                Ok(Some(self.clients(daemon)))
            }
            None => {
                let status = daemon.wait()?;
                self.accuse(format!(
                    "the daemon did not serve: status {status}: {}",
                    daemon.messages()
                ));
                Ok(None)
            }
        }
    }

    /// Serves until the time to strike. Returns the clients, and whether a point was reached.
    fn until(&mut self, strike: &Strike, pid: u32, daemon: &mut Daemon) -> Result<(Clients, bool)> {
        let mut clients = Clients::default();
        let mut deadline = match strike {
            Strike::After(ms) => {
                self.backing.disarm()?;
                daemon.started() + here(Duration::from_millis(*ms))
            }
            Strike::Served(_) => {
                self.backing.disarm()?;
                daemon.started() + here(SERVING)
            }
            Strike::At(point) => {
                self.backing.arm(pid, point)?;
                daemon.started() + here(POINT)
            }
        };
        let mut serves = false;
        let mut ended = false;
        while now() < deadline && !self.backing.has_reached() && !ended {
            if !serves && let Some(time) = daemon.serving() {
                serves = true;
                self.tally.serving.push(time);
                clients = self.clients(daemon);
                if let Strike::Served(ms) = strike {
                    deadline = now() + here(Duration::from_millis(*ms));
                }
            }
            ended = clients.has_ended() || daemon.has_ended();
            rest(Duration::from_micros(500));
        }
        let reached = self.backing.has_reached();
        // At a point the backing kills the daemon, and clients notice it first.
        let early = ended && !reached && !self.reaches_soon();
        if early && self.ledger().violations().is_empty() {
            let ends = format!("the daemon or a client ended by itself: {}", daemon.messages());
            self.shared.stop.store(true, Ordering::SeqCst);
            daemon.signal(Signal::KILL);
            let how = clients.join();
            self.accuse(format!("{ends} {how:?}"));
            return Ok((Clients::default(), false));
        }
        if !serves {
            self.tally.kills_early += u64::from(pid != 0);
        }
        Ok((clients, self.backing.has_reached()))
    }

    fn reaches_soon(&self) -> bool {
        wait_until(Duration::from_millis(200), || self.backing.has_reached())
    }

    /// SIGKILL, after which no data is lost.
    pub(crate) fn kill(&mut self, strike: &Strike, daemon: &mut Daemon) -> Result<()> {
        let pid = daemon.pid();
        let (clients, reached) = self.until(strike, pid, daemon)?;
        self.tally.kills_at_points += u64::from(reached);
        self.finish(daemon, clients)
    }

    /// SIGKILL during a flush of the backing, which fails after that.
    pub(crate) fn lose_flush(&mut self, strike: &Strike, daemon: &mut Daemon) -> Result<()> {
        let (clients, reached) = self.until(strike, daemon.pid(), daemon)?;
        self.tally.flushes_lost += u64::from(reached);
        self.tally.kills_at_points += u64::from(reached);
        self.finish(daemon, clients)?;
        if reached {
            self.ledger().lost_flush();
        }
        Ok(())
    }

    /// Kills the daemon, and waits for its clients to end.
    pub(crate) fn finish(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        let verifying = self.shared.verifying.load(Ordering::Relaxed) > 0;
        self.tally.kills_verifying += u64::from(verifying);
        daemon.signal(Signal::KILL);
        self.backing.disarm()?;
        let ends = clients.join();
        let lost = ends.iter().any(|end| matches!(end, End::Lost(_)));
        self.tally.kills_loaded += u64::from(lost);
        self.tally.kills += 1;
        self.ledger().killed();
        let status = daemon.wait()?;
        if status != 137 {
            self.accuse(format!("the daemon ended with status {status}: {}", daemon.messages()));
        }
        Ok(())
    }

    /// Serves until the power is cut.
    pub(crate) fn cut(&mut self, strike: &Strike, daemon: &mut Daemon) -> Result<()> {
        let (clients, reached) = self.until(strike, 0, daemon)?;
        self.tally.cuts_at_points += u64::from(reached);
        self.cut_now(daemon, clients)
    }

    /// Cuts the power: durable data survives, and the order is kept.
    pub(crate) fn cut_now(&mut self, daemon: &mut Daemon, clients: Clients) -> Result<()> {
        let seed = self.random.next_u64();
        let said = self.backing.ask(&format!("cut {seed}"))?;
        let mut numbers = said.split(' ').skip(1).map(|word| word.parse().unwrap_or(0));
        self.tally.units_unflushed += numbers.next().unwrap_or(0);
        self.tally.units_lost += numbers.next().unwrap_or(0);
        self.tally.units_given_up += numbers.next().unwrap_or(0);
        self.tally.cuts += 1;
        let time = self.shared.start.elapsed();
        daemon.signal(Signal::KILL);
        self.mount = None;
        daemon.wait()?;
        clients.join();
        self.workspace.kill_processes()?;
        let (image, _) = self.dump("left")?;
        self.judge_cut(&image, time);
        ensure!(self.backing.ask("serve")? == "serving", "the backing comes back");
        let (file, socket) = (self.workspace.path("disk"), self.workspace.path("b"));
        self.mount = Some(Mount::start(&file, &socket, VOLUME_BYTES)?);
        Ok(())
    }

    /// Returns the backing's contents, and the number of its unflushed units.
    pub(crate) fn dump(&self, name: &str) -> Result<(Vec<u8>, u64)> {
        let path = self.workspace.path(name);
        let said = self.backing.ask(&format!("dump {}", path.display()))?;
        let unflushed = said.strip_prefix("dumped ").and_then(|number| number.parse().ok());
        let image = fs::read(&path)?;
        fs::remove_file(&path)?;
        Ok((image, unflushed.context("the backing counts")?))
    }

    /// Judges the contents after a power cut at this time.
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
