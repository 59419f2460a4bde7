//! The holder: what keeps a volume's memory when its daemon dies (clause C5).
//!
//! Dirty blocks lie in the *arena*, a sealed memfd. Such memory lives as long as a process has a
//! descriptor of it, and so does a lock on an image as long as a process has its open file
//! description. So a second process, so small and so dull that it has no reason to die, has both:
//! the arena, and the *backing* with its locks, so that no other process can use the image while there
//! is dirty data for it. One holder a volume.
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
//! # Its life
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
//! The daemon starts it as the hidden command `hold`, with one end of a socket pair as its stdin.
//! It starts itself once more in a session of its own and leaves, so that the holder has no
//! parent that waits for it and leaves no zombie. The owner is not a process but an open connection: when the last
//! descriptor of that is closed, by whatever way of dying, the volume is orphaned.
//!
//! # What is spoken
//!
//! Packets (`SOCK_SEQPACKET`) of one JSON object each, at most 32 KiB, and descriptors beside them.
//!
//! | ask | from | answer |
//! |---|---|---|
//! | `keep {volume, backing, key, runtime, pid}` + arena, backing | the daemon that started it, once | `kept` |
//! | `take {pid}` | any while there is no owner, or the owner again | `kept {volume, backing, key}` + arena, backing; `busy {pid}` |
//! | `release` | the owner | `done`; it is gone |
//! | `status` | any | `status {...}` |
//! | `look` | any | `kept` + arena, without becoming the owner |
//! | `describe {outline, wait_ms, again, backing}` | the owner of a mount | `accepted` |
//! | `approach` | a daemon that is about to take a mount over, while the connection is open | `accepted` |
//! | `leave` | the owner of a mount, which serves no more and ends | `accepted` |
//! | `waiting` | any | `waits {waiting}`: of a mount without an owner, since when |
//! | `discard {takes}` | any while there is no owner | `done`; it is gone; `busy {pid}`; `error` if it was taken over since its status said `takes` |
//!
//! Any is: a process of the same user, or of root. What is not understood is answered with
//! `error {message}`. No client can keep the holder waiting: it never blocks on a connection, and one
//! that does not read its answer is cut off.
//!
//! # A mount
//!
//! The connection of a FUSE mount (/dev/fuse) is kept in the same way, in the backing's place and beside an empty memory,
//! under a key that begins with `mount-`. As long as it is open the kernel keeps what was asked and not answered, and the
//! next daemon has it sent again. The holder of a mount ends when that is unmounted, or its connection is cut.
//!
//! A mount without a daemon must not hang programs that only look at names and sizes, such as `df`
//! and `losetup -a`. So after half a second its holder reads /dev/fuse and answers those questions;
//! after `wait_ms` it refuses all others with EIO (`absence.rs`). A daemon that has to wait before it
//! can take the mount over, for the I/O of the one before it, has sent `approach` and has more time. A service manager's store could
//! not do that: mounts are kept by a process there, too.
//!
//! # Under systemd
//!
//! The service manager can do the same (its descriptor store), and does it better than a process
//! in the service's own control group. Where it offers that ([`Keeper::start`] looks at
//! `NOTIFY_SOCKET` and `FDSTORE`), the descriptors go there, as `<key>.memory`, `<key>.backing` and
//! `<key>.kept` (a memfd with what the volume is), and come back as `LISTEN_FDS`.
//!
//! # The fence
//!
//! A lock whose description a holder keeps no longer says that the dead daemon's last I/O is over
//! (clause C15). [`ring::Fence`] does: it is to be taken after [`Keeper::find`], before anything is
//! written to the backing.
#![forbid(unsafe_code)]

mod absence;
mod connections;
mod deadline;
mod directory;
mod doubt;
mod hold;
mod image;
mod keeper;
mod kept;
mod key;
mod life;
mod notify;
mod packet;
mod pid;
mod process;
mod record;
mod store;
mod survey;
mod tell;
mod wire;

pub use absence::{Description, WAIT_DEFAULT_MS, Waiting};
pub use doubt::Doubts;
pub use hold::{HOLD, Terms, hold, hold_on};
pub use keeper::{Approach, Found, Keeper};
pub use kept::{BACKING_MAX, Kept, Looked};
pub use key::{key_at, mount_key};
pub use notify::{notify_ready, notify_stopping, scrub};
pub use process::{Busy, Roll, Silent};
pub use record::{Record, Records, birth, memory_identity};
pub use survey::Contents;
pub use wire::Status;
