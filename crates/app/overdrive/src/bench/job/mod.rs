//! The loads of the suite `custom`: a file of loads, or one load as options.

mod file;

use block::Size;
use daemon::units;
use stack::{Exit, Failure};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use suites::{Job, Pattern};

/// Requests in progress.
const DEPTH: RangeInclusive<i64> = 1..=2048;
/// Requests per second.
const RATE: RangeInclusive<i64> = 1..=10_000_000;
/// Per cent.
const PERCENT: RangeInclusive<i64> = 0..=100;

/// Options of the suite `custom` only.
#[derive(clap::Args, Debug)]
pub(super) struct JobOptions {
    /// custom: a file of loads, which run one after the other; see docs/SUITES.md
    #[arg(
        long,
        value_name = "FILE.toml",
        conflicts_with_all = ["order", "block", "depth", "reads", "rate"],
    )]
    job: Option<PathBuf>,

    /// custom: order of blocks: random, sequential or zipf:EXPONENT [default: random]
    #[arg(long, value_name = "random|sequential|zipf:EXPONENT")]
    order: Option<Pattern>,

    /// custom: size of a request [default: 4K]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    block: Option<Size>,

    /// custom: requests in progress [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(DEPTH))]
    depth: Option<u32>,

    /// custom: percentage of reads [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(PERCENT))]
    reads: Option<u32>,

    /// custom: start N requests per second, even if earlier ones are not answered.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(RATE))]
    rate: Option<u32>,
}

impl JobOptions {
    /// Returns the file of loads.
    pub(super) fn file(&self) -> Option<&Path> {
        self.job.as_deref()
    }

    /// Returns the first of these options that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--job", self.job.is_some()),
            ("--order", self.order.is_some()),
            ("--block", self.block.is_some()),
            ("--depth", self.depth.is_some()),
            ("--reads", self.reads.is_some()),
            ("--rate", self.rate.is_some()),
        ];
        options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
    }

    /// Returns the loads.
    pub(super) fn jobs(&self) -> Result<Vec<Job>, Failure> {
        let usage = |message: String| Failure::new(Exit::Usage, message);
        if let Some(file) = &self.job {
            return file::read(file);
        }
        let usual = Job::default();
        let block_bytes = self.block.map_or(Ok(usual.block_bytes), |size| {
            block_bytes(size).map_err(|why| usage(format!("--block {size}: {why}")))
        })?;
        Ok(vec![Job {
            pattern: self.order.unwrap_or(usual.pattern),
            block_bytes,
            depth: self.depth.unwrap_or(usual.depth),
            reads_percent: self.reads.unwrap_or(usual.reads_percent),
            rate: self.rate,
            ..usual
        }])
    }
}

/// Checks the number of bytes per request.
fn block_bytes(size: Size) -> Result<u32, String> {
    let fits = size.0.is_multiple_of(512) && (512..=1 << 30).contains(&size.0);
    if fits { Ok(size.0 as u32) } else { Err("write a multiple of 512 bytes, to 1 GiB".to_owned()) }
}
