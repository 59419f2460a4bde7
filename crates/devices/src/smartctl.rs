//! What smartctl says in JSON, brought to the same few values for every vendor.
//!
//! ATA attributes mean what their names in smartmontools' drivedb.h say, units included; NVMe's log is
//! standard. What a drive does not tell stays empty.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// An attribute as its vendor numbers it; NVMe's have no numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Its number; 0: it has none.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its value as its vendor scales it.
    pub normalized: Option<u64>,
    /// Its value as it is counted.
    pub raw: String,
}

/// A drive's health.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// What it calls itself.
    pub model: String,
    /// Its firmware.
    pub firmware: String,
    /// What the drive itself makes of it all.
    pub passed: Option<bool>,
    /// Bytes that the host wrote.
    pub host_written_bytes: Option<u64>,
    /// Bytes that the host read.
    pub host_read_bytes: Option<u64>,
    /// Bytes that went to the flash.
    pub nand_written_bytes: Option<u64>,
    /// The flash writes over the host's.
    pub write_amplification: Option<f64>,
    /// Of what the flash is made for, in percent.
    pub worn_percent: Option<u64>,
    /// What is left of the spare blocks, in percent of what it was.
    pub spare_percent: Option<u64>,
    /// Its temperature, in degrees Celsius.
    pub temperature_c: Option<i64>,
    /// Hours that it was on.
    pub power_on_hours: Option<u64>,
    /// Reads or writes that could not be mended.
    pub media_errors: Option<u64>,
    /// Sectors or blocks that were replaced.
    pub reallocated: Option<u64>,
    /// Its vendor's attributes.
    pub attributes: Vec<Line>,
}

/// Why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Nothing {
    /// smartctl did not start: the system's words.
    Unstarted(String),
    /// smartctl printed no JSON, as versions before 7.0: the reader's words.
    Garbled(String),
    /// The device could not be opened: smartctl's words.
    Closed(String),
    /// It has no SMART, or does not tell: smartctl's words, if any.
    None(String),
}

/// Asks the program `smartctl` about a device.
///
/// # Errors
/// The program did not work, or there is no health in what it printed.
pub fn ask(smartctl: &Path, device: &Path) -> Result<Report, Nothing> {
    let output = Command::new(smartctl).args(["-j", "-a"]).arg(device).output();
    let output = output.map_err(|error| Nothing::Unstarted(error.to_string()))?;
    let told = serde_json::from_slice(&output.stdout);
    report(&told.map_err(|error: serde_json::Error| Nothing::Garbled(error.to_string()))?)
}

/// Reads what smartctl printed.
///
/// # Errors
/// There is no health in it.
pub fn report(told: &Value) -> Result<Report, Nothing> {
    let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
    let messages = told["smartctl"]["messages"].as_array().into_iter().flatten();
    let messages: Vec<&str> = messages.filter_map(|one| one["string"].as_str()).collect();
    let messages = messages.join("; ");
    // Bit 0: the device's type is not known; bit 1: it was not opened.
    let status = told["smartctl"]["exit_status"].as_u64().unwrap_or(0);
    if status & 2 != 0 || messages.contains("Permission denied") {
        return Err(Nothing::Closed(messages));
    }
    let mut report = Report {
        model: text("model_name"),
        firmware: text("firmware_version"),
        passed: told["smart_status"]["passed"].as_bool(),
        temperature_c: told["temperature"]["current"].as_i64(),
        power_on_hours: told["power_on_time"]["hours"].as_u64(),
        ..Report::default()
    };
    if let Some(table) = told["ata_smart_attributes"]["table"].as_array() {
        ata(&mut report, table);
    } else if told["nvme_smart_health_information_log"].is_object() {
        nvme(&mut report, &told["nvme_smart_health_information_log"]);
    } else if told["scsi_grown_defect_list"].is_u64() || report.passed.is_some() {
        report.reallocated = told["scsi_grown_defect_list"].as_u64();
        report.worn_percent = told["scsi_percentage_used_endurance_indicator"].as_u64();
    } else {
        return Err(Nothing::None(messages));
    }
    Ok(report)
}

/// What an ATA attribute's name stands for.
enum Meaning {
    HostWritten(u64),
    HostRead(u64),
    NandWritten(u64),
    /// Pages that the host had programmed, and those that the firmware added.
    HostPages,
    OwnPages,
    /// The normalized value is what is left, in percent.
    LifeLeft,
    SpareLeft,
    MediaErrors,
    Reallocated,
}

const GIB: u64 = 1 << 30;

