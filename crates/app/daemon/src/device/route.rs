//! Routes by which the kernel reaches a volume.

use super::{over_nbd, over_ublk, place};
use host::{LoopDevice, NbdDevice};
use ring::UblkControl;
use stack::{Exit, Failure};
use std::path::Path;

/// A route by which the kernel reaches a volume that is a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// The kernel's driver ublk.
    Ublk,
    /// A FUSE file under a loop device with direct I/O.
    Fuse,
    /// The kernel's NBD client, over our own sockets.
    Nbd,
}

impl Route {
    /// All of them, the best first.
    pub const ALL: [Route; 3] = [Route::Ublk, Route::Fuse, Route::Nbd];

    /// Returns the route as it is written.
    pub fn word(self) -> &'static str {
        match self {
            Route::Ublk => "ublk",
            Route::Fuse => "fuse",
            Route::Nbd => "nbd",
        }
    }

    /// Returns the route with this name.
    ///
    /// # Errors
    /// A list of all routes.
    pub fn parse(word: &str) -> Result<Route, String> {
        let found = Route::ALL.into_iter().find(|route| route.word() == word);
        found.ok_or_else(|| {
            let words = Route::ALL.map(Route::word).join(", ");
            format!("'{word}' is no route to a volume; write one of {words}")
        })
    }

    /// Whether this kernel supports the route.
    fn is_possible(self) -> bool {
        match self {
            Route::Ublk => UblkControl::is_possible(),
            Route::Fuse => {
                ["/dev/fuse", "/dev/loop-control"].iter().all(|path| Path::new(path).exists())
            }
            Route::Nbd => NbdDevice::is_possible(),
        }
    }

    /// Whether a device of this volume exists by this route.
    fn has(self, runtime: &Path, volume: &str) -> bool {
        let directory = place::directory(runtime, volume);
        match self {
            Route::Ublk => !over_ublk::all_of(&directory).is_empty(),
            Route::Fuse => !LoopDevice::all_over(&directory.join(volume)).is_empty(),
            Route::Nbd => !over_nbd::all_of(&directory).is_empty(),
        }
    }

    /// Whether the kernel has a device of this volume by this route, which may be in use. For a
    /// device over a FUSE file, the mount shows it.
    pub(crate) fn is_waiting(self, runtime: &Path, volume: &str) -> bool {
        let directory = place::directory(runtime, volume);
        match self {
            Route::Ublk => over_ublk::has_disk(&directory),
            Route::Nbd => !over_nbd::all_of(&directory).is_empty(),
            Route::Fuse => false,
        }
    }

    /// Returns the route for a volume: the requested one; otherwise the one of the device that an
    /// earlier process has left; otherwise the best that the kernel offers.
    ///
    /// # Errors
    /// Busy: the volume is a device by another route than the requested one.
    pub(crate) fn choose(
        asked: Option<Route>,
        runtime: &Path,
        volume: &str,
    ) -> Result<Route, Failure> {
        let there = Route::ALL.into_iter().find(|route| route.has(runtime, volume));
        match (asked, there) {
            (Some(asked), Some(there)) if asked != there => {
                let (asked, there) = (asked.word(), there.word());
                let message = format!(
                    "{volume}: is a device by '{there}', which waits for its daemon, so it \
                     cannot become one by '{asked}'; attach it with --via {there}, then detach it"
                );
                Err(Failure::new(Exit::Busy, message))
            }
            (Some(route), _) | (None, Some(route)) => Ok(route),
            // If there is no route at all, the message about FUSE is the most helpful.
            (None, None) => {
                let possible = Route::ALL.into_iter().find(|route| route.is_possible());
                Ok(possible.unwrap_or(Route::Fuse))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_known_by_its_word() {
        for route in Route::ALL {
            assert_eq!(Route::parse(route.word()), Ok(route));
        }
        let refused = Route::parse("iscsi").expect_err("not built");
        assert!(refused.contains("ublk, fuse, nbd"), "{refused}");
    }

    #[test]
    fn what_is_asked_for_is_taken_where_nothing_is_there() {
        let nowhere = Path::new("/nowhere");
        let chosen = Route::choose(Some(Route::Nbd), nowhere, "db");
        assert_eq!(chosen.ok(), Some(Route::Nbd));
    }
}
