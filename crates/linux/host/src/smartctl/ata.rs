//! ATA attributes, and the device statistics of ATA drives.

use super::families::{self, Family, Figure, Row, Unit};
use super::{Limits, Line, Report, generic, limits, raw};
use serde_json::Value;

/// Bandwidth of SATA's fastest interface.
const BYTES_PER_SECOND: u64 = 600_000_000;

/// Reads a drive's attributes and statistics.
pub(super) fn read(report: &mut Report, value: &Value) {
    let table = value["ata_smart_attributes"]["table"].as_array();
    let table = table.map(Vec::as_slice).unwrap_or_default();
    report.attributes = table.iter().map(line).collect();
    let limits = Limits::new(value, report.power_on_hours, BYTES_PER_SECOND);
    let drive = Drive { family: family(value, &report.model), table };
    let statistics = Statistics(value);
    let transferred = |statistic: Option<u64>, figure| {
        let all = statistic.into_iter().chain(drive.figures(figure));
        all.into_iter().find_map(|bytes| limits.transferred(bytes))
    };
    report.host_written_bytes = transferred(statistics.sectors(24), Figure::HostWritten);
    report.host_read_bytes = transferred(statistics.sectors(40), Figure::HostRead);
    // smartctl's own summary of wear may be based on attributes with another meaning.
    report.worn_percent = statistics.used_percent().or_else(|| {
        let mut worn = drive.figures(Figure::Worn).into_iter();
        worn.find_map(|percent| limits.wear(percent, report.host_written_bytes))
    });
    report.spare_percent = drive.figures(Figure::Spare).into_iter().next();
    let errors = drive.figures(Figure::MediaErrors).into_iter();
    report.media_errors = errors.filter_map(|count| limits::errors(Some(count))).max();
    let reallocated = drive.figures(Figure::Reallocated).into_iter();
    report.reallocated = reallocated.filter_map(|count| limits.reallocated(count)).next();
    report.pending = drive.count_named(197, "Pending").and_then(|count| limits.reallocated(count));
    report.link_errors =
        drive.count_named(199, "CRC").and_then(|count| limits::errors(Some(count)));
    flash(report, &drive);
}

/// Returns the attribute as smartctl prints it.
fn line(attribute: &Value) -> Line {
    let number = attribute["raw"]["value"].as_u64();
    let shown = attribute["raw"]["string"].as_str().map(str::to_owned);
    Line {
        id: attribute["id"].as_u64().unwrap_or(0),
        name: attribute["name"].as_str().unwrap_or_default().to_owned(),
        normalized: attribute["value"].as_u64(),
        raw: shown.or(number.map(|number| number.to_string())).unwrap_or_default(),
    }
}

/// Returns the drive's family, if the meaning of its attributes is known.
fn family(value: &Value, model: &str) -> Option<&'static Family> {
    let database = value["model_family"].as_str().unwrap_or_default();
    let is_disk = value["rotation_rate"].as_u64().is_some_and(|rate| rate > 0);
    let has_small_sectors = value["logical_block_size"].as_u64().unwrap_or(512) == 512;
    let disk = (is_disk && has_small_sectors).then_some(&families::DISK);
    families::find(database, model).or(disk)
}

/// Sets flash writes and amplification, if both are possible.
fn flash(report: &mut Report, drive: &Drive<'_>) {
    let Some(host) = report.host_written_bytes.filter(|bytes| *bytes > 0) else { return };
    let compresses = drive.family.is_some_and(|family| family.compresses);
    let possible = |flash: u64| {
        let ratio = limits::amplification(flash as f64 / host as f64, compresses)?;
        Some((flash, ratio))
    };
    let counted = drive.figures(Figure::FlashWritten).into_iter().find_map(possible);
    let found = counted.or_else(|| possible(drive.flash_parts()?)).or_else(|| {
        let pages = |figure| drive.figures(figure).first().copied();
        let (hosts, own) = (pages(Figure::HostPages)?, pages(Figure::OwnPages)?);
        let ratio = (hosts as f64 + own as f64) / hosts as f64;
        let ratio = limits::amplification(ratio, compresses)?;
        Some(((host as f64 * ratio) as u64, ratio))
    });
    let (written, ratio) = found.unzip();
    report.nand_written_bytes = written;
    report.write_amplification = ratio;
}

/// A drive's attributes, and their meaning.
struct Drive<'a> {
    family: Option<&'static Family>,
    table: &'a [Value],
}

