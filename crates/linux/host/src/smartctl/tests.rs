use super::*;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

fn attribute(id: u64, name: &str, value: u64, raw: u64) -> Value {
    let raw = json!({ "value": raw, "string": raw.to_string() });
    json!({ "id": id, "name": name, "value": value, "worst": value, "raw": raw })
}

fn drive(family: &str, model: &str, table: &[Value]) -> Report {
    let printed = json!({
        "smartctl": { "exit_status": 0 },
        "model_family": family,
        "model_name": model,
        "smart_status": { "passed": true },
        "temperature": { "current": 31 },
        "power_on_time": { "hours": 10_000 },
        "ata_smart_attributes": { "table": table },
    });
    report(&printed).expect("health")
}

#[test]
fn each_vendors_units_become_bytes() {
    let samsung = drive(
        "",
        "Samsung SSD 840 EVO 250GB",
        &[
            attribute(5, "Reallocated_Sector_Ct", 100, 3),
            attribute(177, "Wear_Leveling_Count", 97, 41),
            attribute(179, "Used_Rsvd_Blk_Cnt_Tot", 98, 2),
            attribute(241, "Total_LBAs_Written", 99, 1 << 31),
        ],
    );
    assert_eq!(samsung.host_written_bytes, Some(1 << 40));
    assert_eq!((samsung.worn_percent, samsung.spare_percent), (Some(3), Some(98)));
    assert_eq!((samsung.reallocated, samsung.nand_written_bytes), (Some(3), None));
    assert_eq!((samsung.temperature_c, samsung.power_on_hours), (Some(31), Some(10_000)));
    let intel = drive("Intel 320 Series SSDs", "", &[attribute(225, "Host_Writes_32MiB", 200, 32)]);
    assert_eq!(intel.host_written_bytes, Some(1 << 30));
    // It compresses: less is written to the flash than by the host.
    let sandforce = [
        attribute(233, "SandForce_Internal", 0, 300),
        attribute(241, "Lifetime_Writes_GiB", 0, 400),
    ];
    let sandforce = drive("SandForce Driven SSDs", "", &sandforce);
    assert_eq!(sandforce.write_amplification, Some(0.75));
    let crucial = [
        attribute(246, "Total_LBAs_Written", 100, 2000),
        attribute(247, "Host_Program_Page_Count", 100, 100),
        attribute(248, "FTL_Program_Page_Count", 100, 50),
    ];
    let crucial = drive("Crucial/Micron Client SSDs", "", &crucial);
    assert_eq!(crucial.write_amplification, Some(1.5));
    assert_eq!(crucial.nand_written_bytes, Some(1_536_000));
    let silicon_motion = [
        attribute(241, "Host_Writes_32MiB", 100, 100),
        attribute(245, "TLC_Writes_32MiB", 100, 80),
        attribute(246, "SLC_Writes_32MiB", 100, 100),
    ];
    let parts = drive("Silicon Motion based SSDs", "", &silicon_motion);
    assert_eq!(parts.write_amplification, Some(1.8));
    let part = drive("Silicon Motion based SSDs", "", &silicon_motion[..2]);
    assert_eq!(part.write_amplification, None, "one of two parts is no sum");
}

#[test]
fn a_unit_or_direction_that_is_not_known_is_not_guessed() {
    let table = [
        attribute(177, "Wear_Leveling_Count", 99, 5),
        attribute(233, "Media_Wearout_Indicator", 98, 0),
        attribute(241, "Total_LBAs_Written", 100, 1_000_000),
        attribute(5, "Reallocated_Sector_Ct", 100, 2),
    ];
    let unknown = drive("A family of next year", "A drive", &table);
    assert_eq!((unknown.host_written_bytes, unknown.worn_percent), (None, None));
    assert_eq!((unknown.reallocated, unknown.attributes.len()), (Some(2), 4));
    // A correct name is sufficient, unless two attributes have it and differ.
    let mut named = vec![attribute(241, "Host_Writes_32MiB", 100, 32)];
    let known = drive("A family of next year", "A drive", &named);
    assert_eq!(known.host_written_bytes, Some(1 << 30));
    named.push(attribute(225, "Host_Writes_32MiB", 100, 33));
    let twice = drive("A family of next year", "A drive", &named);
    assert_eq!(twice.host_written_bytes, None);
    // The attribute that smartctl itself uses for wear may be such an attribute too.
    let digest = json!({
        "model_family": "A family of next year",
        "endurance_used": { "current_percent": 99 },
        "spare_available": { "current_percent": 1 },
        "ata_smart_attributes": { "table": table },
    });
    let digest = report(&digest).expect("health");
    assert_eq!((digest.worn_percent, digest.spare_percent), (None, None));
    // No normalized value is 0: the drive does not count.
    let samsung = drive("Samsung based SSDs", "", &[attribute(177, "Wear_Leveling_Count", 0, 0)]);
    assert_eq!(samsung.worn_percent, None);
}

