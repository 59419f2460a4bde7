//! Actions once everything is served: starting the captive command, and printing the addresses.

use super::captive;
use super::volume_service::VolumeService;
use crate::plan::{Listening, Mounting, NbdAddress, Ready};
use stack::Failure;
use std::path::PathBuf;
use std::process::Child;
use std::rc::Rc;

/// The actions to take once the daemon is ready.
pub(super) struct ReadyActions {
    command: Option<String>,
    environment: captive::Environment,
    addresses: Vec<String>,
    ready: Ready,
}

impl ReadyActions {
    /// Prepares to print these addresses, and to start this command.
    pub(super) fn new(
        command: Option<String>,
        services: &[Rc<VolumeService>],
        listeners: &[Listening],
        mounts: &[Mounting],
        addresses: Vec<String>,
        ready: Ready,
    ) -> ReadyActions {
        let socket = match listeners.first().map(|listening| &listening.address) {
            Some(NbdAddress::Unix(path)) => path.clone(),
            _ => PathBuf::new(),
        };
        let file = mounts.first().and_then(|mounting| {
            mounting.exports.first().map(|name| mounting.directory.join(name))
        });
        let uri = services.first().map_or(String::new(), |service| service.address.clone());
        let environment = captive::Environment { uri, socket, file };
        ReadyActions { command, environment, addresses, ready }
    }

    /// Carries them out. Returns the captive command, if there is one.
    ///
    /// # Errors
    /// The command cannot be started.
    pub(super) fn run(self) -> Result<Option<Child>, Failure> {
        let start = |command: &String| captive::start(command, &self.environment);
        let child = self.command.as_ref().map(start).transpose()?;
        (self.ready)(&self.addresses);
        Ok(child)
    }
}
