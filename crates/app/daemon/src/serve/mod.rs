//! The daemon: volumes, their addresses, and its life from the first socket to the last flush.
//!
//! ```text
//!   DaemonPlan --Site::new--> sites --export--> fronts --> clients, spread over the lanes
//!                            |
//!                       control socket     signals, the captive command
//!                            +------ ending -----+
//!                                        /            \
//!                     Stop: clients, drain, release    Upgrade: clients, exec
//! ```

mod captive;
mod clients;
mod lane_volume;
mod operator;
mod power;
mod pressure;
mod ready;
mod sensor;
mod stats;
#[cfg(test)]
mod tests;
mod volume_service;
mod volume_services;
mod warmth;
mod watch;

use crate::control::losses::Losses;
use crate::device::{self, Devices, RouteFront};
use crate::front;
use crate::front::{
    Ending, Fronts, Fuse, Inherited, KernelNbd, MountInfo, Nbd, Ublk, find_inherited,
};
use crate::hot_lists::HotLists;
use crate::lanes::{Lanes, Setup, ring_failure};
use crate::plan::{Attaching, DaemonPlan, Listening, Mounting, Planned, Route};
use crate::runtime::control_socket;
use crate::units::WaitTime;
use block::Spec;
use cache::Counters;
use captive::{Which, either};
use export::Budget;
use holder::Approach;
use host::File;
use lane::Lane;
use lane_volume::LaneVolume;
use operator::Control;
use pressure::Threads;
use ready::ReadyActions;
use ring::{Listener, Ring};
use stack::{Exit, Failure, OpenFlags, Volume};
use std::path::Path;
use std::process::Child;
use std::rc::Rc;
use std::sync::Arc;
use volume_service::VolumeService;
use volume_services::VolumeServices;
use watch::Watch;

pub use captive::Captive;

/// Result of serving one volume, for the command that has served it.
#[derive(Clone, Debug)]
pub struct ServedVolume {
    /// Its name.
    pub name: String,
    /// Its backing as it was written.
    pub backing: String,
    /// Its address for clients; empty if it had none.
    pub uri: String,
    /// Counters of the cache, if there is one.
    pub counters: Option<Counters>,
    /// Acknowledged writes that the volume has lost.
    pub losses: Losses,
}

/// Result of serving all volumes of a plan, for the command that has served them.
#[derive(Clone, Debug)]
pub struct Served {
    /// End of the captive command, if there was one.
    pub captive: Option<Captive>,
    /// The volumes, in the order in which they ended: by default that of the plan.
    pub volumes: Vec<ServedVolume>,
    /// Duration of serving, in nanoseconds.
    pub served_ns: u64,
    /// Time spent polling, in nanoseconds of wall-clock time.
    pub poll_spent_ns: u64,
    /// Part of that time after which there was no work.
    pub poll_vain_ns: u64,
}

/// Announces to the holders of mounts that this process is about to take the mounts over, so that
/// users' requests wait instead of failing. Call this before the volumes are opened, because
/// opening may wait for the I/O of a dead daemon.
pub fn approach(mounts: &[Mounting], attachments: &[Attaching], runtime: &Path) -> Vec<Approach> {
    let files = mounts.iter().map(|it| (it.keep.as_ref(), it.directory.clone()));
    let devices = attachments.iter();
    let devices = devices.map(|it| (it.keep.as_ref(), device::directory(runtime, &it.volume)));
    files.chain(devices).filter_map(|(keep, place)| front::approach(keep?, &place)).collect()
}

