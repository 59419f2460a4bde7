//! The signatures: facts about formats, as plain data.
//!
//! Offsets, marks and names are those of libblkid in util-linux (2.38, with the additions up to
//! 2.41): its `superblocks` and `partitions`. Image formats are from their published descriptions:
//! qemu's docs/interop for qcow2, QED and Parallels; VMware "Virtual Disk Format 5.0"; MS-VHDX;
//! Microsoft's VHD specification; VirtualBox's sources for VDI; the LUKS on-disk formats 1 and 2.
//! Names that are not in libblkid are this project's own.
//!
//! Strong marks come first, so that the first one found is the best name for the contents.
//! Libblkid's guesses without a mark (Atari's partition table, FAT by its first byte) are left out:
//! they are in the first sector, which a check for blank contents reads anyway.

use super::mark::{Mark, at, end, one_of, slots};
use super::{Kind, Signature};
use crate::image::ImageFormat;

/// A signature: names, kind, words for a message, and alternatives, each a list of marks that occur
/// together.
macro_rules! signatures {
    ($($names:expr, $kind:expr, $words:expr, [$([$($mark:expr),+]),+];)+) => {
        &[$(Signature {
            names: &$names,
            kind: $kind,
            words: $words,
            any: &[$(&[$($mark),+]),+],
        }),+]
    };
}

/// First bytes of a qcow image.
const QCOW: &[u8] = b"QFI\xfb";
/// The superblock of GFS and GFS2: its mark, and its type, highest byte first.
const GFS: &[u8] = &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1];
const GFS_AT: u64 = 64 << 10;
/// Locking protocols of several hosts, 96 bytes further on.
const GFS_LOCKS: &[&[u8]] = &[b"lock_dlm", b"lock_gulm"];
const BTRFS: &[u8] = b"_BHRfS_M";
/// The number of devices of a btrfs file system, 64 bits, the lowest first: 2 to 255.
const BTRFS_DEVICES: &[&[u8]] = &{
    const NUMBERS: [[u8; 8]; 254] = numbers_from_2();
    let mut all: [&[u8]; 254] = [&[]; 254];
    let mut index = 0;
    while index < all.len() {
        all[index] = &NUMBERS[index];
        index += 1;
    }
    all
};
/// Positions of the second header of LUKS2, one for each size of the first.
const LUKS_SECOND_AT: &[u64] =
    &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
/// The end of the first page, for each page size.
const SWAP_AT: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
const SWAP: &[&[u8]] = &[b"SWAPSPACE2", b"SWAP-SPACE"];
const SUSPENDED: &[&[u8]] = &[b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"];
const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_BIG: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const PROMISE: &[u8] = b"Promise Technology, Inc.";
const UBERBLOCK: &[u8] = &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0];
const UBERBLOCK_BIG: &[u8] = &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c];
const LABEL: u64 = 256 << 10;
const UFS_AT: &[u64] = &[1372, 1372 + 0x2000, 1372 + 0x1_0000, 1372 + 0x4_0000];
/// Six marks, each in both byte orders.
const UFS: &[&[u8]] = &[
    &[0x19, 0x01, 0x54, 0x19],
    &[0x19, 0x54, 0x01, 0x19],
    &[0x54, 0x19, 0x01, 0x00],
    &[0x00, 0x01, 0x19, 0x54],
    &[0x12, 0x56, 0x19, 0x00],
    &[0x00, 0x19, 0x56, 0x12],
    &[0x14, 0x50, 0x09, 0x00],
    &[0x00, 0x09, 0x50, 0x14],
    &[0x95, 0x21, 0x61, 0x00],
    &[0x00, 0x61, 0x21, 0x95],
    &[0x94, 0x19, 0x23, 0x05],
    &[0x05, 0x23, 0x19, 0x94],
];
/// Position 504 in a superblock of 512 bytes, which is the second half of one of four blocks.
const SYSV_AT: &[u64] = &[1016, 1016 + 9 * 1024, 1016 + 15 * 1024, 1016 + 18 * 1024];
const SYSV: &[&[u8]] = &[&[0x20, 0x7e, 0x18, 0xfd], &[0xfd, 0x18, 0x7e, 0x20]];
/// Versions 1 and 2, in both byte orders.
const MINIX: &[&[u8]] = &[
    &[0x7f, 0x13],
    &[0x8f, 0x13],
    &[0x13, 0x7f],
    &[0x13, 0x8f],
    &[0x68, 0x24],
    &[0x78, 0x24],
    &[0x24, 0x68],
    &[0x24, 0x78],
];

