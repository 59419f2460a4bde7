//! The daemon: volumes, where they are served, and its life from the first socket to the last flush.
//!
//! ```text
//!   volumes --Site::new--> sites      listeners --Fleet--> connections
//!                            |                                  |
//!                       control socket                     signals, the captive command
//!                            +---------------- ending ----------+
//!                                        /            \
//!                     Stop: clients, drain, release    Upgrade: clients, exec
//! ```

mod captive;
mod place;
mod power;
mod site;
mod sites;
mod stats;

use crate::control::Control;
use crate::fleet::Fleet;
use crate::runtime::control_socket;
use crate::sensor;
use crate::watch::Watch;
use block::Spec;
use cache::Counters;
use captive::Which;
use lane::Lane;
use nbd::Options;
use place::Inherited;
use sites::Ending;
use stack::{Exit, Failure};
use stack::{OpenFlags, Volume};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;
use uring::{File, Listener, Ring};

pub use captive::Captive;
pub(crate) use captive::either;
pub use place::Place;
use place::find_inherited;
pub(crate) use site::Site;
pub(crate) use sites::Sites;

/// A volume to serve.
pub struct Planned {
    /// The export's name; clients of a listener's first volume may also ask for the empty one.
    pub name: String,
    /// Its backing as it was written.
    pub backing: String,
    /// The volume, open.
    pub volume: Volume,
}

/// An address, and what is served there.
pub struct Listening {
    /// Where.
    pub place: Place,
    /// Names of volumes, at least one.
    pub exports: Vec<String>,
}

/// Hears the URI of each volume once clients can connect.
pub type Ready = Box<dyn FnOnce(&[String])>;

/// What a daemon does.
pub struct DaemonPlan {
    /// The volumes; each has a name of its own.
    pub volumes: Vec<Planned>,
    /// Where they are served. A volume without a listener cannot be reached.
    pub listeners: Vec<Listening>,
    /// A shell command that runs while the volumes are served, with the first one's `uri` in its
    /// environment.
    pub run: Option<String>,
    /// The runtime directory, for the control socket.
    pub runtime: PathBuf,
    /// Look for work without sleeping until there was none for so long.
    pub poll: Option<Duration>,
    /// Say nothing but errors.
    pub quiet: bool,
    /// The program that an upgrade executes, with our arguments.
    pub program: Option<PathBuf>,
    /// Called once clients can connect.
    pub ready: Ready,
}

/// What is known of a volume after serving.
#[derive(Clone, Debug)]
pub struct ServedVolume {
    /// Its name.
    pub name: String,
    /// Its backing as it was written.
    pub backing: String,
    /// Where clients found it; empty if nowhere.
    pub uri: String,
    /// What the cache counted, if there is one.
    pub counters: Option<Counters>,
}

/// What is known after serving.
#[derive(Clone, Debug)]
pub struct Served {
    /// How the captive command ended, if there was one.
    pub captive: Option<Captive>,
    /// The volumes, as they were planned.
    pub volumes: Vec<ServedVolume>,
    /// Nanoseconds served.
    pub served_ns: u64,
    /// Nanoseconds of the processor that polling has spent without finding work.
    pub poll_spent_ns: u64,
}

/// Opens a volume that this process will serve: [`Volume::open`], which may start a child that keeps its
/// memory, but not before the listeners of an earlier program of this process are taken over.
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

fn broken(error: std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("io_uring: {error}; see overdrive doctor"))
}

/// Serves volumes until the captive command ends, a signal (SIGINT, SIGTERM) or an operator asks to
/// stop; then drains and flushes them. An upgrade does not return: it executes the program anew.
///
/// # Errors
/// A socket cannot be had; the command cannot be started; what is dirty
/// could not be made durable, or a backing has shrunk (exit status 6).
pub fn serve(plan: DaemonPlan) -> Result<Served, Failure> {
    let signals =
        uring::signals().map_err(|error| Failure::new(Exit::Io, format!("signals: {error}")))?;
    crate::runtime::check(&plan.runtime)?;
    crate::runtime::sweep(&plan.runtime);
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(broken)?;
    ring.set_poll(plan.poll);
    let mut inherited = Inherited::find();
    let listeners = listen(&plan.listeners, &plan.runtime, &mut inherited)?;
    let control = Listener::bind_private(&control_socket(&plan.runtime, std::process::id()))
        .map_err(|error| Failure::new(Exit::Usage, format!("the control socket: {error}")))?;
    let program = match (&plan.program, &plan.run) {
        (Some(program), None) => Ok(program.clone()),
        _ => Err("a daemon with a captive command ends with that; it is not upgraded".to_owned()),
    };
    let mut sites = Vec::new();
    for planned in plan.volumes {
        let Planned { name, backing, volume } = planned;
        let uri = uri_of(&name, &plan.listeners, &listeners);
        sites.push(Site::new(&name, &backing, uri, volume, &ring)?);
    }
    let uris: Vec<String> = sites.iter().map(|site| site.uri.clone()).collect();
    let sites = Sites::new(sites, program);
    let child = start_captive(plan.run.as_deref(), &uris, &plan.listeners)?;
    (plan.ready)(&uris);
    let _ = holder::notify_ready();
    let start_ns = lane.now();
    let scene = Scene {
        ring: ring.clone(),
        sites: sites.clone(),
        listeners,
        control,
        exports: plan.listeners,
        signals,
        quiet: plan.quiet,
    };
    let captive = ring.block_on(scene.play(child)).map_err(broken)?;
    let volumes = sites.served();
    if let Some(failure) = sites.failure() {
        return Err(failure);
    }
    let poll_spent_ns = ring.poll_spent_ns();
    Ok(Served { captive, volumes, served_ns: lane.now() - start_ns, poll_spent_ns })
}

