//! AS SSD Benchmark.
//!
//! A file of 1 GB with data that cannot be compressed. Sequential transfers one at a time; random 4
//! KiB one at a time, and with 64 under way; the access time. Each as a read and as a write. A MB
//! is 2^20 bytes there. The score weighs the rates in these:
//!
//! ```text
//!   read  = sequential / 10 + 4K + 4K-64Thrd
//!   write = sequential / 10 + 4K + 4K-64Thrd
//!   total = read + 1.5 write
//! ```
//!
//! The program itself transfers fixed amounts of data; here each test takes 10 s (assumed). A
//! sequential transfer is 16 MB there (recalled); a target with a smaller maximum gets that. The
//! access time is that of 512-byte reads and writes, or of the target's block if that is larger:
//! reads of the whole drive, writes in the file. A drive answers reads of addresses without data
//! sooner.

use super::parts::{SECOND, lay_out, reads, with_ceiling, writes};
use super::{Suite, WithoutWrites};
use crate::halt::Halt;
use crate::outcome::{Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::test_rig::TestRig;
use load::{Load, Order};

const SEQUENTIAL_BYTES: u32 = 16 << 20;

/// See the module documentation.
pub(super) struct AsSsd;

static PROFILE: Profile = Profile {
    name: "as-ssd",
    about: "AS SSD: sequential, random 4 KiB alone and 64 at a time, access time, and its score",
    takes_state: true,
    preparation: "laid-out",
    time_ns: 10 * SECOND,
    span_bytes: Some(1 << 30),
};

impl Suite for AsSsd {
    fn profile(&self) -> &'static Profile {
        &PROFILE
    }

    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::Usually
    }

    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
        lay_out(rig, plan, outcome)?;
        let (largest, least) =
            (rig.top().limits().io_max_bytes, rig.top().limits().block_logical_bytes);
        let sequential = SEQUENTIAL_BYTES.min(largest);
        outcome.say(format!(
            "Each test took {} s. Sequential transfers were {}, accesses {} bytes.",
            plan.time_ns as f64 / 1e9,
            block::Size(sequential.into()),
            least.max(512)
        ));
        let all = Plan { span_bytes: None, ..plan.clone() };
        for (direction, load) in [("read", reads as fn(&_, _, _, _, _) -> Load), ("write", writes)]
        {
            for (part, (name, order, bytes, depth)) in [
                ("Seq", Order::Sequential, sequential, 1),
                ("4K", Order::Random, 4096, 1),
                ("4K-64Thrd", Order::Random, 4096, 64),
                ("Acc.time", Order::Random, least.max(512), 1),
            ]
            .into_iter()
            .enumerate()
            {
                let test = format!("{name} {direction}");
                let span = if test == "Acc.time read" { &all } else { plan };
                let record = rig.load(&test, load(span, order, bytes, depth, part as u64))?;
                let row = match name {
                    "Acc.time" => Row::access(test, &record),
                    _ => with_ceiling(rig, Row::binary_throughput(test, &record)),
                };
                outcome.add(rig, row);
            }
        }
        score(rig, outcome);
        Ok(())
    }

    fn block(&self, outcome: &Outcome) -> Option<String> {
        // A value that was not measured because the suite was interrupted is a dash.
        let value = |test: &str, decimals: usize| match outcome.row(test) {
            Some(row) => format!("{:.decimals$}", row.value),
            None => "-".to_owned(),
        };
        let line = |name: &str, unit: &str, decimals: usize| {
            let of = |direction: &str| value(&format!("{name} {direction}"), decimals);
            let (read, write) = (of("read"), of("write"));
            format!("{name:<10} {read:>12} {unit:<5} {write:>12} {unit}\n")
        };
        let lines = [("Seq", "MB/s", 2), ("4K", "MB/s", 2), ("4K-64Thrd", "MB/s", 2)];
        let mut block = format!("{:<10} {:>12} {:<5} {:>12}\n", "", "Read", "", "Write");
        lines.iter().for_each(|(name, unit, decimals)| block += &line(name, unit, *decimals));
        block += &line("Acc.time", "ms", 3);
        block += &line("Score", "", 0);
        block += &format!("{:<10} {:>12}\n", "Total", value("Score", 0));
        block += "\n* MB = 1,048,576 bytes\n";
        Some(block)
    }

    fn verdict(&self, outcome: &Outcome) -> Option<String> {
        let score = |name: &str| outcome.row(name).map(|row| row.value);
        match (score("Score"), score("Score read")) {
            (Some(all), _) => Some(format!("A score of {all:.0}.")),
            (None, Some(read)) => Some(format!("A read score of {read:.0}.")),
            (None, None) => None,
        }
    }
}

fn score(rig: &TestRig, outcome: &mut Outcome) {
    let part = |direction: &str| {
        let value = |name: &str| outcome.row(&format!("{name} {direction}")).map(|row| row.value);
        Some(value("Seq")? / 10.0 + value("4K")? + value("4K-64Thrd")?)
    };
    let (read, write) = (part("read"), part("write"));
    let whole = read.zip(write).map(|(read, write)| read + 1.5 * write);
    for (test, value) in [("Score read", read), ("Score write", write), ("Score", whole)] {
        if let Some(value) = value {
            outcome.add_derived(rig, Row::plain(test, "points", value));
        }
    }
}