impl Drive<'_> {
    /// Returns the values of a figure: those of the family, in its order, then those found by name
    /// only.
    fn figures(&self, figure: Figure) -> Vec<u64> {
        let rows = self.family.map_or(&[][..], |family| family.rows);
        let known = rows.iter().filter(|row| row.figure == figure);
        let known = known.filter_map(|row| self.value(row, |_| true));
        let by_name = generic::ROWS.iter().filter(|row| row.figure == figure);
        // The family's table determines the meaning of the ids in it, whatever their names.
        let is_free = |attribute: &Value| {
            let id = attribute["id"].as_u64();
            !rows.iter().any(|row| row.id == id)
        };
        known.chain(by_name.filter_map(|row| self.value(row, is_free))).collect()
    }

    /// Returns the sum of the flash writes that the drive counts in parts, if it reports all parts.
    fn flash_parts(&self) -> Option<u64> {
        let rows = self.family.map_or(&[][..], |family| family.rows);
        let parts: Vec<&Row> = rows.iter().filter(|row| row.figure == Figure::FlashPart).collect();
        let values: Option<Vec<u64>> = parts.iter().map(|row| self.value(row, |_| true)).collect();
        let values = values.filter(|values| !values.is_empty())?;
        values.into_iter().try_fold(0u64, |sum, part| sum.checked_add(part))
    }

    /// Returns the count of an attribute with this number, if its name has this part: other vendors
    /// use the number for something else.
    fn count_named(&self, id: u64, part: &str) -> Option<u64> {
        let is_it = |attribute: &&Value| {
            attribute["id"].as_u64() == Some(id)
                && attribute["name"].as_str().is_some_and(|name| name.contains(part))
        };
        self.table.iter().find(is_it).and_then(raw::count)
    }

    /// Returns a row's value; None if two matching attributes differ.
    fn value(&self, row: &Row, admits: impl Fn(&Value) -> bool) -> Option<u64> {
        let fits = |attribute: &&Value| {
            row.id.is_none_or(|id| attribute["id"].as_u64() == Some(id))
                && row.name.is_none_or(|name| attribute["name"].as_str() == Some(name))
                && admits(attribute)
        };
        let mut values = self.table.iter().filter(fits).map(|one| in_unit(one, row.unit));
        let first = values.next()??;
        let value = values.all(|value| value == Some(first)).then_some(first);
        // Attributes count the remaining life.
        if row.figure == Figure::Worn { value.map(|left| 100 - left) } else { value }
    }
}

/// Returns an attribute's value: bytes, a count, or the percentage that is left.
fn in_unit(attribute: &Value, unit: Unit) -> Option<u64> {
    let raw = || raw::count(attribute);
    // Normalized values are 1 to 253; 0 on a drive that does not count.
    let percent = || attribute["value"].as_u64().filter(|value| (1..=100).contains(value));
    match unit {
        Unit::Bytes(bytes) => raw()?.checked_mul(bytes),
        Unit::Count => raw(),
        Unit::Left => percent(),
        Unit::Used => percent().map(|used| 100 - used),
        Unit::LeftInRaw => {
            let left = raw().filter(|left| (1..=100).contains(left))?;
            let normalized = attribute["value"].as_u64().unwrap_or(0);
            [left, 100, 0].contains(&normalized).then_some(left)
        }
        Unit::LeftIfAgreed => {
            let left = percent()?;
            let agrees = raw().is_none_or(|raw| raw > 100 || [0, left, 100 - left].contains(&raw));
            agrees.then_some(left)
        }
    }
}

/// The log of device statistics (ACS-3), with standardized pages and offsets.
struct Statistics<'a>(&'a Value);

impl Statistics<'_> {
    /// Returns a valid value of a page.
    fn value(&self, page: u64, offset: u64) -> Option<u64> {
        let pages = self.0["ata_device_statistics"]["pages"].as_array()?;
        let page = pages.iter().find(|one| one["number"].as_u64() == Some(page))?;
        let table = page["table"].as_array()?;
        let entry = table.iter().find(|one| one["offset"].as_u64() == Some(offset))?;
        let is_valid = entry["flags"]["valid"].as_bool() == Some(true);
        entry["value"].as_u64().filter(|_| is_valid)
    }

    /// Returns the bytes of a counter of sectors on the first page; 0 there means "not counted".
    fn sectors(&self, offset: u64) -> Option<u64> {
        let sector = self.0["logical_block_size"].as_u64().unwrap_or(512);
        self.value(1, offset).filter(|sectors| *sectors > 0)?.checked_mul(sector)
    }

    /// Returns the used share of the flash's life.
    fn used_percent(&self) -> Option<u64> {
        self.value(7, 8).map(limits::worn)
    }
}
