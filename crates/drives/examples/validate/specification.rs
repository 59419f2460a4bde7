//! Every preset against its specification, as reviewers and vendors measure it: a new drive, 128 KiB
//! sequential and 4 KiB random at a depth of 32 (as many as NCQ has), over 8 GB.

use crate::validate::load::{Bench, Run, Until};
use crate::validate::table::{Origin, Table};
use drives::{Kind, Model, Options, Published};

const SPAN: u64 = 8_000_000_000;

/// Tolerance in percent.
const NEAR: f64 = 10.0;

/// All presets, with the data that the vendor measures with: compressible for those that compress.
pub(crate) fn all(table: &mut Table) {
    for name in Model::names() {
        let model = Model::preset(name).expect("it is one of the names");
        for published in &model.published {
            if published.key.starts_with("steady") {
                continue;
            }
            let run = measure(&model, published.key);
            let found = if published.key.ends_with("iops") { run.iops() } else { run.mb_s() };
            let what = format!("{name} {}", published.key);
            table.near(origin(&model, published), &what, published.value, NEAR, found);
        }
    }
}

/// Circular where a value that limits this figure says that it comes from this very figure.
fn origin(model: &Model, published: &Published) -> Origin {
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
        // A value whose source names no figure is the figure.
        source == "specification" || words.any(|word| word == figure)
    };
    let mut facts = facts.filter(|fact| is_from_it(&fact.source) || fact.value == figure);
    if facts.next().is_some() { Origin::Circular } else { Origin::Predicted }
}

fn measure(model: &Model, key: &str) -> Run {
    let data_share = match &model.kind {
        Kind::Flash(flash) => flash.compression_floor,
        Kind::Disk(_) => 1.0,
    };
    let mut bench = Bench::with(&model.name, &Options { data_share, ..Options::default() });
    let is_disk = matches!(model.kind, Kind::Disk(_));
    // A disk's arm travels the whole surface.
    let span = if is_disk { u64::MAX } else { SPAN };
    let gigabyte = Until::Bytes(1_000_000_000);
    let fill = |bench: Bench| bench.fast(|fast| fast.write_sequential(0, SPAN / 4096));
    match key {
        "sequential_write_mb_s" => bench.sequential(true, 32, 128, gigabyte),
        "sequential_read_mb_s" => fill(bench).sequential(false, 32, 128, gigabyte),
        "random_read_iops" => fill(bench).random(false, 32, span, Until::Seconds(2)),
        "random_read_qd1_iops" if is_disk => bench.random(false, 1, span, Until::Seconds(60)),
        "random_read_qd1_iops" => fill(bench).random(false, 1, span, Until::Seconds(2)),
        "random_write_qd1_iops" => bench.random(true, 1, span, Until::Seconds(2)),
        // NVMe drives are specified within their SLC area; of the SATA ones, the 840 EVO's figures are
        // those of the flash behind it. Three minutes, as reviewers do.
        _ if !bench.flash().timing().half_duplex => bench.random(true, 32, span, Until::Seconds(3)),
        _ => bench.random(true, 32, span, Until::Seconds(180)),
    }
}
