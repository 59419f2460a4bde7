//! `overdrive drive trim`: discards free blocks.

use super::target::{Target, path_of};
use crate::progress::Stages;
use crate::volumes::{self, Named};
use block::Size;
use daemon::control::lower_drives::{self, LowerDrives, Served};
use host::{Patience, discard, trim_mounted};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Discard the free space of mounted file systems (fstrim), or all of an unused drive.
///
/// A drive that knows which blocks are free writes less by itself, so that it is faster and lasts
/// longer. Discards of a volume's device reach its backing, and each member of a pool. Examples:
///   overdrive drive trim /mnt/data
///   overdrive drive trim nvme0n1           all mounted file systems on the drive
///   overdrive drive trim db                those on the device of a volume
///   overdrive drive trim sdb --whole       all of an unused drive: its data is lost
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Options {
    /// A directory where a file system is mounted, a device, or a served volume.
    target: PathBuf,
    /// Discard all of an unused drive. Its data is lost.
    #[arg(long)]
    whole: bool,
    /// With --whole: the serial number of the drive, or the name of a device without one, instead
    /// of typing it.
    #[arg(long, value_name = "SERIAL", requires = "whole")]
    confirm: Option<String>,
    /// Print what would be done, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long, short = 'J')]
    json: bool,
}

