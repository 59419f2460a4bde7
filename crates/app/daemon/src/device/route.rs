//! The choice of the route by which the kernel reaches a volume.

use super::{over_nbd, over_ublk, place};
use crate::plan::Route;
use host::{LoopDevice, NbdDevice};
use ring::UblkControl;
use stack::{Exit, Failure};
use std::path::Path;

impl Route {
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

    /// Whether the kernel has a device of this volume by this route, which may be in use. Always
    /// false for a FUSE file under a loop device: the state of its mount shows it.
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
        requested: Option<Route>,
        runtime: &Path,
        volume: &str,
    ) -> Result<Route, Failure> {
        let existing = Route::ALL.into_iter().find(|route| route.has(runtime, volume));
        match (requested, existing) {
            (Some(requested), Some(existing)) if requested != existing => {
                let (requested, existing) = (requested.word(), existing.word());
                let message = format!(
                    "{volume}: is a device by '{existing}', which waits for its daemon, so it \
                     cannot become one by '{requested}'; attach it with --via {existing}, then detach it"
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
    fn the_requested_route_is_used_if_there_is_no_device() {
        let nowhere = Path::new("/nowhere");
        let chosen = Route::choose(Some(Route::Nbd), nowhere, "db");
        assert_eq!(chosen.ok(), Some(Route::Nbd));
    }
}
