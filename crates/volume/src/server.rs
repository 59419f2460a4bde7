//! Serving a volume: from the socket to the last flush.

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::volume::{Attached, Volume};
use crate::watch::Watch;
use block::{Request, Size};
use cache::Counters;
use lane::Lane;
use nbd::{Export, Exports, Options, Session};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Child, Command};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use uring::{Listener, Ring};

/// How a volume is served.
pub struct ServeOptions {
    /// The export's name; clients may also ask for the empty one.
    pub name: String,
    /// The socket. Its directory is made if it is missing, for the owner only.
    pub socket: PathBuf,
    /// A shell command that runs while the volume is served, with `uri` in its environment.
    pub run: Option<String>,
    /// Called once clients can connect, with the URI.
    pub ready: Box<dyn FnOnce(&str)>,
}

/// How the captive command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Captive {
    /// What a shell would report: the status, or 128 and the signal's number.
    pub status: u8,
}

/// What is known after serving.
#[derive(Clone, Debug)]
pub struct Served {
    /// How the captive command ended, if there was one.
    pub captive: Option<Captive>,
    /// What the cache counted, if there is one.
    pub counters: Option<Counters>,
    /// Nanoseconds served.
    pub served_ns: u64,
}

/// The URI of an export on a unix socket.
/// Source: the NBD URI specification, doc/uri.md of the NBD project.
fn uri(options: &ServeOptions) -> String {
    let escape = |text: &str| {
        let mut out = String::new();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                    out.push(byte as char);
                }
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
        out
    };
    let socket = escape(&options.socket.to_string_lossy());
    format!("nbd+unix:///{}?socket={socket}", escape(&options.name))
}

/// Serves a volume until its captive command ends, or a signal (SIGINT, SIGTERM) asks to stop; then
/// drains and flushes it.
///
/// # Errors
/// The name is too long; the socket cannot be had; the command cannot be started; what is dirty
/// could not be made durable, or the backing has shrunk (exit status 6).
pub fn serve(volume: &Volume, options: ServeOptions) -> Result<Served, Failure> {
    let broken = |error| Failure::new(Exit::Io, format!("io_uring: {error}; see overdrive doctor"));
    check_name(&options.name)?;
    let signals = Signals::block()?;
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(broken)?;
    let attached = volume.attach(&ring);
    let listener = Rc::new(bind(&options)?);
    let fleet = Fleet::new(&ring, exports(volume, &attached, &options), Options::default());
    let uri = uri(&options);
    let child = options.run.as_ref().map(|command| start(command, &uri, &options)).transpose()?;
    (options.ready)(&uri);
    let start_ns = lane.now();
    let scene = Scene {
        ring: ring.clone(),
        watch: volume.cache().map(|shared| Watch::new(&lane, shared)),
        attached,
        listener,
        fleet,
        signals,
    };
    let (captive, result) = ring.block_on(scene.play(child)).map_err(broken)?;
    let counters = volume.cache().map(|shared| shared.counters(lane.now()));
    if let Err(error) = result {
        return Err(not_drained(volume, error));
    }
    if let Some(damage) = volume.damage() {
        return Err(Failure::new(Exit::Io, damage));
    }
    Ok(Served { captive, counters, served_ns: lane.now() - start_ns })
}

/// The longest string of the protocol, in bytes. Source: doc/proto.md of the NBD project.
const NAME_BYTES_MAX: usize = 4096;

fn check_name(name: &str) -> Result<(), Failure> {
    if name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let message = format!("--name: at most {NAME_BYTES_MAX} bytes, none of them zero");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(())
}

/// What a stop that could not drain says.
fn not_drained(volume: &Volume, error: block::Error) -> Failure {
    let dirty = volume.cache().map_or(0, |shared| shared.dirty_blocks());
    let lost = match dirty {
        0 => "what was written since the last flush that succeeded".to_owned(),
        _ => format!(
            "{} of acknowledged writes",
            Size(u64::from(dirty) * u64::from(cache::BLOCK_SECTORS) * block::SECTOR)
        ),
    };
    let message = format!(
        "{error}; {lost} may not be on the backing: mend it, and check what it holds before you \
         use it"
    );
    Failure::new(Exit::Io, message)
}

