//! Recorded traces: MQSim's ASCII format, one request a line.
//!
//! ```text
//!   time in ns, device, first sector of 512 bytes, sectors, 1 = read or 0 = write
//!   938513000   4       264719034                  16       0
//! ```

use crate::client::Timed;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// A request as it was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Recorded {
    time_ns: u64,
    device: u64,
    sector: u64,
    sectors: u32,
    is_read: bool,
}

/// A trace in memory.
pub(crate) struct Trace(Vec<Recorded>);

/// The trace that is replayed where none is named.
const DEFAULT: &str = "../shared/traces/tpcc.trace.xz";
/// The longest request that is taken for one: 32 MiB.
const SECTORS_MAX: u64 = 65_536;

fn parse(line: &str) -> Option<Recorded> {
    let mut fields = line.split_ascii_whitespace();
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (time_ns, device, sector, sectors, kind) =
        (number()?, number()?, number()?, number()?, number()?);
    let is_good = (1..=SECTORS_MAX).contains(&sectors) && kind <= 1 && fields.next().is_none();
    let sectors = sectors as u32;
    is_good.then_some(Recorded { time_ns, device, sector, sectors, is_read: kind == 1 })
}

impl Trace {
    /// Reads a file; one whose name ends in `.xz` is unpacked by `xz`.
    ///
    /// # Errors
    /// If it cannot be read, a line is none, or there is no request in it.
    pub(crate) fn read(path: &Path) -> Result<Trace> {
        let name = path.display();
        let bytes = if path.extension().is_some_and(|extension| extension == "xz") {
            let unpacked = Command::new("xz").arg("-dc").arg(path).output();
            let unpacked = unpacked.context("cannot start xz (apt-get install xz-utils)")?;
            let said = String::from_utf8_lossy(&unpacked.stderr);
            ensure!(unpacked.status.success(), "{name}: {said}");
            unpacked.stdout
        } else {
            std::fs::read(path).with_context(|| name.to_string())?
        };
        let text = String::from_utf8(bytes).with_context(|| format!("{name}: is no text"))?;
        Trace::parse(&text).with_context(|| name.to_string())
    }

    /// Reads the file that is named, or else the default one, if it is there.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub(crate) fn find(named: Option<&Path>) -> Result<Option<Trace>> {
        let default = Path::new(DEFAULT);
        match named {
            Some(path) => Trace::read(path).map(Some),
            None if default.exists() => Trace::read(default).map(Some),
            None => {
                println!("no replay: {DEFAULT} is not there, and --trace names no other");
                Ok(None)
            }
        }
    }

    fn parse(text: &str) -> Result<Trace> {
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            all.push(parse(line).with_context(|| {
                let number = number + 1;
                format!("line {number}: not 'ns device sector sectors 1|0' (1: read): {line:.80}")
            })?);
        }
        ensure!(!all.is_empty(), "there is no request in it");
        all.sort_by_key(|request| request.time_ns);
        Ok(Trace(all))
    }

    /// How many requests.
    pub(crate) fn requests(&self) -> usize {
        self.0.len()
    }

    /// The share of reads.
    pub(crate) fn reads(&self) -> f64 {
        self.0.iter().filter(|request| request.is_read).count() as f64 / self.0.len() as f64
    }

    /// From the first request to the last, in nanoseconds.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.0[self.0.len() - 1].time_ns - self.0[0].time_ns
    }

    /// The trace, again and again, on a volume of `bytes`. Every device gets an equal slice of it, and
    /// every repetition an equal part of the slice, so that none meets what an earlier one has written;
    /// addresses are taken modulo that part.
    ///
    /// # Errors
    /// If the volume is too small for the longest request.
    pub(crate) fn schedule(&self, bytes: u64, repetitions: u64) -> Result<Vec<Timed>> {
        let mut devices: Vec<u64> = self.0.iter().map(|request| request.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let repetitions = repetitions.max(1);
        let parts = devices.len() as u64 * repetitions;
        let part = bytes / 512 / parts / 8 * 8;
        let longest = self.0.iter().map(|request| request.sectors).max().unwrap_or(0);
        ensure!(
            part > u64::from(longest),
            "{bytes} bytes are too few for {} devices, {repetitions} times",
            devices.len()
        );
        let period_ns = self.duration_ns().saturating_add(self.duration_ns() / self.0.len() as u64);
        let first_ns = self.0[0].time_ns;
        let mut all = Vec::with_capacity(self.0.len() * repetitions as usize);
        for repetition in 0..repetitions {
            for request in &self.0 {
                let device = devices.partition_point(|&device| device < request.device) as u64;
                let sectors = u64::from(request.sectors);
                let within = request.sector % part;
                // Of a request that would reach beyond the part, the start moves.
                let within = within.min(part - sectors);
                let sector = (device * repetitions + repetition) * part + within;
                let due_ns = request.time_ns - first_ns;
                all.push(Timed {
                    due_ns: due_ns.saturating_add(period_ns.saturating_mul(repetition)),
                    offset: sector * 512,
                    length: request.sectors * 512,
                    is_read: request.is_read,
                });
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_none_are_named() {
        for bad in [
            "x",
            "1 2 3 4",
            "1 2 3 4 5",
            "1 2 3 0 1",
            "1 2 3 4 1 9",
            "1 2 3 99999999 1",
            "-1 2 3 4 1",
        ] {
            let error = Trace::parse(&format!("1 0 8 8 1\n{bad}\n")).err().expect(bad);
            assert!(error.to_string().starts_with("line 2: "), "{error}");
        }
        assert!(Trace::parse("\n").is_err());
    }

    #[test]
    fn a_trace_keeps_its_times_and_finds_room() {
        let text = "2000 7 1000 16 0\n1000 3 8 8 1\n\n3000 3 999999999999 32 0\n";
        let trace = Trace::parse(text).expect("three requests");
        assert_eq!((trace.requests(), trace.duration_ns()), (3, 2000));
        let bytes = 1 << 20;
        let all = trace.schedule(bytes, 2).expect("room");
        let due: Vec<u64> = all.iter().map(|timed| timed.due_ns).collect();
        assert_eq!(due, [0, 1000, 2000, 2666, 3666, 4666]);
        assert_eq!(
            all.iter().map(|timed| timed.is_read).collect::<Vec<_>>()[..3],
            [true, false, false]
        );
        let part = bytes / 4;
        for (timed, place) in all.iter().zip([0, 2, 0, 1, 3, 1]) {
            assert_eq!(timed.offset / part, place);
            assert_eq!((timed.offset + u64::from(timed.length) - 1) / part, place);
        }
        assert_eq!(all[0].offset, 8 * 512);
        assert!(trace.schedule(16 << 10, 1).is_err());
    }
}
