//! Health from smartctl's JSON: drives whose reports were once wrong, and generated ones.

use host::smartctl::{self, Report};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// Reads a recorded output. The recordings are reduced from public reports.
fn recorded(name: &str) -> Report {
    let path = format!("{}/tests/smart/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("a recorded output");
    smartctl::report(&serde_json::from_str(&text).expect("JSON")).expect("health")
}

#[test]
fn wear_that_counts_up_is_not_what_is_left() {
    let found = recorded("wd-blue-counts-up");
    assert_eq!((found.worn_percent, found.spare_percent), (Some(1), Some(100)));
    assert_eq!(found.host_written_bytes, Some(2000 << 30));
    assert_eq!(found.write_amplification, None, "a drive that does not compress");
}

#[test]
fn sectors_written_have_the_familys_unit() {
    let found = recorded("toshiba-32mib-units");
    assert_eq!(found.host_written_bytes, Some(1_000_000 * (32 << 20)));
}

#[test]
fn a_packed_count_is_read_from_its_string() {
    assert_eq!(recorded("fujitsu-packed-raw").reallocated, Some(0));
}

#[test]
fn the_id_decides_where_two_attributes_have_one_name() {
    let sandforce = recorded("sandforce-233-234");
    let ratio = sandforce.write_amplification.expect("both are counted");
    assert!((ratio - 7125.0 / 5442.0).abs() < 1e-9, "{ratio}");
    assert_eq!(sandforce.nand_written_bytes, Some(7125 << 30));
    assert_eq!(sandforce.worn_percent, Some(0));
    let intel = recorded("intel-s3520-two-names");
    assert_eq!(intel.host_written_bytes, Some(129_493 * (32 << 20)));
    assert_eq!(intel.host_read_bytes, Some(573_613 * (32 << 20)));
    assert_eq!((intel.worn_percent, intel.media_errors), (Some(0), Some(0)));
}

#[test]
fn life_left_may_stand_in_the_raw_value() {
    let found = recorded("kingston-life-in-raw");
    assert_eq!((found.worn_percent, found.reallocated), (Some(26), Some(1)));
    assert_eq!(found.write_amplification.map(|ratio| (ratio * 100.0).round()), Some(214.0));
}

#[test]
fn scsi_drives_have_keys_of_their_own() {
    let found = recorded("scsi-disk");
    assert_eq!((found.model.as_str(), found.firmware.as_str()), ("SEAGATE ST373453LC", "DX10"));
    assert_eq!((found.media_errors, found.reallocated), (Some(536), Some(260)));
    assert_eq!(found.host_written_bytes, Some(11_151_772_000_000));
    assert_eq!(found.host_read_bytes, Some(11_523_849_000_000));
    assert!(!found.attributes.is_empty());
}

const FAMILIES: [&str; 12] = [
    "",
    "A family of next year",
    "SandForce Driven SSDs",
    "Intel 320 Series SSDs",
    "Dell Certified Intel S3520 Series SSDs",
    "Samsung based SSDs",
    "Crucial/Micron Client SSDs",
    "Phison Driven SSDs",
    "Silicon Motion based SSDs",
    "WD Blue / Red / Green SSDs",
    "Indilinx Barefoot 3 based SSDs",
    "Seagate Nytro SATA SSD",
];

const COMPRESSING: [&str; 2] = ["SandForce Driven SSDs", "Seagate Nytro SATA SSD"];

const NAMES: [&str; 18] = [
    "Unknown_Attribute",
    "Reallocated_Sector_Ct",
    "Retired_Block_Count",
    "Total_LBAs_Written",
    "Host_Writes_32MiB",
    "Lifetime_Writes_GiB",
    "Host_Reads_GiB",
    "NAND_Writes_1GiB",
    "Flash_Writes_GiB",
    "SandForce_Internal",
    "Host_Program_Page_Count",
    "FTL_Program_Page_Count",
    "SSD_Life_Left",
    "Percent_Lifetime_Remain",
    "Media_Wearout_Indicator",
    "Wear_Leveling_Count",
    "Perc_Avail_Resrvd_Space",
    "Reported_Uncorrect",
];

const IDS: [u64; 20] = [
    0, 5, 160, 169, 177, 179, 187, 195, 199, 225, 230, 231, 232, 233, 241, 242, 245, 246, 247, 249,
];

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..300u64, 0..1u64 << 24, 0..1u64 << 48, any::<u64>(), Just(u64::MAX)]
}

