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
    ("Media_Wearout_Indicator", "rated life left"),
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
];

/// Returns the meaning of an attribute. None: it is not known.
pub fn meaning(name: &str) -> Option<&'static str> {
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
    }
}
