//! Image formats that must not be served as raw disks. `signatures/table.rs` contains their marks.
//!
//! A guest with raw access could overwrite the format's own structures, and write a header that
//! makes another program read other files of the host. So images are refused, with the command that
//! presents the same image as a raw disk. A fixed VHD has its mark at the end only, and is a raw
//! disk except for its last sector; it is not detected here.

use std::fmt;
use std::path::Path;

/// A detected format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ImageFormat {
    /// qcow, version 1.
    Qcow1,
    /// qcow2, versions 2 and 3.
    Qcow2,
    /// VMware's: sparse, or a descriptor that names other files.
    Vmdk,
    /// Hyper-V's.
    Vhdx,
    /// Virtual PC's, dynamic or differencing.
    Vhd,
    /// VirtualBox's.
    Vdi,
    /// qemu's former QED format.
    Qed,
    /// Parallels'.
    Parallels,
    /// LUKS version 1: encrypted, but a raw disk for layers below dm-crypt.
    Luks1,
    /// LUKS version 2: same.
    Luks2,
}

impl ImageFormat {
    /// Returns the name of qemu's driver for it.
    pub fn driver(self) -> &'static str {
        match self {
            ImageFormat::Qcow1 => "qcow",
            ImageFormat::Qcow2 => "qcow2",
            ImageFormat::Vmdk => "vmdk",
            ImageFormat::Vhdx => "vhdx",
            ImageFormat::Vhd => "vpc",
            ImageFormat::Vdi => "vdi",
            ImageFormat::Qed => "qed",
            ImageFormat::Parallels => "parallels",
            ImageFormat::Luks1 | ImageFormat::Luks2 => "luks",
        }
    }

    /// Whether it is a container, whose raw blocks may be cached: it is noted, not refused.
    pub fn is_container(self) -> bool {
        matches!(self, ImageFormat::Luks1 | ImageFormat::Luks2)
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageFormat::Qcow1 => "qcow (version 1)",
            ImageFormat::Qcow2 => "qcow2",
            ImageFormat::Vmdk => "VMDK",
            ImageFormat::Vhdx => "VHDX",
            ImageFormat::Vhd => "VHD",
            ImageFormat::Vdi => "VDI",
            ImageFormat::Qed => "QED",
            ImageFormat::Parallels => "Parallels",
            ImageFormat::Luks1 => "LUKS1",
            ImageFormat::Luks2 => "LUKS2",
        })
    }
}

/// Returns the path as one word for a shell.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        return path.to_owned();
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

/// Returns the sentence that refuses the image, or for a container the notice, with the command to
/// serve its contents.
pub fn reason(format: ImageFormat, path: &Path) -> String {
    let name = path.display();
    if format.is_container() {
        return format!(
            "{name}: is a {format} container; its encrypted blocks are cached unchanged. To cache \
             its contents, open it first (cryptsetup open {} NAME) and serve /dev/mapper/NAME",
            quoted(&name.to_string())
        );
    }
    let (command, place) = view(format, path);
    format!(
        "{name}: is a {format} image, not a raw disk; serving its bytes unchanged would damage it. \
         Show its contents as a raw disk with: {command} and then serve {place}; or use --raw to \
         serve the bytes of the image itself"
    )
}

/// Returns the sentence that refuses an image to a suite, with the command to measure its contents.
pub(crate) fn reason_to_measure(format: ImageFormat, path: &Path) -> String {
    let (command, place) = view(format, path);
    format!(
        "{}: is a {format} image, not a raw disk; its bytes are not those of the disk in it. Show \
         its contents as a raw disk with: {command} and then name {place}",
        path.display()
    )
}

/// Returns the command that presents the disk in an image as a raw disk, and the path of that disk.
fn view(format: ImageFormat, path: &Path) -> (String, String) {
    let name = path.display();
    // qemu's option parser ends a value at a comma; two commas represent one.
    let image = quoted(&name.to_string().replace(',', ",,"));
    let view = format!("{name}.raw");
    let (place, mount) = (quoted(&view), quoted(&view.replace(',', ",,")));
    let driver = format.driver();
    let command = format!(
        "touch {place} && qemu-storage-daemon \
         --blockdev driver=file,node-name=f,filename={image} \
         --blockdev driver={driver},node-name=d,file=f \
         --export type=fuse,id=e,node-name=d,mountpoint={mount},writable=on"
    );
    (command, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_of_a_container_has_the_command_that_opens_it() {
        let notice = reason(ImageFormat::Luks2, Path::new("/dev/sdx"));
        assert!(notice.contains("cryptsetup open /dev/sdx"), "{notice}");
    }

    #[test]
    fn the_command_survives_odd_names() {
        let text = reason(ImageFormat::Qcow2, Path::new("/a b/c,d.qcow2"));
        assert!(text.contains("filename='/a b/c,,d.qcow2'"), "{text}");
        assert!(text.contains("touch '/a b/c,d.qcow2.raw'"), "{text}");
    }
}
