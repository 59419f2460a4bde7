//! The health log. It is converted to the object that smartctl prints, so that one reader judges
//! what is possible.

use super::NvmeError;
use super::command::{ALL, Command, Drive, open};
use super::identify::{Controller, celsius, controller, wide, word};
use crate::smartctl::{Nothing, Report, report};
use crate::sysfs;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::path::Path;

const GET_LOG: u8 = 0x02;
const HEALTH: u32 = 0x02;
const LOG_BYTES: usize = 512;

/// Reads the identity and the health of a device's drive.
pub(super) fn read(device: &Path) -> Result<Report, Nothing> {
    let opened = open(device).map_err(|error| closed(NvmeError::System(error)))?;
    let drive = controller(&opened).map_err(closed)?;
    let mut log = vec![0; LOG_BYTES];
    let words = LOG_BYTES as u32 / 4 - 1;
    let words_10 = [HEALTH | words << 16, 0, 0, 0, 0, 0];
    let command = Command { opcode: GET_LOG, namespace: ALL, words_10, ..Command::default() };
    opened.run(command, &mut log).map_err(closed)?;
    let mut report = report(&as_smartctl(&drive, &log))?;
    // Some drives do not report the size of all of them.
    report.capacity_bytes = report.capacity_bytes.or_else(|| {
        let found = rustix::fs::fstat(&opened).ok()?;
        sysfs::count(found.st_rdev, "size")?.checked_mul(block::SECTOR)
    });
    Ok(report)
}

fn closed(error: NvmeError) -> Nothing {
    match error {
        // smartctl's words, by which a caller knows it.
        NvmeError::System(Errno::ACCESS | Errno::PERM) => {
            Nothing::Closed("Permission denied".to_owned())
        }
        NvmeError::System(Errno::NOTTY | Errno::INVAL) => {
            Nothing::None("it takes no NVMe commands".to_owned())
        }
        NvmeError::System(error) => Nothing::Closed(error.to_string()),
        NvmeError::Drive(_) => Nothing::None(error.to_string()),
    }
}

/// Returns the object that smartctl would print.
fn as_smartctl(drive: &Controller, log: &[u8]) -> Value {
    let temperature = celsius(word(log, 1));
    json!({
        "smartctl": { "exit_status": 0 },
        "model_name": drive.model,
        "serial_number": drive.serial,
        "firmware_version": drive.firmware,
        "nvme_total_capacity": drive.capacity_bytes,
        "smart_status": { "passed": log[0] == 0 },
        "temperature": { "current": temperature, "op_limit_max": drive.temperature_max_c },
        "nvme_smart_health_information_log": {
            "critical_warning": log[0],
            "temperature": temperature,
            "available_spare": log[3],
            "available_spare_threshold": log[4],
            "percentage_used": log[5],
            "data_units_read": wide(log, 32),
            "data_units_written": wide(log, 48),
            "host_reads": wide(log, 64),
            "host_writes": wide(log, 80),
            "controller_busy_time": wide(log, 96),
            "power_cycles": wide(log, 112),
            "power_on_hours": wide(log, 128),
            "unsafe_shutdowns": wide(log, 144),
            "media_errors": wide(log, 160),
            "num_err_log_entries": wide(log, 176),
            "warning_temp_time": u32::from_le_bytes(log[192..196].try_into().expect("four")),
            "critical_comp_time": u32::from_le_bytes(log[196..200].try_into().expect("four")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Vec<u8> {
        let mut log = vec![0; LOG_BYTES];
        log[1..3].copy_from_slice(&(273u16 + 41).to_le_bytes());
        (log[3], log[4], log[5]) = (97, 10, 12);
        log[48..64].copy_from_slice(&2_000_000u128.to_le_bytes());
        log[128..144].copy_from_slice(&9_000u128.to_le_bytes());
        log[160..176].copy_from_slice(&3u128.to_le_bytes());
        log
    }

    #[test]
    fn a_log_becomes_a_report() {
        let drive = Controller {
            serial: "S".into(),
            capacity_bytes: 500_000_000_000,
            temperature_max_c: Some(80),
            ..Controller::default()
        };
        let found = report(&as_smartctl(&drive, &log())).expect("health");
        assert_eq!((found.passed, found.critical_warning), (Some(true), Some(0)));
        assert_eq!((found.temperature_c, found.temperature_max_c), (Some(41), Some(80)));
        assert_eq!((found.spare_percent, found.spare_threshold_percent), (Some(97), Some(10)));
        assert_eq!((found.worn_percent, found.media_errors), (Some(12), Some(3)));
        assert_eq!(found.host_written_bytes, Some(2_000_000 * 512_000));
        assert_eq!((&*found.serial, found.capacity_bytes), ("S", Some(500_000_000_000)));
    }

    #[test]
    fn a_log_of_all_ones_or_zeros_is_not_believed() {
        let drive = Controller::default();
        let ones = report(&as_smartctl(&drive, &[0xff; LOG_BYTES])).expect("health");
        assert_eq!((ones.passed, ones.worn_percent), (Some(false), Some(100)));
        assert_eq!((ones.host_written_bytes, ones.power_on_hours), (None, None));
        assert_eq!((ones.temperature_c, ones.spare_percent, ones.media_errors), (None, None, None));
        let zeros = report(&as_smartctl(&drive, &[0; LOG_BYTES])).expect("health");
        assert_eq!((zeros.passed, zeros.temperature_c), (Some(true), None));
    }
}
