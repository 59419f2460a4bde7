//! The daemon: volumes, their addresses, and its life from the first socket to the last flush.
//!
//! ```text
//!   DaemonPlan --VolumeService::new--> volumes --export--> fronts --> clients, on all lanes
//!                            |
//!                       control socket     signals, the captive command
//!                            +------ ending -----+
//!                                        /            \
//!                     Stop: clients, drain, release    Upgrade: clients, exec
//! ```

mod actions;
mod captive;
mod clients;
mod connections;
mod mapping;
mod observe;
mod operator;
mod policy_state;
mod pressure;
mod record;
mod recorders;
#[cfg(feature = "history")]
mod samples;
mod scrapes;
mod sensor;
mod start_up;
mod stats;
#[cfg(test)]
mod tests;
mod volume_service;
mod volume_services;
mod warmth;
mod watch;

use crate::confine;
use crate::control::losses::Losses;
use crate::device::{self, BoundRoute, Devices};
#[cfg(feature = "history")]
use crate::drive_samples;
use crate::front;
use crate::front::{Ending, Fronts, Fuse, Inherited, MountInfo, Nbd};
use crate::hot_lists::HotLists;
use crate::lanes::{Lanes, Setup, ring_failure};
use crate::plan::{Attaching, DaemonPlan, Listening, Mounting, NbdAddress, Planned, Ready};
use crate::runtime::control_socket;
use cache::Counters;
use captive::{Which, either};
use export::Budget;
use holder::{Approach, Keeper};
use host::File;
use lane::Lane;
use operator::Control;
use pressure::Threads;
use ring::{Listener, Ring};
use scrapes::Scrapes;
use stack::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::rc::Rc;
use std::sync::Arc;
use volume_service::{LaneVolume, VolumeService};
use volume_services::{Configured, VolumeServices};
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

/// Announces to the holders of mounts and of volumes with these keys ([`stack::retention_key`])
/// that this process is about to take them over: users' requests wait instead of failing, and clean
/// blocks stay. Call this before the volumes are opened, because opening may wait for the I/O of a
/// dead daemon, and the last of many volumes for all others.
pub fn approach(
    mounts: &[Mounting],
    attachments: &[Attaching],
    keys: impl Iterator<Item = String>,
    runtime: &Path,
) -> Vec<Approach> {
    let files = mounts.iter().map(|it| (it.keep.as_ref(), it.directory.clone()));
    let devices = attachments.iter();
    let devices = devices.map(|it| (it.keep.as_ref(), device::directory(runtime, &it.volume)));
    let mounts = files.chain(devices).filter_map(|(keep, place)| front::approach(keep?, &place));
    let volumes = keys.filter_map(|key| Keeper::approach(runtime, &key).ok()?);
    mounts.chain(volumes).collect()
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
    let needs = Some(confine::Needs::of(&plan));
    #[cfg(feature = "history")]
    let drive_samples = drive_samples::Plan::of(&plan);
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(ring_failure)?;
    ring.set_polling(plan.poll);
    let bound = BoundFronts::bind(&plan, &ring)?;
    drop(plan.approaches);
    let control = Listener::bind_private(&control_socket(&plan.runtime, std::process::id()))
        .map_err(|error| Failure::new(Exit::Usage, format!("the control socket: {error}")))?;
    let program = match (&plan.program, &plan.run) {
        (Some(program), None) => Ok(program.clone()),
        _ => Err("a daemon with a captive command ends with the command, and cannot be upgraded"
            .to_owned()),
    };
    let (devices, threads) = (Devices::new(&lane, &plan.runtime), Threads::default());
    let service = |planned| {
        let lists = plan.state.as_deref().map(HotLists::in_state);
        bound.service_of(planned, &devices, &threads, &ring, lists, plan.quiet)
    };
    let services = plan.volumes.into_iter().map(service).collect::<Result<Vec<_>, Failure>>()?;
    let addresses = services.iter().flat_map(|service| bound.fronts.addresses(&service.name));
    let addresses = addresses.collect();
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
    let services = VolumeServices::new(
        services,
        bound.fronts,
        devices,
        lanes.clone(),
        program,
        Configured { file: plan.config, tls: plan.tls, start_values: plan.start_values },
    );
    // The last step that may fail: a start that serves nothing leaves the records unchanged.
    services.record()?;
    let start_ns = lane.now();
    let scrapes =
        plan.metrics.map(|address| Scrapes::new(&ring, &services, &plan.runtime, address));
    #[cfg(feature = "history")]
    let sampler = samples::Sampler::new(&ring, &services, plan.history.as_deref(), plan.quiet);
    let daemon = RunningDaemon {
        ring: ring.clone(),
        services: services.clone(),
        control,
        scrapes,
        #[cfg(feature = "history")]
        sampler,
        #[cfg(feature = "history")]
        drive_samples,
        signals,
        needs,
    };
    let captive = ring.block_on(daemon.run(actions)).map_err(ring_failure)?;
    let volumes = services.served();
    if let Some(failure) = services.failure() {
        return Err(failure);
    }
    let (poll_spent_ns, poll_vain_ns) = (threads.poll_spent_ns(), threads.poll_vain_ns());
    let served_ns = lane.now() - start_ns;
    Ok(Served { captive, volumes, served_ns, poll_spent_ns, poll_vain_ns })
}

