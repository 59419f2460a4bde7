//! Sentences that refuse a backing.

use crate::backings::DEVICES;
use crate::image::quoted;
use crate::open_error::{OpenError, OpenErrorKind as Kind};
use block::SECTOR;
use rustix::io::Errno;
use std::path::Path;

pub(crate) fn failed(kind: Kind, message: String) -> OpenError {
    OpenError::new(kind, message)
}

pub(crate) fn system_error(path: &Path, doing: &str, errno: Errno) -> OpenError {
    let name = path.display();
    match errno {
        Errno::NOENT | Errno::NOTDIR => failed(
            Kind::NotFound,
            format!(
                "{name}: no such file; check the path, or make an image with: \
                 truncate -s 10G {name}"
            ),
        ),
        Errno::ACCESS | Errno::PERM => failed(
            Kind::Permission,
            format!(
                "{name}: permission denied; run as a user who may open it, or use --read-only if \
                 that is enough"
            ),
        ),
        Errno::ROFS => read_only(path),
        Errno::BUSY => failed(
            Kind::Busy,
            format!("{name}: in use by another program that opened it exclusively; end that first"),
        ),
        Errno::NXIO | Errno::NODEV | Errno::NOMEDIUM => failed(
            Kind::NotFound,
            format!("{name}: there is no device or no medium behind this path"),
        ),
        _ => failed(
            Kind::Io,
            format!("{name}: cannot {doing}: {errno}; the kernel's log may say more"),
        ),
    }
}

pub(crate) fn read_only(path: &Path) -> OpenError {
    let name = path.display();
    failed(Kind::ReadOnly, format!("{name}: is read-only here; use --read-only"))
}

pub(crate) fn in_use(path: &Path, user: &str) -> OpenError {
    let name = path.display();
    failed(Kind::Busy, format!("{name}: {user}; release it there first"))
}

/// Returns the refusal of a device's backing. `is_alone`: it is the device's only backing.
pub(crate) fn refuse_as_backing(path: &Path, device: &str, is_alone: bool) -> OpenError {
    let name = path.display();
    let backing = match is_alone {
        true => quoted(&name.to_string()),
        false => "BACKING".to_owned(),
    };
    let message = format!(
        "{name}: is the backing of the device {DEVICES}/{device}, even if no daemon serves it now; \
         continue with: overdrive attach {backing} --name {device}; or remove the device with: \
         overdrive detach {device} (--force if its daemon is gone)"
    );
    failed(Kind::Busy, message)
}

/// Refuses a size of less than a block, or of no whole number of blocks.
pub(crate) fn check_size(
    path: &Path,
    bytes: u64,
    block: u32,
    device: bool,
) -> Result<(), OpenError> {
    let name = path.display();
    let block = u64::from(block);
    if bytes < block {
        let mend = match (device, bytes) {
            (true, _) => "is there a medium in it?".to_owned(),
            // The file is empty: nothing would be lost.
            (false, 0) => format!("make it larger, with: truncate -s 10G {name}"),
            (false, _) => "this is too small for an image of a disk; name another file".to_owned(),
        };
        return Err(failed(
            Kind::TooSmall,
            format!("{name}: holds {bytes} bytes, less than one block of {block}; {mend}"),
        ));
    }
    if !bytes.is_multiple_of(block) {
        let other =
            if block > SECTOR { ", or use it through the page cache (buffered)" } else { "" };
        return Err(failed(
            Kind::Misaligned,
            format!(
                "{name}: its size of {bytes} bytes is not a multiple of {block}, as that of a raw \
                 disk is; name an image, or pad a copy with zeros (truncate -s %{block} \
                 COPY){other}"
            ),
        ));
    }
    Ok(())
}