fn meaning(name: &str) -> Option<Meaning> {
    use Meaning::*;
    Some(match name {
        "Total_LBAs_Written" | "Write_Sectors_Tot_Ct" | "Host_Writes" => HostWritten(512),
        "Total_LBAs_Read" | "Read_Sectors_Tot_Ct" => HostRead(512),
        "Host_Writes_32MiB" => HostWritten(32 << 20),
        "Host_Reads_32MiB" => HostRead(32 << 20),
        "Lifetime_Writes_GiB"
        | "Host_Writes_GiB"
        | "Total_Writes_GiB"
        | "Total_Host_Writes_GiB" => HostWritten(GIB),
        "Lifetime_Reads_GiB" | "Host_Reads_GiB" | "Total_Reads_GiB" => HostRead(GIB),
        // SandForce counts what it wrote to the flash under a name that says nothing.
        "NAND_Writes_GiB" | "Total_NAND_Writes_GiB" | "SandForce_Internal" | "Flash_Writes_GiB" => {
            NandWritten(GIB)
        }
        "NAND_Writes_32MiB" => NandWritten(32 << 20),
        "NAND_Writes_1GiB" => NandWritten(GIB),
        "Host_Program_Page_Count" => HostPages,
        "FTL_Program_Page_Count" | "Bckgnd_Program_Page_Cnt" => OwnPages,
        "Wear_Leveling_Count"
        | "Media_Wearout_Indicator"
        | "SSD_Life_Left"
        | "Percent_Lifetime_Remain"
        | "Remaining_Lifetime_Perc"
        | "Perc_Rated_Life_Remain" => LifeLeft,
        "Available_Reservd_Space" | "Used_Rsvd_Blk_Cnt_Tot" => SpareLeft,
        "Reported_Uncorrect" | "Uncorrectable_Error_Cnt" | "Offline_Uncorrectable" => MediaErrors,
        "Reallocated_Sector_Ct" | "Retired_Block_Count" | "Reallocate_NAND_Blk_Cnt" => Reallocated,
        _ => return None,
    })
}

fn ata(report: &mut Report, table: &[Value]) {
    let (mut host_pages, mut own_pages) = (None, None);
    for attribute in table {
        let name = attribute["name"].as_str().unwrap_or_default();
        let raw = attribute["raw"]["value"].as_u64();
        let normalized = attribute["value"].as_u64();
        let bytes = |unit: u64| raw.map(|raw| raw.saturating_mul(unit));
        match meaning(name) {
            Some(Meaning::HostWritten(unit)) => report.host_written_bytes = bytes(unit),
            Some(Meaning::HostRead(unit)) => report.host_read_bytes = bytes(unit),
            Some(Meaning::NandWritten(unit)) => report.nand_written_bytes = bytes(unit),
            Some(Meaning::HostPages) => host_pages = raw,
            Some(Meaning::OwnPages) => own_pages = raw,
            Some(Meaning::LifeLeft) => {
                let worn = normalized.map(|left| 100u64.saturating_sub(left));
                report.worn_percent = report.worn_percent.max(worn);
            }
            Some(Meaning::SpareLeft) => report.spare_percent = normalized,
            Some(Meaning::MediaErrors) => report.media_errors = report.media_errors.max(raw),
            Some(Meaning::Reallocated) => report.reallocated = raw,
            None => {}
        }
        let shown = attribute["raw"]["string"].as_str().map(str::to_owned);
        report.attributes.push(Line {
            id: attribute["id"].as_u64().unwrap_or(0),
            name: name.to_owned(),
            normalized,
            raw: shown.or(raw.map(|raw| raw.to_string())).unwrap_or_default(),
        });
    }
    let ratio = |whole: f64, part: u64| (part > 0).then(|| whole / part as f64);
    report.write_amplification = match (report.nand_written_bytes, report.host_written_bytes) {
        (Some(nand), Some(host)) => ratio(nand as f64, host),
        _ => match (host_pages, own_pages) {
            (Some(host), Some(own)) => ratio(host as f64 + own as f64, host),
            _ => None,
        },
    };
    if let (None, Some(host), Some(ratio)) =
        (report.nand_written_bytes, report.host_written_bytes, report.write_amplification)
    {
        report.nand_written_bytes = Some((host as f64 * ratio) as u64);
    }
}

