//! The partition table of a drive, by sfdisk.

use crate::tools;
use serde_json::Value;
use stack::{Exit, Failure};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The name of the unused partition.
pub(super) const SPARE: &str = "overdrive-spare";
/// Alignment of partitions, in bytes.
pub(super) const ALIGNMENT: u64 = 1 << 20;

/// A partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Partition {
    /// Its number in the table.
    pub(super) number: u64,
    pub(super) first_byte: u64,
    pub(super) bytes: u64,
    pub(super) name: String,
}

/// A partition table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Table {
    /// Its kind: `gpt`, `dos`.
    pub(super) label: String,
    pub(super) partitions: Vec<Partition>,
    /// The end of the usable space, in bytes.
    pub(super) end_byte: u64,
}

impl Table {
    /// Bytes behind the last partition.
    pub(super) fn free_bytes(&self) -> u64 {
        let ends = self.partitions.iter().map(|it| it.first_byte.saturating_add(it.bytes));
        let end = ends.max().unwrap_or(ALIGNMENT);
        self.end_byte.saturating_sub(end.next_multiple_of(ALIGNMENT))
    }

    /// Returns the unused partition, if it is the only difference from an earlier table and is
    /// behind all other partitions. Without an earlier table, another new partition is before it.
    pub(super) fn spare_added_to(&self, before: Option<&Table>) -> Option<&Partition> {
        // The number of the new partition may be one between those of others.
        let (spares, others): (Vec<&Partition>, Vec<&Partition>) =
            self.partitions.iter().partition(|partition| partition.name == SPARE);
        let &[spare] = &spares[..] else { return None };
        let is_planned = match before {
            Some(before) => {
                self.label == before.label && others.iter().copied().eq(&before.partitions)
            }
            None => self.label == "gpt" && others.len() == 1,
        };
        let end_byte = |partition: &Partition| partition.first_byte.saturating_add(partition.bytes);
        let is_behind = others.iter().all(|other| end_byte(other) <= spare.first_byte);
        let is_within = end_byte(spare) <= self.end_byte;
        (is_planned && is_behind && is_within).then_some(spare)
    }

    /// Returns the partitions that are left unused by this program.
    pub(super) fn spare(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(|partition| partition.name == SPARE)
    }
}

fn sfdisk(device: &Path, arguments: &[&str], input: &str) -> Result<(bool, String), Failure> {
    let place = device.display();
    let Some(program) = tools::find("sfdisk") else {
        let install = tools::install(&["fdisk"]);
        let message =
            format!("{place}: sfdisk, which reads partitions, is not installed; run '{install}'");
        return Err(Failure::new(Exit::Negative, message));
    };
    let failed = |error: std::io::Error| {
        Failure::new(Exit::Io, format!("{place}: sfdisk did not start ({error})"))
    };
    let mut command = Command::new(program);
    command.args(arguments).arg(device).env("LC_ALL", "C");
    // This process has the lock while the table is changed. An operator may have set the variable.
    command.env("LOCK_BLOCK_DEVICE", "0");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that has refused does not read its input.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    Ok((output.status.success(), String::from_utf8_lossy(text).trim().to_owned()))
}

/// Reads the table of a device of this size. None: there is none.
///
/// # Errors
/// sfdisk is missing, may not read the device, or prints nonsense.
pub(super) fn read(device: &Path, device_bytes: u64) -> Result<Option<Table>, Failure> {
    let (is_there, text) = sfdisk(device, &["--json"], "")?;
    if !is_there {
        return nothing_found(device, &text).map(|()| None);
    }
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::new(Exit::Io, format!("{}: sfdisk printed no JSON ({error})", device.display()))
    })?;
    Ok(table(&value, device_bytes))
}

/// Checks that sfdisk's message says that the device has no table.
fn nothing_found(device: &Path, message: &str) -> Result<(), Failure> {
    let place = device.display();
    if message.contains("does not contain a recognized partition table") {
        return Ok(());
    }
    if message.contains("Permission denied") {
        let message = format!("{place}: only root may read its partitions; run this with sudo");
        return Err(Failure::new(Exit::Permission, message));
    }
    Err(Failure::new(Exit::Io, format!("{place}: its partitions cannot be read ({message})")))
}

fn table(value: &Value, device_bytes: u64) -> Option<Table> {
    let table = &value["partitiontable"];
    let sector = table["sectorsize"].as_u64().unwrap_or(512);
    let bytes = |value: &Value| value.as_u64()?.checked_mul(sector);
    let number = |node: &str| {
        let digits = node.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
        node[digits..].parse().ok()
    };
    let all = table["partitions"].as_array().into_iter().flatten();
    let partitions = (1..).zip(all).map(|(at, it)| {
        Some(Partition {
            number: it["node"].as_str().and_then(number).unwrap_or(at),
            first_byte: bytes(&it["start"])?,
            bytes: bytes(&it["size"])?,
            name: it["name"].as_str().unwrap_or_default().to_owned(),
        })
    });
    let last = table["lastlba"].as_u64().and_then(|last| last.checked_add(1)?.checked_mul(sector));
    Some(Table {
        label: table["label"].as_str()?.to_owned(),
        partitions: partitions.collect::<Option<_>>()?,
        end_byte: last.unwrap_or(device_bytes).min(device_bytes),
    })
}