/// The fronts of a plan at their addresses, before a volume is served.
struct BoundFronts {
    fronts: Fronts,
    /// The routes of volumes that become devices.
    routes: Vec<BoundRoute>,
    /// Volumes for which a device or a mount in use has waited since an earlier process.
    waited_for: Vec<String>,
}

impl BoundFronts {
    /// Binds the fronts of a plan.
    ///
    /// # Errors
    /// An address or a directory cannot be used; a volume is a device by another route.
    fn bind(plan: &DaemonPlan, ring: &Ring) -> Result<BoundFronts, Failure> {
        // The requests of clients in progress are bounded per process, over all fronts.
        let (fronts, budget) = (Fronts::default(), Arc::new(Budget::default()));
        let mut inherited = Inherited::find();
        let tls = plan.tls.open()?;
        for Listening { address, exports } in &plan.listeners {
            let (inherited, tls) = (&mut inherited, tls.clone());
            let front = Nbd::bind(ring, address, tls, &plan.runtime, inherited, &budget)?;
            fronts.add(front, exports);
        }
        let mut waited_for = Vec::new();
        for mounting in &plan.mounts {
            let info = MountInfo::of("files", &mounting.exports, plan);
            let front = Fuse::bind(ring, mounting, info, &mut inherited, &budget)?;
            if front.is_resumed() {
                waited_for.extend_from_slice(&mounting.exports);
            }
            fronts.add(front, &mounting.exports);
        }
        let mut routes = Vec::new();
        for attaching in &plan.attachments {
            let route = BoundRoute::bind(attaching, plan, &fronts, ring, &mut inherited, &budget)?;
            if route.is_waiting {
                waited_for.push(route.volume.clone());
            }
            routes.push(route);
        }
        Ok(BoundFronts { fronts, routes, waited_for })
    }