/// Opens a volume that this process will serve, as [`Volume::open`] does. Before that, takes over
/// the listeners of an earlier program of this process: opening may start a holder, which must not
/// inherit them.
///
/// # Errors
/// Those of [`Volume::open`].
pub fn open(
    spec: Spec,
    flags: OpenFlags,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Volume, Failure> {
    find_inherited();
    Volume::open(spec, flags, progress)
}

/// Serves volumes until the captive command ends, or until a signal (SIGINT, SIGTERM) or an
/// operator requests the end; then drains and flushes them. An upgrade does not return: it executes
/// the program again.
///
/// # Errors
/// A socket cannot be opened; the command cannot be started; dirty data could not be made
/// durable, or a backing has shrunk (exit status 6).
pub fn serve(plan: DaemonPlan) -> Result<Served, Failure> {
    let signals =
        host::signals().map_err(|error| Failure::new(Exit::Io, format!("signals: {error}")))?;
    crate::runtime::check(&plan.runtime)?;
    crate::runtime::sweep(&plan.runtime);
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(ring_failure)?;
    ring.set_polling(plan.poll);
    // The requests of clients in progress are bounded per process, over all fronts.
    let (fronts, budget) = (Fronts::default(), Arc::new(Budget::default()));
    let mut inherited = Inherited::find();
    for Listening { address, exports } in &plan.listeners {
        fronts.add(Nbd::bind(&ring, address, &plan.runtime, &mut inherited, &budget)?, exports);
    }
    // Volumes for which a device or a mount in use has waited since an earlier process.
    let mut waited_for = Vec::new();
    for mounting in &plan.mounts {
        let info = mount_info("files", &mounting.exports, &plan);
        let front = Fuse::bind(&ring, mounting, info, &mut inherited, &budget)?;
        if front.is_resumed() {
            waited_for.extend_from_slice(&mounting.exports);
        }
        fronts.add(front, &mounting.exports);
    }
    let devices = Devices::new(&lane, &plan.runtime);
    let mut ways = Vec::new();
    for attaching in &plan.attachments {
        let (way, is_waiting) = way_of(attaching, &plan, &fronts, &ring, &mut inherited, &budget)?;
        if is_waiting {
            waited_for.push(attaching.volume.clone());
        }
        ways.push((attaching.volume.clone(), way));
    }
    drop((inherited, plan.approaches));
    let control = Listener::bind_private(&control_socket(&plan.runtime, std::process::id()))
        .map_err(|error| Failure::new(Exit::Usage, format!("the control socket: {error}")))?;
    let program = match (&plan.program, &plan.run) {
        (Some(program), None) => Ok(program.clone()),
        _ => Err("a daemon with a captive command ends with the command, and cannot be upgraded"
            .to_owned()),
    };
    let threads = Threads::default();
    let (mut services, mut addresses) = (Vec::new(), Vec::new());
    for planned in plan.volumes {
        let Planned { name, backing, volume } = planned;
        let is_waited_for = waited_for.contains(&name);
        let loss = if is_waited_for { volume.loss_of_waiting() } else { None };
        if let Some(loss) = loss {
            volume.lose(loss);
        }
        let found = fronts.addresses(&name);
        let address = found.first().cloned().unwrap_or_default();
        addresses.extend(found);
        let lane_volume = LaneVolume::new(&name, &volume, &threads, plan.quiet);
        let lists = plan.state.as_deref().map(HotLists::in_state);
        let service =
            VolumeService::new(&name, &backing, address, volume, lane_volume, &ring, lists)?;
        if let Some((_, way)) = ways.iter().find(|(volume, _)| *volume == name) {
            service.add_to(&devices, way, wait_time_of(&plan.attachments, &name));
        }
        if let Some(loss) = loss {
            crate::tell!("overdrive: {name}: {}", service.loss_failure(loss, true));
        }
        services.push(service);
    }
    threads.join(ring.polled());
    let lanes = Lanes::start(plan.threads, &setup(&services, &threads), plan.poll)?;
    let actions = ReadyActions::new(
        plan.run,
        &services,
        &plan.listeners,
        &plan.mounts,
        addresses,
        plan.ready,
    );
    let services = VolumeServices::new(services, fronts, devices, lanes.clone(), program);
    // The last step that may fail: a start that serves nothing leaves the records unchanged.
    services.record()?;
    let start_ns = lane.now();
    let daemon = RunningDaemon { ring: ring.clone(), services: services.clone(), control, signals };
    let captive = ring.block_on(daemon.run(actions)).map_err(ring_failure)?;
    let volumes = services.served();
    if let Some(failure) = services.failure() {
        return Err(failure);
    }
    let (poll_spent_ns, poll_vain_ns) = (threads.poll_spent_ns(), threads.poll_vain_ns());
    let served_ns = lane.now() - start_ns;
    Ok(Served { captive, volumes, served_ns, poll_spent_ns, poll_vain_ns })
}

/// Returns the front by which the kernel reaches a device, added to the fronts, and whether an
/// earlier process has made the device.
fn way_of(
    attaching: &Attaching,
    plan: &DaemonPlan,
    fronts: &Fronts,
    ring: &Ring,
    inherited: &mut Inherited,
    budget: &Arc<Budget>,
) -> Result<(RouteFront, bool), Failure> {
    let volume = &attaching.volume;
    let exports = std::slice::from_ref(volume);
    let route = Route::choose(attaching.via, &plan.runtime, volume)?;
    let mut is_waiting = route.is_waiting(&plan.runtime, volume);
    let by = match route {
        Route::Fuse => {
            let mounting = mounting_of(attaching, &plan.runtime);
            let info = mount_info("device", exports, plan);
            let front = Fuse::bind(ring, &mounting, info, inherited, budget)?;
            is_waiting = front.is_resumed();
            fronts.add(front, exports);
            RouteFront::Fuse
        }
        Route::Ublk => {
            let front = Ublk::new(ring, &device::link(volume), budget);
            fronts.add(front.clone(), exports);
            RouteFront::Ublk(front)
        }
        Route::Nbd => {
            let front = KernelNbd::new(ring, &device::link(volume), budget);
            fronts.add(front.clone(), exports);
            RouteFront::Nbd(front)
        }
    };
    Ok((by, is_waiting))
}

/// Returns how long users of a volume's device wait for a new daemon.
fn wait_time_of(attachments: &[Attaching], volume: &str) -> WaitTime {
    let found = attachments.iter().find(|attaching| attaching.volume == volume);
    found.map_or_else(WaitTime::default, |attaching| attaching.wait_time)
}

/// Returns the mount with the file below a device.
fn mounting_of(attaching: &Attaching, runtime: &Path) -> Mounting {
    Mounting {
        directory: device::directory(runtime, &attaching.volume),
        exports: vec![attaching.volume.clone()],
        keep: attaching.keep.clone(),
        device: Some(device::link(&attaching.volume)),
        wait_time: attaching.wait_time,
    }
}

/// Returns a description of these volumes for the holder of their mount. Only a daemon with the
/// same volumes, by their identities, may take the mount over.
fn mount_info(kind: &str, exports: &[String], plan: &DaemonPlan) -> MountInfo {
    let planned = |name: &String| plan.volumes.iter().find(|planned| planned.name == *name);
    let identity = |name: &String| {
        let identity = planned(name).map_or(String::new(), |planned| planned.volume.identity());
        format!("{name}={identity}")
    };
    let identities: Vec<_> = exports.iter().map(identity).collect();
    let backings = exports.iter().filter_map(planned).map(|planned| planned.backing.as_str());
    MountInfo {
        contents: format!("{kind} over {:016x}", device::hash(&identities.join("\n"))),
        backing: backings.collect::<Vec<_>>().join(", "),
        again: plan.again.clone(),
    }
}

/// Returns the setup of each further lane: it serves these volumes, and its thread joins the
/// others.
fn setup(services: &[Rc<VolumeService>], threads: &Threads) -> Arc<Setup> {
    let volumes: Vec<_> = services.iter().map(|service| service.lane_volume.clone()).collect();
    let threads = threads.clone();
    Arc::new(move |ring| {
        threads.join(ring.polled());
        volumes.iter().map(|volume| volume.start_on(ring)).collect()
    })
}

/// A daemon whose volumes are served: its ring, its volumes, its control socket and its signals.
struct RunningDaemon {
    ring: Ring,
    services: Rc<VolumeServices>,
    control: Listener,
    signals: File,
}

impl RunningDaemon {
    /// Serves until the end is requested, then carries it out.
    async fn run(self, actions: ReadyActions) -> Option<Captive> {
        let lane = self.ring.lane().clone();
        let fronts = &self.services.fronts;
        let export = |name: &str| {
            let service = self.services.find(name).ok()?;
            Some(service.lane_volume.export(&lane, &service.attached))
        };
        fronts.open(&self.services.lanes, export);
        Control::open(&self.ring, &self.services, self.control.file().clone());
        for service in self.services.all() {
            if let Some(memory) = service.volume.memory() {
                // The thread is not joined; it ends by itself.
                drop(memory.warm());
            }
            Watch::new(&self.ring, &service).start();
            service.start_warmth();
            service.lane_volume.start_sensor(&lane);
        }
        let captive = match self.begin(actions).await {
            Ok(child) => self.wait(child).await,
            Err(failure) => {
                self.services.note_failure(failure);
                self.services.end(Ending::Stop);
                None
            }
        };
        // The wait ends when a stop or an upgrade is requested.
        let ending = self.services.ending().unwrap_or(Ending::Stop);
        if ending == Ending::Stop {
            self.services.devices.detach_idle().await;
        }
        fronts.close(ending);
        if ending == Ending::Upgrade {
            self.upgrade().await;
            // The upgrade has failed. An ordinary end follows: all dirty data is written back.
            fronts.close(Ending::Stop);
        }
        // An error means that there is no service manager to notify.
        let _ = holder::notify_stopping();
        for service in self.services.all() {
            if let Err(failure) = self.services.close(&service).await {
                self.services.note_failure(failure);
            }
        }
        fronts.end(lane.now() + GOODBYE_NS).await;
        self.services.lanes.end(&lane, lane.now() + GOODBYE_NS).await;
        let _ = ring::shutdown(self.control.file());
        // Lets the notified workers and watches end: a task that stays would keep its ring alive.
        lane.rest().await;
        fronts.release();
        captive
    }

    /// Makes the devices, once the volumes below them are served, and announces all addresses.
    async fn begin(&self, actions: ReadyActions) -> Result<Option<Child>, Failure> {
        self.services.devices.attach().await?;
        self.services.mark_faces().await?;
        let child = actions.run()?;
        crate::former::forget_former();
        let _ = holder::notify_ready();
        Ok(child)
    }

    /// Waits for the first event that ends the service.
    async fn wait(&self, child: Option<Child>) -> Option<Captive> {
        if let Some(child) = child {
            let captive = captive::wait_for(&self.ring, child, &self.signals).await;
            self.services.end(Ending::Stop);
            return Some(captive);
        }
        loop {
            let seen = self.services.end_requested.seen();
            if self.services.ending().is_some() {
                return None;
            }
            let signal = self.ring.readable(&self.signals);
            if either(signal, self.services.end_requested.after(seen)).await == Which::First {
                self.services.end(Ending::Stop);
            }
        }
    }

    /// Executes the program again. Clients reconnect: their requests wait in the sockets' queues,
    /// and a new client waits in a listener's queue. Returns if it fails.
    async fn upgrade(&self) {
        let lane = self.ring.lane().clone();
        for service in self.services.all() {
            service.lane_volume.stop.ask();
        }
        let fronts = &self.services.fronts;
        fronts.end(lane.now() + GOODBYE_NS).await;
        // Checked again: a holder may have died since the upgrade was requested.
        let kept = self.services.all().iter().all(|service| service.volume.outlives_exec());
        let held = self.hold_flushes().await;
        let left = fronts.leave();
        if !kept {
            crate::tell!("overdrive: a holder has died: data is written back instead of upgrading");
        } else if let (Some(program), Ok(left)) = (self.services.program(), left) {
            let error = crate::former::execute(&program, &left);
            crate::complain!(
                "overdrive: the running program cannot be executed again either: {error}"
            );
        }
        for cache in held {
            cache.release_flushes().await;
        }
    }

    /// Prevents new flushes of the backings, if those in progress end in time: the next program
    /// could not receive their results.
    async fn hold_flushes(&self) -> Vec<cache::Cache> {
        let lane = self.ring.lane();
        let until_ns = lane.now() + GOODBYE_NS;
        let mut held = Vec::new();
        for service in self.services.all() {
            let Some(cache) = &service.attached.cache else { continue };
            if either(cache.hold_flushes(), lane.sleep_until(until_ns)).await == Which::First {
                held.push(cache.clone());
            }
        }
        held
    }
}

/// Longest time that connections may take to close after everything else has ended, in nanoseconds.
const GOODBYE_NS: u64 = 15_000_000_000;
