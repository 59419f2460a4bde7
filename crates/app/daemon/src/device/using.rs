//! Users of a device, and a claim that it has none.

use crate::broker;
use host::{ClaimedDevice, device_number, device_users};
use stack::{Exit, Failure};
use std::fmt;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// udev opens each device that is new or was closed after writing, and holds it for a moment:
/// number of attempts of a detach, ...
const CLAIM_TRIES: u32 = 20;
/// ... and the pause between two attempts.
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

/// Returns a failure of the system concerning a device.
pub(super) fn failure(link: &Path, what: impl fmt::Display, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        io::ErrorKind::Unsupported | io::ErrorKind::NotFound => Exit::Usage,
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{}: {what}: {error}", link.display()))
}

/// Returns a function that converts errors of the system into such failures.
pub(super) fn to_failure(link: &Path, what: &str) -> impl Fn(io::Error) -> Failure {
    let (link, what) = (link.to_owned(), what.to_owned());
    move |error| failure(&link, &what, &error)
}

/// Waits a moment, on a thread without a lane.
#[allow(clippy::disallowed_methods, reason = "a thread without a lane")]
pub(super) fn pause() {
    thread::sleep(CLAIM_PAUSE);
}

/// Waits until the condition holds, at most a second: as long as udev may hold a device. False: it
/// does not hold.
pub(super) fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    (0..CLAIM_TRIES).any(|_| {
        let found = is_so();
        if !found {
            pause();
        }
        found
    })
}

/// Claims the device of this node, so that no other process uses it or can begin to use it.
///
/// # Errors
/// Busy, with its user; it cannot be opened.
pub(super) fn claim(link: &Path, node: &Path) -> Result<ClaimedDevice, Failure> {
    let (mut claimed, mut failed) = (None, None);
    wait_until(|| {
        match ClaimedDevice::claim(node) {
            Ok(claim) => match users(node) {
                Ok(users) if users.is_empty() => claimed = Some(claim),
                Ok(_) => {}
                Err(failure) => failed = Some(failure),
            },
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(error) => failed = Some(failure(link, "it cannot be opened", &error)),
        }
        claimed.is_some() || failed.is_some()
    });
    match (claimed, failed) {
        (Some(claimed), _) => Ok(claimed),
        (None, Some(failed)) => Err(failed),
        (None, None) => Err(busy(link, node)),
    }
}

/// Returns descriptions of a device's users, of which a confined process sees none itself.
fn users(node: &Path) -> Result<Vec<String>, Failure> {
    if let Some(broker) = broker::present() {
        return broker.users(node);
    }
    let found = device_number(node).map_or(Vec::new(), |number| device_users(number, node));
    Ok(found.iter().map(ToString::to_string).collect())
}

/// Returns the failure of a device in use, with its users.
pub(super) fn busy(link: &Path, node: &Path) -> Failure {
    let users = users(node).unwrap_or_default();
    let users = match &users[..] {
        [] => "is in use".to_owned(),
        users => users.join(", and "),
    };
    Failure::new(Exit::Busy, format!("{}: {users}; release it there first", link.display()))
}
