//! A link that can be cut: a relay between a daemon and the server of its backing, which goes on.

use crate::common::wait_until;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tempfile::TempDir;

/// A relay at a unix socket.
pub(crate) struct Relay {
    server: PathBuf,
    directory: TempDir,
    /// None: the link is cut.
    listening: Option<Listening>,
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
        let mut relay = Relay { server: server.to_owned(), directory, listening: None };
        relay.mend();
        relay
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("relay")
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket().display())
    }

    /// Ends all connections, and accepts no new ones.
    pub(crate) fn cut(&mut self) {
        let Some(Listening { listener, connections, thread }) = self.listening.take() else {
            return;
        };
        fs::remove_file(self.socket()).expect("ours");
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).expect("it listens");
        thread.join().expect("no panic");
        for connection in connections.lock().expect("no panic").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again.
    pub(crate) fn mend(&mut self) {
        let listener = UnixListener::bind(self.socket()).expect("no other one");
        let connections: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let (accepting, server) = (listener.try_clone().expect("room"), self.server.clone());
        let all = connections.clone();
        let thread = thread::spawn(move || {
            while let Ok((client, _)) = accepting.accept() {
                let server = UnixStream::connect(&server).expect("the server goes on");
                all.lock().expect("no panic").extend([&client, &server].map(copy_of));
                forward(copy_of(&client), copy_of(&server));
                forward(server, client);
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

/// Copies bytes on a thread, until one of the two ends.
fn forward(mut from: UnixStream, mut into: UnixStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut into);
        let _ = from.shutdown(Shutdown::Both);
        let _ = into.shutdown(Shutdown::Both);
    });
}
