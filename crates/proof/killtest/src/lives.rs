//! A run: one volume, one history, many lives of the daemon.

use crate::ledger::Violation;
use crate::plan::{self, Event, RunOptions, Strike};
use crate::run::Run;
use crate::stage::Daemon;
use crate::tally::Tally;
use crate::time::{be_slower, here, now, rest};
use crate::worker::Habits;
use anyhow::{Context, Result};
use block::Durability;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Result of a run.
pub struct Outcome {
    /// Counts of a run.
    pub tally: Tally,
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// Messages of the last daemon.
    pub said: String,
    /// Duration of the run.
    pub time: Duration,
}

/// Runs until the terms are met or a promise is broken; `progress` is called after every life.
///
/// # Errors
/// Obstacles that are no violation: a missing program, no FUSE.
pub fn run(options: RunOptions, progress: &mut dyn FnMut(&Tally)) -> Result<Outcome> {
    let start = now();
    be_slower(options.slower);
    let mut run = Run::new(options)?;
    while !run.is_over(start) {
        let event = plan::choose(&mut run.random, &run.options, &run.tally, &run.last);
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
        // Data left by the last life must be whole as well.
        run.ledger().doubt();
        run.life(&Event::Stop)?;
        run.take_counts();
    }
    let violations = run.ledger().violations().to_vec();
    run.workspace.kill_processes()?;
    Ok(Outcome {
        tally: run.tally.clone(),
        violations,
        said: run.said.clone(),
        time: start.elapsed(),
    })
}

impl Run {
    /// Whether SIGINT or SIGTERM has requested the end.
    fn is_interrupted(&self) -> bool {
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn is_over(&self, start: Instant) -> bool {
        if self.is_interrupted() {
            return true;
        }
        let time = self.options.time.is_some_and(|time| start.elapsed() >= time);
        let (kills, cuts) = (self.options.kills, self.options.cuts);
        let done = self.tally.kills >= kills.unwrap_or(0) && self.tally.cuts >= cuts.unwrap_or(0);
        time || ((kills.is_some() || cuts.is_some()) && done)
    }

    fn take_counts(&mut self) {
        self.tally.requests = self.shared.requests.load(Ordering::Relaxed);
        self.tally.judged_bytes = self.shared.judged_bytes.load(Ordering::Relaxed);
        self.tally.errors = self.shared.errors.load(Ordering::Relaxed);
        self.tally.flushes_doubted = self.shared.doubted.load(Ordering::Relaxed);
    }

    /// Returns the durability of the next daemon.
    fn durability(&mut self) -> Durability {
        let durability = self.options.mode.next(&mut self.random, self.left, &self.last);
        self.tally.ordered += u64::from(durability == Durability::Ordered);
        self.tally.changed += u64::from(self.left.is_some_and(|left| left != durability));
        self.left = Some(durability);
        durability
    }

    /// Returns the write mode of the next daemon. If the backing is to fail, it must be one with
    /// dirty data.
    fn write_mode(&mut self, event: &Event) -> String {
        let modes = &self.options.write;
        if !modes.is_empty() {
            return modes[self.tally.lives as usize % modes.len()].clone();
        }
        let (usual, past) =
            (["back-now", "back-now", "back"], ["through", "through", "back", "none"]);
        let bypasses = match event {
            Event::LostFlush(_) => self.random.below(4) > 0,
            Event::Retry | Event::Rescue => false,
            _ => self.random.one_in(6),
        };
        let modes: &[&str] = if bypasses { &past } else { &usual };
        modes[self.random.below(modes.len() as u64) as usize].to_owned()
    }

    /// Returns the arguments of the next daemon. Retained data survives any of these changes.
    fn arguments(&mut self, event: &Event, durability: Durability) -> Vec<String> {
        let write = self.write_mode(event);
        let age = ["200ms", "1s", "5s"][self.random.below(3) as usize];
        let retry = if event.fails() { "300ms" } else { "30s" };
        let memory = format!("{}M", self.memory_mib);
        let mut all = vec!["--memory", &memory, "--write", &write];
        all.extend(["--dirty-age", age, "--retry-time", retry, "--flush-target", "2s"]);
        // By number, so that the other choices are the same without it.
        let buffers = &self.options.dirty_bytes;
        let turn = self.tally.lives as usize % buffers.len().max(1);
        if let Some(bytes) = buffers.get(turn).filter(|bytes| *bytes != "default") {
            all.extend(["--dirty-bytes", bytes.as_str()]);
        }
        // By number, too, and another one for each turn of the buffers.
        let compress = &self.options.compress;
        let turn = self.tally.lives as usize / buffers.len().max(1) % compress.len().max(1);
        if let Some(how) = compress.get(turn) {
            all.extend(["--compress", how.as_str()]);
        }
        // By number, too: half of the lives have two threads, each with its own ring.
        let threads = if (self.tally.lives / 2).is_multiple_of(2) { "1" } else { "2" };
        all.extend(["--threads", threads]);
        let honest = match durability {
            Durability::Flush => "flush",
            Durability::Ordered => "ordered",
            Durability::Scratch => "scratch",
        };
        all.extend(["--durability", self.options.serve_as.as_deref().unwrap_or(honest)]);
        if self.options.no_holder {
            all.push("--no-holder");
        }
        all.into_iter().map(str::to_owned).collect()
    }

    /// Runs one life of the daemon, from its start to its end by `event`.
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
        self.shared.stop.store(false, Ordering::SeqCst);
        self.shared.errors_expected.store(event.fails(), Ordering::SeqCst);
        let durability = self.durability();
        self.ledger().begin_life(durability);
        let arguments = self.arguments(event, durability);
        self.ledger().note(&format!("serve {}, to end by {event:?}", arguments.join(" ")));
        let mount = self.mount.as_ref().context("the backing is mounted")?.path.clone();
        let mut daemon = Daemon::start(&self.workspace, &mount, &arguments)?;
        let result = self.end_by(event, &mut daemon);
        self.said = daemon.messages();
        let recovered = daemon.recovered_bytes();
        self.tally.recovered_bytes += recovered;
        self.tally.recoveries += u64::from(recovered > 0);
        // In any case, no process of this life continues.
        daemon.signal(Signal::KILL);
        result
    }

    fn end_by(&mut self, event: &Event, daemon: &mut Daemon) -> Result<()> {
        match event {
            Event::Kill(strike) => self.kill(strike, daemon),
            Event::LostFlush(strike) => self.lose_flush(strike, daemon),
            Event::Cut(strike) => self.cut(strike, daemon),
            Event::Change => {
                let strike = Strike::Served(100 + self.random.below(600));
                self.kill(&strike, daemon)
            }
            Event::Resize => {
                let strike = Strike::After(self.random.below(400));
                self.kill(&strike, daemon)?;
                let usual = self.options.memory_mib;
                self.memory_mib = if self.memory_mib == usual { usual + usual / 2 } else { usual };
                self.tally.settles += 1;
                self.ledger().doubt();
                Ok(())
            }
            _ => {
                let Some(clients) = self.serve(daemon)? else { return Ok(()) };
                rest(here(Duration::from_millis(100 + self.random.below(500))));
                self.happen(event, daemon, clients)
            }
        }
    }
}
