//! Volumes as files of a directory: a FUSE mount, which all lanes serve.

mod connection;
mod fusermount;
mod mountpoint;
mod wire;

use super::task_count::TaskCount;
use super::{EndFuture, Ending, Front, Inherited};
use crate::lanes::Lanes;
use crate::plan::{DaemonPlan, Mounting};
use crate::units::WaitTime;
use ::fuse::{Mount, Options, Session};
use block::{Kind, stable_hash};
use connection::Connection;
use export::{Budget, Export};
use holder::{Approach, Description, Keeper};
use host::File;
use lane::first;
use ring::Ring;
use stack::{Exit, Failure, Keep};
use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::Wire;

pub(crate) use mountpoint::{Mountpoint, abort, is_mounted, mountpoint};

/// Pause after a holder could not be started, in nanoseconds.
const HOLDER_PAUSE_NS: u64 = 5_000_000_000;

/// Description of a mount's volumes, for its holder.
pub(crate) struct MountInfo {
    /// Distinguishes the volumes from others with the same names.
    pub(crate) contents: String,
    /// Their backings, for messages.
    pub(crate) backing: String,
    /// The command that starts the daemon again, for messages.
    pub(crate) again: String,
}

impl MountInfo {
    /// Returns the description of a mount with these volumes of the plan. Only a daemon with the
    /// same volumes, by their identities, may take the mount over.
    pub(crate) fn of(kind: &str, exports: &[String], plan: &DaemonPlan) -> MountInfo {
        let planned = |name: &String| plan.volumes.iter().find(|planned| planned.name == *name);
        let identity = |name: &String| {
            let identity = planned(name).map_or(String::new(), |planned| planned.volume.identity());
            format!("{name}={identity}")
        };
        let identities: Vec<_> = exports.iter().map(identity).collect();
        let backings = exports.iter().filter_map(planned).map(|planned| planned.backing.as_str());
        MountInfo {
            contents: format!("{kind} over {:016x}", stable_hash(identities.join("\n").bytes())),
            backing: backings.collect::<Vec<_>>().join(", "),
            again: plan.again.clone(),
        }
    }
}

/// A mount, and its server.
pub(crate) struct Fuse {
    ring: Ring,
    place: Mountpoint,
    /// The device over its file, if there will be one.
    device: Option<PathBuf>,
    connection: Connection,
    info: MountInfo,
    wait_time: WaitTime,
    budget: Arc<Budget>,
    /// Set once it is open.
    mount: OnceCell<Arc<Mount>>,
    tasks: TaskCount,
    is_detached: Cell<bool>,
}

/// Announces to the holder of a mount that this process is about to take the mount over. None:
/// there is no holder, or one of an earlier version.
pub(crate) fn approach(keep: &Keep, directory: &Path) -> Option<Approach> {
    let place = Mountpoint::find(directory).ok()?;
    Keeper::approach(&keep.runtime, &holder::mount_key(place.path())).ok()?
}

impl Fuse {
    /// Mounts, or continues with the mount of an earlier program of this process or of an earlier
    /// process. Its clients share the budget with those of other fronts.
    ///
    /// # Errors
    /// It cannot be mounted; it waits for the daemon of other volumes.
    pub(crate) fn bind(
        ring: &Ring,
        mounting: &Mounting,
        info: MountInfo,
        inherited: &mut Inherited,
        budget: &Arc<Budget>,
    ) -> Result<Rc<Fuse>, Failure> {
        let Mounting { directory, exports, keep, device, wait_time } = mounting;
        ::fuse::check_names(exports)
            .map_err(|why| Failure::new(Exit::Usage, format!("{}: {why}", directory.display())))?;
        if device.is_some() {
            mountpoint::make_private(directory)?;
        }
        let place = Mountpoint::find(directory)?;
        let connection = Connection::open(&place, &info.contents, keep.as_ref(), inherited)?;
        Ok(Rc::new(Fuse {
            ring: ring.clone(),
            place,
            device: device.clone(),
            connection,
            info,
            wait_time: *wait_time,
            budget: budget.clone(),
            mount: OnceCell::new(),
            tasks: TaskCount::default(),
            is_detached: Cell::new(false),
        }))
    }

