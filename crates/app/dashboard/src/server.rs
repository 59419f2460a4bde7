//! The HTTP server: one thread, and limits for clients that are slow or many.

use crate::access::secret::Secret;
use crate::access::tokens::Tokens;
use crate::app::{App, Parts, STREAMS_MAX};
use crate::limits::Limits;
use crate::program::Program;
use crate::requests::checks::hosts;
use crate::routes;
use crate::runs::Runs;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use live::{Fleet, Source};
use stack::{Exit, Failure};
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep};

/// Memory for the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Factor for the time between two readings while no page is open.
const UNSEEN: u32 = 5;

/// Settings of a dashboard.
pub struct Options {
    /// The address, which must be of this machine alone.
    pub listen: SocketAddr,
    /// The volumes.
    pub source: Source,
    /// The runtime directory of this user.
    pub runtime: PathBuf,
    /// This program, which runs suites and reads drives.
    pub program: PathBuf,
    /// The file of the history. None: the usual one.
    pub history: Option<PathBuf>,
    /// Limits for clients.
    pub limits: Limits,
    /// Time between two readings of all statistics while a page is open.
    pub pace: Duration,
}

/// A dashboard that listens.
pub struct Dashboard {
    listener: TcpListener,
    address: SocketAddr,
    tokens: Tokens,
    options: Options,
}

impl Dashboard {
    /// Binds the address, and writes the tokens.
    ///
    /// # Errors
    /// Exit status 2: the address is reached by other machines. 5: the port is in use. 4: the
    /// address is not permitted, or the tokens cannot be written.
    pub fn bind(options: Options) -> Result<Dashboard, Failure> {
        let listen = options.listen;
        if !listen.ip().is_loopback() {
            let message = format!(
                "--listen {listen}: other machines could reach it without encryption; use an \
                 address of this machine (127.0.0.1:{}), and 'ssh -L' from others",
                listen.port()
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                let message = format!(
                    "--listen {listen}: the port is in use, perhaps by another dashboard; choose \
                     another one, or port 0 for any free one"
                );
                Failure::new(Exit::Busy, message)
            }
            io::ErrorKind::PermissionDenied => {
                let message =
                    format!("--listen {listen}: not permitted; choose a port from 1024 on");
                Failure::new(Exit::Permission, message)
            }
            _ => Failure::new(Exit::Usage, format!("--listen {listen}: {error}")),
        };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tokens = Tokens::create(&options.runtime, address.port())?;
        Ok(Dashboard { listener, address, tokens, options })
    }

    /// Returns the address of the first page.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns the files with the token of a viewer, and with that of an administrator.
    pub fn token_files(&self) -> [&Path; 2] {
        [&self.tokens.viewer_file, &self.tokens.admin_file]
    }

    /// Serves until `stop` returns, which runs on this thread.
    ///
    /// # Errors
    /// Exit status 6: the system has no thread, descriptor or random number left.
    pub fn serve(self, stop: impl FnOnce()) -> Result<(), Failure> {
        let broken = |error: io::Error| {
            Failure::new(Exit::Io, format!("the dashboard cannot be served: {error}"))
        };
        let Dashboard { listener, address, tokens, options } = self;
        let (changed, changes) = watch::channel(0);
        let changed = Arc::new(changed);
        let runs = Runs::new(tokens.pages.clone(), changed.clone()).map_err(broken)?;
        let app = Arc::new(App::new(Parts {
            fleet: Fleet::start(options.source, options.pace),
            tokens,
            port: address.port(),
            hosts: hosts(address),
            login_csrf: Secret::new().map_err(broken)?,
            program: Program::new(options.program, options.history),
            limits: options.limits,
            runs,
            changes,
        }));
        let (followed, pace) = (Arc::downgrade(&app), options.pace);
        std::thread::spawn(move || {
            let mut number = 0;
            while let Some(app) = followed.upgrade() {
                number = app.fleet.wait(number, Duration::from_secs(1));
                let is_seen = app.streams.available_permits() < STREAMS_MAX;
                app.fleet.set_pace(if is_seen { pace } else { pace * UNSEEN });
                changed.send_modify(|count| *count += 1);
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(32)
            .build()
            .map_err(broken)?;
        let (end, ended) = watch::channel(false);
        let served = app.clone();
        let server = std::thread::spawn(move || {
            let listened = runtime.block_on(accept(listener, served, ended));
            // Actions in progress are not waited for: their daemons complete them.
            runtime.shutdown_background();
            listened
        });
        stop();
        app.runs.end();
        let _ = end.send(true);
        let served = server.join().unwrap_or(Ok(()));
        // Another thread may still hold the state when the process ends.
        app.tokens.remove();
        served.map_err(broken)
    }
}

/// Accepts connections until the end.
async fn accept(
    listener: TcpListener,
    app: Arc<App>,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let router = routes::router(&app);
    let limits = app.limits;
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return Ok(()) };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = ended.changed() => return Ok(()),
        };
        let Ok((stream, _)) = accepted else {
            // No descriptor is free: the next attempt succeeds once a client has left.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(limits.head_time);
            server.max_buf_size(HEAD_BYTES_MAX);
            // An error is the client's: it has left, or its request is not HTTP.
            let _ = server
                .serve_connection(TokioIo::new(Paced::new(stream, limits.write_time)), service)
                .await;
            drop(permit);
        });
    }
}

/// A connection that fails if its client does not read for a while.
struct Paced {
    stream: TcpStream,
    /// Longest time for which the client may not read.
    write_time: Duration,
    /// Ends the connection unless the client reads before.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(stream: TcpStream, write_time: Duration) -> Paced {
        Paced { stream, write_time, limit: None }
    }

    /// Returns the result of a write, or an error if writes have waited for too long.
    fn limited<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.limit = None;
            return written;
        }
        let time = self.write_time;
        let limit = self.limit.get_or_insert_with(|| Box::pin(sleep(time)));
        match limit.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
