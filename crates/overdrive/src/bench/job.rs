//! The load of the suite `custom`.

use block::Size;
use daemon::units;
use stack::{Exit, Failure};
use suites::{Job, Pattern};

/// Options of the suite `custom` only.
#[derive(clap::Args, Debug)]
pub(super) struct JobOptions {
    /// custom: which block comes next: random, sequential or zipf:EXPONENT [default: random]
    #[arg(long, value_name = "ORDER")]
    order: Option<Pattern>,

    /// custom: bytes of a request [default: 4K]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    block: Option<Size>,

    /// custom: requests under way [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2048))]
    depth: Option<u32>,

    /// custom: how many requests of a hundred are reads [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    reads: Option<u32>,

    /// custom: start so many requests a second, whatever became of the others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
}

impl JobOptions {
    /// The job; options of another suite's are refused.
    pub(super) fn job(&self, suite: &str) -> Result<Job, Failure> {
        let said = [
            ("--order", self.order.is_some()),
            ("--block", self.block.is_some()),
            ("--depth", self.depth.is_some()),
            ("--reads", self.reads.is_some()),
            ("--rate", self.rate.is_some()),
        ];
        let usage = |message: String| Failure::new(Exit::Usage, message);
        let wrong = said.iter().find(|(_, is_said)| *is_said && suite != "custom");
        if let Some((option, _)) = wrong {
            return Err(usage(format!(
                "{option}: {suite} has its own loads; give it to the suite custom"
            )));
        }
        let usual = Job::default();
        let bytes = self.block.map_or(Ok(usual.block_bytes), |size| {
            let wrong =
                || usage(format!("--block {size}: write a multiple of 512 bytes, to 1 GiB"));
            let bytes = size
                .0
                .is_multiple_of(512)
                .then_some(size.0)
                .filter(|it| (512..=1 << 30).contains(it));
            bytes.map(|bytes| bytes as u32).ok_or_else(wrong)
        })?;
        Ok(Job {
            pattern: self.order.unwrap_or(usual.pattern),
            block_bytes: bytes,
            depth: self.depth.unwrap_or(usual.depth),
            reads_percent: self.reads.unwrap_or(usual.reads_percent),
            rate: self.rate,
        })
    }
}
