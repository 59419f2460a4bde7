//! The loads of a suite as a job file for fio, to run the same jobs with another program.

use load::{Arrival, Content, Load, Mix, Order};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The target of fio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FioTarget {
    /// A file or a device.
    Path(String),
    /// An export.
    Uri(String),
}

impl FioTarget {
    fn text(&self) -> &str {
        let (FioTarget::Path(text) | FioTarget::Uri(text)) = self;
        text
    }

    /// Returns why fio would read a different name from a job file, if it would: fio has no escape
    /// for these characters there. (Tried with fio 3.33, each ASCII character at the start, inside
    /// and at the end of a name.)
    pub fn misread(&self) -> Option<String> {
        let text = self.text();
        let has = |part: &str| text.contains(part);
        let is_blank = |letter: Option<char>| letter.is_some_and(char::is_whitespace);
        let why = if let Some(mark) = ["#", ";"].into_iter().find(|mark| has(mark)) {
            format!("reads '{mark}' in it as the beginning of a comment")
        } else if has("\\") {
            "may read '\\' in it as the escape of the next character".to_owned()
        } else if has("${") {
            "reads '${' in it as an environment variable".to_owned()
        } else if let Some(word) = KEYWORDS.into_iter().find(|word| has(word)) {
            format!("reads '{word}' in it as a number")
        } else if text.contains(char::is_control) {
            "cuts it off, or ends the line, at a control character".to_owned()
        } else if is_blank(text.chars().next()) || is_blank(text.chars().last()) {
            "cuts off the blanks at its ends".to_owned()
        } else if text == "-" {
            "reads it as its standard input".to_owned()
        } else {
            return None;
        };
        Some(why)
    }
}

/// Words that fio replaces by numbers of the machine.
const KEYWORDS: [&str; 3] = ["$pagesize", "$mb_memory", "$ncpus"];

/// Returns a file name in the form of a job file: an unescaped colon would separate two files.
fn path(text: &str) -> String {
    text.replace(':', "\\:")
}

/// Returns the name of a section for a load: fio ends it at a bracket or comment, and 'global' is
/// not a job.
fn section(name: &str) -> String {
    let is_plain = |letter: &char| !"[]#;".contains(*letter) && !letter.is_control();
    let name: String = name.chars().filter(is_plain).collect();
    if name.trim().is_empty() || name == "global" { format!("load {name}") } else { name }
}

/// Returns the job file: loads with their names and their data. Identical jobs occur once.
///
/// # Panics
/// fio would misread the place.
pub fn job_file(suite: &str, target: &FioTarget, loads: &[(String, Load, Content)]) -> String {
    assert_eq!(target.misread(), None, "the caller has refused the place");
    let mut text = format!(
        "; {suite}, as Overdrive runs it; pauses between jobs are omitted\n[global]\nthread=1\nrandrepeat=1\n\
         norandommap=1\nrefill_buffers=1\nlat_percentiles=1\n"
    );
    _ = match target {
        FioTarget::Path(name) => {
            write!(text, "ioengine=io_uring\ndirect=1\nfilename={}\n", path(name))
        }
        FioTarget::Uri(uri) => write!(text, "ioengine=nbd\nuri={uri}\n"),
    };
    let mut known = BTreeSet::new();
    for (name, load, content) in loads {
        let job = job(load) + &data(content);
        if known.insert((name.clone(), job.clone())) {
            _ = write!(text, "\n[{}]\nstonewall\n{job}", section(name));
        }
    }
    text
}

/// Returns the options of the data.
fn data(content: &Content) -> String {
    let mut data = String::new();
    if content.data_percent < 100 {
        _ = writeln!(data, "buffer_compress_percentage={}", 100 - content.data_percent);
    }
    if content.dedupe_percent > 0 {
        _ = writeln!(data, "dedupe_percentage={}", content.dedupe_percent);
    }
    data
}

fn direction(load: &Load) -> &'static str {
    let in_order = match load.order {
        Order::Sequential => true,
        Order::Mixed(mix) => mix.random_percent == 0,
        Order::Random | Order::Zipf { .. } => false,
    };
    match (in_order, load.reads_percent) {
        (true, 100) => "read",
        (true, 0) => "write",
        (true, _) => "rw",
        (false, 100) => "randread",
        (false, 0) => "randwrite",
        (false, _) => "randrw",
    }
}

/// Returns sizes and their shares.
fn split(mix: &Mix) -> String {
    let shares: Vec<String> =
        mix.sizes.iter().map(|(bytes, share)| format!("{bytes}/{share}")).collect();
    shares.join(":")
}

fn job(load: &Load) -> String {
    let mut job = format!("rw={}\n", direction(load));
    let mut set = |key: &str, value: &dyn std::fmt::Display| _ = writeln!(job, "{key}={value}");
    if (1..100).contains(&load.reads_percent) {
        set("rwmixread", &load.reads_percent);
    }
    match load.order {
        Order::Mixed(mix) => {
            set("bssplit", &split(mix));
            if (1..100).contains(&mix.random_percent) {
                set("percentage_random", &mix.random_percent);
            }
        }
        Order::Zipf { exponent } => {
            set("bs", &load.block_bytes());
            set("random_distribution", &format!("zipf:{exponent}"));
        }
        Order::Sequential | Order::Random => set("bs", &load.block_bytes()),
    }
    set("offset", &(load.first * block::SECTOR));
    set("size", &(load.sectors * block::SECTOR));
    set("iodepth", &load.depth_max());
    if let Arrival::Open { interval_ns, .. } = load.arrival {
        let rate = 1_000_000_000 / interval_ns.max(1);
        let reads = rate * u64::from(load.reads_percent.min(100)) / 100;
        // A single number would be the rate of each direction.
        match load.reads_percent {
            1..100 => set("rate_iops", &format!("{reads},{}", rate - reads)),
            _ => set("rate_iops", &rate),
        }
    }
    if load.limit.requests < u64::MAX {
        set("io_size", &(load.limit.requests.saturating_mul(load.block_bytes())));
    }
    if load.limit.time_ns < u64::MAX {
        set("runtime", &format!("{}us", load.limit.time_ns / 1000));
        if load.limit.requests == u64::MAX {
            set("time_based", &1);
        }
    }
    if load.flush {
        set("end_fsync", &1);
    }
    // fio reads a signed number.
    set("randseed", &(load.seed >> 1));
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sections_are_names_to_fio() {
        let loads: [(String, Load, Content); 3] = ["a#b;[c]\n", "global", "#"].map(|name| {
            (name.to_owned(), Load::new(Order::Random, 4096, 1 << 20), Content::random(1))
        });
        let text = job_file("custom", &FioTarget::Path("/dev/sda".to_owned()), &loads);
        let sections: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(sections, ["[global]", "[abc]", "[load global]", "[load ]"]);
    }

    #[test]
    fn a_rate_is_that_of_both_directions_together() {
        let rate = |reads_percent| {
            let arrival = Arrival::Open { interval_ns: 100_000, depth_max: 8 };
            let load = Load { arrival, reads_percent, ..Load::new(Order::Random, 4096, 1 << 20) };
            let job = job(&load);
            job.lines().find_map(|line| line.strip_prefix("rate_iops=").map(str::to_owned))
        };
        assert_eq!(rate(100).as_deref(), Some("10000"));
        assert_eq!(rate(0).as_deref(), Some("10000"));
        assert_eq!(rate(70).as_deref(), Some("7000,3000"));
    }
}