fn nvme(report: &mut Report, log: &Value) {
    let number = |key: &str| log[key].as_u64();
    // A unit is a thousand sectors.
    let units = |key: &str| number(key).map(|units| units.saturating_mul(512_000));
    report.host_written_bytes = units("data_units_written");
    report.host_read_bytes = units("data_units_read");
    report.worn_percent = number("percentage_used");
    report.spare_percent = number("available_spare");
    report.media_errors = number("media_errors");
    report.power_on_hours = report.power_on_hours.or(number("power_on_hours"));
    report.temperature_c = report.temperature_c.or(log["temperature"].as_i64());
    let fields = log.as_object().into_iter().flatten();
    let fields = fields.filter(|(_, value)| value.is_number());
    report.attributes.extend(fields.map(|(name, value)| Line {
        id: 0,
        name: name.clone(),
        normalized: None,
        raw: value.to_string(),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attribute(id: u64, name: &str, value: u64, raw: u64) -> Value {
        let raw = json!({ "value": raw, "string": raw.to_string() });
        json!({ "id": id, "name": name, "value": value, "worst": value, "raw": raw })
    }

    fn drive(table: &[Value]) -> Report {
        let told = json!({
            "smartctl": { "exit_status": 0 },
            "model_name": "A drive",
            "smart_status": { "passed": true },
            "temperature": { "current": 31 },
            "power_on_time": { "hours": 100 },
            "ata_smart_attributes": { "table": table },
        });
        report(&told).expect("it tells")
    }

    #[test]
    fn each_vendors_units_come_to_bytes() {
        let samsung = drive(&[
            attribute(5, "Reallocated_Sector_Ct", 100, 3),
            attribute(177, "Wear_Leveling_Count", 97, 41),
            attribute(179, "Used_Rsvd_Blk_Cnt_Tot", 98, 2),
            attribute(241, "Total_LBAs_Written", 99, 1 << 31),
        ]);
        assert_eq!(samsung.host_written_bytes, Some(1 << 40));
        assert_eq!((samsung.worn_percent, samsung.spare_percent), (Some(3), Some(98)));
        assert_eq!((samsung.reallocated, samsung.nand_written_bytes), (Some(3), None));
        assert_eq!((samsung.temperature_c, samsung.power_on_hours), (Some(31), Some(100)));
        let intel = drive(&[attribute(225, "Host_Writes_32MiB", 200, 32)]);
        assert_eq!(intel.host_written_bytes, Some(1 << 30));
        let sandforce = drive(&[
            attribute(233, "SandForce_Internal", 0, 300),
            attribute(241, "Lifetime_Writes_GiB", 0, 400),
        ]);
        assert_eq!(sandforce.write_amplification, Some(0.75));
        let crucial = drive(&[
            attribute(246, "Total_LBAs_Written", 100, 2000),
            attribute(247, "Host_Program_Page_Count", 100, 100),
            attribute(248, "FTL_Program_Page_Count", 100, 50),
        ]);
        assert_eq!(crucial.write_amplification, Some(1.5));
        assert_eq!(crucial.nand_written_bytes, Some(1_536_000));
    }

    #[test]
    fn the_log_of_nvme_is_read() {
        let told = json!({
            "smartctl": { "exit_status": 0 },
            "nvme_smart_health_information_log": {
                "available_spare": 100, "percentage_used": 4, "data_units_written": 2_000_000,
                "media_errors": 7, "power_on_hours": 12, "temperature": 40,
                "temperature_sensors": [40, 41],
            },
        });
        let found = report(&told).expect("it tells");
        assert_eq!(found.host_written_bytes, Some(1_024_000_000_000));
        assert_eq!((found.worn_percent, found.media_errors), (Some(4), Some(7)));
        assert_eq!((found.power_on_hours, found.temperature_c), (Some(12), Some(40)));
        assert_eq!(found.attributes.len(), 6);
    }

    #[test]
    fn a_device_that_tells_nothing_or_cannot_be_opened_is_no_healthy_drive() {
        let told = |status: u64, message: &str| {
            let messages = json!([{ "string": message, "severity": "error" }]);
            json!({ "smartctl": { "exit_status": status, "messages": messages } })
        };
        let virtual_disk = report(&told(1, "/dev/vda: Unable to detect device type"));
        assert!(matches!(virtual_disk, Err(Nothing::None(words)) if words.contains("Unable")));
        let closed = report(&told(2, "Smartctl open device: /dev/sda failed: Permission denied"));
        assert!(matches!(closed, Err(Nothing::Closed(words)) if words.contains("Permission")));
        for nonsense in [json!(null), json!([]), json!({ "ata_smart_attributes": 3 }), json!("x")] {
            assert_eq!(report(&nonsense), Err(Nothing::None(String::new())));
        }
        let odd = json!({ "ata_smart_attributes": { "table": [null, 3, { "name": 5 }] } });
        assert_eq!(report(&odd).expect("a table").attributes.len(), 3);
    }
}