    /// Returns the service of a volume on this ring's lane, and adds it to the devices if it has a
    /// route. A volume that has lost data while its users waited is served as a disk that was
    /// pulled out.
    ///
    /// # Errors
    /// Those of [`VolumeService::new`].
    fn service_of(
        &self,
        planned: Planned,
        devices: &Devices,
        threads: &Threads,
        ring: &Ring,
        lists: Option<HotLists>,
        quiet: bool,
    ) -> Result<Rc<VolumeService>, Failure> {
        let Planned { name, backing, volume } = planned;
        let is_waited_for = self.waited_for.contains(&name);
        let loss = if is_waited_for { volume.loss_of_waiting() } else { None };
        if let Some(loss) = loss {
            volume.lose(loss);
        }
        let address = self.fronts.addresses(&name).into_iter().next().unwrap_or_default();
        let lane_volume = LaneVolume::new(&name, &volume, threads, quiet);
        let service =
            VolumeService::new(&name, &backing, address, volume, lane_volume, ring, lists)?;
        if let Some(route) = self.routes.iter().find(|route| route.volume == name) {
            service.add_to(devices, route);
        }
        if let Some(loss) = loss {
            crate::complain!(
                volume = name,
                "overdrive: {name}: {}",
                service.loss_failure(loss, true)
            );
        }
        Ok(service)
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

/// The actions to take once the daemon is ready.
struct ReadyActions {
    command: Option<String>,
    environment: captive::Environment,
    addresses: Vec<String>,
    ready: Ready,
}

impl ReadyActions {
    /// Prepares to print these addresses, and to start this command.
    fn new(
        command: Option<String>,
        services: &[Rc<VolumeService>],
        listeners: &[Listening],
        mounts: &[Mounting],
        addresses: Vec<String>,
        ready: Ready,
    ) -> ReadyActions {
        let socket = match listeners.first().map(|listening| &listening.address) {
            Some(NbdAddress::Unix(path)) => path.clone(),
            _ => PathBuf::new(),
        };
        let file = mounts.first().and_then(|mounting| {
            mounting.exports.first().map(|name| mounting.directory.join(name))
        });
        let uri = services.first().map_or(String::new(), |service| service.address.clone());
        let environment = captive::Environment { uri, socket, file };
        ReadyActions { command, environment, addresses, ready }
    }

    /// Starts the captive command, if there is one.
    ///
    /// # Errors
    /// The command cannot be started.
    fn start(&self) -> Result<Option<Child>, Failure> {
        let start = |command: &String| captive::start(command, &self.environment);
        self.command.as_ref().map(start).transpose()
    }

    /// Announces the addresses.
    fn announce(self) {
        (self.ready)(&self.addresses);
    }
}

/// A daemon whose volumes are served: its ring, its volumes, its control socket and its signals.
struct RunningDaemon {
    ring: Ring,
    services: Rc<VolumeServices>,
    control: Listener,
    /// The server of its metrics, if there is one.
    scrapes: Option<Rc<Scrapes>>,
    /// The samples of its volumes, if they are recorded.
    #[cfg(feature = "history")]
    sampler: Option<Rc<samples::Sampler>>,
    /// The process that samples the drives, if they are sampled.
    #[cfg(feature = "history")]
    drive_samples: Option<drive_samples::Plan>,
    signals: File,
    /// To what its process confines itself. None: the process has other work.
    needs: Option<confine::Needs>,
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
        self.scrapes.iter().for_each(Scrapes::start);
        for service in self.services.all() {
            Watch::new(&self.ring, &service).start();
            service.start_warmth();
            service.start_mapping();
            service.lane_volume.start_sensor(&lane);
        }
        let captive = match self.begin(actions).await {
            Ok(child) => {
                #[cfg(feature = "history")]
                self.sampler.iter().for_each(samples::Sampler::start);
                self.wait(child).await
            }
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
        self.services.recorders.are_fetched(&lane).await;
        self.services.lanes.end(&lane, lane.now() + GOODBYE_NS).await;
        let _ = ring::shutdown(self.control.file());
        self.scrapes.iter().for_each(|scrapes| scrapes.end());
        self.end_samples();
        // Lets the notified workers and watches end: a task that stays would keep its ring alive.
        lane.rest().await;
        fronts.release();
        captive
    }

    /// Makes the devices, once the volumes below them are served, starts the captive command,
    /// confines this process and then announces all addresses.
    async fn begin(&self, actions: ReadyActions) -> Result<Option<Child>, Failure> {
        self.services.devices.attach().await?;
        let child = actions.start()?;
        // A confined process cannot query a drive, nor start another one that can.
        #[cfg(feature = "history")]
        self.drive_samples.iter().for_each(drive_samples::Plan::start);
        if let Some(needs) = &self.needs {
            let devices = self.services.devices.nodes();
            needs.confine(&devices, &self.services.lanes, self.ring.lane()).await;
        }
        for service in self.services.all() {
            if let Some(memory) = service.volume.memory() {
                // The thread is not joined; it ends by itself.
                drop(memory.warm());
            }
        }
        actions.announce();
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
        // The next program would not wait for a child of this one.
        for service in self.services.all() {
            service.end_mapping().await;
        }
        let fronts = &self.services.fronts;
        fronts.end(lane.now() + GOODBYE_NS).await;
        self.services.recorders.are_fetched(&lane).await;
        self.end_samples();
        // Checked again: a holder may have died since the upgrade was requested.
        let kept = self.services.all().iter().all(|service| service.volume.outlives_exec());
        let held = self.hold_flushes().await;
        let left = fronts.leave();
        if !kept {
            crate::complain!(
                "overdrive: a holder has died: data is written back instead of upgrading"
            );
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

    /// Records the last samples of the volumes, and ends their task.
    fn end_samples(&self) {
        #[cfg(feature = "history")]
        self.sampler.iter().for_each(|sampler| sampler.end());
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
