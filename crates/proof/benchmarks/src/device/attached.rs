//! A volume attached as a device by `overdrive attach`.

use crate::overdrive::Overdrive;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A device, until it is dropped.
pub(crate) struct Attached<'a> {
    overdrive: &'a Overdrive,
    name: String,
    is_attached: bool,
}

impl<'a> Attached<'a> {
    /// Attaches an image with additional arguments.
    ///
    /// # Errors
    /// Those of the command.
    pub(crate) fn new(
        overdrive: &'a Overdrive,
        image: &Path,
        more: &[&str],
    ) -> Result<Attached<'a>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("figures-{}-{number}", std::process::id());
        let image = image.to_str().context("a path that is text")?;
        let fixed = ["attach", image, "--name", &name];
        overdrive.well(&[&fixed, more].concat())?;
        Ok(Attached { overdrive, name, is_attached: true })
    }

    /// Returns its node.
    pub(crate) fn node(&self) -> PathBuf {
        Path::new("/dev/overdrive").join(&self.name)
    }

    /// Returns the process id of its daemon.
    ///
    /// # Errors
    /// No daemon serves it.
    pub(crate) fn daemon(&self) -> Result<u32> {
        let said = self.overdrive.well(&["volume", "list", "-n", "-o", "state,pid"])?;
        let pid = said.lines().find_map(|line| line.strip_prefix("serving"));
        Ok(pid.context("no daemon serves it")?.trim().parse()?)
    }

    /// Detaches it; returns when all data is on the image.
    ///
    /// # Errors
    /// Those of the command.
    pub(crate) fn detach(mut self) -> Result<()> {
        self.is_attached = false;
        self.overdrive.well(&["detach", &self.name]).map(|_| ())
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if self.is_attached {
            let _ = self.overdrive.well(&["detach", &self.name]);
        }
    }
}