fn attribute() -> impl Strategy<Value = Value> {
    let string = prop_oneof![
        Just(None),
        number().prop_map(|count| Some(count.to_string())),
        (number(), number()).prop_map(|(count, rest)| Some(format!("{count} ({rest} 0)"))),
        number().prop_map(|word| Some(format!("{word:#x}"))),
        ".{0,8}".prop_map(Some),
    ];
    (select(&IDS[..]), select(&NAMES[..]), 0..=255u64, number(), string).prop_map(
        |(id, name, value, raw, string)| {
            let string = string.map_or(json!(null), Value::String);
            json!({ "id": id, "name": name, "value": value, "raw": { "value": raw, "string": string } })
        },
    )
}

/// Generates an output in smartctl's format, for any kind of drive.
fn output() -> impl Strategy<Value = (bool, Value)> {
    let table = prop::collection::vec(attribute(), 0..12);
    let numbers = prop::collection::vec(prop::option::of(number()), 12);
    let kind = 0..3;
    (select(&FAMILIES[..]), table, numbers, kind).prop_map(|(family, table, numbers, kind)| {
        let mut printed = json!({
            "model_family": family,
            "smart_status": { "passed": true },
            "power_on_time": { "hours": numbers[0] },
            "temperature": { "current": numbers[1] },
            "user_capacity": { "bytes": numbers[2] },
            "rotation_rate": numbers[3],
            "endurance_used": { "current_percent": numbers[4] },
            "spare_available": { "current_percent": numbers[5] },
        });
        let gigabytes = numbers[6].map(|count| format!("{count}.5"));
        match kind {
            0 => printed["ata_smart_attributes"] = json!({ "table": table }),
            1 => {
                printed["nvme_smart_health_information_log"] = json!({
                    "data_units_written": numbers[6], "data_units_read": numbers[7],
                    "percentage_used": numbers[8], "available_spare": numbers[9],
                    "media_errors": numbers[10], "power_on_hours": numbers[11],
                });
            }
            _ => {
                printed["scsi_grown_defect_list"] = json!(numbers[7]);
                printed["scsi_percentage_used_endurance_indicator"] = json!(numbers[8]);
                printed["scsi_error_counter_log"] = json!({
                    "write": { "gigabytes_processed": gigabytes, "total_uncorrected_errors": numbers[9] },
                    "read": { "gigabytes_processed": numbers[10] },
                });
            }
        }
        (COMPRESSING.contains(&family), printed)
    })
}

/// Panics if a value of a report is impossible.
fn check(found: &Report, compresses: bool, printed: &Value) {
    assert!(found.worn_percent.is_none_or(|percent| percent <= 100));
    assert!(found.spare_percent.is_none_or(|percent| percent <= 100));
    assert!(found.power_on_hours.is_none_or(|hours| hours < 100 * 365 * 24));
    assert!(found.temperature_c.is_none_or(|degrees| degrees.abs() < 200));
    let least = if compresses { f64::MIN_POSITIVE } else { 1.0 };
    assert!(found.write_amplification.is_none_or(|ratio| (least..1000.0).contains(&ratio)));
    let capacity = printed["user_capacity"]["bytes"].as_u64().filter(|bytes| *bytes > 0);
    let sectors = capacity.map_or(1 << 32, |bytes| bytes / 512);
    assert!(found.reallocated.is_none_or(|count| count <= sectors));
    assert!(found.media_errors.is_none_or(|count| count < 1 << 40));
    let hours = found.power_on_hours.unwrap_or(100 * 365 * 24) + 1;
    for bytes in [found.host_written_bytes, found.host_read_bytes].into_iter().flatten() {
        assert!(u128::from(bytes) <= u128::from(hours) * 3600 * 64_000_000_000);
    }
    if let (Some(host), Some(flash)) = (found.host_written_bytes, found.nand_written_bytes) {
        assert!(compresses || flash >= host, "{flash} of {host}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_report_shows_what_cannot_be((compresses, printed) in output()) {
        let found = smartctl::report(&printed).expect("a verdict is health");
        check(&found, compresses, &printed);
    }
}

const KEYS: [&str; 9] =
    ["hours", "current", "table", "raw", "value", "string", "write", "pages", "number"];

/// Generates any JSON.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<u64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        prop_oneof![Just("-1e300".to_owned()), Just("NaN".to_owned()), ".{0,6}".boxed()]
            .prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::hash_map(select(&KEYS[..]), inner, 0..4).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_output_ends_the_program(
        (_, printed) in output(),
        keys in prop::collection::vec(0..16usize, 1..4),
        values in prop::collection::vec(any_json(), 4),
    ) {
        let mut printed = printed;
        for (key, value) in keys.into_iter().zip(values) {
            let object = printed.as_object_mut().expect("an object");
            let name = object.keys().nth(key % object.len().max(1)).cloned().unwrap_or_default();
            object.insert(name, value);
        }
        if let Ok(found) = smartctl::report(&printed) {
            check(&found, true, &printed);
        }
    }
}
