//! Detects whether another program may have written to an image while no daemon served it (C9).
//!
//! ```text
//!   the owner:    `watch` ------- serves ------- killed                          `watch`
//!   this holder:     |<-------- closings -------------------------->|  take: a lease |
//!                    |                        its I/O ends: state ->|<-- openings -->|
//! ```
//!
//! Locks do not stop programs that ignore them. A program can write only through an open file
//! description. At the takeover, each description that was open for writing at any time since the
//! owner's start either has been closed, which inotify(7) has queued in the `close` itself, or is
//! still open, which a lease shows (`host::is_opened_once`). A mapping of the file holds its
//! description, so stores to it are covered, although they need not change the file's times.
//! Programs that only read, and have ended, leave no trace.
//!
//! `truncate` by path needs no description. It changes the time of the last change (ctime) or the
//! size, compared with their values at the end of the owner's last request. (Before that end, the
//! owner's own requests change them. An owner whose memory has only clean blocks has sent none, or
//! one that this takes for another program's, which costs these blocks: there its end counts, which
//! the kernel reports up to 50 ms earlier.) Two changes within one tick of the kernel's clock may
//! have the same time, so from then on inotify queues each change as well.
//!
//! The next owner waits for the end of the last requests and reads all headers before its own
//! `watch`. No other program has the image open when this begins, so one that writes meanwhile has
//! to open it, which inotify queues in the `open` itself.
//!
//! Only image files of local file systems are watched. The state of a device shows no writes, and
//! the server of a network file system shows no programs on other machines.

use crate::deadline::Deadline;
use crate::image;
use crate::image_report::{ImageReport, ImageState};
use ring::Fence;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The first pause between two checks whether the owner's I/O has ended.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The longest pause between two of these checks.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Room for one event of inotify.
const EVENT_BYTES: usize = 64;

/// The watch over a holder's image.
#[derive(Default)]
pub(crate) struct ImageWatch {
    /// An inotify descriptor with the other programs' traces since the owner began. None: nothing
    /// is watched.
    traces: Option<OwnedFd>,
    /// The time without an owner.
    orphaned: Option<Orphaned>,
    /// An inotify descriptor with each opening while the present owner takes the blocks over.
    takeover: Option<OwnedFd>,
}

struct Orphaned {
    /// The image's state at the owner's end.
    at_end: Option<ImageState>,
    /// Whether the owner has left no change that may be under way.
    is_quiet: bool,
    /// The image's state since the owner's last request has ended. None: it has not ended yet.
    state: Option<ImageState>,
    next: Deadline,
    pause: Duration,
}

/// Begins to note the end of each description that was open for writing.
fn traces_on(image: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // An error means that a takeover could not exclude other programs.
    host::is_opened_once(image)?;
    events_of(image, WatchFlags::CLOSE_WRITE)
}

/// Begins to queue these events of an image.
fn events_of(image: BorrowedFd<'_>, which: WatchFlags) -> Result<OwnedFd, Errno> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&events, path_of(image), which)?;
    Ok(events)
}

/// Returns a path that leads to an open file.
fn path_of(image: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", image.as_raw_fd())
}

/// Whether an event was queued, or none can be read.
fn has_event(events: &OwnedFd) -> bool {
    let mut event = [0; EVENT_BYTES];
    !matches!(rustix::io::read(events, &mut event), Err(Errno::AGAIN))
}

/// Notes each change of the file from now on, too.
fn note_changes(traces: Option<&OwnedFd>, image: BorrowedFd<'_>) -> Result<(), Errno> {
    let more = WatchFlags::MODIFY | WatchFlags::MASK_ADD;
    traces.map_or(Ok(()), |traces| inotify::add_watch(traces, path_of(image), more).map(drop))
}

impl ImageWatch {
    /// Begins to watch the image for an owner whose clean blocks equal it from now on. Returns
    /// false, and watches nothing, if another program has opened the image while this owner took
    /// these blocks over: after it has dropped them, it may begin again.
    pub(crate) fn begin(&mut self, image: BorrowedFd<'_>, key: &str) -> bool {
        let is_watchable = image::is_local_file(image, key);
        let traces = is_watchable.then(|| traces_on(image)).and_then(Result::ok);
        // Read after the next watch has begun: no opening is between the two.
        let was_opened = self.takeover.take().is_some_and(|takeover| has_event(&takeover));
        *self = ImageWatch { traces: traces.filter(|_| !was_opened), ..Default::default() };
        !was_opened
    }

    /// Whether the image is watched, so that a next owner may use clean blocks.
    pub(crate) fn is_on(&self) -> bool {
        self.traces.is_some()
    }

