//! A device on the lane of a ring, in real time.

use crate::files::Made;
use crate::wishes::Wishes;
use crate::{export, facts, files};
use block::{Null, Ram, RateLimitSpec, SECTOR, Size, Stack};
use host::{FileVolume, OpenOptions};
use lane::Lane;
use load::{Arrival, Data, Limit, Load, Order, Running};
use ring::{FileBackend, Polling, Ring};
use stack::{Exit, Failure};
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use suites::IN_USE;
use suites::Rig;

/// Rounds of the live loop between two calls of the watch.
const ROUNDS: u32 = 256;
/// Longest sleep of the loop, whatever the device does: the user may interrupt the suite.
const TICK_NS: u64 = 50_000_000;
/// Length of the busy wait before the start of a scheduled request.
const SPIN_NS: u64 = 100_000;
/// Longest busy wait for answers if many requests share a socket: a thread that sleeps there would
/// limit all of them. A load of few requests sleeps, as programs do: its latencies are then those
/// that a program, or fio, would see. On a file or a device, many requests are separate operations,
/// one of which ends soon.
const POLL: Duration = Duration::from_micros(50);
/// Largest queue depth that counts as few requests.
const FEW: u32 = 4;
/// Duration of a load on the null device.
const CALIBRATION_NS: u64 = 100_000_000;

/// A load that was run on the null device, reduced to the parts that matter there.
#[derive(Clone, PartialEq)]
struct Calibrated {
    load: Load,
    per_second: f64,
}

/// A device on the lane of a ring, in real time.
pub struct Live {
    ring: Ring,
    device: Stack,
    null: Stack,
    data: Data,
    calibrated: Vec<Calibrated>,
    /// The device is at the other end of a socket.
    is_export: bool,
    facts: Vec<(&'static str, String)>,
    /// Removed when the rig is dropped.
    _made: Option<Made>,
}

/// Returns the sectors behind `null:` or `ram:`.
fn size(text: &str, rest: &str) -> Result<u64, Failure> {
    let sectors = rest.parse().and_then(|size: Size| size.volume_sectors());
    sectors.map_err(|what| Failure::new(Exit::Usage, format!("{text}: {what}")))
}

/// Creates a device in memory of this size.
fn ram(text: &str, sectors: u64) -> Result<Ram, Failure> {
    host::check_memory_available(sectors.saturating_mul(SECTOR))
        .map_err(|what| Failure::new(Exit::Usage, format!("{text}: {what}")))?;
    Ok(Ram::new(sectors, SECTOR as u32))
}

/// Returns the size in bytes of an existing file, device or export, without changing it.
///
/// # Errors
/// It cannot be reached, with the exit status for that.
pub fn size_of(text: &str) -> Result<u64, Failure> {
    let broken = |error| Failure::new(Exit::Io, format!("io_uring: {error}"));
    if !text.starts_with("nbd+unix://") {
        return files::size_of(Path::new(text));
    }
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(broken)?;
    let bytes = export::open(text, &ring)?.limits().bytes();
    lane.abandon();
    Ok(bytes)
}

/// Creates a lane with a ring.
fn start() -> Result<(Lane, Ring), Failure> {
    let broken = |error| Failure::new(Exit::Io, format!("io_uring: {error}"));
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(broken)?;
    ring.set_punctual(SPIN_NS).map_err(broken)?;
    ring.set_polling(Polling::Off);
    Ok((lane, ring))
}

impl Live {
    /// Opens a target: a path, `nbd+unix:///NAME?socket=PATH`, `null:SIZE` or `ram:SIZE`.
    ///
    /// # Errors
    /// With the exit status for it: the target is missing, busy, mounted or has an image format;
    /// its data would be lost; no server answers; io_uring is not available.
    pub fn open(text: &str, wishes: &Wishes) -> Result<Live, Failure> {
        Live::open_as(text, wishes, false)
    }

    /// Opens a file or a device through the host's page cache instead of by direct I/O.
    ///
    /// # Errors
    /// As [`Live::open`]; the target is no file or device.
    pub fn open_buffered(text: &str, wishes: &Wishes) -> Result<Live, Failure> {
        if ["null:", "ram:", "nbd+unix://"].iter().any(|kind| text.starts_with(kind)) {
            let message = format!("{text}: has no page cache; name a file or a device");
            return Err(Failure::new(Exit::Usage, message));
        }
        Live::open_as(text, wishes, true)
    }

