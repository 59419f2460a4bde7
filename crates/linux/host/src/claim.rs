//! Whether a file or device may be opened for an intent: its users, and its contents.
//!
//! | contents | serve | serve raw | overwrite, read | pool member | overwritten pool member |
//! |---|---|---|---|---|---|
//! | image of a disk | refused | noted | refused | refused | |
//! | LUKS container | noted | noted | named | refused | |
//! | file system of several hosts | refused | noted | refused | refused | refused |
//! | other signatures | | | named | refused | |
//!
//! A file or device in use ([`crate::Finding`]) is refused, except that reading only notes it.
//! Overwriting also requires the user's agreement, and that no other program has the device open.

use crate::backings::{devices_on, is_over_one};
use crate::clock::Patience;
use crate::file::{FileVolume, Lock, OpenOptions};
use crate::identity::Identity;
use crate::image::{reason, reason_to_measure};
use crate::in_use::{Usage, device_number, device_users, find};
use crate::open_error::{OpenError, OpenErrorKind};
use crate::refusal::{failed, in_use, refuse_as_backing};
use crate::signatures::{Found, Kind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Time for programs that only inspect a device to close it, in milliseconds.
const INSPECTION_MS: u64 = 1_000;

/// The purpose of opening a file or device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent<'a> {
    /// Serve it.
    Serve {
        /// Whether to serve even an apparent image of a disk, or a file system of several hosts
        /// that only this host uses.
        is_raw: bool,
    },
    /// Serve it as a device of Overdrive. That device may exist already, and wait for its daemon.
    Attach {
        /// As in `Serve`.
        is_raw: bool,
        /// The device's name.
        device: &'a str,
    },
    /// Read it to measure its speed, even while it has users.
    Read,
    /// Overwrite it, with or without the user's agreement to lose its contents.
    Overwrite {
        /// Whether the user has agreed.
        is_agreed: bool,
    },
    /// Make it a member of a new pool.
    PoolMember {
        /// Whether the user has agreed to lose its contents.
        is_agreed: bool,
    },
}

/// A file or device that may be used.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The open and locked volume.
    pub volume: Arc<FileVolume>,
    /// Sentences for the user about its contents.
    pub notes: Vec<String>,
}

impl Intent<'_> {
    /// Whether apparent images are served as raw disks. None: the intent is not to serve.
    fn is_raw(&self) -> Option<bool> {
        match *self {
            Intent::Serve { is_raw } | Intent::Attach { is_raw, .. } => Some(is_raw),
            Intent::Read | Intent::Overwrite { .. } | Intent::PoolMember { .. } => None,
        }
    }
}

/// Returns the devices of Overdrive on top of a file or device; the flag requests also those that
/// refuse changes.
type DevicesOn<'a> = &'a dyn Fn(Identity, bool) -> Vec<String>;

/// A file or device to be opened for an intent. Its users and contents are examined through the
/// descriptor that is used later, so another file cannot take its place in between.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Its path.
    pub path: &'a Path,
    /// How to open it.
    pub options: OpenOptions,
    /// The purpose.
    pub intent: Intent<'a>,
    /// Longest wait for a process that was just killed ([`FileVolume::open_waiting`]).
    pub lock_wait_ms: u64,
}

