//! Detects whether another program may have written to an image while no daemon served it (C9).
//!
//! ```text
//!   the owner:    `watch` ------- serves ------- killed                      `watch`
//!   this holder:     |<-------- openings -------------------------->|  take     |
//!                    |                        its I/O ends: state ->|           |
//!                    |<-------- openings -------------------------------------->|
//! ```
//!
//! Locks do not stop programs that ignore them. Two signs show such a program. It has opened the
//! image since the owner's start: inotify(7) queues that in the `open` itself, so at no moment is
//! an opening missed. Or it had the image open already: then the time of the last change (ctime) or
//! the size differs from their values at the end of the owner's last request. Before that end, the
//! owner's own requests change them. The next owner waits for the end of these requests and reads
//! all headers before its own `watch`, so openings are reported at both of these times.
//!
//! Only image files of local file systems are watched. The state of a device shows no writes, and
//! the server of a network file system shows no openings by other machines.

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
    /// An inotify descriptor with each opening since the owner began. None: nothing is watched.
    openings: Option<OwnedFd>,
    /// The time without an owner.
    orphaned: Option<Orphaned>,
    /// The openings since the former owner began, while the present one takes its blocks over.
    former: Option<OwnedFd>,
}

struct Orphaned {
    /// The image's state since the owner's last request has ended. None: it has not ended yet.
    state: Option<ImageState>,
    next: Deadline,
    pause: Duration,
}

/// Begins to note openings of an image.
fn openings_of(image: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let openings = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", image.as_raw_fd());
    inotify::add_watch(&openings, path, WatchFlags::OPEN)?;
    Ok(openings)
}

/// Whether an event was queued, or none can be read.
fn has_event(openings: &OwnedFd) -> bool {
    let mut event = [0; EVENT_BYTES];
    !matches!(rustix::io::read(openings, &mut event), Err(Errno::AGAIN))
}

impl ImageWatch {
    /// Begins to watch the image for an owner whose clean blocks equal it from now on. Returns
    /// false, and watches nothing, if another program has opened the image while this owner took
    /// these blocks over: after it has dropped them, it may begin again.
    pub(crate) fn begin(&mut self, image: BorrowedFd<'_>, key: &str) -> bool {
        let is_watchable = image::is_local_file(image, key);
        let openings = is_watchable.then(|| openings_of(image)).and_then(Result::ok);
        // Read after the next watch has begun: no opening is between the two.
        let was_opened = self.former.take().is_some_and(|former| has_event(&former));
        *self = ImageWatch { openings: openings.filter(|_| !was_opened), ..Default::default() };
        !was_opened
    }

    /// Whether the image is watched, so that a next owner may use clean blocks.
    pub(crate) fn is_on(&self) -> bool {
        self.openings.is_some()
    }

    /// Begins the time without an owner.
    pub(crate) fn lose_owner(&mut self, memory: BorrowedFd<'_>, image: BorrowedFd<'_>) {
        if self.is_on() && self.orphaned.is_none() {
            let (next, pause) = (Deadline::after(Duration::ZERO), PAUSE_MIN);
            self.orphaned = Some(Orphaned { state: None, next, pause });
            self.advance(memory, image);
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
        if Fence::take(memory, 0).is_ok() {
            orphaned.state = ImageState::of(image);
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
        let ImageWatch { openings, orphaned, .. } = std::mem::take(self);
        let (since, openings) = (orphaned.and_then(|it| it.state), openings?);
        if has_event(&openings) {
            return Some(ImageReport::Opened);
        }
        self.former = Some(openings);
        Some(ImageReport::Unopened { since })
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
            let mut watch = ImageWatch::default();
            watch.begin(image.as_fd(), "file-1-2");
            assert!(watch.is_on() && watch.next().is_none());
            Ok(Scene { directory, memory, image, watch })
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
        assert!(matches!(report, ImageReport::Unopened { since: Some(_) }));
        assert!(report.is_unchanged(&scene.image));
        assert_eq!(scene.end(), None, "the next owner has not begun");
        Ok(())
    }

    #[test]
    fn every_opening_is_noticed_from_the_start_of_the_owner_on() -> io::Result<()> {
        let opened = |scene: &Scene| File::open(scene.directory.path().join("image"));
        let mut scene = Scene::new()?;
        opened(&scene)?;
        scene.lose_owner();
        assert_eq!(scene.end(), Some(ImageReport::Opened));
        assert!(scene.begin());
        scene.lose_owner();
        opened(&scene)?;
        let report = scene.end().expect("it was watched");
        assert!(!report.is_unchanged(&scene.image));
        Ok(())
    }

    #[test]
    fn an_opening_during_a_takeover_is_noticed_at_its_end() -> io::Result<()> {
        let mut scene = Scene::new()?;
        let unopened = |report| matches!(report, Some(ImageReport::Unopened { .. }));
        assert!(unopened(scene.end()) && !scene.watch.is_on());
        File::open(scene.directory.path().join("image"))?;
        assert!(!scene.begin() && !scene.watch.is_on(), "the blocks are not dropped yet");
        assert!(scene.begin() && scene.watch.is_on());
        assert!(unopened(scene.end()) && scene.begin(), "none this time");
        assert!(unopened(scene.end()));
        File::open(scene.directory.path().join("image"))?;
        assert_eq!(scene.end(), None, "the next owner has not begun");
        assert!(scene.begin(), "that one has kept nothing");
        Ok(())
    }

    #[test]
    fn a_program_that_had_the_image_open_is_noticed_by_its_writes() -> io::Result<()> {
        let directory = tempfile::tempdir_in("/dev/shm")?;
        let path = directory.path().join("image");
        let image = File::create_new(&path)?;
        let other = OpenOptions::new().write(true).open(&path)?;
        let memory = shared_memory("test", 4096, HugePages::Never, &mut |_, _| ())?;
        let mut watch = ImageWatch::default();
        for change in [
            &(|| other.set_len(4096)) as &dyn Fn() -> io::Result<()>,
            &(|| other.write_all_at(b"x", 0)),
        ] {
            watch.begin(image.as_fd(), "file-1-2");
            watch.lose_owner(memory.file(), image.as_fd());
            let before = ImageState::of(&image);
            // Times of files are those of the last tick of the kernel's clock.
            while ImageState::of(&image) == before {
                change()?;
            }
            let report = watch.end(memory.file(), image.as_fd()).expect("it was watched");
            assert!(matches!(report, ImageReport::Unopened { .. }));
            assert!(!report.is_unchanged(&image));
        }
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