#[test]
fn standard_statistics_come_before_attributes() {
    let printed = |valid: bool| {
        let flags = json!({ "valid": valid });
        json!({
            "model_family": "Samsung based SSDs",
            "ata_smart_attributes": { "table": [
                attribute(177, "Wear_Leveling_Count", 99, 5),
                attribute(241, "Total_LBAs_Written", 99, 2048),
            ] },
            "ata_device_statistics": { "pages": [
                { "number": 1, "table": [ { "offset": 24, "value": 4096, "flags": flags } ] },
                { "number": 7, "table": [ { "offset": 8, "value": 130, "flags": flags } ] },
            ] },
        })
    };
    let found = report(&printed(true)).expect("health");
    assert_eq!((found.host_written_bytes, found.worn_percent), (Some(2 << 20), Some(100)));
    let invalid = report(&printed(false)).expect("health");
    assert_eq!((invalid.host_written_bytes, invalid.worn_percent), (Some(1 << 20), Some(1)));
}

#[test]
fn the_log_of_nvme_is_read() {
    let printed = json!({
        "smartctl": { "exit_status": 0 },
        "nvme_smart_health_information_log": {
            "available_spare": 100, "percentage_used": 4, "data_units_written": 2_000_000,
            "media_errors": 7, "power_on_hours": 12, "temperature": 40,
            "temperature_sensors": [40, 41],
        },
    });
    let found = report(&printed).expect("health");
    assert_eq!(found.host_written_bytes, Some(1_024_000_000_000));
    assert_eq!((found.worn_percent, found.media_errors), (Some(4), Some(7)));
    assert_eq!((found.power_on_hours, found.temperature_c), (Some(12), Some(40)));
    assert_eq!(found.attributes.len(), 6);
}

#[test]
fn scsi_drives_are_named_in_the_keys_of_every_version() {
    for (printed, model, firmware) in [
        (json!({ "model_name": "SEAGATE ST1", "revision": "A1" }), "SEAGATE ST1", "A1"),
        (json!({ "scsi_model_name": "SEAGATE ST1", "scsi_revision": "A1" }), "SEAGATE ST1", "A1"),
        (json!({ "scsi_vendor": "SEAGATE", "scsi_product": "ST1" }), "SEAGATE ST1", ""),
        (json!({ "vendor": "SEAGATE", "product": "ST1" }), "SEAGATE ST1", ""),
    ] {
        let mut printed = printed;
        printed["scsi_grown_defect_list"] = json!(2);
        let found = report(&printed).expect("health");
        assert_eq!((found.model.as_str(), found.firmware.as_str()), (model, firmware));
        assert_eq!(found.reallocated, Some(2));
    }
}

#[test]
fn a_device_that_reports_nothing_or_cannot_be_opened_is_no_healthy_drive() {
    let printed = |status: u64, message: &str| {
        let messages = json!([{ "string": message, "severity": "error" }]);
        json!({ "smartctl": { "exit_status": status, "messages": messages } })
    };
    let virtual_disk = report(&printed(1, "/dev/vda: Unable to detect device type"));
    assert!(matches!(virtual_disk, Err(Nothing::None(words)) if words.contains("Unable")));
    let closed = report(&printed(2, "Smartctl open device: /dev/sda failed: Permission denied"));
    assert!(matches!(closed, Err(Nothing::Closed(words)) if words.contains("Permission")));
    for nonsense in [json!(null), json!([]), json!({ "ata_smart_attributes": 3 }), json!("x")] {
        assert_eq!(report(&nonsense), Err(Nothing::None(String::new())));
    }
    let odd = json!({ "ata_smart_attributes": { "table": [null, 3, { "name": 5 }] } });
    assert_eq!(report(&odd).expect("a table").attributes.len(), 3);
}

/// Runs a script in the place of smartctl.
fn output_of(script: &str, max_time: Duration) -> Result<Vec<u8>, Nothing> {
    let place = tempfile::tempdir().expect("a directory");
    let program = place.path().join("smartctl");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("permitted");
    output(&program, &[], Path::new("/dev/null"), 1 << 16, max_time)
}

#[test]
fn a_program_that_does_not_end_is_not_waited_for() {
    let limit = Duration::from_millis(300);
    assert_eq!(output_of("exec sleep 60", limit), Err(Nothing::Late(limit)));
    // A child that outlives it holds its output open.
    assert_eq!(output_of("sleep 5 & wait", limit), Err(Nothing::Late(limit)));
    assert_eq!(output_of("echo {}", Duration::from_secs(30)), Ok(b"{}\n".to_vec()));
}

#[test]
fn a_program_that_prints_without_end_is_ended() {
    let endless = output_of("exec yes", Duration::from_secs(30));
    let Err(Nothing::Garbled(words)) = endless else { panic!("{endless:?}") };
    assert!(words.contains("more than 65536 bytes"), "{words}");
}
