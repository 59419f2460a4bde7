//! The kernel's own caches for block devices, each with a RAM disk as its cache device.

use crate::mounted::well;
use crate::program::pause_ms;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Position of the data on the device below bcache: the default of make-bcache.
pub(super) const BCACHE_DATA: u64 = 8192;
/// Attempts to find a new device, 20 ms apart.
const TRIES: u32 = 250;

/// bcache, in its mode writeback; it caches all requests, also sequential ones.
pub(super) struct Bcache;

impl Bcache {
    /// Formats both devices, and starts the cache.
    ///
    /// # Errors
    /// bcache-tools are missing, or the kernel refuses.
    pub(super) fn new(slow: &Path, fast: &Path) -> Result<Bcache> {
        let (slow, fast) = (slow.display().to_string(), fast.display().to_string());
        well(
            "make-bcache",
            &["--block", "4k", "--bucket", "64k", "--writeback", "-B", &slow, "-C", &fast],
        )
        .context("bcache (apt-get install bcache-tools)")?;
        for device in [&fast, &slow] {
            // udev may have registered it already.
            let _ = fs::write("/sys/fs/bcache/register", device);
        }
        let bcache = Bcache;
        appears(&bcache.node())?;
        let state = fs::read_to_string("/sys/block/bcache0/bcache/state")?;
        ensure!(state.trim() != "no cache", "bcache has no cache device");
        fs::write("/sys/block/bcache0/bcache/sequential_cutoff", "0")?;
        for set in fs::read_dir("/sys/fs/bcache")?.flatten() {
            for kind in ["read", "write"] {
                let path = set.path().join(format!("congested_{kind}_threshold_us"));
                if path.exists() {
                    fs::write(path, "0")?;
                }
            }
        }
        Ok(bcache)
    }

    pub(super) fn node(&self) -> PathBuf {
        PathBuf::from("/dev/bcache0")
    }
}

impl Drop for Bcache {
    fn drop(&mut self) {
        let _ = fs::write("/sys/block/bcache0/bcache/stop", "1");
    }
}

/// A device of the device mapper.
pub(super) struct Mapped {
    name: &'static str,
    node: PathBuf,
}

impl Mapped {
    /// dm-cache, in its mode writeback, with its policy smq and the smallest blocks that it has,
    /// 32 KiB.
    ///
    /// # Errors
    /// dmsetup is missing, or the kernel refuses.
    pub(super) fn cache(slow: &Path, fast: &Path, metadata: &Path) -> Result<Mapped> {
        let (fast, metadata) = (fast.display(), metadata.display());
        let table = format!("cache {metadata} {fast} {} 64 1 writeback smq 0", slow.display());
        Mapped::new("peers-cache", slow, &table)
    }

    /// dm-writecache over an SSD, as it calls every cache device that is no persistent memory.
    ///
    /// # Errors
    /// dmsetup is missing, or the kernel refuses.
    pub(super) fn writecache(slow: &Path, fast: &Path) -> Result<Mapped> {
        let table = format!("writecache s {} {} 4096 0", slow.display(), fast.display());
        Mapped::new("peers-writecache", slow, &table)
    }

    fn new(name: &'static str, slow: &Path, table: &str) -> Result<Mapped> {
        let sectors = well("blockdev", &["--getsz", &slow.display().to_string()])?;
        let table = format!("0 {sectors} {table}");
        let create = ["create", "--noudevsync", "--noudevrules", name, "--table", &table];
        well("dmsetup", &create).context("device mapper (apt-get install dmsetup)")?;
        let columns = ["info", "--columns", "--noheadings", "--options", "blkdevname", name];
        let node = Path::new("/dev").join(well("dmsetup", &columns)?);
        let mapped = Mapped { name, node };
        appears(&mapped.node)?;
        Ok(mapped)
    }

    pub(super) fn node(&self) -> PathBuf {
        self.node.clone()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = well("dmsetup", &["remove", "--noudevsync", "--noudevrules", self.name]);
    }
}

fn appears(node: &Path) -> Result<()> {
    let found = (0..TRIES).any(|_| {
        let is_there = node.exists();
        if !is_there {
            pause_ms(20);
        }
        is_there
    });
    ensure!(found, "{} does not appear", node.display());
    Ok(())
}