/// Writes lines of sfdisk to a device that this process has claimed. `appends`: to the table that
/// is there. The kernel does not read the new table. sfdisk does not check whether the device is in
/// use: the claim excludes that, and sfdisk would find the claim.
///
/// # Errors
/// sfdisk refuses.
pub(super) fn write(device: &Path, lines: &str, appends: bool) -> Result<(), Failure> {
    let mut arguments = vec!["--quiet", "--no-reread", "--no-tell-kernel"];
    arguments.extend(appends.then_some("--append"));
    match sfdisk(device, &arguments, lines)? {
        (true, _) => Ok(()),
        (false, why) => {
            let message = format!("{}: sfdisk refuses: {why}", device.display());
            Err(Failure::new(Exit::Io, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn free_space_is_behind_the_last_partition() {
        let value = json!({ "partitiontable": {
            "label": "gpt", "firstlba": 2048, "lastlba": 204_766, "sectorsize": 512,
            "partitions": [
                { "start": 2048, "size": 100_000, "name": "data" },
                { "node": "/dev/loop0p7", "start": 104_448, "size": 20_480, "name": SPARE },
            ],
        } });
        let found = table(&value, 100 << 20).expect("a table");
        assert_eq!(found.free_bytes(), 204_767 * 512 - (104_448 + 20_480) * 512);
        assert_eq!(found.spare().map(|it| it.bytes).sum::<u64>(), 20_480 * 512);
        assert_eq!(found.partitions.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 7]);
        let senseless = json!({ "partitiontable": { "label": "gpt", "partitions": [
            { "start": u64::MAX, "size": 1 } ] } });
        assert_eq!(table(&senseless, 1 << 20), None);
        assert_eq!(table(&json!({}), 1 << 20), None);
    }

    #[test]
    fn a_table_with_another_difference_than_the_unused_partition_is_noticed() {
        let partition = |number: u64, name: &str| Partition {
            number,
            first_byte: number * ALIGNMENT,
            bytes: ALIGNMENT,
            name: name.to_owned(),
        };
        let table = |partitions: &[Partition]| Table {
            label: "gpt".to_owned(),
            partitions: partitions.to_vec(),
            end_byte: 8 * ALIGNMENT,
        };
        let (data, spare) = (partition(1, "data"), partition(2, SPARE));
        let before = table(std::slice::from_ref(&data));
        let after = table(&[data.clone(), spare.clone()]);
        assert_eq!(after.spare_added_to(Some(&before)), Some(&spare));
        assert_eq!(after.spare_added_to(None), Some(&spare));
        // sfdisk uses a number between those of others.
        let more = partition(3, "more");
        let gap = table(&[data.clone(), more.clone()]);
        let behind = Partition { number: 2, ..partition(4, SPARE) };
        let filled = table(&[data.clone(), behind.clone(), more]);
        assert_eq!(filled.spare_added_to(Some(&gap)), Some(&behind));
        let renamed = Partition { name: "other".to_owned(), ..data.clone() };
        let longer = Partition { bytes: 2 * ALIGNMENT, ..data.clone() };
        let too_long = Partition { bytes: 7 * ALIGNMENT, ..spare.clone() };
        for partitions in [
            &[renamed, spare.clone()][..],
            &[longer, spare.clone()],
            &[data.clone(), too_long],
            &[data.clone(), partition(2, "other")],
            std::slice::from_ref(&spare),
            &[data.clone(), partition(2, "more"), partition(3, SPARE)],
            &[data.clone(), spare.clone(), partition(3, SPARE)],
            &[],
        ] {
            assert_eq!(table(partitions).spare_added_to(Some(&before)), None, "{partitions:?}");
        }
        let other = Table { label: "dos".to_owned(), ..after };
        assert_eq!(other.spare_added_to(Some(&before)), None);
        assert_eq!(other.spare_added_to(None), None);
        // The new partition is not behind the others.
        let far = table(&[partition(5, "data")]);
        let between = table(&[partition(5, "data"), spare]);
        assert_eq!(between.spare_added_to(Some(&far)), None);
    }

    #[test]
    fn a_device_that_cannot_be_read_is_not_taken_for_a_blank_one() {
        let of = |message| nothing_found(Path::new("/dev/x"), message).map_err(|it| it.exit);
        assert_eq!(of("sfdisk: /dev/x: does not contain a recognized partition table"), Ok(()));
        let denied = of("sfdisk: cannot open /dev/x: Permission denied");
        assert_eq!(denied, Err(Exit::Permission));
        assert_eq!(of("sfdisk: cannot open /dev/x: Input/output error"), Err(Exit::Io));
    }
}