    fn open_as(text: &str, wishes: &Wishes, is_buffered: bool) -> Result<Live, Failure> {
        let (lane, ring) = start()?;
        let mut facts = facts::machine();
        let mut made = None;
        let is_memory = text.starts_with("null:") || text.starts_with("ram:");
        let is_export = text.starts_with("nbd+unix://");
        if wishes.size.is_some() && (is_memory || is_export) {
            let message = format!("{text}: --size is only for a file to create; omit it");
            return Err(Failure::new(Exit::Usage, message));
        }
        if text.starts_with("null:") && wishes.verify {
            let message = format!("{text}: stores no data, so --verify would fail; omit it");
            return Err(Failure::new(Exit::Usage, message));
        }
        facts.push(("content_seed", wishes.content.seed.to_string()));
        let device = if let Some(rest) = text.strip_prefix("null:") {
            Stack::new(&lane, Null::new(size(text, rest)?, SECTOR as u32))
        } else if let Some(rest) = text.strip_prefix("ram:") {
            Stack::new(&lane, ram(text, size(text, rest)?)?)
        } else if is_export {
            if !wishes.destroy && !wishes.read_only {
                let message = format!(
                    "{text}: the suite writes to this export, and its contents would be lost: use \
                     --destroy if nothing of it is needed, or --read-only for reads only"
                );
                return Err(Failure::new(Exit::Usage, message));
            }
            export::open(text, &ring)?
        } else if text.starts_with("nbd://") || text.starts_with("nbds://") {
            let message = format!(
                "{text}: suites support exports at unix sockets only; write \
                 nbd+unix:///NAME?socket=PATH"
            );
            return Err(Failure::new(Exit::Usage, message));
        } else {
            let opened = files::open(Path::new(text), wishes, is_buffered)?;
            let volume = opened.volume;
            facts.extend(facts::of(&volume));
            facts.extend(opened.in_use.map(|users| (IN_USE, users)));
            made = opened.made;
            // Otherwise requests of one round would wait for one another, and that wait would count
            // as the device's.
            ring.set_prompt();
            Stack::new(&lane, FileBackend::attach(&volume, &ring))
        };
        if device.limits().read_only && !wishes.read_only {
            let message = format!("{text}: is read-only; use --read-only to measure reads only");
            return Err(Failure::new(Exit::Permission, message));
        }
        let mut live = Live::of(ring, device, wishes, facts);
        (live.is_export, live._made) = (is_export, made);
        Ok(live)
    }

    /// Opens a file that this run has created, and has open for reading and writing. Does not look
    /// up its name.
    ///
    /// # Errors
    /// It cannot be locked or examined; io_uring is not available.
    pub(crate) fn from_file(file: OwnedFd, wishes: &Wishes) -> Result<Live, Failure> {
        let (lane, ring) = start()?;
        // This path names the open file, even if its name changes.
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let volume = FileVolume::from_file(&path, file, OpenOptions::default())?;
        let facts = facts::machine().into_iter().chain(facts::of(&volume)).collect();
        ring.set_prompt();
        let device = Stack::new(&lane, FileBackend::attach(&volume, &ring));
        Ok(Live::of(ring, device, wishes, facts))
    }

    fn of(ring: Ring, device: Stack, wishes: &Wishes, facts: Vec<(&'static str, String)>) -> Live {
        let lane = ring.lane().clone();
        let null = Stack::new(&lane, Null::new(device.limits().sectors, SECTOR as u32));
        let data = Data::new(wishes.content, wishes.verify);
        let ticking = lane.clone();
        let tick = async move {
            loop {
                ticking.sleep_until(ticking.now() + TICK_NS).await;
            }
        };
        lane.spawn(tick).expect("a new lane has room");
        Live {
            ring,
            device,
            null,
            data,
            calibrated: Vec::new(),
            is_export: false,
            facts,
            _made: None,
        }
    }

    /// Limits the rate of its device; the first limit is the outermost.
    #[must_use]
    pub fn limited(mut self, limits: &[RateLimitSpec]) -> Live {
        self.device = stack::limited(self.device.clone(), limits);
        self
    }

    /// Other users of the device, in words.
    pub fn in_use(&self) -> Option<&str> {
        let found = self.facts.iter().find(|(name, _)| *name == IN_USE);
        found.map(|(_, users)| users.as_str())
    }

    /// Returns the device's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.device.limits().bytes()
    }
}

impl Rig for Live {
    fn device(&self) -> &Stack {
        &self.device
    }

    fn time(&self) -> &'static str {
        "real"
    }

    fn go_on(&mut self, done: &dyn Fn() -> bool) -> bool {
        let (rounds, until) = (Cell::new(0), self.ring.lane().now() + TICK_NS);
        let lane = self.ring.lane().clone();
        let enough = || {
            rounds.set(rounds.get() + 1);
            done() || rounds.get() > ROUNDS || lane.now() > until
        };
        self.ring.run(enough).expect("the loop runs");
        true
    }

    fn data(&self) -> Option<Data> {
        Some(self.data.clone())
    }

    fn begins(&mut self, depth_max: u32) {
        let polls = self.is_export && depth_max > FEW;
        self.ring.set_polling(if polls { Polling::Fixed(POLL) } else { Polling::Off });
    }

    fn calibrate(&mut self, load: &Load) -> Option<f64> {
        let arrival = Arrival::Closed { depth: load.depth_max() };
        let order = match load.order {
            Order::Zipf { .. } => Order::Random,
            other => other,
        };
        let limit = Limit::time(CALIBRATION_NS);
        let load =
            Load { arrival, order, limit, flush: false, mark_bytes: 0, seed: 0, ..load.clone() };
        if let Some(known) = self.calibrated.iter().find(|known| known.load == load) {
            return Some(known.per_second);
        }
        let data = self.data.rehearsal();
        let running = Running::start_with(&self.null, load.clone(), &data).ok()?;
        let seen = running.clone();
        self.ring.run(|| running.is_done()).expect("the loop runs");
        let per_second = seen.record().per_second();
        self.calibrated.push(Calibrated { load, per_second });
        Some(per_second)
    }

    fn kept_waiting_ns(&self) -> u64 {
        facts::kept_waiting_ns()
    }

    fn processor_ns(&self) -> Option<u64> {
        facts::processor_ns()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.facts.clone()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The tasks hold references to the ring.
        self.ring.lane().abandon();
    }
}
