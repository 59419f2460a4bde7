//! The measurements: three sides, two workloads, all data verified.

use super::children::Children;
use super::database::{self, DatabaseTarget, Measured};
use super::image;
use super::page_cache::{Disk, PageCache};
use super::scale::Scale;
use super::server::{Counted, Server};
use super::verify;
use crate::tools;
use rustix::time::{ClockId, clock_gettime};
use stack::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The layer between a client and the slow disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Bare,
    Overdrive,
    PageCache,
}

impl Side {
    /// All sides, in the order of the columns.
    pub(super) const ALL: [Side; 3] = [Side::Bare, Side::Overdrive, Side::PageCache];

    /// Returns the name for the table and for JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Bare => "bare",
            Side::Overdrive => "overdrive",
            Side::PageCache => "page cache",
        }
    }
}

/// Result of the database workload on one side.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatabaseResult {
    pub(super) measured: Measured,
    /// Statistics of Overdrive.
    pub(super) counted: Option<Counted>,
    /// The largest page cache seen in use, on that side.
    pub(super) page_cache_peak: Option<u64>,
}

/// State that all measurements share.
pub(super) struct Bench<'a> {
    pub(super) children: &'a Children,
    pub(super) directory: &'a Path,
    /// The original disk, which is never changed.
    pub(super) disk: PathBuf,
    pub(super) scale: Scale,
    /// The page cache's side, or the reason why it is missing.
    pub(super) page_cache: Result<PageCache, String>,
}

/// A side that serves.
struct Opened {
    server: Server,
    disk: Option<Disk>,
}

impl Opened {
    fn target(&self) -> DatabaseTarget<'_> {
        match &self.disk {
            Some(disk) => DatabaseTarget::Path(disk.device()),
            None => DatabaseTarget::Uri(self.server.uri()),
        }
    }

    fn close(self, children: &Children) -> Result<Option<Counted>, Failure> {
        if let Some(disk) = self.disk {
            disk.detach(children)?;
        }
        self.server.stop(children)
    }
}

/// Returns the monotonic time.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Bench<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the page cache, if this is its side and it is available.
    fn cache_of(&self, side: Side) -> Option<&PageCache> {
        self.page_cache.as_ref().ok().filter(|_| side == Side::PageCache)
    }

    /// Whether this side can be measured here.
    pub(super) fn has(&self, side: Side) -> bool {
        side != Side::PageCache || self.page_cache.is_ok()
    }

    fn open(&self, side: Side, image: &Path) -> Result<Opened, Failure> {
        let memory = if side == Side::Overdrive { self.scale.memory_bytes } else { 0 };
        let server = Server::start(self.children, self.directory, image, memory)?;
        let attach = |cache: &PageCache| {
            cache.attach(self.children, self.directory, server.uri(), self.scale.disk_bytes())
        };
        let disk = self.cache_of(side).map(attach).transpose()?;
        Ok(Opened { server, disk })
    }

    /// Tries the page cache's side once; if it fails, the reason is stored.
    ///
    /// # Errors
    /// Only those that would stop the other sides as well.
    pub(super) fn try_page_cache(&mut self) -> Result<(), Failure> {
        let Ok(cache) = &self.page_cache else { return Ok(()) };
        let server = Server::start(self.children, self.directory, &self.disk, 0)?;
        let bytes = self.scale.disk_bytes();
        let attached = cache.attach(self.children, self.directory, server.uri(), bytes);
        match attached {
            Ok(disk) => disk.detach(self.children)?,
            Err(failure) => {
                // If the reason was a signal, it is still pending.
                self.children.pause(0)?;
                self.page_cache = Err(failure.message);
            }
        }
        server.stop(self.children).map(|_| ())
    }

    /// Returns a client's command; on the page cache's side it runs in the control group.
    fn client(&self, side: Side, name: &str) -> Command {
        let program = tools::find(name).unwrap_or(name.into());
        match self.cache_of(side) {
            Some(cache) => cache.cgroup.command(&program),
            None => Command::new(program),
        }
    }

    fn begin(&self, side: Side) {
        if let Some(cache) = self.cache_of(side) {
            // A limit that is left from before only gives this side more than its share.
            let _ = cache.cgroup.begin();
        }
    }

    fn follow(&self, side: Side, extra: u64) -> impl FnMut() {
        let cache = self.cache_of(side);
        move || {
            if let Some(cache) = cache {
                cache.cgroup.follow(extra);
            }
        }
    }

    /// Runs the database on a plain file without a server, for the contents that the disk must have
    /// afterwards. Also makes the copy of the disk that the sides work on.
    pub(super) fn reference(&self) -> Result<(), Failure> {
        image::copy(&self.disk, &self.path("work.img"))?;
        let reference = self.path("reference.img");
        image::copy(&self.disk, &reference)?;
        let fio = Command::new(tools::find("fio").unwrap_or("fio".into()));
        let target = DatabaseTarget::Path(&reference);
        database::play(self.children, self.directory, fio, &self.scale, &target, &mut || ())
            .map(|_| ())
    }

    /// Runs the database on a side, and verifies the data that clients read afterwards, the
    /// contents of the disk, and the file system next to it.
    pub(super) fn database(&self, side: Side) -> Result<DatabaseResult, Failure> {
        let (work, out) = (self.path("work.img"), self.path("out.img"));
        image::restore(&self.disk, &work, &self.scale)?;
        let opened = self.open(side, &work)?;
        self.begin(side);
        let fio = self.client(side, "fio");
        let mut follow = self.follow(side, 0);
        let measured = database::play(
            self.children,
            self.directory,
            fio,
            &self.scale,
            &opened.target(),
            &mut follow,
        )?;
        let page_cache_peak = self.cache_of(side).map(|cache| cache.cgroup.take_peak());
        self.nbdcopy(Side::Bare, &opened.target(), &out)?;
        let counted = opened.close(self.children)?;
        let name = side.name();
        let reference = self.path("reference.img");
        verify::same(&format!("the data read by clients ({name})"), &out, &reference)?;
        verify::same(&format!("the contents of the disk ({name})"), &work, &reference)?;
        verify::file_system(self.children, name, &work)?;
        Ok(DatabaseResult { measured, counted, page_cache_peak })
    }

    /// Copies the whole disk once to a new file, on a side that has just been started, and compares
    /// it. Returns the nanoseconds from the start of nbdcopy to its end.
    pub(super) fn copy(&self, side: Side) -> Result<u64, Failure> {
        let out = self.path("out.img");
        // The old output is removed before the kernel begins to write it to disk.
        let _ = std::fs::remove_file(&out);
        let opened = self.open(side, &self.disk)?;
        self.begin(side);
        let ns = self.nbdcopy(side, &opened.target(), &out)?;
        opened.close(self.children)?;
        verify::same(&format!("the copy ({})", side.name()), &out, &self.disk)?;
        Ok(ns)
    }

    fn nbdcopy(&self, side: Side, target: &DatabaseTarget, out: &Path) -> Result<u64, Failure> {
        let mut command = self.client(side, "nbdcopy");
        match target {
            DatabaseTarget::Uri(uri) => command.arg(uri),
            DatabaseTarget::Path(path) => command.arg(path),
        };
        // The output's own pages are not part of the comparison.
        let mut follow = self.follow(side, self.scale.disk_bytes());
        let start = now_ns();
        self.children.run("nbdcopy", command.arg(out), &mut follow)?;
        Ok(now_ns() - start)
    }
}
