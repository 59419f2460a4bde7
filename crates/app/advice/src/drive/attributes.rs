//! Drives' attributes in plain words, by the names that smartctl prints. A number alone decides
//! nothing: each vendor uses them for something else.

/// Names of ATA attributes, keys of NVMe's log and of SCSI's counters, with their meaning.
const MEANINGS: &[(&str, &str)] = &[
    ("Raw_Read_Error_Rate", "read errors, as the vendor scales them"),
    ("Reallocated_Sector_Ct", "sectors replaced by spare ones"),
    ("Reallocated_Event_Count", "attempts to replace a sector"),
    ("Power_On_Hours", "hours that the drive was on"),
    ("Power_Cycle_Count", "times that the drive was switched on"),
    ("Wear_Leveling_Count", "erase cycles of an average block"),
    ("Used_Rsvd_Blk_Cnt_Tot", "spare blocks in use"),
    ("Unused_Rsvd_Blk_Cnt_Tot", "spare blocks left"),
    ("Program_Fail_Cnt_Total", "writes of a flash page that failed"),
    ("Erase_Fail_Count_Total", "erasures of a flash block that failed"),
    ("Runtime_Bad_Block", "blocks that became bad in use"),
    ("Reported_Uncorrect", "errors that could not be corrected"),
    ("Uncorrectable_Error_Cnt", "errors that could not be corrected"),
    ("Offline_Uncorrectable", "sectors that could not be read in a self-test"),
    ("Current_Pending_Sector", "sectors that cannot be read now"),
    ("Airflow_Temperature_Cel", "temperature in degrees Celsius"),
    ("Temperature_Celsius", "temperature in degrees Celsius"),
    ("ECC_Error_Rate", "errors that were corrected"),
    ("Hardware_ECC_Recovered", "errors that were corrected"),
    ("CRC_Error_Count", "damaged transfers: the cable or its plugs"),
    ("UDMA_CRC_Error_Count", "damaged transfers: the cable or its plugs"),
    ("SATA_CRC_Error", "damaged transfers: the cable or its plugs"),
    ("POR_Recovery_Count", "power cuts without a warning"),
    ("Unexpect_Power_Loss_Ct", "power cuts without a warning"),
    ("Power-Off_Retract_Count", "power cuts without a warning"),
    ("Unsafe_Shutdown_Count", "power cuts without a warning"),
    ("Total_LBAs_Written", "data that the host has written"),
    ("Total_LBAs_Read", "data that the host has read"),
    ("Host_Writes_32MiB", "data that the host has written, in units of 32 MiB"),
    ("Host_Reads_32MiB", "data that the host has read, in units of 32 MiB"),
    // Intel's counts down, WD's counts up.
    ("Media_Wearout_Indicator", "wear, in the vendor's own direction: see 'worn'"),
    ("SSD_Life_Left", "rated life left"),
    ("Percent_Lifetime_Remain", "rated life left"),
    ("Ave_Block-Erase_Count", "erase cycles of an average block"),
    ("Spin_Up_Time", "time that the disk took to turn at full speed"),
    ("Start_Stop_Count", "times that the disk has started to turn"),
    ("Spin_Retry_Count", "times that the disk did not start to turn at once"),
    ("Load_Cycle_Count", "times that the heads were parked"),
    ("Seek_Error_Rate", "errors of positioning, as the vendor scales them"),
    ("critical_warning", "0: none; see the verdict"),
    ("temperature", "in degrees Celsius"),
    ("available_spare", "spare blocks left, in percent"),
    ("available_spare_threshold", "spare blocks below which it reports a failure, in percent"),
    ("percentage_used", "used share of the rated life, in percent"),
    ("data_units_read", "data that the host has read, in units of 512,000 bytes"),
    ("data_units_written", "data that the host has written, in units of 512,000 bytes"),
    ("host_reads", "reads of the host"),
    ("host_writes", "writes of the host"),
    ("controller_busy_time", "minutes in which it was busy"),
    ("power_cycles", "times that the drive was switched on"),
    ("power_on_hours", "hours that the drive was on"),
    ("unsafe_shutdowns", "power cuts without a warning"),
    ("media_errors", "errors that could not be corrected"),
    ("num_err_log_entries", "entries of its error log, also of commands that it does not have"),
    ("warning_temp_time", "minutes above its first limit of temperature"),
    ("critical_comp_time", "minutes above its second limit of temperature"),
    ("grown_defect_list", "sectors replaced by spare ones"),
    // Intel.
    ("Available_Reservd_Space", "spare blocks left"),
    ("Perc_Avail_Resrvd_Space", "spare blocks left"),
    ("Workld_Media_Wear_Indic", "wear since its timer was started"),
    ("Workld_Host_Reads_Perc", "share of reads since its timer was started"),
    ("Workload_Minutes", "minutes since its timer was started"),
    ("Power_Loss_Cap_Test", "test of the capacitors that save its buffer in a power cut"),
    ("Unexpected_Power_Loss", "power cuts without a warning"),
    ("Thermal_Throttle", "times that it worked slowly because it was hot"),
    ("Thermal_Throttle_Status", "times that it worked slowly because it was hot"),
    ("NAND_Writes_1GiB", "data that was written to the flash, in GiB"),
    ("NAND_Writes_32MiB", "data that was written to the flash, in units of 32 MiB"),
    ("Program_Fail_Count", "writes of a flash page that failed"),
    ("Erase_Fail_Count", "erasures of a flash block that failed"),
    ("End-to-End_Error", "data that was damaged inside the drive"),
    ("End-to-End_Error_Count", "data that was damaged inside the drive"),
    ("SATA_Downshift_Count", "times that the link became slower because of errors"),
    // SandForce.
    ("Retired_Block_Count", "blocks replaced by spare ones"),
    ("Reserve_Block_Count", "spare blocks left"),
    ("Power_On_Hours_and_Msec", "hours that the drive was on"),
    ("ECC_Uncorr_Error_Count", "errors that could not be corrected"),
    ("Unc_Soft_Read_Err_Rate", "errors that only a second correction repaired"),
    ("Soft_ECC_Correct_Rate", "errors that were corrected"),
    ("Wear_Range_Delta", "difference of wear between the most and the least used block"),
    ("Life_Curve_Status", "whether it slows writes down to last as long as rated; 100: no"),
    ("Lifetime_Writes_GiB", "data that the host has written, in GiB"),
    ("Lifetime_Reads_GiB", "data that the host has read, in GiB"),
    ("SandForce_Internal", "see the drive's manual"),
    // Crucial and Micron.
    ("Unused_Reserve_NAND_Blk", "spare blocks left"),
    ("Reallocate_NAND_Blk_Cnt", "blocks replaced by spare ones"),
    ("SATA_Interfac_Downshift", "times that the link became slower because of errors"),
    ("Error_Correction_Count", "errors that were corrected"),
    ("Percent_Lifetime_Used", "used share of the rated life"),
    ("Write_Error_Rate", "writes of a flash page that failed"),
    ("Success_RAIN_Recov_Cnt", "blocks that were restored from the drive's own parity"),
    ("Total_Host_Sector_Write", "data that the host has written, in sectors of 512 bytes"),
    ("Host_Program_Page_Count", "flash pages written for the host"),
    ("FTL_Program_Page_Count", "flash pages that the drive has written by itself"),
    ("Bckgnd_Program_Page_Cnt", "flash pages that the drive has written by itself"),
    // WD and SanDisk.
    ("Block_Erase_Count", "erasures of all blocks together"),
    ("Minimum_PE_Cycles_TLC", "erase cycles of the least used block"),
    ("Maximum_PE_Cycles_TLC", "erase cycles of the most used block"),
    ("Average_PE_Cycles_TLC", "erase cycles of an average block"),
    ("Max_Bad_Blocks_per_Die", "bad blocks of the worst die"),
    ("Total_Bad_Blocks", "bad blocks, also of the factory"),
    ("Grown_Bad_Blocks", "blocks that became bad in use"),
    ("NAND_GB_Written_TLC", "data that was written to the flash with three bits a cell"),
    ("NAND_GB_Written_SLC", "data that was written to the flash with one bit a cell"),
    ("Host_Writes_GiB", "data that the host has written, in GiB"),
    ("Host_Reads_GiB", "data that the host has read, in GiB"),
    ("Temp_Throttle_Status", "times that it worked slowly because it was hot"),
    // Seagate's and other hard disks.
    ("Command_Timeout", "commands that were not answered in time: its cable or power"),
    ("High_Fly_Writes", "writes with a head too far from its disk"),
    ("G-Sense_Error_Rate", "errors because of shocks"),
    ("Head_Flying_Hours", "hours in which the heads were over the disk"),
    ("Free_Fall_Sensor", "times that it was falling"),
    ("Helium_Level", "helium left in the drive"),
    ("Multi_Zone_Error_Rate", "errors while sectors were written"),
    ("Calibration_Retry_Count", "positioning that did not succeed at once"),
    // SAS: the name of a counter, behind 'read.', 'write.' or 'verify.'.
    ("errors_corrected_by_eccfast", "errors that were corrected without a delay"),
    ("errors_corrected_by_eccdelayed", "errors that were corrected with a delay"),
    ("errors_corrected_by_rereads_rewrites", "errors that a repetition has corrected"),
    ("total_errors_corrected", "errors that were corrected"),
    ("correction_algorithm_invocations", "times that errors had to be corrected"),
    ("gigabytes_processed", "data, in units of 1,000,000,000 bytes"),
    ("total_uncorrected_errors", "errors that could not be corrected"),
];

/// Returns the meaning of an attribute. None: it is not known.
pub fn meaning(name: &str) -> Option<&'static str> {
    let counter = ["read.", "write.", "verify."].iter().find_map(|kind| name.strip_prefix(kind));
    let name = counter.unwrap_or(name);
    MEANINGS.iter().find(|(known, _)| *known == name).map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_two_meanings() {
        let mut names: Vec<_> = MEANINGS.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), MEANINGS.len());
        assert_eq!(meaning("Unknown_Attribute"), None);
        let errors = meaning("verify.total_uncorrected_errors");
        assert_eq!(errors, Some("errors that could not be corrected"));
    }
}
