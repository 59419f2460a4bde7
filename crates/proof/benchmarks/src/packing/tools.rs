//! The codecs by themselves: the commands `lz4` and `zstd`, and zram, over the blocks of a set.

use super::files::Set;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Returns the ratio that a command prints in parentheses: `(1.653)` or `(x1.653)`.
fn ratio(program: &str, arguments: &[&str], file: &Path) -> Result<f64> {
    let mut command = Command::new(program);
    command.args(arguments).arg(file);
    let output = command.output().with_context(|| format!("{program} is absent"))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let (_, rest) = text.rsplit_once('(').with_context(|| format!("{program} has no benchmark"))?;
    let number = rest.split(')').next().unwrap_or_default().trim_start_matches('x');
    Ok(number.parse()?)
}

/// Returns the ratio of zram with LZ4 over a set: its bytes to all memory that zram uses, without
/// its table of blocks.
fn zram(set: &Set) -> Result<f64> {
    let control = "/sys/class/zram-control";
    let number = std::fs::read_to_string(format!("{control}/hot_add"))
        .context("the kernel has no zram (modprobe zram)")?;
    let device = format!("zram{}", number.trim());
    let measure = || {
        let bytes = set.blocks.as_flattened();
        std::fs::write(format!("/sys/block/{device}/comp_algorithm"), "lz4")?;
        std::fs::write(format!("/sys/block/{device}/disksize"), bytes.len().to_string())?;
        let disk = std::fs::OpenOptions::new().write(true).open(format!("/dev/{device}"))?;
        std::os::unix::fs::FileExt::write_all_at(&disk, bytes, 0)?;
        disk.sync_data()?;
        let statistics = std::fs::read_to_string(format!("/sys/block/{device}/mm_stat"))?;
        let used: f64 = statistics.split_whitespace().nth(2).context("mm_stat")?.parse()?;
        anyhow::Ok(bytes.len() as f64 / used)
    };
    // The device is removed after an error as well.
    let measured = measure();
    std::fs::write(format!("{control}/hot_remove"), number.trim())?;
    measured
}

/// The ratios of the codecs by themselves; an error is the reason why one is absent.
pub(super) struct Alone {
    pub(super) lz4: Result<f64>,
    pub(super) zstd: Result<f64>,
    pub(super) zram: Result<f64>,
}

impl Alone {
    pub(super) fn of(set: &Set) -> Result<Alone> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), set.blocks.as_flattened())?;
        Ok(Alone {
            lz4: ratio("lz4", &["-q", "-b1", "-i1", "-B4096"], file.path()),
            zstd: ratio("zstd", &["-q", "-b3", "-i1", "-B4096"], file.path()),
            zram: zram(set),
        })
    }
}