const fn numbers_from_2() -> [[u8; 8]; 254] {
    let mut all = [[0; 8]; 254];
    let mut index = 0;
    while index < all.len() {
        all[index][0] = index as u8 + 2;
        index += 1;
    }
    all
}

/// Creates the mark of the uberblocks in a ZFS label at the start.
const fn uberblocks(label: u64, bytes: &'static [u8]) -> Mark {
    slots(at(label * LABEL + LABEL / 2, bytes), 1024, 128)
}

/// Creates the mark of the uberblocks in a ZFS label at the end.
const fn last_uberblocks(back: u64, bytes: &'static [u8]) -> Mark {
    slots(end(LABEL, back * LABEL - LABEL / 2, bytes), 1024, 128)
}

/// Creates a mark at this number of sectors before the end.
const fn sectors(back: u64, bytes: &'static [u8]) -> Mark {
    end(512, back * 512, bytes)
}

/// All signatures, strongest first.
pub(super) static SIGNATURES: &[Signature] = signatures! {
    // Images of disks.
    ["qcow"], Kind::Image(ImageFormat::Qcow1), "a qcow (version 1) image",
        [[at(0, QCOW), at(4, &[0, 0, 0, 1])]];
    ["qcow2"], Kind::Image(ImageFormat::Qcow2), "a qcow2 image", [[at(0, QCOW)]];
    ["vmdk"], Kind::Image(ImageFormat::Vmdk), "a VMDK image",
        [[at(0, b"KDMV")], [at(0, b"COWD")], [at(0, b"# Disk DescriptorFile")]];
    ["vhdx"], Kind::Image(ImageFormat::Vhdx), "a VHDX image", [[at(0, b"vhdxfile")]];
    ["vhd"], Kind::Image(ImageFormat::Vhd), "a VHD image", [[at(0, b"conectix")]];
    ["vdi"], Kind::Image(ImageFormat::Vdi), "a VDI image", [[at(64, &[0x7f, 0x10, 0xda, 0xbe])]];
    ["qed"], Kind::Image(ImageFormat::Qed), "a QED image", [[at(0, b"QED\0")]];
    ["parallels"], Kind::Image(ImageFormat::Parallels), "a Parallels image",
        [[at(0, b"WithoutFreeSpace")], [at(0, b"WithouFreSpacExt")]];
    ["crypto_LUKS"], Kind::Image(ImageFormat::Luks1), "a LUKS container",
        [[at(0, b"LUKS\xba\xbe\0\x01")]];
    ["crypto_LUKS"], Kind::Image(ImageFormat::Luks2), "a LUKS container", [[at(0, b"LUKS\xba\xbe")]];
    ["crypto_LUKS"], Kind::Encrypted, "the second header of a LUKS container",
        [[one_of(LUKS_SECOND_AT, &[b"SKUL\xba\xbe"])]];
    // File systems that several hosts may mount at the same time.
    ["VMFS_volume_member"], Kind::Cluster, "VMFS", [[at(1 << 20, &[0x0d, 0xd0, 0x01, 0xc0])]];
    ["VMFS"], Kind::Cluster, "VMFS", [[at(2 << 20, &[0x5e, 0xf1, 0xab, 0x2f])]];
    ["ocfs2"], Kind::Cluster, "OCFS2", [[one_of(&[0x400, 0x800, 0x1000, 0x2000], &[b"OCFSV2"])]];
    ["ocfs"], Kind::Cluster, "OCFS", [[at(0x2000, b"OracleCFS")]];
    ["gfs2", "gfs"], Kind::Cluster, "GFS2", [[at(GFS_AT, GFS), one_of(&[GFS_AT + 96], GFS_LOCKS)]];
    ["scoutfs_meta", "scoutfs_data"], Kind::Cluster, "scoutfs",
        [[at(0x1_0004, &[0x8b, 0x42, 0x3c, 0x10])]];
    // Members of a larger device.
    ["overdrive_pool"], Kind::Member, "a member of a pool of Overdrive", [[at(8, b"odpool01")]];
    ["LVM2_member"], Kind::Member, "a physical volume of LVM",
        [[one_of(&[0x218, 0x18, 0x418, 0x618], &[b"LVM2 001"])]];
    ["LVM1_member"], Kind::Member, "a physical volume of LVM (version 1)",
        [[at(0, b"HM\x01\0")], [at(0, b"HM\x02\0")]];
    ["linux_raid_member"], Kind::Member, "a member of a Linux RAID",
        [[at(0, MD)], [at(4096, MD)], [end(4096, 8192, MD)], [end(65536, 65536, MD)],
        [end(65536, 65536, MD_BIG)]];
    ["zfs_member"], Kind::Member, "a member of a ZFS pool",
        [[uberblocks(0, UBERBLOCK)], [uberblocks(0, UBERBLOCK_BIG)], [uberblocks(1, UBERBLOCK)],
        [uberblocks(1, UBERBLOCK_BIG)], [last_uberblocks(2, UBERBLOCK)],
        [last_uberblocks(2, UBERBLOCK_BIG)], [last_uberblocks(1, UBERBLOCK)],
        [last_uberblocks(1, UBERBLOCK_BIG)]];
    ["ddf_raid_member"], Kind::Member, "a member of a DDF RAID",
        [[sectors(1, &[0xde, 0x11, 0xde, 0x11])], [sectors(257, &[0xde, 0x11, 0xde, 0x11])],
        [sectors(1, &[0x11, 0xde, 0x11, 0xde])], [sectors(257, &[0x11, 0xde, 0x11, 0xde])]];
    ["isw_raid_member"], Kind::Member, "a member of an Intel RAID",
        [[sectors(2, b"Intel Raid ISM Cfg Sig. ")], [end(4096, 8192, b"Intel Raid ISM Cfg Sig. ")]];
    ["lsi_mega_raid_member"], Kind::Member, "a member of an LSI RAID", [[sectors(1, b"$XIDE$")]];
    ["silicon_medley_raid_member"], Kind::Member, "a member of a Silicon Image RAID",
        [[end(512, 512 - 0x60, &[0, 0, 0, 0x2f])]];
    ["nvidia_raid_member"], Kind::Member, "a member of an NVIDIA RAID", [[sectors(2, b"NVIDIA")]];
    ["promise_fasttrack_raid_member"], Kind::Member, "a member of a Promise RAID",
        [[sectors(63, PROMISE)], [sectors(255, PROMISE)], [sectors(256, PROMISE)],
        [sectors(16, PROMISE)], [sectors(399, PROMISE)], [sectors(591, PROMISE)],
        [sectors(675, PROMISE)], [sectors(735, PROMISE)], [sectors(911, PROMISE)],
        [sectors(974, PROMISE)], [sectors(991, PROMISE)], [sectors(951, PROMISE)],
        [sectors(3087, PROMISE)]];
    ["hpt45x_raid_member"], Kind::Member, "a member of a HighPoint RAID",
        [[sectors(11, &[0xf3, 0x16, 0x78, 0x5a])], [sectors(11, &[0xfd, 0x16, 0x78, 0x5a])]];
    ["hpt37x_raid_member"], Kind::Member, "a member of a HighPoint RAID",
        [[at(4640, &[0xf0, 0x16, 0x78, 0x5a])], [at(4640, &[0xfd, 0x16, 0x78, 0x5a])]];
    ["adaptec_raid_member"], Kind::Member, "a member of an Adaptec RAID",
        [[sectors(1, &[0x37, 0xfc, 0x4d, 0x1e])]];
    ["drbd"], Kind::Member, "a device of DRBD",
        [[end(1, 4096 - 60, &[0x83, 0x74, 0x02, 0x6b])],
        [end(1, 4096 - 60, &[0x83, 0x74, 0x02, 0x6c])],
        [end(1, 4096 - 60, &[0x83, 0x74, 0x02, 0x6d])]];
    ["drbdmanage_control_volume"], Kind::Member, "a control volume of drbdmanage",
        [[at(0, b"$DRBDmgr=q")]];
    ["drbdproxy_datalog"], Kind::Member, "a log of DRBD Proxy", [[at(0, b"DRBDdlh*")]];
    ["bcachefs"], Kind::FileSystem, "a bcachefs file system", [[at(0x1018, BCACHEFS)]];
    ["bcache"], Kind::Member, "a device of bcache", [[at(0x1018, BCACHE)]];
    ["ceph_bluestore"], Kind::Member, "a device of Ceph", [[at(0, b"bluestore block device")]];
    ["stratis"], Kind::Member, "a member of a Stratis pool",
        [[at(512 + 4, STRATIS)], [at(9 * 512 + 4, STRATIS)]];
    ["vdo"], Kind::Member, "a VDO volume", [[at(0, b"dmvdo001")]];
    ["ubi"], Kind::Member, "a UBI volume", [[at(0, b"UBI#")]];
    ["mpool"], Kind::Member, "a device of mpool", [[at(0, b"mpoolDev")]];
    ["oracleasm"], Kind::Member, "a disk of Oracle ASM", [[at(32, b"ORCLDISK")]];
    ["opensvc_hb"], Kind::Member, "a heartbeat disk of OpenSVC",
        [[at(4, b"\x3d\xc1\x3c\x87\xc0\x5b\xe3\xb6")]];
    ["DM_snapshot_cow"], Kind::Member, "a snapshot's store", [[at(0, b"SnAp")]];
    ["DM_verity_hash"], Kind::Member, "a tree of dm-verity", [[at(0, b"verity\0\0")]];
    ["DM_integrity"], Kind::Member, "a dm-integrity volume", [[at(0, b"integrt\0")]];
    ["BitLocker"], Kind::Encrypted, "a BitLocker volume",
        [[at(0, b"\xeb\x52\x90-FVE-FS-")], [at(0, b"\xeb\x58\x90-FVE-FS-")],
        [at(0, b"\xeb\x58\x90MSWIN4.1")]];
    ["swsuspend"], Kind::Swap, "swap space with a suspended system",
        [[at(0, b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c")], [one_of(SWAP_AT, SUSPENDED)]];
    ["swap"], Kind::Swap, "swap space", [[one_of(SWAP_AT, SWAP)]];
    // File systems of one host.
    ["xfs"], Kind::FileSystem, "an XFS file system", [[at(0, b"XFSB")]];
    ["exfs"], Kind::FileSystem, "an EXFS file system", [[at(0, b"EXFS")]];
    ["btrfs"], Kind::Member, "a device of a btrfs file system on several",
        [[at(0x1_0040, BTRFS), one_of(&[0x1_0088], BTRFS_DEVICES)]];
    ["btrfs"], Kind::FileSystem, "a btrfs file system", [[at(0x1_0040, BTRFS)], [at(0x40, BTRFS)]];
    ["btrfs"], Kind::FileSystem, "a copy of a btrfs file system's superblock",
        [[at((64 << 20) + 0x40, BTRFS)], [at((256 << 30) + 0x40, BTRFS)]];
    ["ntfs"], Kind::FileSystem, "an NTFS file system", [[at(3, b"NTFS    ")]];
    ["ReFS"], Kind::FileSystem, "a ReFS file system", [[at(0, b"\0\0\0ReFS\0")]];
    ["exfat"], Kind::FileSystem, "an exFAT file system", [[at(3, b"EXFAT   ")]];
    ["vfat"], Kind::FileSystem, "a FAT file system",
        [[at(0x52, b"FAT32   ")], [at(0x52, b"MSWIN")], [at(0x36, b"MSDOS")],
        [at(0x36, b"FAT16   ")], [at(0x36, b"FAT12   ")], [at(0x36, b"FAT     ")]];
    ["reiserfs"], Kind::FileSystem, "a ReiserFS file system",
        [[at(0x2034, b"ReIsErFs")], [at(0x1_0034, b"ReIsEr2Fs")], [at(0x1_0034, b"ReIsEr3Fs")],
        [at(0x1_0034, b"ReIsErFs")], [at(0x2014, b"ReIsErFs")]];
    ["reiser4"], Kind::FileSystem, "a Reiser4 file system", [[at(0x1_0000, b"ReIsEr4")]];
    ["jfs"], Kind::FileSystem, "a JFS file system", [[at(0x8000, b"JFS1")]];
    ["udf"], Kind::FileSystem, "a UDF file system",
        [[one_of(&[0x8001], &[b"BEA01", b"BOOT2", b"CDW02", b"NSR02", b"NSR03", b"TEA01"])]];
    ["iso9660"], Kind::FileSystem, "an ISO 9660 file system",
        [[at(0x8001, b"CD001")], [at(0x8009, b"CDROM")]];
    ["f2fs"], Kind::FileSystem, "an F2FS file system", [[at(1024, &[0x10, 0x20, 0xf5, 0xf2])]];
    ["erofs"], Kind::FileSystem, "an EROFS file system", [[at(1024, &[0xe2, 0xe1, 0xf5, 0xe0])]];
    ["squashfs", "squashfs3"], Kind::FileSystem, "a squashfs file system",
        [[one_of(&[0], &[b"hsqs", b"sqsh"])]];
    ["cramfs"], Kind::FileSystem, "a cramfs file system",
        [[at(0, &[0x45, 0x3d, 0xcd, 0x28])], [at(0, &[0x28, 0xcd, 0x3d, 0x45])]];
    ["romfs"], Kind::FileSystem, "a romfs file system", [[at(0, b"-rom1fs-")]];
    ["apfs"], Kind::FileSystem, "an APFS file system", [[at(32, b"NXSB")]];
    ["zonefs"], Kind::FileSystem, "a zonefs file system", [[at(0, b"SFOZ")]];
    ["ubifs"], Kind::FileSystem, "a UBIFS file system", [[at(0, &[0x31, 0x18, 0x10, 0x06])]];
    ["vxfs"], Kind::FileSystem, "a VxFS file system",
        [[at(1024, &[0xf5, 0xfc, 0x01, 0xa5])], [at(8192, &[0xa5, 0x01, 0xfc, 0xf5])]];
    ["nss"], Kind::FileSystem, "a NetWare file system", [[at(4096, b"SPB5")]];
    ["hpfs"], Kind::FileSystem, "an HPFS file system", [[at(8192, &[0x49, 0xe8, 0x95, 0xf9])]];
    ["befs"], Kind::FileSystem, "a BeOS file system",
        [[one_of(&[32, 0x220], &[b"BFS1", b"1SFB"])]];
    ["bfs"], Kind::FileSystem, "a BFS file system", [[at(0, &[0xce, 0xfa, 0xad, 0x1b])]];
    ["ufs"], Kind::FileSystem, "a UFS file system", [[one_of(UFS_AT, UFS)]];
    ["xenix"], Kind::FileSystem, "a Xenix file system",
        [[at(2048, &[0x2b, 0x55, 0x44])], [at(2048, &[0x44, 0x55, 0x2b])]];
    ["sysv"], Kind::FileSystem, "a System V file system", [[one_of(SYSV_AT, SYSV)]];
    ["xfs_external_log"], Kind::Member, "a log of an XFS file system",
        [[slots(at(0, &[0xfe, 0xed, 0xba, 0xbe]), 512, 512)]];
    ["gfs2", "gfs"], Kind::FileSystem, "a GFS2 file system of one host", [[at(GFS_AT, GFS)]];
    // Partition tables.
    ["gpt"], Kind::Table, "a partition table (GPT)",
        [[at(512, b"EFI PART")], [at(4096, b"EFI PART")]];
    ["gpt"], Kind::Table, "the second partition table (GPT)",
        [[sectors(1, b"EFI PART")], [end(4096, 4096, b"EFI PART")]];
    ["bsd"], Kind::Table, "a partition table (BSD)",
        [[one_of(&[512, 64, 128], &[b"\x57\x45\x56\x82"])]];
    ["sgi"], Kind::Table, "a partition table (SGI)", [[at(0, &[0x0b, 0xe5, 0xa9, 0x41])]];
    ["aix"], Kind::Table, "a partition table (AIX)", [[at(0, &[0xc9, 0xc2, 0xd4, 0xc1])]];
    ["unixware"], Kind::Table, "a partition table (UnixWare)",
        [[at(29 * 512 + 4, &[0x0d, 0x60, 0xe5, 0xca])]];
    ["solaris"], Kind::Table, "a partition table (Solaris)",
        [[at(512 + 12, &[0xee, 0xde, 0x0d, 0x60])]];
    ["ultrix"], Kind::Table, "a partition table (Ultrix)", [[at(16384 - 72, &[0x57, 0x29, 0x03, 0])]];
    ["mac"], Kind::Table, "a partition table (Macintosh)",
        [[at(0, b"ER"), at(512, b"PM")], [at(0, b"ER"), at(512, b"TS")]];
    ["sun"], Kind::Table, "a partition table (Sun)", [[at(508, &[0xda, 0xbe])]];
    // Marks of two or three bytes.
    ["jbd"], Kind::Member, "a journal of another ext3 or ext4 file system",
        [[at(0x438, &[0x53, 0xef]), at(0x460, &[8, 0, 0, 0])]];
    ["ext2", "ext3", "ext4", "ext4dev"], Kind::FileSystem,
        "an ext2, ext3 or ext4 file system", [[at(0x438, &[0x53, 0xef])]];
    ["nilfs2"], Kind::FileSystem, "a NILFS2 file system",
        [[at(0x406, &[0x34, 0x34])], [end(512, 4096 - 6, &[0x34, 0x34])],
        [end(4096, 4096 - 6, &[0x34, 0x34])]];
    ["hfsplus"], Kind::FileSystem, "an HFS+ file system", [[at(1024, b"H+")], [at(1024, b"HX")]];
    ["hfs"], Kind::FileSystem, "an HFS file system", [[at(1024, b"BD")]];
    ["minix"], Kind::FileSystem, "a Minix file system",
        [[one_of(&[1040], MINIX)], [one_of(&[1048], &[&[0x5a, 0x4d], &[0x4d, 0x5a]])]];
    ["cs_fvault2"], Kind::Encrypted, "a FileVault volume",
        [[at(8, &[1, 0, 0x10, 0]), at(88, b"CS")]];
    ["via_raid_member"], Kind::Member, "a member of a VIA RAID",
        [[sectors(1, &[0x55, 0xaa, 0])], [sectors(1, &[0x55, 0xaa, 1])],
        [sectors(1, &[0x55, 0xaa, 2])]];
    ["jmicron_raid_member"], Kind::Member, "a member of a JMicron RAID", [[sectors(1, b"JM")]];
    ["dos", "PMBR"], Kind::Table, "a partition table or a boot sector", [[at(510, &[0x55, 0xaa])]];
};
