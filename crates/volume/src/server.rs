//! Serving a volume: from the socket to the last flush.

use crate::failure::{Exit, Failure};
use crate::fleet::Fleet;
use crate::volume::{Attached, Volume};
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
/// The socket cannot be had; the command cannot be started; or what is dirty could not be made
/// durable (exit status 6).
pub fn serve(volume: &Volume, options: ServeOptions) -> Result<Served, Failure> {
    let broken = |error| Failure::new(Exit::Io, format!("io_uring: {error}; see overdrive doctor"));
    let signals = Signals::block()?;
    let lane = Lane::new();
    let ring = Ring::new(&lane).map_err(broken)?;
    let attached = volume.attach(&ring);
    let listener = Rc::new(bind(&options)?);
    let fleet = Fleet::new(
        &ring,
        exports(volume, &attached, &options),
        Options::default(),
    );
    let uri = uri(&options);
    let child = options
        .run
        .as_ref()
        .map(|command| start(command, &uri, &options))
        .transpose()?;
    (options.ready)(&uri);
    let start_ns = lane.now();
    let ending = end(
        ring.clone(),
        volume.cache().cloned(),
        attached,
        listener,
        fleet,
        child,
        signals,
    );
    let (captive, result) = ring.block_on(ending).map_err(broken)?;
    let counters = volume.cache().map(|shared| shared.counters(lane.now()));
    if let Err(error) = result {
        let dirty = volume.cache().map_or(0, |shared| shared.dirty_blocks());
        let dirty = Size(u64::from(dirty) * 4096);
        return Err(Failure::new(
            Exit::Io,
            format!(
                "{error}; {dirty} of acknowledged writes are not on the backing, mend it and \
                     check what it holds"
            ),
        ));
    }
    Ok(Served {
        captive,
        counters,
        served_ns: lane.now() - start_ns,
    })
}

fn bind(options: &ServeOptions) -> Result<Listener, Failure> {
    Listener::bind(&options.socket).map_err(|error| {
        let exit = match error.kind() {
            std::io::ErrorKind::AddrInUse => Exit::Busy,
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Usage,
        };
        Failure::new(
            exit,
            format!("socket {}: {error}", options.socket.display()),
        )
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
    shell
        .arg("-c")
        .arg(command)
        .env("uri", uri)
        .env("unixsocket", &options.socket);
    uring::unblock_signals_in(&mut shell);
    shell
        .spawn()
        .map_err(|error| Failure::new(Exit::Usage, format!("--run: cannot start a shell: {error}")))
}

type Ended = (Option<Captive>, block::Result);

async fn end(
    ring: Ring,
    shared: Option<Arc<cache::Shared>>,
    attached: Attached,
    listener: Rc<Listener>,
    fleet: Rc<Fleet>,
    child: Option<Child>,
    signals: Signals,
) -> Ended {
    let accepting = fleet.clone().accept(listener.clone());
    ring.lane().spawn(accepting).expect("a fresh lane has room");
    let captive = match child {
        Some(child) => Some(wait_for(&ring, child, &signals).await),
        None => {
            // Which of the two it is does not matter, nor if waiting for them fails.
            let _ = ring.readable(&signals.0).await;
            None
        }
    };
    let _ = uring::shutdown(listener.file());
    fleet.end().await;
    let result = match &attached.cache {
        Some(cache) => cache.drain().await,
        None => attached.stack.run(Request::Flush).await,
    };
    if let Some(shared) = shared {
        shared.stop();
    }
    (captive, result)
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
    let signal = status
        .and_then(|status| status.signal())
        .map(|signal| 128 + signal);
    Captive {
        status: code.or(signal).unwrap_or(1) as u8,
    }
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