    /// Whether an earlier process has mounted it, so that it may be in use.
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.is_resumed
    }

    fn options(&self) -> Options {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Options {
            budget: self.budget.clone(),
            owner: (user.as_raw(), group.as_raw()),
            time_s: now.map_or(0, |now| now.as_secs()),
            handle: self.ring.lane().now(),
        }
    }

    /// Makes the further lanes serve the mount, too.
    fn open_on_further_lanes(&self, mount: &Arc<Mount>, names: &[String], lanes: &Lanes) {
        for further in lanes.further_lanes() {
            let (mount, device, names) = (mount.clone(), self.device().clone(), names.to_vec());
            let (front, task) = (self.name(), self.tasks.add());
            further.post(Box::new(move |local| {
                let make = || {
                    let wire = Wire::new(&local.ring, &device);
                    Session::new(local.ring.lane(), wire, &mount, local.exports(&names))
                };
                let session = local.front_state(&front, make, |session, name| session.remove(name));
                let helping = async move {
                    (*session).clone().help().await;
                    drop(task);
                };
                // If a lane is full, the other lanes serve without it.
                let _ = local.ring.lane().spawn(helping);
            }));
        }
    }

    /// Serves messages on the home lane.
    fn lead(self: &Rc<Self>, session: Rc<Session<Wire>>) {
        let (front, task) = (self.clone(), self.tasks.add());
        let leading = async move {
            let ended = session.lead().await;
            front.handle_end(ended);
            drop(task);
        };
        self.ring.lane().spawn(leading).expect("a fresh lane has room");
    }

    /// Handles the end of serving. `Err`: the kernel has ended it.
    fn handle_end(&self, ended: block::Result) {
        let Err(error) = ended else { return };
        let place = self.place.path().display();
        match error.kind {
            Kind::Stopping => crate::tell!("overdrive: {place} was unmounted"),
            _ => crate::complain!("overdrive: {place} is no longer served: {error}"),
        }
        if let Some(mount) = self.mount.get() {
            mount.close();
        }
        self.release_holder();
    }

    fn device(&self) -> &File {
        &self.connection.device
    }

    fn name(&self) -> String {
        format!("fuse:{}", self.place.path().display())
    }

    /// Sends the holder the answers that it gives for the mount while there is no daemon.
    fn describe(&self, mount: &Mount) {
        let description = Description {
            outline: Some(mount.outline()),
            wait_ms: self.wait_time.0,
            again: self.info.again.clone(),
            backing: self.info.backing.clone(),
        };
        if let Err(error) = self.connection.describe(description) {
            let place = self.place.path().display();
            crate::tell!("overdrive: {place}: its holder cannot answer requests to it: {error}");
        }
    }

    /// Releases the connection from its holder, once nothing is mounted any more.
    fn release_holder(&self) {
        self.is_detached.set(true);
        self.connection.release();
    }

    /// Leaves it mounted; its holder retains it for the next process.
    fn leave(&self) {
        self.is_detached.set(true);
        self.connection.leave();
    }

    /// Unmounts it, unless it is in use. If its file is used by a device, the mount waits for the
    /// next process. Any other mount loses its name even if in use, and its users get errors once
    /// this process has ended.
    fn unmount(&self) {
        if self.place.unmount().is_err() {
            if self.device.is_some() {
                return self.leave();
            }
            let path = self.place.path().display();
            crate::tell!("overdrive: {path} is in use; its users get errors from now on");
            let _ = self.place.detach();
        }
        self.release_holder();
        if self.device.is_some() {
            self.place.remove();
        }
    }
}

impl Drop for Fuse {
    /// Removes a mount that was never served, because another step has failed. One that an earlier
    /// process has made continues to wait.
    fn drop(&mut self) {
        if self.is_detached.get() {
            return;
        }
        if self.connection.is_resumed {
            return self.leave();
        }
        let _ = self.place.detach();
        self.release_holder();
    }
}

/// Care for the holder of the connection.
impl Fuse {
    /// Starts a new holder whenever one has died, until the front ends.
    async fn replace_dead_holders(self: Rc<Self>, mount: Arc<Mount>) {
        let lane = self.ring.lane();
        while let Some(socket) = self.connection.keeper_socket() {
            // Any error of the socket means that its holder has ended.
            let died = async {
                let _ = self.ring.readable(&socket).await;
            };
            first(mount.stop().wait(), died).await;
            if mount.stop().is_asked() || self.is_detached.get() {
                return;
            }
            let place = self.place.path().display();
            match self.connection.keep_again(&self.place) {
                Ok(()) => {
                    self.describe(&mount);
                    crate::tell!(
                        "overdrive: {place}: its holder has ended; another one was started"
                    )
                }
                Err(failure) => {
                    crate::complain!("overdrive: {failure}; trying again");
                    let pause = lane.sleep_until(lane.now() + HOLDER_PAUSE_NS);
                    first(mount.stop().wait(), pause).await;
                }
            }
        }
    }
}

impl Front for Fuse {
    fn address(&self, export: &str) -> String {
        let file = || self.place.path().join(export);
        self.device.clone().unwrap_or_else(file).display().to_string()
    }

    fn open(self: Rc<Self>, exports: Vec<Export>, lanes: &Rc<Lanes>) {
        let names: Vec<String> = exports.iter().map(|export| export.name.clone()).collect();
        let mount = Mount::new(&exports, self.options());
        let _ = self.mount.set(mount.clone());
        self.describe(&mount);
        let lane = self.ring.lane();
        let session = Session::new(lane, Wire::new(&self.ring, self.device()), &mount, exports);
        session.watch();
        if self.connection.is_resumed
            && let Err(error) = session.resend()
        {
            crate::tell!(
                "overdrive: {}: earlier requests are lost: {error}",
                self.place.path().display()
            );
        }
        // If the lane is full, a holder that dies is not replaced.
        let _ = lane.spawn(self.clone().replace_dead_holders(mount.clone()));
        self.open_on_further_lanes(&mount, &names, lanes);
        self.lead(session);
    }

    fn remove(&self, export: &str) {
        let Some(mount) = self.mount.get() else { return };
        mount.remove(export);
        match mount.is_empty() {
            true => self.close(Ending::Stop),
            false => self.describe(mount),
        }
    }

    fn close(&self, ending: Ending) {
        if let Some(mount) = self.mount.get() {
            mount.close();
        }
        if ending == Ending::Stop && !self.is_detached.get() {
            self.unmount();
        }
    }

    fn end(&self, deadline_ns: u64) -> EndFuture<'_> {
        Box::pin(self.tasks.none_until(self.ring.lane(), deadline_ns))
    }

    fn handover_files(&self) -> Vec<(String, File)> {
        match self.is_detached.get() {
            true => Vec::new(),
            false => self.connection.handover_files(&self.place),
        }
    }
}
