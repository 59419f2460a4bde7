//! A link that can be cut, slow or silent: a relay between a daemon and the server of its backing,
//! which goes on.

use crate::common::wait_until;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::TempDir;

/// A relay at a unix socket.
pub(crate) struct Relay {
    server: PathBuf,
    directory: TempDir,
    /// None: the link is cut.
    listening: Option<Listening>,
    conduct: Arc<Conduct>,
}

/// The conduct of a link that is not cut.
#[derive(Default)]
struct Conduct {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// Time for which bytes are held in each direction.
    delay: Duration,
    /// Whether the server's bytes are held, and those of the daemon reach the server.
    is_half_open: bool,
    /// Whether the connections have ended.
    is_cut: bool,
}

impl Conduct {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().expect("no panic"));
        self.changed.notify_all();
    }

    /// Waits until received bytes may go on. `is_answer`: they are of the server.
    fn hold(&self, is_answer: bool) {
        let state = self.state.lock().expect("no panic");
        let delay = state.delay;
        let (state, _) =
            self.changed.wait_timeout_while(state, delay, |state| !state.is_cut).expect("no panic");
        let holds = |state: &mut State| is_answer && state.is_half_open && !state.is_cut;
        let _free = self.changed.wait_while(state, holds).expect("no panic");
    }
}

struct Listening {
    listener: UnixListener,
    connections: Arc<Mutex<Vec<UnixStream>>>,
    thread: JoinHandle<()>,
}

impl Relay {
    /// Starts a relay to the server at this socket.
    pub(crate) fn start(server: &Path) -> Relay {
        let directory = tempfile::Builder::new().prefix("od").tempdir_in("/tmp").expect("room");
        let (server, conduct) = (server.to_owned(), Arc::default());
        let mut relay = Relay { server, directory, listening: None, conduct };
        relay.mend();
        relay
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("relay")
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    /// Holds bytes for this time from now on, in each direction.
    pub(crate) fn delay(&self, delay: Duration) {
        self.conduct.set(|state| state.delay = delay);
    }

    /// Holds all bytes of the server, or lets them and those that were held go on. The daemon's
    /// bytes reach the server in both cases, and no connection ends.
    pub(crate) fn set_half_open(&self, is_half_open: bool) {
        self.conduct.set(|state| state.is_half_open = is_half_open);
    }

    /// Ends all connections, and accepts no new ones.
    pub(crate) fn cut(&mut self) {
        let Some(Listening { listener, connections, thread }) = self.listening.take() else {
            return;
        };
        self.conduct.set(|state| state.is_cut = true);
        fs::remove_file(self.socket()).expect("ours");
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).expect("it listens");
        thread.join().expect("no panic");
        for connection in connections.lock().expect("no panic").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub(crate) fn mend(&mut self) {
        // Threads of connections that were cut keep their own.
        let state = State { is_cut: false, ..*self.conduct.state.lock().expect("no panic") };
        self.conduct = Arc::new(Conduct { state: Mutex::new(state), changed: Condvar::new() });
        let listener = UnixListener::bind(self.socket()).expect("no other one");
        let connections: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let (accepting, server) = (listener.try_clone().expect("room"), self.server.clone());
        let (all, conduct) = (connections.clone(), self.conduct.clone());
        let thread = thread::spawn(move || {
            while let Ok((client, _)) = accepting.accept() {
                let server = UnixStream::connect(&server).expect("the server goes on");
                all.lock().expect("no panic").extend([&client, &server].map(copy_of));
                forward(&conduct, copy_of(&client), copy_of(&server), false);
                forward(&conduct, server, client, true);
            }
        });
        self.listening = Some(Listening { listener, connections, thread });
        wait_until("it listens", || UnixStream::connect(self.socket()).is_ok());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.cut();
    }
}

fn copy_of(stream: &UnixStream) -> UnixStream {
    stream.try_clone().expect("room for a descriptor")
}

/// Copies bytes on a thread, until one of the two ends. `is_answer`: they are of the server.
fn forward(conduct: &Arc<Conduct>, mut from: UnixStream, mut into: UnixStream, is_answer: bool) {
    let conduct = conduct.clone();
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            conduct.hold(is_answer);
            if into.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = into.shutdown(Shutdown::Both);
    });
}
