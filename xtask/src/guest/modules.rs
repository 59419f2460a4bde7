//! A kernel's modules, and the order in which to load them.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};

/// Returns the files of these modules and their dependencies, each after its dependencies. Modules
/// that are built into the kernel have no file. `place` is the kernel's directory of modules, in
/// which depmod(8) was run.
///
/// # Errors
/// Depmod's files cannot be read, or there is no such module.
pub(super) fn in_order(place: &Path, names: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let read = |name: &str| {
        let path = place.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (needs, builtin) = (read("modules.dep")?, read("modules.builtin")?);
    let mut files: Vec<PathBuf> = Vec::new();
    for name in names {
        if builtin.lines().any(|file| is_called(file, name)) {
            continue;
        }
        let found = lines(&needs).find(|(file, _)| is_called(file, name));
        ensure!(found.is_some(), "{} has no module {name}", place.display());
        let (file, before) = found.unwrap_or_default();
        // The last one has no dependencies, as modprobe expects.
        for file in before.split_whitespace().rev().chain([file]) {
            let file = place.join(file);
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Parses the lines of modules.dep: a file, and its dependencies.
fn lines(needs: &str) -> impl Iterator<Item = (&str, &str)> {
    needs.lines().filter_map(|line| line.split_once(':'))
}

/// Whether the file contains this module; `-` and `_` are equal in a module's name.
fn is_called(file: &str, name: &str) -> bool {
    let file = file.rsplit('/').next().unwrap_or_default();
    let stem = file.split_once(".ko").map_or(file, |(stem, _)| stem);
    stem.replace('-', "_") == name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_is_loaded_before_it_and_once() -> anyhow::Result<()> {
        let place = std::env::temp_dir().join(format!("overdrive-modules-{}", std::process::id()));
        std::fs::create_dir_all(&place)?;
        let needs = "fs/9p/9p.ko.xz: net/9pnet.ko.xz fs/netfs.ko.xz\nnet/9pnet.ko.xz: fs/netfs.ko.xz\n\
                     fs/netfs.ko.xz:\nnet/9pnet-virtio.ko.xz: net/9pnet.ko.xz fs/netfs.ko.xz\n";
        std::fs::write(place.join("modules.dep"), needs)?;
        std::fs::write(place.join("modules.builtin"), "kernel/drivers/virtio/virtio_pci.ko\n")?;
        let files = in_order(&place, &["virtio_pci", "9pnet_virtio", "9p"])?;
        let names: Vec<_> =
            files.iter().filter_map(|file| file.strip_prefix(&place).ok()).collect();
        let expected =
            ["fs/netfs.ko.xz", "net/9pnet.ko.xz", "net/9pnet-virtio.ko.xz", "fs/9p/9p.ko.xz"];
        assert_eq!(names, expected.map(Path::new));
        let error = in_order(&place, &["9p", "ublk"]).expect_err("it is not there");
        assert!(error.to_string().ends_with("has no module ublk"), "{error}");
        Ok(std::fs::remove_dir_all(place)?)
    }
}