fn bind(options: &ServeOptions) -> Result<Listener, Failure> {
    Listener::bind(&options.socket).map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => Exit::Busy,
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Usage,
        };
        // Most of its sentences name the path, but not those that the system writes.
        let path = options.socket.display().to_string();
        let error = error.to_string();
        let what = error.strip_prefix(&format!("{path}: ")).unwrap_or(&error);
        Failure::new(exit, format!("cannot listen at {path}: {what} (--nbd unix:PATH)"))
    })
}

struct Watched(Option<cache::Client>);

impl Session for Watched {
    fn flushed(&self) {
        if let Some(client) = &self.0 {
            client.flushed();
        }
    }
}

fn exports(volume: &Volume, attached: &Attached, options: &ServeOptions) -> Exports {
    let shared = volume.cache().cloned();
    let session = move || {
        let client = shared.as_ref().map(|shared| shared.client());
        Box::new(Watched(client)) as Box<dyn Session>
    };
    let mut export = Export::new(&options.name, attached.stack.clone());
    export.read_only = attached.stack.limits().read_only;
    export.session = Rc::new(session);
    Exports::new([export])
}

/// Signals as a descriptor. Blocked before any other thread or child exists.
struct Signals(uring::File);

impl Signals {
    fn block() -> Result<Signals, Failure> {
        uring::signals()
            .map(Signals)
            .map_err(|error| Failure::new(Exit::Io, format!("signals: {error}")))
    }
}

fn start(command: &str, uri: &str, options: &ServeOptions) -> Result<Child, Failure> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).env("uri", uri).env("unixsocket", &options.socket);
    uring::unblock_signals_in(&mut shell);
    shell
        .spawn()
        .map_err(|error| Failure::new(Exit::Usage, format!("--run: cannot start a shell: {error}")))
}

type Ended = (Option<Captive>, block::Result);

/// Everything that lives while a volume is served.
struct Scene {
    ring: Ring,
    attached: Attached,
    watch: Option<Watch>,
    listener: Rc<Listener>,
    fleet: Rc<Fleet>,
    signals: Signals,
}

impl Scene {
    /// Serves until the end is asked for, then drains.
    async fn play(self, child: Option<Child>) -> Ended {
        let lane = self.ring.lane();
        self.fleet.open(self.listener.file().clone());
        if let Some(watch) = self.watch.clone() {
            lane.spawn(watch.run()).expect("a fresh lane has room");
        }
        let captive = match child {
            Some(child) => Some(wait_for(&self.ring, child, &self.signals).await),
            None => {
                // Which of the two it is does not matter, nor if waiting for them fails.
                let _ = self.ring.readable(&self.signals.0).await;
                None
            }
        };
        let _ = uring::shutdown(self.listener.file());
        self.fleet.end().await;
        let result = match &self.attached.cache {
            Some(cache) => cache.drain().await,
            None => self.attached.stack.run(Request::Flush).await,
        };
        if let Some(watch) = &self.watch {
            watch.stop();
        }
        if let Some(cache) = &self.attached.cache {
            cache.shared().stop();
        }
        // The crew and the watch hear of it and end: a task that stays would keep its ring alive.
        lane.rest().await;
        (captive, result)
    }
}

/// Waits for the command; a signal to us is passed on to it.
async fn wait_for(ring: &Ring, mut child: Child, signals: &Signals) -> Captive {
    use std::os::unix::process::ExitStatusExt;
    let pid = Pid::from_raw(child.id() as i32).expect("a child's number is not 0");
    if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
        let pidfd = Arc::new(pidfd);
        let ended = either(ring.readable(&pidfd), ring.readable(&signals.0)).await;
        if ended == Which::Second {
            // It may have ended in this moment; then there is nobody to tell.
            let _ = kill_process(pid, Signal::TERM);
            let _ = ring.readable(&pidfd).await;
        }
    }
    let status = child.wait().ok();
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal()).map(|signal| 128 + signal);
    Captive { status: code.or(signal).unwrap_or(1) as u8 }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Second,
}

/// Waits for one of two waits of the ring; the other is dropped, which the ring allows.
async fn either<T>(one: impl Future<Output = T>, two: impl Future<Output = T>) -> Which {
    let (mut one, mut two) = (pin!(one), pin!(two));
    std::future::poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() {
            return Poll::Ready(Which::First);
        }
        two.as_mut().poll(context).map(|_| Which::Second)
    })
    .await
}
