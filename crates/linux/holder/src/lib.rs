//! The holder retains a volume's memory when its daemon dies (clause C5).
//!
//! Dirty blocks are in the *arena*, a sealed memfd. Such memory exists as long as a process has a
//! descriptor of it, and a lock on an image as long as a process has its open file description. So
//! a second process, which is small and simple and therefore unlikely to die, has both: the arena,
//! and the *backing* with its locks, so that no other process can use the image while there is
//! dirty data for it. Each volume has one holder.
//!
//! ```text
//!   overdrive serve ------ owner's connection ------ od-holder
//!        |    \                                      |   |   \
//!        |     +------- arena (memfd) ---------------+   |    <runtime>/holders/<key>.sock
//!        +------------- backing (locked) ----------------+        ^        ^
//!                                                                 |        |
//!                                    the next daemon: take -------+        +--- status, look
//! ```
//!
//! # Life of a holder
//!
//! ```text
//!                 keep + arena, backing
//!    (started) ------------------------> OWNED ------ release ---------------> gone
//!                                        ^   |
//!                                   take |   | the owner's connection ends
//!                                        |   v
//!                                      ORPHANED ----- nothing dirty, not failed,
//!                                                     discard, SIGTERM with nothing dirty,
//!                                                     or the image was deleted --------> gone
//! ```
//!
//! With nothing but clean blocks, or connections to the server of a backing, it stays for
//! [`HolderOptions::clean_max`], so that a daemon that is restarted finds them; longer if a daemon
//! that starts has sent `approach`.
//!
//! The daemon starts it as the hidden command `hold`, with one end of a socket pair as its stdin.
//! That process starts the program once more in a new session and exits, so that the holder has no
//! parent that must wait for it and leaves no zombie. The owner is an open connection, not a
//! process: when its last descriptor is closed, for any reason, the volume is orphaned.
//!
//! # Protocol
//!
//! Packets (`SOCK_SEQPACKET`) of one JSON object each, at most 32 KiB, and descriptors with them.
//!
//! Each line names a request, its permitted senders, and the answer:
//!
//! - `keep {volume, backing, key, runtime, pid}`, with arena and backing. The daemon that started
//!   it, once. `kept`.
//! - `take {pid}`. Any, if there is no owner, and the owner itself. `kept {volume, backing, key}`,
//!   with arena and backing, and `image`: what is known about other writers; or `busy {pid}`.
//! - `watch`. The owner, once its clean blocks equal the image: before it serves. `accepted`; or
//!   `opened`: another program has opened the image since `take`, so nothing is watched.
//! - `exchange`, with a backing. The owner of a volume: these descriptors are retained instead of
//!   those before. `accepted`.
//! - `release`. The owner. `done`, and the holder ends.
//! - `status`. Any. `status {...}`.
//! - `look`. Any. `kept`, with the arena, without becoming the owner.
//! - `describe {outline, wait_ms, again, backing}`. The owner of a mount. `accepted`.
//! - `approach`. A daemon that is about to take the memory or the mount over, while the connection
//!   is open. `accepted`.
//! - `leave`. The owner of a mount, which stops serving and ends. `accepted`.
//! - `waiting`. Any. `waits {waiting}`: since when a mount has had no owner.
//! - `discard {takes}`. Any, if there is no owner. `done`, and the holder ends; or `busy {pid}`; or
//!   `error` if it was taken over since its status had this value of `takes`.
//!
//! "Any" is a process of the same user, or of root. An unknown request is answered with
//! `error {message}`. No client can keep the holder waiting: it never blocks on a connection, and
//! one that does not read its answer is cut off.
//!
//! # A mount
//!
//! The connection of a FUSE mount (/dev/fuse) is retained in the same way, as the backing of an
//! empty memory, under a key that begins with `mount-`. While it is open the kernel keeps all
//! unanswered requests, and the next daemon makes the kernel send them again. The holder of a mount
//! ends when the mount is unmounted, or its connection is aborted.
//!
//! A mount without a daemon must not hang programs that only look at names and sizes, such as `df`
//! and `losetup -a`. So after half a second its holder reads /dev/fuse and answers such requests;
//! after `wait_ms` it refuses all others with EIO (`absence.rs`). A daemon that must wait for the
//! I/O of the one before it sends `approach` first, which gives it more time. A service manager's
//! store could not do any of this, so a process retains mounts under systemd, too.
//!
//! # Under systemd
//!
//! The service manager can retain descriptors too (its descriptor store), more reliably than a
//! process in the service's own control group. If it offers this ([`Keeper::start`] looks at
//! `NOTIFY_SOCKET` and `FDSTORE`), the descriptors go there, as `<key>.memory`, `<key>.backing` and
//! `<key>.kept` (a memfd with the volume's identity), and come back as `LISTEN_FDS`.
//!
//! # The fence
//!
//! Once a holder has the image's lock too, the lock does not prove any more that the dead daemon's
//! last I/O has ended (C15). [`ring::Fence`] proves it: take it after [`Keeper::find`], before
//! anything is written to the backing.
#![forbid(unsafe_code)]

mod absence;
mod connections;
mod deadline;
mod directory;
mod doubt;
mod hold;
mod image;
mod image_report;
mod image_watch;
mod keeper;
mod key;
mod life;
mod notify;
mod packet;
mod pid;
mod process;
mod record;
mod retained;
mod store;
mod survey;
mod warn;
mod wire;

pub use absence::{Description, WAIT_DEFAULT_MS, Waiting};
pub use doubt::Doubts;
pub use hold::{HOLD, HolderOptions, hold, hold_on};
pub use image_report::{ImageReport, ImageState};
pub use keeper::{Approach, Found, Keeper};
pub use key::{key_at, mount_key};
pub use notify::{notify_ready, notify_stopping, scrub};
pub use process::{Busy, Roll, Silent};
pub use record::{Record, Records, birth, memory_identity};
pub use retained::{BACKING_MAX, Looked, RetainedVolume};
pub use survey::Contents;
pub use wire::Status;
