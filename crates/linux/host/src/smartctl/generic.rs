//! Attributes whose name in smartmontools' drive database includes figure and unit, for drives of a
//! family that `families` does not list. Names that smartctl gives to an attribute of every drive
//! ("Total_LBAs_Written") do not determine the unit and are not here.

use super::families::{Figure::*, GIB, Row, Unit::*, named};

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// Rows in the order of preference; the name decides, at any id.
pub(super) const ROWS: &[Row] = &[
    named("Host_Writes_32MiB", HostWritten, Bytes(32 * MIB)),
    named("Lifetime_Writes_GiB", HostWritten, Bytes(GIB)),
    named("Host_Writes_GiB", HostWritten, Bytes(GIB)),
    named("Total_Writes_GiB", HostWritten, Bytes(GIB)),
    named("Total_Host_Writes_GiB", HostWritten, Bytes(GIB)),
    named("Host_Writes_MiB", HostWritten, Bytes(MIB)),
    named("Total_Writes_GB", HostWritten, Bytes(GB)),
    named("Lifetime_Wts_Frm_Hst_GB", HostWritten, Bytes(GB)),
    named("Write_Sectors_Tot_Ct", HostWritten, Bytes(512)),
    named("Host_Reads_32MiB", HostRead, Bytes(32 * MIB)),
    named("Lifetime_Reads_GiB", HostRead, Bytes(GIB)),
    named("Host_Reads_GiB", HostRead, Bytes(GIB)),
    named("Host_Reades_GiB", HostRead, Bytes(GIB)),
    named("Total_Reads_GiB", HostRead, Bytes(GIB)),
    named("Host_Reads_MiB", HostRead, Bytes(MIB)),
    named("Total_Reads_GB", HostRead, Bytes(GB)),
    named("Lifetime_Rds_Frm_Hst_GB", HostRead, Bytes(GB)),
    named("Read_Sectors_Tot_Ct", HostRead, Bytes(512)),
    named("NAND_Writes_GiB", FlashWritten, Bytes(GIB)),
    named("Total_NAND_Writes_GiB", FlashWritten, Bytes(GIB)),
    named("NAND_Writes_1GiB", FlashWritten, Bytes(GIB)),
    named("Flash_Writes_GiB", FlashWritten, Bytes(GIB)),
    named("Total_NAND_Prog_Ct_GiB", FlashWritten, Bytes(GIB)),
    named("Lifetime_NAND_Prg_GiB", FlashWritten, Bytes(GIB)),
    named("Lifetime_Wts_To_Flsh_GB", FlashWritten, Bytes(GB)),
    named("NAND_Writes_32MiB", FlashWritten, Bytes(32 * MIB)),
    named("Flash_Writes_32MiB", FlashWritten, Bytes(32 * MIB)),
    named("Host_Program_Page_Count", HostPages, Count),
    named("FTL_Program_Page_Count", OwnPages, Count),
    named("Bckgnd_Program_Page_Cnt", OwnPages, Count),
    named("SSD_Life_Left", Worn, LeftIfAgreed),
    named("SSD_Life_Left_Perc", Worn, LeftIfAgreed),
    named("Lifetime_Left", Worn, LeftIfAgreed),
    named("Lifetime_Remaining%", Worn, LeftIfAgreed),
    named("Drive_Life_Remaining%", Worn, LeftIfAgreed),
    named("DriveLife_Remaining%", Worn, LeftIfAgreed),
    named("Percent_Lifetime_Remain", Worn, LeftIfAgreed),
    named("Percent_Life_Remaining", Worn, LeftIfAgreed),
    named("PCT_Life_Remaining", Worn, LeftIfAgreed),
    named("Remaining_Lifetime_Perc", Worn, LeftIfAgreed),
    named("Remaining_Life", Worn, LeftIfAgreed),
    named("Perc_Rated_Life_Remain", Worn, LeftIfAgreed),
    named("Perc_Rated_Life_Used", Worn, LeftIfAgreed),
    named("Perc_Avail_Resrvd_Space", Spare, LeftIfAgreed),
    named("Spares_Remaining_Perc", Spare, LeftIfAgreed),
    named("Reallocated_Sector_Ct", Reallocated, Count),
    named("Reallocated_Block_Count", Reallocated, Count),
    named("Reallocate_NAND_Blk_Cnt", Reallocated, Count),
    named("Retired_Block_Count", Reallocated, Count),
    named("Reported_Uncorrect", MediaErrors, Count),
    named("Uncorrectable_Error_Cnt", MediaErrors, Count),
    named("Offline_Uncorrectable", MediaErrors, Count),
];