    /// Begins the time without an owner.
    pub(crate) fn lose_owner(&mut self, memory: BorrowedFd<'_>, image: BorrowedFd<'_>) {
        if self.is_on() && self.orphaned.is_none() {
            let (next, pause) = (Deadline::after(Duration::ZERO), PAUSE_MIN);
            let at_end = ImageState::of(image);
            self.orphaned = Some(Orphaned { at_end, is_quiet: false, state: None, next, pause });
            self.advance(memory, image);
        }
    }

    /// The owner that is lost has left only clean blocks: each change since its end is another
    /// program's.
    pub(crate) fn owner_was_quiet(&mut self, image: BorrowedFd<'_>) {
        if let Some(orphaned) = &mut self.orphaned {
            orphaned.is_quiet = note_changes(self.traces.as_ref(), image).is_ok();
        }
    }

    /// Returns when [`ImageWatch::advance`] has work.
    pub(crate) fn next(&self) -> Option<Deadline> {
        self.orphaned.as_ref().filter(|it| it.state.is_none()).map(|it| it.next)
    }

    /// Notes the image's state once the former owner's last request has ended.
    pub(crate) fn advance(&mut self, memory: BorrowedFd<'_>, image: BorrowedFd<'_>) {
        let Some(orphaned) = &mut self.orphaned else { return };
        if orphaned.state.is_some() || !orphaned.next.has_passed() {
            return;
        }
        // The fence is only tried, and released at the end of this condition.
        if Fence::take(memory, 0).is_ok() && note_changes(self.traces.as_ref(), image).is_ok() {
            orphaned.state = orphaned.at_end.filter(|_| orphaned.is_quiet);
            orphaned.state = orphaned.state.or_else(|| ImageState::of(image));
        }
        orphaned.next = Deadline::after(orphaned.pause);
        orphaned.pause = (orphaned.pause * 2).min(PAUSE_MAX);
    }

