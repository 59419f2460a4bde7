//! Volumes whose device or mounted file has no daemon: since when, and what the user can do.

use super::mount_points_at;
use crate::supervisors::supervisor_of;
use daemon::WaitingVolume;
use holder::Waiting;
use stack::{Exit, Failure};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns all such volumes of this user.
pub(crate) fn all() -> Vec<WaitingVolume> {
    daemon::waiting_volumes(&daemon::runtime_directory())
}

/// Returns the volume with this name, or with this node.
pub(crate) fn find(name: &str) -> Option<WaitingVolume> {
    let is_it = |one: &WaitingVolume| {
        one.volume == name || one.node.as_deref().is_some_and(|node| node == Path::new(name))
    };
    all().into_iter().find(is_it)
}

/// Returns where its device, or a partition of it, is mounted.
pub(crate) fn mounted(waiting: &WaitingVolume) -> Vec<String> {
    waiting.node.as_deref().map_or_else(Vec::new, mount_points_at)
}

/// Returns a sentence: since when it has had no daemon, what happens to its requests, and what the
/// user can do.
pub(crate) fn explain(waiting: &WaitingVolume) -> String {
    let name = &waiting.volume;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let state = match &waiting.mount {
        Some(mount) => state_of(mount, now_s),
        None => "has no daemon, and its users wait".to_owned(),
    };
    format!("{name}: {state}; {}", advice(waiting))
}

fn state_of(mount: &Waiting, now_s: u64) -> String {
    let since_s = now_s.saturating_sub(mount.since_unix_s);
    let requests = match mount.fails_unix_s {
        None => "its users wait".to_owned(),
        Some(fails_s) if fails_s > now_s => {
            format!("its users wait, and get errors in {} s", fails_s - now_s)
        }
        Some(_) => "its users get errors".to_owned(),
    };
    format!("has had no daemon for {since_s} s, and {requests}")
}

/// Returns how to start the daemon again, and how to give the volume up.
fn advice(waiting: &WaitingVolume) -> String {
    let name = &waiting.volume;
    let again = waiting.mount.as_ref().map_or("", |mount| &mount.description.again);
    let on = match (supervisor_of(name), again) {
        (Some(pid), _) => format!("its supervisor (process {pid}) restarts it"),
        (None, "") => format!("'overdrive attach BACKING --name {name}' continues it"),
        (None, again) => format!("'{again}' continues it"),
    };
    let away = match (&waiting.route, &waiting.mount) {
        (None, Some(mount)) => format!("umount -f {}", mount.directory),
        _ => format!("overdrive detach {name} --force"),
    };
    format!("{on}, '{away}' gives it up")
}

/// Returns the refusal of a command that requires its daemon.
pub(crate) fn failure(waiting: &WaitingVolume) -> Failure {
    Failure::new(Exit::NoDaemon, explain(waiting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holder::Description;

    fn waiting(fails_unix_s: Option<u64>) -> Waiting {
        Waiting {
            directory: "/run/files".to_owned(),
            since_unix_s: 1000,
            fails_unix_s,
            holder_pid: 7,
            files: vec!["db".to_owned()],
            description: Description {
                again: "overdrive serve x".to_owned(),
                ..Default::default()
            },
        }
    }

    #[test]
    fn the_sentence_says_what_becomes_of_requests() {
        let at = |fails, now| state_of(&waiting(fails), now);
        assert_eq!(at(None, 1010), "has had no daemon for 10 s, and its users wait");
        let soon = "has had no daemon for 10 s, and its users wait, and get errors in 20 s";
        assert_eq!(at(Some(1030), 1010), soon);
        let late = "has had no daemon for 40 s, and its users get errors";
        assert_eq!(at(Some(1030), 1040), late);
    }

    #[test]
    fn files_are_given_up_otherwise_than_devices() {
        let mount = Some(waiting(None));
        let volume = "no such volume".to_owned();
        let file = WaitingVolume { volume, node: None, route: None, mount };
        let message = explain(&file);
        assert!(
            message.contains("'overdrive serve x' continues it, 'umount -f /run/files'"),
            "{message}"
        );
        let device = WaitingVolume { route: Some(daemon::Route::Ublk), mount: None, ..file };
        let message = explain(&device);
        assert!(message.contains("'overdrive detach no such volume --force' gives"), "{message}");
    }
}