impl Claim<'_> {
    /// Refuses the backing of another device of Overdrive, even while no daemon serves that device.
    /// Call it before retained memory of the backing is taken over. A missing path is accepted,
    /// because opening reports it.
    ///
    /// # Errors
    /// Busy: a sentence with the device and possible next steps.
    pub fn check(&self) -> Result<(), OpenError> {
        self.check_path(&devices_on)
    }

    fn check_path(&self, devices_on: DevicesOn<'_>) -> Result<(), OpenError> {
        let Ok(found) = rustix::fs::stat(self.path) else { return Ok(()) };
        self.refuse_backing(Identity::of(&found), devices_on)
    }

    /// Refuses the backing of a device of Overdrive, whether a daemon serves that device or not.
    /// Accepts that of the device which this process continues; and if nothing is written, that of
    /// a device that refuses changes.
    ///
    /// # Errors
    /// Busy: a sentence with the device and possible next steps.
    fn refuse_backing(
        &self,
        backing: Identity,
        devices_on: DevicesOn<'_>,
    ) -> Result<(), OpenError> {
        let own_device = match self.intent {
            Intent::Read => return Ok(()),
            Intent::Attach { device, .. } => Some(device),
            Intent::Serve { .. } | Intent::Overwrite { .. } | Intent::PoolMember { .. } => None,
        };
        let devices = devices_on(backing, !self.options.read_only);
        match devices.iter().find(|device| own_device != Some(device)) {
            Some(device) => Err(refuse_as_backing(self.path, device, is_over_one(device))),
            None => Ok(()),
        }
    }

    /// Opens and examines it. `kept` is a descriptor that a holder has retained, which is used
    /// instead of opening the path. `was_served` returns whether the contents were accepted before.
    /// They then count as raw, because clients may have written anything since.
    ///
    /// # Errors
    /// [`OpenError`]: it is in use, or its contents are unsuitable for this intent.
    pub fn open(
        &self,
        kept: Option<OwnedFd>,
        was_served: impl Fn(&FileVolume) -> bool,
    ) -> Result<Claimed, OpenError> {
        self.open_checked(kept, was_served, &devices_on)
    }

    fn open_checked(
        &self,
        kept: Option<OwnedFd>,
        was_served: impl Fn(&FileVolume) -> bool,
        devices_on: DevicesOn<'_>,
    ) -> Result<Claimed, OpenError> {
        self.check_path(devices_on)?;
        let is_shared = self.intent == Intent::Read;
        let read_only = self.options.read_only || is_shared;
        let options = OpenOptions { read_only, is_shared, ..self.options };
        let opened = match kept {
            Some(kept) => FileVolume::from_file(self.path, kept, options),
            None => FileVolume::open_waiting(self.path, options, self.lock_wait_ms),
        };
        let volume = opened.map_err(|error| self.image_instead(error))?;
        // The path may be a link that led to another file before.
        self.refuse_backing(volume.numbers(), devices_on)?;
        let intent = match self.intent.is_raw() {
            Some(is_raw) => Intent::Serve { is_raw: is_raw || was_served(&volume) },
            None => self.intent,
        };
        let mut notes = examine(&volume, intent)?;
        if is_shared {
            notes
                .extend(first_user(&volume).map(|user| format!("{}: {user}", self.path.display())));
        }
        Ok(Claimed { volume, notes })
    }

    /// Replaces an error about the size of an image file by one about its format. Such a file may
    /// have any size, so the advice to extend it would be wrong.
    fn image_instead(&self, error: OpenError) -> OpenError {
        match error.image {
            Some(format) if self.intent.is_raw() == Some(false) && !format.is_container() => {
                unsupported(reason(format, self.path))
            }
            _ => error,
        }
    }
}

/// Opens a file or device for this intent ([`Claim`]).
///
/// # Errors
/// Those of [`Claim::open`].
pub fn claim(
    path: &Path,
    options: OpenOptions,
    intent: Intent<'_>,
    lock_wait_ms: u64,
) -> Result<Claimed, OpenError> {
    Claim { path, options, intent, lock_wait_ms }.open(None, |_| false)
}

/// Describes the first other user of a file or device, including one that came after it was opened.
fn first_user(volume: &FileVolume) -> Option<String> {
    let path = volume.path();
    let identity = volume.numbers();
    let of_ours = devices_on(identity, true).into_iter().map(Usage::Backing);
    let found = find(identity, true).into_iter().map(|finding| finding.to_string());
    let node = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let openers = || device_number(&node).map(|number| device_users(number, &node));
    let openers = std::iter::once_with(openers).flatten().flatten();
    let locked = match volume.lock() {
        Lock::Held => None,
        Lock::No(reason) => Some(reason.clone()),
    };
    let named = of_ours.map(|usage| usage.to_string()).chain(found);
    named.chain(openers.map(|user| user.to_string())).chain(locked).next()
}

/// Examines the contents of a file or device for this intent. Returns sentences for the user.
///
/// # Errors
/// [`OpenError`]: its contents are unsuitable for this intent, or it is open elsewhere.
fn examine(volume: &FileVolume, intent: Intent<'_>) -> Result<Vec<String>, OpenError> {
    let is_serving = intent.is_raw().is_some();
    // Serving searches only for signatures that it may refuse: a full search would take long on a
    // remote disk.
    let is_wanted = |kind| !is_serving || matches!(kind, Kind::Image(_) | Kind::Cluster);
    let found = volume.signatures(is_wanted)?;
    let path = volume.path();
    if matches!(intent, Intent::Overwrite { .. }) && volume.is_device() {
        refuse_opened(path)?;
    }
    let verdicts = found.iter().map(|found| verdict(path, found, intent));
    let notes = verdicts.collect::<Result<Vec<_>, OpenError>>()?;
    let mut notes: Vec<String> = notes.into_iter().flatten().collect();
    // One file system may have several marks.
    notes.dedup();
    if intent == (Intent::Overwrite { is_agreed: false }) {
        return Err(unsupported(would_be_lost(volume, found.first())));
    }
    Ok(notes)
}

fn unsupported(message: String) -> OpenError {
    failed(OpenErrorKind::Unsupported, message)
}

