//! Reads all of a volume.

use crate::SECTOR_BYTES;
use crate::bounds::Bounds;
use crate::class::Class;
use crate::detect::detect;
use crate::device::{Device, Part};
use crate::ext4;
use crate::fault::{Fault, Step};
use crate::map::{Builder, Kind, Map, Owner, System};
use crate::partitions::{Partition, Table, gpt, mbr};
use crate::source::ReadAt;
use crate::tree::Walked;
use crate::xfs;
use alloc::format;

/// Returns the map of a volume, made at this time in seconds since 1970.
///
/// A file system on the whole volume has its root as the root of the map. A partition is a
/// directory of the root, named `p` and its number. Parts that cannot be read are of the class
/// [`Class::Unknown`]; [`Map::systems`] lists them.
pub fn map_volume(source: &mut dyn ReadAt, bounds: &Bounds, seconds: u64) -> Map {
    let mut device = Device::new(source, bounds);
    let sectors = device.bytes() / SECTOR_BYTES;
    let mut builder = Builder::new(sectors, bounds.memory_bytes);
    if read(&mut device, sectors, &mut builder).is_err() {
        builder.set_incomplete();
    }
    builder.finish(seconds)
}

/// Reads the partition table, or the file system on the whole volume.
fn read(device: &mut Device<'_>, sectors: u64, builder: &mut Builder) -> Step {
    if let Some(table) = usable(gpt(device))? {
        return partitions(device, &table, builder);
    }
    let all = (0, sectors);
    let kind = usable(detect(&mut Part::new(device, 0, sectors)))?;
    if let Some(kind) = kind {
        return contents(device, all, kind, Builder::ROOT, builder);
    }
    match usable(mbr(device))? {
        Some(table) => partitions(device, &table, builder),
        None => contents(device, all, Kind::Unknown, Builder::ROOT, builder),
    }
}

/// Returns a result that only a bound makes an error.
fn usable<T>(result: Step<Option<T>>) -> Step<Option<T>> {
    match result {
        Err(Fault::Exhausted) => Err(Fault::Exhausted),
        Err(_) => Ok(None),
        found => found,
    }
}

fn partitions(device: &mut Device<'_>, table: &Table, builder: &mut Builder) -> Step {
    for &(first, sectors) in &table.metadata {
        builder.extent(first, sectors, Class::Metadata, Owner::None)?;
    }
    let end = device.bytes() / SECTOR_BYTES;
    for &Partition { number, first, sectors } in &table.partitions {
        let sectors = sectors.min(end.saturating_sub(first));
        let kind = usable(detect(&mut Part::new(device, first, sectors)))?;
        let name = format!("p{number}");
        let directory = builder.directory(Builder::ROOT, name.as_bytes())?;
        let kind = kind.unwrap_or(Kind::Unknown);
        contents(device, (first.min(end), sectors), kind, directory, builder)?;
    }
    Ok(())
}

/// Adds the contents of a partition, and its line in the list of file systems.
fn contents(
    device: &mut Device<'_>,
    (first, sectors): (u64, u64),
    kind: Kind,
    directory: u32,
    builder: &mut Builder,
) -> Step {
    let part = Part::new(device, first, sectors);
    let result = match kind {
        Kind::Ext4 => ext4::read(part, builder, directory),
        Kind::Xfs => xfs::read(part, builder, directory),
        _ => Ok(Walked { unreadable: 0, is_cut: false }),
    };
    let mut system = System {
        first,
        sectors,
        kind,
        directory,
        is_incomplete: false,
        is_damaged: false,
        unreadable: 0,
    };
    match &result {
        Ok(walked) => {
            system.is_incomplete = walked.is_cut;
            system.unreadable = walked.unreadable;
        }
        Err(Fault::Exhausted) => system.is_incomplete = true,
        Err(_) => system.is_damaged = true,
    }
    builder.system(system)?;
    if system.is_incomplete { Err(Fault::Exhausted) } else { Ok(()) }
}
