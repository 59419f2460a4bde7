//! The route by which the kernel reaches a volume: its choice, and the front at its end.

use super::{over_nbd, over_ublk, place};
use crate::front::{Fronts, Fuse, Inherited, KernelNbd, MountInfo, Ublk};
use crate::plan::{Attaching, DaemonPlan, Mounting, Route};
use crate::units::WaitTime;
use export::Budget;
use host::{LoopDevice, NbdDevice};
use ring::{Ring, UblkControl};
use stack::{Exit, Failure};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// How the kernel reaches a volume, with the front that serves it in that way.
pub(super) enum RouteFront {
    /// Over a file of a separate front.
    Fuse,
    /// Over connections to this front.
    Nbd(Rc<KernelNbd>),
    /// By queues that this front serves.
    Ublk(Rc<Ublk>),
}

/// The route of a volume that becomes a device. Its front is bound.
pub(crate) struct BoundRoute {
    /// Name of the volume and of its device.
    pub(crate) volume: String,
    /// Whether an earlier process has made the device, so that it may be in use.
    pub(crate) is_waiting: bool,
    pub(super) front: RouteFront,
    /// How long requests wait for a new daemon after one has ended.
    pub(super) wait_time: WaitTime,
}

impl BoundRoute {
    /// Chooses a route for a volume of the plan, and adds the front at its end to the fronts.
    ///
    /// # Errors
    /// Busy: the volume is a device by another route than the requested one; those of the front.
    pub(crate) fn bind(
        attaching: &Attaching,
        plan: &DaemonPlan,
        fronts: &Fronts,
        ring: &Ring,
        inherited: &mut Inherited,
        budget: &Arc<Budget>,
    ) -> Result<BoundRoute, Failure> {
        let Attaching { volume, via, wait_time, .. } = attaching;
        let exports = std::slice::from_ref(volume);
        let route = Route::choose(*via, &plan.runtime, volume)?;
        let mut is_waiting = route.is_waiting(&plan.runtime, volume);
        let front = match route {
            Route::Fuse => {
                let mounting = mounting_of(attaching, &plan.runtime);
                let info = MountInfo::of("device", exports, plan);
                let front = Fuse::bind(ring, &mounting, info, inherited, budget)?;
                is_waiting = front.is_resumed();
                fronts.add(front, exports);
                RouteFront::Fuse
            }
            Route::Ublk => {
                let front = Ublk::new(ring, &place::link(volume), budget);
                fronts.add(front.clone(), exports);
                RouteFront::Ublk(front)
            }
            Route::Nbd => {
                let front = KernelNbd::new(ring, &place::link(volume), budget);
                fronts.add(front.clone(), exports);
                RouteFront::Nbd(front)
            }
        };
        Ok(BoundRoute { volume: volume.clone(), is_waiting, front, wait_time: *wait_time })
    }
}

/// Returns the mount with the file below a device.
fn mounting_of(attaching: &Attaching, runtime: &Path) -> Mounting {
    Mounting {
        directory: place::directory(runtime, &attaching.volume),
        exports: vec![attaching.volume.clone()],
        keep: attaching.keep.clone(),
        device: Some(place::link(&attaching.volume)),
        wait_time: attaching.wait_time,
    }
}

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
    fn is_waiting(self, runtime: &Path, volume: &str) -> bool {
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
    fn choose(requested: Option<Route>, runtime: &Path, volume: &str) -> Result<Route, Failure> {
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