fn listen(
    wanted: &[Listening],
    runtime: &Path,
    inherited: &mut Inherited,
) -> Result<Vec<Rc<Listener>>, Failure> {
    let listen = |listening: &Listening| listening.place.listen(runtime, inherited).map(Rc::new);
    wanted.iter().map(listen).collect()
}

fn uri_of(name: &str, wanted: &[Listening], listeners: &[Rc<Listener>]) -> String {
    let at = wanted.iter().zip(listeners);
    let mut at = at.filter(|(listening, _)| listening.exports.iter().any(|other| other == name));
    at.next().map_or(String::new(), |(listening, listener)| listening.place.uri(name, listener))
}

fn start_captive(
    run: Option<&str>,
    uris: &[String],
    listeners: &[Listening],
) -> Result<Option<Child>, Failure> {
    let Some(command) = run else { return Ok(None) };
    let socket = match listeners.first().map(|listening| &listening.place) {
        Some(Place::Unix(path)) => path.as_path(),
        _ => Path::new(""),
    };
    captive::start(command, uris.first().map_or("", String::as_str), socket).map(Some)
}

/// Everything that lives while volumes are served.
struct Scene {
    ring: Ring,
    sites: Rc<Sites>,
    listeners: Vec<Rc<Listener>>,
    control: Listener,
    exports: Vec<Listening>,
    signals: File,
    quiet: bool,
}

impl Scene {
    /// Serves until the end is asked for, then sees to it.
    async fn play(self, child: Option<Child>) -> Option<Captive> {
        let lane = self.ring.lane().clone();
        let options = Options::default();
        let fleets: Vec<Rc<Fleet>> = self
            .exports
            .iter()
            .map(|listening| Fleet::new(&self.ring, &self.sites, &listening.exports, &options))
            .collect();
        self.sites.set_fleets(fleets.clone());
        for (fleet, listener) in fleets.iter().zip(&self.listeners) {
            fleet.open(listener.file().clone());
        }
        Control::open(&self.ring, &self.sites, self.control.file().clone());
        for site in self.sites.all() {
            if let Some(memory) = site.volume.memory() {
                // It ends by itself.
                drop(memory.warm());
            }
            Watch::new(&self.ring, &site).start();
            sensor::start(&self.ring, &site, self.quiet);
        }
        let captive = self.wait(child).await;
        for listener in &self.listeners {
            if self.sites.ending() != Some(Ending::Upgrade) {
                let _ = uring::shutdown(listener.file());
            }
        }
        options.stop.ask();
        if self.sites.ending() == Some(Ending::Upgrade) {
            self.upgrade(&fleets).await;
        }
        // Only a service manager listens, and it need not.
        let _ = holder::notify_stopping();
        for site in self.sites.all() {
            if let Err(failure) = self.sites.close(&site).await {
                self.sites.note_failure(failure);
            }
        }
        for fleet in &fleets {
            fleet.end(lane.now() + GOODBYE_NS).await;
        }
        let _ = uring::shutdown(self.control.file());
        // The crews and the watches hear of it and end: a task that stays would keep its ring alive.
        lane.rest().await;
        captive
    }

    /// Waits for whatever ends the service first.
    async fn wait(&self, child: Option<Child>) -> Option<Captive> {
        if let Some(child) = child {
            let captive = captive::wait_for(&self.ring, child, &self.signals).await;
            self.sites.end(Ending::Stop);
            return Some(captive);
        }
        loop {
            let seen = self.sites.asked.seen();
            if self.sites.ending().is_some() {
                return None;
            }
            let signal = self.ring.readable(&self.signals);
            if either(signal, self.sites.asked.after(seen)).await == Which::First {
                self.sites.end(Ending::Stop);
            }
        }
    }

    /// Executes the program anew. Clients reconnect: their requests wait in the sockets' queues, and
    /// what connects meanwhile waits in the listeners'.
    async fn upgrade(&self, fleets: &[Rc<Fleet>]) {
        let lane = self.ring.lane().clone();
        for site in self.sites.all() {
            site.stop.ask();
        }
        for fleet in fleets {
            fleet.end(lane.now() + GOODBYE_NS).await;
        }
        let listeners: Vec<(Place, File)> = self
            .exports
            .iter()
            .zip(&self.listeners)
            .map(|(listening, listener)| (listening.place.clone(), listener.file().clone()))
            .collect();
        // Once more: a holder may have died since the upgrade was asked for.
        let kept = self.sites.all().iter().all(|site| site.volume.outlives_exec());
        let left = Inherited::leave(&listeners);
        if !kept {
            crate::tell!("overdrive: a holder has died: written out instead of upgraded");
        } else if let (Some(program), Ok((variable, text))) = (self.sites.program(), left) {
            use std::os::unix::process::CommandExt;
            let error =
                Command::new(&program).args(std::env::args_os().skip(1)).env(variable, text).exec();
            crate::tell!("overdrive: {} cannot be executed: {error}", program.display());
        }
        // What follows is an ordinary end: everything is written out.
        for listener in &self.listeners {
            let _ = uring::shutdown(listener.file());
        }
    }
}

/// How long connections may take to go after everything else has ended, in nanoseconds.
const GOODBYE_NS: u64 = 15_000_000_000;