/// Refuses contents for an intent, or returns a sentence about them.
fn verdict(path: &Path, found: &Found, intent: Intent<'_>) -> Result<Option<String>, OpenError> {
    let name = path.display();
    let Found { signature, offset } = found;
    let words = signature.words;
    match (intent, signature.kind) {
        (Intent::Serve { .. }, Kind::Image(format)) if format.is_container() => {
            Ok(Some(reason(format, path)))
        }
        (Intent::Serve { is_raw: true }, Kind::Image(format)) => {
            Ok(Some(format!("{name}: {format} image, served byte by byte")))
        }
        (Intent::Serve { is_raw: true }, Kind::Cluster) => Ok(Some(format!(
            "{name}: {words} on it; make sure that this is the only host that uses it"
        ))),
        (Intent::Serve { is_raw: false }, Kind::Image(format)) => {
            Err(unsupported(reason(format, path)))
        }
        (Intent::Serve { is_raw: false }, Kind::Cluster) => Err(unsupported(format!(
            "{name}: has a file system for several hosts on it ({words}); a cache on one host \
             hides changes from the others, and both would damage it. If this is the only host \
             that uses it, use --raw"
        ))),
        (Intent::Overwrite { .. } | Intent::Read, Kind::Image(format))
            if !format.is_container() =>
        {
            Err(unsupported(reason_to_measure(format, path)))
        }
        (Intent::PoolMember { is_agreed: false }, _) => Err(unsupported(format!(
            "{name}: is not blank, it has {words} (at byte {offset}); --overwrite makes it a \
             member and destroys its contents"
        ))),
        (Intent::Overwrite { .. } | Intent::PoolMember { .. }, Kind::Cluster) => {
            Err(unsupported(format!(
                "{name}: has a file system for several hosts on it ({words}, at byte {offset}), \
                 which another host may use; if none does, remove its signature first, with: \
                 wipefs --all {name}"
            )))
        }
        _ => Ok(None),
    }
}

/// Returns the sentence about contents that a suite would overwrite.
fn would_be_lost(volume: &FileVolume, found: Option<&Found>) -> String {
    let kind = if volume.is_device() { "a device" } else { "an image" };
    let holds = found.map_or(String::new(), |found| format!(" with {}", found.signature.words));
    format!(
        "{}: is {kind} of {}{holds}; the suite writes to it, and its contents would be lost: use \
         --destroy if nothing of it is needed, or --read-only for reads only",
        volume.path().display(),
        block::Size(volume.limits().bytes())
    )
}

/// Refuses a device that another program has open. Programs that only inspect it, as udev does
/// after each change, get some time to close it.
fn refuse_opened(path: &Path) -> Result<(), OpenError> {
    let node = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(number) = device_number(&node) else { return Ok(()) };
    let patience = Patience::new(INSPECTION_MS);
    loop {
        let users = device_users(number, &node);
        let Some(user) = users.first() else { return Ok(()) };
        let is_lasting = users.iter().any(|user| !matches!(user.usage, Usage::Open(_)));
        if is_lasting || !patience.pause() {
            return Err(in_use(path, &user.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Opens a link that leads to one file at the check and to another, below the device `db`, when
    /// it is opened.
    fn open_changed_link(intent: Intent<'_>) -> Result<Claimed, OpenError> {
        let place = tempfile::tempdir().expect("room");
        let [free, backing, link] = ["free", "backing", "link"].map(|name| place.path().join(name));
        for file in [&free, &backing] {
            fs::write(file, [7; 8192]).expect("room");
        }
        symlink(&free, &link).expect("room");
        let [free, of_db] = [&free, &backing]
            .map(|file| Identity::of(&rustix::fs::stat(file).expect("it is there")));
        let is_changed = Cell::new(false);
        let devices_on = |found: Identity, _: bool| {
            if !is_changed.replace(true) {
                assert_eq!(found, free);
                fs::remove_file(&link).expect("it is there");
                symlink(&backing, &link).expect("room");
            }
            if found == of_db { vec!["db".to_owned()] } else { Vec::new() }
        };
        let options = OpenOptions { buffered: true, ..OpenOptions::default() };
        let claim = Claim { path: &link, options, intent, lock_wait_ms: 0 };
        claim.open_checked(None, |_| false, &devices_on)
    }

    #[test]
    fn a_link_that_leads_to_the_backing_of_a_device_after_the_check_is_refused() {
        for intent in [
            Intent::Serve { is_raw: true },
            Intent::Attach { is_raw: true, device: "other" },
            Intent::Overwrite { is_agreed: true },
            Intent::PoolMember { is_agreed: true },
        ] {
            let refused = open_changed_link(intent).expect_err("it is the backing of db");
            assert_eq!(refused.kind, OpenErrorKind::Busy);
            assert!(refused.message.contains("/dev/overdrive/db"), "{}", refused.message);
        }
        let own = Intent::Attach { is_raw: true, device: "db" };
        open_changed_link(own).expect("it is the device's own backing");
    }
}
