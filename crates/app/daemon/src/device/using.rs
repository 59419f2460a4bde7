//! What uses a device, and the claim that nothing does.

use host::{ClaimedDevice, device_number, device_users};
use stack::{Exit, Failure};
use std::fmt;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// udev looks at each device that is new or was closed, and holds it meanwhile: so often a detach tries again, ...
const CLAIM_TRIES: u32 = 20;
/// ... and so long it waits between two tries.
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

/// A failure of the system over a device, as it is told.
pub(super) fn failure(link: &Path, what: impl fmt::Display, error: &io::Error) -> Failure {
    let exit = match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::Permission,
        io::ErrorKind::Unsupported | io::ErrorKind::NotFound => Exit::Usage,
        _ => Exit::Io,
    };
    Failure::new(exit, format!("{}: {what}: {error}", link.display()))
}

/// Makes failures of errors.
pub(super) fn trouble(link: &Path, what: &str) -> impl Fn(io::Error) -> Failure {
    let (link, what) = (link.to_owned(), what.to_owned());
    move |error| failure(&link, &what, &error)
}

/// Waits for a moment, on a thread that has no lane.
#[allow(clippy::disallowed_methods, reason = "a thread that has no lane")]
pub(super) fn pause() {
    thread::sleep(CLAIM_PAUSE);
}

/// Waits until it is so, for as long as udev may hold a device. False: it is not.
pub(super) fn wait_until(mut is_so: impl FnMut() -> bool) -> bool {
    (0..CLAIM_TRIES).any(|_| {
        let found = is_so();
        if !found {
            pause();
        }
        found
    })
}

/// Makes sure that nothing uses the device of this node, and that nothing will.
///
/// # Errors
/// Busy, with what uses it; it cannot be opened.
pub(super) fn claim(link: &Path, node: &Path) -> Result<ClaimedDevice, Failure> {
    let (mut claimed, mut failed) = (None, None);
    wait_until(|| {
        match ClaimedDevice::claim(node) {
            Ok(claim) if users(node).is_empty() => claimed = Some(claim),
            Ok(_) => {}
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

fn users(node: &Path) -> Vec<String> {
    let found = device_number(node).map_or(Vec::new(), |number| device_users(number, node));
    found.iter().map(ToString::to_string).collect()
}

/// That it is in use, and by what.
pub(super) fn busy(link: &Path, node: &Path) -> Failure {
    let users = users(node);
    let users = match &users[..] {
        [] => "is in use".to_owned(),
        users => users.join(", and "),
    };
    Failure::new(Exit::Busy, format!("{}: {users}", link.display()))
}