/// Bytes of one request.
const PIECE_BYTES: u64 = 1 << 30;
/// Time between two readings of the members' counters, and the maximum number of readings.
const LOOK_MS: u64 = 100;
const LOOKS_MAX: u32 = 50;

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.whole {
        return whole(options);
    }
    let volume = options.target.to_str().filter(|name| !name.contains('/'));
    let members_before = volume.map(members).unwrap_or_default();
    let places = places(&options.target)?;
    let mut done: Vec<(String, Result<u64, Failure>)> = Vec::new();
    for place in places {
        let trimmed = match options.dry_run {
            true => Ok(0),
            false => trim(&place),
        };
        done.push((place, trimmed));
    }
    let members = match options.dry_run {
        true => Vec::new(),
        false => {
            let after = volume.map_or(Ok(Vec::new()), members_after_flush)?;
            grown(members_before, after)
        }
    };
    print(options, &done, &members);
    let failure = done.into_iter().find_map(|(_, trimmed)| trimmed.err());
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns the directories at which file systems of a target are mounted, one for each.
fn places(target: &Path) -> Result<Vec<String>, Failure> {
    let text = target.display().to_string();
    let path = path_of(target);
    let is_device = host::device_number(&path).is_some();
    let found = match std::fs::metadata(target) {
        Ok(found) if found.is_dir() && text.contains('/') => vec![text.clone()],
        _ if is_device => {
            volumes::mount_points_at(&path.canonicalize().unwrap_or_else(|_| path.clone()))
        }
        _ => match volumes::find_device(&text)? {
            Named::Served(served) if served.row.device.is_empty() => {
                let message = format!(
                    "{text}: is served, but is no device here; run fstrim where its file system is \
                     mounted, for example in the guest"
                );
                return Err(Failure::new(Exit::Usage, message));
            }
            Named::Served(served) => volumes::mount_points(&served.row),
            Named::NotServed => {
                let message = format!("{text}: no such directory, device or volume");
                return Err(Failure::new(Exit::Negative, message));
            }
        },
    };
    let mut systems = Vec::new();
    let mut places = Vec::new();
    for place in found {
        let system = std::fs::metadata(&place).map(|found| found.dev()).ok();
        if system.is_none() || !systems.contains(&system) {
            systems.push(system);
            places.push(place);
        }
    }
    if places.is_empty() {
        let users = host::device_number(&path).map(|number| host::device_users(number, &path));
        if let Some(user) = users.iter().flatten().next() {
            let message = format!(
                "{text}: {user}; only its user can determine which of its blocks are free: trim the \
                 volume or the file system above it"
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        let message = format!(
            "{text}: no file system on it is mounted here; mount it, or discard all of an unused \
             drive with --whole, which loses its data"
        );
        return Err(Failure::new(Exit::Negative, message));
    }
    Ok(places)
}

fn trim(place: &str) -> Result<u64, Failure> {
    use rustix::io::Errno;
    trim_mounted(Path::new(place)).map_err(|error| match error {
        Errno::OPNOTSUPP | Errno::NOTTY => {
            let message = format!(
                "{place}: the file system or the device below it does not support discards; see \
                 'overdrive drive list', column DISCARD"
            );
            Failure::new(Exit::Negative, message)
        }
        Errno::PERM | Errno::ACCESS => {
            let message = format!("{place}: only root may trim it; run this with sudo");
            Failure::new(Exit::Permission, message)
        }
        error => Failure::new(Exit::Io, format!("{place}: cannot be trimmed ({error})")),
    })
}

/// Returns the members of a served pool, with the discards that each has received.
fn members(volume: &str) -> Vec<(String, u64)> {
    members_of(volume).map_or(Vec::new(), |(mut served, paths)| counts(&mut served, &paths))
}

/// Returns the same after a trim. Discards reach the members after a flush, and a while later.
fn members_after_flush(volume: &str) -> Result<Vec<(String, u64)>, Failure> {
    let Some((mut served, paths)) = members_of(volume) else { return Ok(Vec::new()) };
    served.flush()?;
    let mut last = counts(&mut served, &paths);
    for _ in 0..LOOKS_MAX {
        Patience::new(LOOK_MS).wait();
        let next = counts(&mut served, &paths);
        if next == last {
            break;
        }
        last = next;
    }
    Ok(last)
}

fn members_of(volume: &str) -> Option<(Served, Vec<Option<PathBuf>>)> {
    match lower_drives::find(Path::new(volume)) {
        Ok(LowerDrives::Members(served, paths)) => Some((served, paths)),
        _ => None,
    }
}

fn counts(served: &mut Served, paths: &[Option<PathBuf>]) -> Vec<(String, u64)> {
    let Ok(stats) = served.stats() else { return Vec::new() };
    let names = paths
        .iter()
        .map(|path| path.as_ref().map_or("missing".to_owned(), |path| path.display().to_string()));
    names.zip(stats.members.iter().map(|member| member.trims)).collect()
}

fn grown(before: Vec<(String, u64)>, after: Vec<(String, u64)>) -> Vec<(String, u64)> {
    let pairs = before.into_iter().zip(after);
    pairs.map(|((name, before), (_, after))| (name, after.saturating_sub(before))).collect()
}

fn print(options: &Options, done: &[(String, Result<u64, Failure>)], members: &[(String, u64)]) {
    if options.json {
        let place = |(place, trimmed): &(String, Result<u64, Failure>)| {
            json!({
                "mounted": place,
                "trimmed_bytes": trimmed.as_ref().ok().filter(|_| !options.dry_run),
                "why": trimmed.as_ref().err().map(|failure| failure.message.clone()),
            })
        };
        let places: Vec<Value> = done.iter().map(place).collect();
        let members: Vec<Value> = members
            .iter()
            .map(|(name, discards)| json!({ "name": name, "discards": discards }))
            .collect();
        let object = json!({
            "schema": "overdrive.drive.trim/1", "dry_run": options.dry_run, "whole": false,
            "places": places, "members": members,
        });
        daemon::say!("{object}");
        return;
    }
    for (place, trimmed) in done {
        match trimmed {
            Ok(_) if options.dry_run => daemon::say!("{place}: its free space would be discarded"),
            Ok(bytes) => daemon::say!("{place}: {} discarded", Size(*bytes)),
            Err(_) => {}
        }
    }
    for (name, discards) in members {
        daemon::say!("  member {name}: {discards} discards");
    }
}

/// Discards all of an unused drive.
fn whole(options: &Options) -> Result<ExitCode, Failure> {
    let target = Target::claim(&options.target)?;
    let (node, bytes) = (target.node.display(), target.claim.bytes());
    if target.identity.discard_bytes == 0 {
        let message = format!("{node}: does not support discards");
        return Err(Failure::new(Exit::Negative, message));
    }
    for contents in target.claim.contents() {
        daemon::tell!("overdrive: {node}: has {contents}");
    }
    if !options.dry_run {
        target.confirm(options.confirm.as_deref(), "all its data will be lost (discard)")?;
        let mut stages = Stages::with_time_left();
        let mut first = 0;
        while first < bytes {
            let length = PIECE_BYTES.min(bytes - first);
            discard(target.claim.file(), first, length).map_err(|error| {
                Failure::new(Exit::Io, format!("{node}: cannot be discarded ({error})"))
            })?;
            first += length;
            stages.set("discarding", first as f64 / bytes as f64);
        }
    }
    if options.json {
        let object = json!({
            "schema": "overdrive.drive.trim/1", "dry_run": options.dry_run, "whole": true,
            "device": node.to_string(), "trimmed_bytes": if options.dry_run { 0 } else { bytes },
        });
        daemon::say!("{object}");
    } else if options.dry_run {
        daemon::say!("{node}: all of it would be discarded, {}; nothing was changed", Size(bytes));
    } else {
        daemon::say!("{node}: {} discarded, all of it", Size(bytes));
    }
    Ok(ExitCode::SUCCESS)
}
