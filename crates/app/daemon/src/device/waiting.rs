//! Devices and mounted files without a daemon: requests to them wait, or already fail.

use super::orphan::{Orphan, orphan};
use super::place::{DEVICES, directory};
use crate::control::call_roll;
use crate::plan::Route;
use holder::{Keeper, Waiting};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A volume without a daemon that is a device, or a mounted file.
#[derive(Clone, Debug)]
pub struct WaitingVolume {
    /// Its name.
    pub volume: String,
    /// The node of its device. None: it is only a file.
    pub node: Option<PathBuf>,
    /// How the kernel reaches it, if it is a device.
    pub route: Option<Route>,
    /// The report of its mount's holder. None: it is a device without a mount.
    pub mount: Option<Waiting>,
}

/// Returns all volumes of this user that are devices or files without a daemon, in the order of
/// their names.
pub fn waiting_volumes(runtime: &Path) -> Vec<WaitingVolume> {
    let mut mounts = Keeper::waiting(runtime).unwrap_or_default();
    let mut found: Vec<WaitingVolume> = Vec::new();
    let mut is_served = None;
    for volume in names(runtime) {
        let Some(orphan) = orphan(runtime, &volume) else { continue };
        let place = with_real_parent(&directory(runtime, &volume));
        let index = mounts.iter().position(|mount| Path::new(&mount.directory) == place);
        let mount = index.map(|index| mounts.swap_remove(index));
        let Some((node, route)) = node_of(&orphan) else {
            found.extend(mount.map(|mount| WaitingVolume {
                volume,
                node: None,
                route: Some(Route::Fuse),
                mount: Some(mount),
            }));
            continue;
        };
        // Whether a loop device has a daemon is known to the holder of its mount; for other devices
        // the daemons are queried.
        let waits = match route {
            Route::Fuse => mount.is_some(),
            _ => !is_served.get_or_insert_with(|| served_names(runtime)).contains(&volume),
        };
        if waits {
            found.push(WaitingVolume { volume, node: Some(node), route: Some(route), mount });
        }
    }
    for mount in mounts {
        let file = |file: &String| WaitingVolume {
            volume: file.clone(),
            node: None,
            route: None,
            mount: Some(mount.clone()),
        };
        found.extend(mount.files.iter().map(file));
    }
    found.sort_by(|one, two| one.volume.cmp(&two.volume));
    found
}

/// Returns the volumes that may be devices, from the directories of their files and from the links
/// to devices.
fn names(runtime: &Path) -> BTreeSet<String> {
    let directories = [runtime.join("devices"), PathBuf::from(DEVICES)];
    let entries = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten();
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// Returns the path of a mount as its holder stores it: with its parent resolved, and without
/// access to the mount itself.
fn with_real_parent(directory: &Path) -> PathBuf {
    let above = directory.parent().and_then(|above| fs::canonicalize(above).ok());
    match (above, directory.file_name()) {
        (Some(above), Some(name)) => above.join(name),
        _ => directory.to_owned(),
    }
}

fn node_of(orphan: &Orphan) -> Option<(PathBuf, Route)> {
    orphan.nodes().into_iter().next()
}

/// Returns the names of devices that daemons serve. If a daemon does not answer, these are all
/// names, because it may serve any of them.
fn served_names(runtime: &Path) -> BTreeSet<String> {
    let roll = call_roll(runtime);
    let rows = roll.answered.into_iter().flat_map(|(_, rows)| rows).map(|row| row.name);
    match roll.silent.is_empty() {
        true => rows.collect(),
        false => rows.chain(names(runtime)).collect(),
    }
}
