//! State of the process.

use crate::access::secret::Secret;
use crate::access::sessions::Sessions;
use crate::access::tokens::Tokens;
use crate::limits::Limits;
use crate::notices::Notice;
use crate::program::Program;
use crate::runs::Runs;
use live::Fleet;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// Maximum number of pages that are kept up to date at a time.
pub(crate) const STREAMS_MAX: usize = 32;

/// Maximum number of actions in progress. Each waits on a thread for its daemon.
const ACTIONS_MAX: usize = 16;

/// Maximum number of histories that are read at a time.
const READERS_MAX: usize = 4;

/// State of the process.
pub(crate) struct App {
    pub(crate) fleet: Fleet,
    pub(crate) tokens: Tokens,
    pub(crate) port: u16,
    pub(crate) limits: Limits,
    /// The values of Host that are accepted.
    pub(crate) hosts: Vec<String>,
    /// The CSRF token of the form before a session.
    pub(crate) login_csrf: Secret,
    pub(crate) program: Program,
    pub(crate) runs: Runs,
    /// Changes of the fleet and of the runs.
    pub(crate) changes: watch::Receiver<u64>,
    /// A permit for each page that is kept up to date.
    pub(crate) streams: Arc<Semaphore>,
    /// A permit for each action in progress.
    pub(crate) actions: Arc<Semaphore>,
    /// A permit for each history that is being read.
    pub(crate) readers: Semaphore,
    /// Held while a map is made.
    pub(crate) map_turn: tokio::sync::Mutex<()>,
    sessions: Mutex<Sessions>,
    notices: Mutex<VecDeque<Notice>>,
    begun: Instant,
}

/// Parts of the state that exist before it.
pub(crate) struct Parts {
    pub(crate) fleet: Fleet,
    pub(crate) tokens: Tokens,
    pub(crate) port: u16,
    pub(crate) hosts: Vec<String>,
    pub(crate) login_csrf: Secret,
    pub(crate) program: Program,
    pub(crate) runs: Runs,
    pub(crate) limits: Limits,
    pub(crate) changes: watch::Receiver<u64>,
}

impl App {
    pub(crate) fn new(parts: Parts) -> App {
        let Parts { fleet, tokens, port, hosts, login_csrf, program, runs, limits, changes } =
            parts;
        #[allow(clippy::disallowed_methods, reason = "a command, without a lane")]
        let begun = Instant::now();
        App {
            fleet,
            tokens,
            port,
            limits,
            hosts,
            login_csrf,
            program,
            runs,
            changes,
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            actions: Arc::new(Semaphore::new(ACTIONS_MAX)),
            readers: Semaphore::new(READERS_MAX),
            map_turn: tokio::sync::Mutex::new(()),
            sessions: Mutex::default(),
            notices: Mutex::default(),
            begun,
        }
    }

    /// Returns the time since the process began.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the results of actions, the oldest first.
    pub(crate) fn notices(&self) -> MutexGuard<'_, VecDeque<Notice>> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