    /// Reports to a new owner, which takes the memory over. None: nothing was watched. Openings are
    /// noted until [`ImageWatch::begin`], but for no other owner than this one.
    pub(crate) fn end(
        &mut self,
        memory: BorrowedFd<'_>,
        image: BorrowedFd<'_>,
    ) -> Option<ImageReport> {
        self.lose_owner(memory, image);
        let ImageWatch { traces, orphaned, .. } = std::mem::take(self);
        let traces = traces?;
        let since = orphaned.and_then(|it| it.state.or(it.at_end.filter(|_| it.is_quiet)));
        // Before the lease: a program that this does not find opens the image later.
        let takeover = events_of(image, WatchFlags::OPEN);
        // First the lease: a writer that it does not find has queued its event before.
        let is_exclusive = host::is_opened_once(image) == Ok(true) && !has_event(&traces);
        match takeover {
            Ok(takeover) if is_exclusive => {
                self.takeover = Some(takeover);
                Some(ImageReport::Exclusive { since })
            }
            _ => Some(ImageReport::Exposed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{HugePages, SharedMemory, shared_memory};
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    struct Scene {
        directory: tempfile::TempDir,
        memory: SharedMemory,
        image: File,
        watch: ImageWatch,
    }

    impl Scene {
        fn new() -> io::Result<Scene> {
            let directory = tempfile::tempdir_in("/dev/shm")?;
            let image = File::create_new(directory.path().join("image"))?;
            image.set_len(8192)?;
            let memory = shared_memory("test", 4096, HugePages::Never, &mut |_, _| ())?;
            let mut scene = Scene { directory, memory, image, watch: ImageWatch::default() };
            assert!(scene.begin());
            assert!(scene.watch.is_on() && scene.watch.next().is_none());
            Ok(scene)
        }

        fn path(&self) -> std::path::PathBuf {
            self.directory.path().join("image")
        }

        fn begin(&mut self) -> bool {
            self.watch.begin(self.image.as_fd(), "file-1-2")
        }

        fn lose_owner(&mut self) {
            self.watch.lose_owner(self.memory.file(), self.image.as_fd());
        }

        fn end(&mut self) -> Option<ImageReport> {
            self.watch.end(self.memory.file(), self.image.as_fd())
        }
    }

    #[test]
    fn an_image_that_only_its_owner_has_written_is_unchanged() -> io::Result<()> {
        let mut scene = Scene::new()?;
        scene.image.write_all_at(b"its own", 0)?;
        scene.lose_owner();
        assert!(scene.watch.next().is_none(), "the state is noted");
        let report = scene.end().expect("it was watched");
        assert!(matches!(report, ImageReport::Exclusive { since: Some(_) }));
        assert!(report.is_unchanged(&scene.image));
        assert_eq!(scene.end(), None, "the next owner has not begun");
        Ok(())
    }

    #[test]
    fn a_change_before_the_end_of_the_last_request_is_another_programs_if_all_is_clean()
    -> io::Result<()> {
        for (is_quiet, ends_first) in [(true, true), (true, false), (false, true)] {
            let mut scene = Scene::new()?;
            let fence = Fence::take(scene.memory.file(), 0)?;
            scene.lose_owner();
            if is_quiet {
                scene.watch.owner_was_quiet(scene.image.as_fd());
            }
            rustix::fs::ftruncate(&scene.image, 4096)?;
            if ends_first {
                drop(fence);
                // At most for the first pause.
                while scene.watch.next().is_some() {
                    scene.watch.advance(scene.memory.file(), scene.image.as_fd());
                }
            }
            let report = scene.end().expect("it was watched");
            assert_eq!(report.is_unchanged(&scene.image), !is_quiet, "{is_quiet} {ends_first}");
        }
        Ok(())
    }

    #[test]
    fn a_writer_is_noticed_until_it_has_closed_the_image_before_the_owner_began() -> io::Result<()>
    {
        let write = |scene: &Scene| OpenOptions::new().write(true).open(scene.path());
        let mut scene = Scene::new()?;
        let early = write(&scene)?;
        assert!(scene.begin());
        scene.lose_owner();
        assert_eq!(scene.end(), Some(ImageReport::Exposed), "it is open");
        assert!(scene.begin());
        drop(early);
        scene.lose_owner();
        assert_eq!(scene.end(), Some(ImageReport::Exposed), "it was open");
        assert!(scene.begin());
        scene.lose_owner();
        drop(write(&scene)?);
        assert_eq!(scene.end(), Some(ImageReport::Exposed), "it was opened and closed");
        assert!(scene.begin());
        scene.lose_owner();
        assert!(scene.end().is_some_and(|report| report.is_unchanged(&scene.image)));
        Ok(())
    }

    #[test]
    fn an_opening_during_a_takeover_is_noticed_at_its_end() -> io::Result<()> {
        let mut scene = Scene::new()?;
        let exclusive = |report| matches!(report, Some(ImageReport::Exclusive { .. }));
        assert!(exclusive(scene.end()) && !scene.watch.is_on());
        File::open(scene.path())?;
        assert!(!scene.begin() && !scene.watch.is_on(), "the blocks are not dropped yet");
        assert!(scene.begin() && scene.watch.is_on());
        assert!(exclusive(scene.end()) && scene.begin(), "none this time");
        assert!(exclusive(scene.end()));
        File::open(scene.path())?;
        assert_eq!(scene.end(), None, "the next owner has not begun");
        assert!(scene.begin(), "that one has kept nothing");
        Ok(())
    }

    #[test]
    fn a_reader_is_noticed_only_while_it_has_the_image_open() -> io::Result<()> {
        let mut scene = Scene::new()?;
        drop(File::open(scene.path())?);
        scene.lose_owner();
        drop(File::open(scene.path())?);
        assert!(scene.end().is_some_and(|report| report.is_unchanged(&scene.image)));
        assert!(scene.begin());
        scene.lose_owner();
        let _reader = File::open(scene.path())?;
        assert_eq!(scene.end(), Some(ImageReport::Exposed));
        Ok(())
    }

    /// As `truncate` by path does: without an end of a description.
    #[test]
    fn a_change_after_the_last_request_is_noticed_within_the_same_tick_of_the_clock()
    -> io::Result<()> {
        let mut scene = Scene::new()?;
        scene.lose_owner();
        scene.image.set_len(4096)?;
        scene.image.set_len(8192)?;
        assert_eq!(scene.end(), Some(ImageReport::Exposed));
        Ok(())
    }

    #[test]
    fn the_state_is_noted_once_the_last_request_has_ended() -> io::Result<()> {
        let mut scene = Scene::new()?;
        let fence = Fence::take(scene.memory.file(), 0)?;
        scene.lose_owner();
        assert!(scene.watch.next().is_some(), "requests are in flight");
        scene.image.write_all_at(b"the last", 0)?;
        drop(fence);
        while let Some(next) = scene.watch.next() {
            next.pause();
            scene.watch.advance(scene.memory.file(), scene.image.as_fd());
        }
        let report = scene.end().expect("it was watched");
        assert!(report.is_unchanged(&scene.image));
        Ok(())
    }

    #[test]
    fn devices_and_mounts_are_not_watched() -> io::Result<()> {
        let mut scene = Scene::new()?;
        for key in ["device-1-2", "mount-0123"] {
            scene.watch.begin(scene.image.as_fd(), key);
            assert!(!scene.watch.is_on() && scene.end().is_none());
        }
        let proc = File::open("/proc/self/stat")?;
        scene.watch.begin(proc.as_fd(), "file-1-2");
        assert!(!scene.watch.is_on());
        Ok(())
    }
}
