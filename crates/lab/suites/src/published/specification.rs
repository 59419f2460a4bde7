//! The specification of every preset, as vendors measure it: a new drive, 128 KiB sequential and 4
//! KiB random at a depth of 32 over 8 GB; reads of data that was just written.

use super::{Class, Figure, Row, Wanted, Worth};
use crate::plan::Plan;
use crate::preparation::Preparation;
use crate::suite::find;
use crate::target::Target;
use drives::{Kind, Model, Published};

const SECOND: u64 = 1_000_000_000;
const SPAN_BYTES: u64 = 8_000_000_000;

pub(super) fn figures_of(name: &str) -> Vec<Figure> {
    // A drive of a file of its own has none.
    let Some(model) = Model::preset(name) else { return Vec::new() };
    model.published.iter().filter_map(|published| figure(&model, published)).collect()
}

fn figure(model: &Model, published: &Published) -> Option<Figure> {
    let is_disk = matches!(model.kind, Kind::Disk(_));
    let is_nvme = match &model.kind {
        Kind::Flash(flash) => !flash.is_half_duplex(),
        Kind::Disk(_) => false,
    };
    let (test, seconds) = match published.key {
        "sequential_read_mb_s" => ("read, sequential 128 KiB, QD32", 1),
        "sequential_write_mb_s" => ("write, sequential 128 KiB, QD32", 1),
        "random_read_iops" => ("read, random 4 KiB, QD32", 2),
        // NVMe drives are specified within their SLC area; of the SATA ones, the 840 EVO's figures
        // are those of the flash behind it. Three minutes, as reviewers do.
        "random_write_iops" if is_nvme => ("write, random 4 KiB, QD32", 3),
        "random_write_iops" => ("write, random 4 KiB, QD32", 180),
        "random_read_qd1_iops" => ("read, random 4 KiB, QD1", if is_disk { 60 } else { 2 }),
        "random_write_qd1_iops" => ("write, random 4 KiB, QD1", 2),
        _ => return None,
    };
    // The vendor's test data: compressible, for drives that compress.
    let data_percent = match &model.kind {
        Kind::Flash(flash) => (flash.compression_floor * 100.0) as u32,
        Kind::Disk(_) => 100,
    };
    let target = Target::parse(&format!("model:{}?data={data_percent}", model.name));
    let reads = test.starts_with("read") && !is_disk;
    let plan = Plan {
        preparation: Preparation::preset(if reads { "filled" } else { "fresh" }),
        only: Some(test.to_owned()),
        // A disk's arm travels the whole surface.
        span_bytes: (!is_disk).then_some(SPAN_BYTES),
        time_ns: seconds * SECOND,
        ..Plan::new(find("corners")?.profile(), target.ok()?)
    };
    Some(Figure {
        drive: model.name.clone(),
        what: published.key.to_owned(),
        unit: if published.key.ends_with("iops") { "IOPS" } else { "MB/s" },
        wanted: Wanted::Near(published.value),
        class: Class::New,
        worth: worth(model, published),
        source: published.source.clone(),
        missed: None,
        plan,
        row: Row::Value(test.to_owned()),
    })
}

/// Returns [`Worth::Circular`] if the source of a value that limits this figure is this very
/// figure.
fn worth(model: &Model, published: &Published) -> Worth {
    let limits: &[&str] = match published.key {
        "sequential_read_mb_s" => &["limits.read_mb_s", "disk.outer_mb_s"],
        "sequential_write_mb_s" => &["limits.write_mb_s", "disk.outer_mb_s", "nand.program_us"],
        "random_read_iops" => &["firmware.read_us"],
        "random_write_iops" => &["firmware.write_us"],
        "random_read_qd1_iops" => &["nand.read_us", "disk.seek_average_ms"],
        "random_write_qd1_iops" => &["firmware.write_latency_us"],
        _ => &[],
    };
    let facts = model.facts.iter().filter(|fact| limits.contains(&fact.key.as_str()));
    let figure = published.value.to_string();
    let is_from_it = |source: &str| {
        let numbers = source.replace(',', "");
        let mut words = numbers.split(|letter: char| !letter.is_ascii_digit());
        // A value with "specification" as its source is the figure itself.
        source == "specification" || words.any(|word| word == figure)
    };
    let mut facts = facts.filter(|fact| is_from_it(&fact.source) || fact.value == figure);
    if facts.next().is_some() { Worth::Circular } else { Worth::Predicted }
}
