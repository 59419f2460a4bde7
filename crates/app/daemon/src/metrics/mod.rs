//! Metrics for Prometheus: the text of a scrape, and the HTTP around it.
//!
//! ```text
//!   serve/scrapes   connections on the home lane; samples the volumes there, without counters
//!     http            a request and a response, as bytes
//!     exposition      on another thread: reads counters without locks, writes the text
//!       names           what each row of the cache's tables is called
//!     unserved        on that thread: volumes that no daemon serves
//! ```

mod exposition;
mod http;
mod names;
mod unserved;

use crate::control::errors::BackingErrors;
use crate::control::statistics::Link;
use crate::control::words::State;
use cache::Shared;
use std::sync::Arc;

pub(crate) use exposition::{CONTENT_TYPE, text};
pub(crate) use http::{HEAD_BYTES_MAX, Head, Response, Status, parse};
pub(crate) use unserved::{Unserved, UnservedVolume};

/// A served volume at a scrape. Its cache's counters are read later, on another thread.
pub(crate) struct VolumeSample {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) clients: u64,
    pub(crate) size_bytes: u64,
    pub(crate) memory_bytes: u64,
    /// Errors of the backing of a volume without a cache.
    pub(crate) errors: BackingErrors,
    pub(crate) cache: Option<Arc<Shared>>,
    /// The link to the server of its backing, if it has one.
    pub(crate) link: Option<Link>,
    /// The lane's time.
    pub(crate) now_ns: u64,
}

impl std::fmt::Debug for VolumeSample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeSample").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The daemon's process at a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessSample {
    pub(crate) poll_spent_ns: u64,
    pub(crate) poll_vain_ns: u64,
    pub(crate) page_faults_major: u64,
    pub(crate) tls_refused: u64,
}
