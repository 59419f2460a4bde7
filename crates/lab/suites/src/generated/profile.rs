//! The properties of generated traces, as data files have them: each a value and its source.

use serde::Deserialize;

/// A value of a data file, and its source.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "(T, String)", bound(deserialize = "T: Deserialize<'de>"))]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it was published, or why it is assumed.
    pub source: String,
    /// Whether it was published; otherwise it is assumed.
    pub is_published: bool,
}

impl<T> TryFrom<(T, String)> for Sourced<T> {
    type Error = String;

    fn try_from((value, source): (T, String)) -> Result<Sourced<T>, String> {
        let is_published = source.starts_with("published: ");
        let is_assumed = source == "assumed" || source.starts_with("assumed: ");
        match is_published || is_assumed {
            true => Ok(Sourced { value, source, is_published }),
            false => Err(format!(
                "source '{source}': write 'published: ' and where, or 'assumed' and why"
            )),
        }
    }
}

impl<T> Sourced<T> {
    fn assumed(value: T) -> Sourced<T> {
        Sourced { value, source: "assumed".to_owned(), is_published: false }
    }

    /// Returns another value with the same source.
    pub(crate) fn with<U>(&self, value: U) -> Sourced<U> {
        Sourced { value, source: self.source.clone(), is_published: self.is_published }
    }
}

/// A class of a table: its upper end or its sizes, its share in percent, and the source.
type Class<T> = (T, f64, String);

/// The keys of a workload in a data file.
#[derive(Clone, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    name: Option<String>,
    about: Option<String>,
    reads: Option<Sourced<u64>>,
    writes: Option<Sourced<u64>>,
    read_bytes: Option<Sourced<u64>>,
    written_bytes: Option<Sourced<u64>>,
    sizes: Option<Vec<Class<Vec<u32>>>>,
    other_sizes: Option<Sourced<Vec<u32>>>,
    sequential: Option<Sourced<f64>>,
    sequential_reads: Option<Sourced<f64>>,
    sequential_writes: Option<Sourced<f64>>,
    streams: Option<Sourced<u32>>,
    hot_percent: Option<Sourced<f64>>,
    hot_exponent: Option<Sourced<f64>>,
    footprint_bytes: Option<Sourced<u64>>,
    depths: Option<Vec<Class<u32>>>,
    depth_mean: Option<Sourced<f64>>,
    depth_within: Option<Sourced<(u32, f64)>>,
    gap_us: Option<Sourced<u64>>,
    gap_us_max: Option<Sourced<u64>>,
    duration_s: Option<Sourced<u64>>,
    pause_s: Option<Sourced<(u64, u64)>>,
    service_us: Option<Sourced<u64>>,
    service_mb_per_second: Option<Sourced<u64>>,
}

/// A data file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    in_flight: Option<Sourced<u32>>,
    idle_us_max: Option<Sourced<u64>>,
    every: Option<Keys>,
    workload: Vec<Keys>,
}

/// How a trace is replayed.
#[derive(Clone, PartialEq, Debug)]
pub enum Pace {
    /// As fast as possible, with this number of requests in flight.
    InFlight(Sourced<u32>),
    /// At the times of the trace, with idle times of at most this number of microseconds.
    IdleMax(Sourced<u64>),
}

/// A class of sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct SizeClass {
    /// The sizes in it, in bytes.
    pub sizes: Vec<u32>,
    /// The share of requests that have one of them, in percent. None: the rest.
    pub share: Option<Sourced<f64>>,
}

/// A class of queue depths.
#[derive(Clone, PartialEq, Debug)]
pub struct DepthClass {
    /// The largest depth in it. 0: it follows from the mean depth.
    pub depth_max: u32,
    /// The share of requests that find this depth, in percent.
    pub share: Sourced<f64>,
}

/// The properties of one workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// The job that it imitates.
    pub about: String,
    /// Number of reads and of writes.
    pub requests: [Sourced<u64>; 2],
    /// Bytes read and written.
    pub bytes: [Sourced<u64>; 2],
    /// The classes of sizes.
    pub sizes: Vec<SizeClass>,
    /// Percentage of reads, and of writes, that continue an earlier request.
    pub sequential: [Sourced<f64>; 2],
    /// Whether only the percentage of both together is given.
    pub is_sequential_together: bool,
    /// Number of last requests of which one is continued.
    pub streams: Sourced<u32>,
    /// Percentage of the other requests that prefer hot regions of 1 MiB.
    pub hot_percent: Sourced<f64>,
    /// The exponent of the regions' shares.
    pub hot_exponent: Sourced<f64>,
    /// The part of the disk that is used.
    pub footprint_bytes: Sourced<u64>,
    /// The queue depths, in ascending order.
    pub depths: Vec<DepthClass>,
    /// The mean queue depth.
    pub depth_mean: Option<Sourced<f64>>,
    /// A depth, and the percentage of requests that find at most that.
    pub depth_within: Option<Sourced<(u32, f64)>>,
    /// The mean time between two bursts of requests.
    pub gap_us: Sourced<u64>,
    /// Its maximum.
    pub gap_us_max: Sourced<u64>,
    /// The duration, which pauses fill.
    pub duration_s: Option<Sourced<u64>>,
    /// The lengths of pauses.
    pub pause_s: Option<Sourced<(u64, u64)>>,
    /// The service time of the recorded disk, without the transfer.
    pub service_us: Sourced<u64>,
    /// The transfer rate of the recorded disk.
    pub service_mb_per_second: Sourced<u64>,
}

/// The properties of a generated trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// Its name: that of the suite.
    pub name: String,
    /// Its name in full.
    pub title: String,
    /// How it is replayed.
    pub pace: Pace,
    /// Its workloads, one after the other.
    pub workloads: Vec<Workload>,
}

/// The data files of the program.
const FILES: [(&str, &str); 6] = [
    ("drivebench1", include_str!("../../presets/drivebench1.toml")),
    ("drivebench2", include_str!("../../presets/drivebench2.toml")),
    ("heavy", include_str!("../../presets/heavy.toml")),
    ("light", include_str!("../../presets/light.toml")),
    ("destroyer", include_str!("../../presets/destroyer.toml")),
    ("pcmark", include_str!("../../presets/pcmark.toml")),
];

impl Profile {
    /// Returns the names of the program's own profiles.
    pub fn names() -> [&'static str; FILES.len()] {
        FILES.map(|(name, _)| name)
    }

    /// Returns the program's own profile of this name, ignoring case. None: there is none.
    ///
    /// # Panics
    /// If the program's own file is damaged.
    pub fn find(name: &str) -> Option<Profile> {
        let (name, text) = FILES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(Profile::parse(name, text).expect("the program's own profiles are sound"))
    }

    /// Reads a data file.
    ///
    /// # Errors
    /// The key that is missing, unknown or out of its range.
    pub fn parse(name: &str, text: &str) -> Result<Profile, String> {
        let one_line = |error: toml::de::Error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let place = line.map_or(String::new(), |line| format!("line {line}: "));
            format!("{place}{}", error.message().replace('\n', " "))
        };
        let file: File = toml::from_str(text).map_err(one_line)?;
        let pace = match (file.in_flight, file.idle_us_max) {
            (Some(in_flight), None) if (1..=256).contains(&in_flight.value) => {
                Pace::InFlight(in_flight)
            }
            (None, Some(idle)) => Pace::IdleMax(idle),
            _ => return Err("write either in_flight, 1 to 256, or idle_us_max".to_owned()),
        };
        let every = file.every.unwrap_or_default();
        let workloads = file.workload.into_iter().map(|keys| keys.over(every.clone()).workload());
        let workloads = workloads.collect::<Result<Vec<_>, _>>()?;
        if workloads.is_empty() {
            return Err("it has no [[workload]]; write at least one".to_owned());
        }
        Ok(Profile { name: name.to_owned(), title: file.title, pace, workloads })
    }

    /// Returns the profile with one of its workloads alone.
    ///
    /// # Errors
    /// It has no workload of this name; the sentence lists those that it has.
    pub fn only(mut self, name: &str) -> Result<Profile, String> {
        let names: Vec<String> = self.workloads.iter().map(|it| it.name.clone()).collect();
        self.workloads.retain(|workload| workload.name.eq_ignore_ascii_case(name));
        match self.workloads.is_empty() {
            true => Err(format!("{} has no such workload; it has {}", self.name, names.join(", "))),
            false => Ok(self),
        }
    }
}

/// Returns the value of a key, or the name of the key that is missing.
fn needed<T>(value: Option<T>, workload: &str, key: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("workload '{workload}': {key} is missing"))
}

impl Keys {
    /// Returns these keys, and for those that are missing the ones of all workloads.
    fn over(self, every: Keys) -> Keys {
        let own_sequential = self.sequential.is_some() || self.sequential_reads.is_some();
        let sequential = if own_sequential { None } else { every.sequential };
        Keys {
            name: self.name,
            about: self.about,
            reads: self.reads.or(every.reads),
            writes: self.writes.or(every.writes),
            read_bytes: self.read_bytes.or(every.read_bytes),
            written_bytes: self.written_bytes.or(every.written_bytes),
            sizes: self.sizes.or(every.sizes),
            other_sizes: self.other_sizes.or(every.other_sizes),
            sequential: self.sequential.or(sequential),
            sequential_reads: self.sequential_reads,
            sequential_writes: self.sequential_writes,
            streams: self.streams.or(every.streams),
            hot_percent: self.hot_percent.or(every.hot_percent),
            hot_exponent: self.hot_exponent.or(every.hot_exponent),
            footprint_bytes: self.footprint_bytes.or(every.footprint_bytes),
            depths: self.depths.or(every.depths),
            depth_mean: self.depth_mean.or(every.depth_mean),
            depth_within: self.depth_within.or(every.depth_within),
            gap_us: self.gap_us.or(every.gap_us),
            gap_us_max: self.gap_us_max.or(every.gap_us_max),
            duration_s: self.duration_s.or(every.duration_s),
            pause_s: self.pause_s.or(every.pause_s),
            service_us: self.service_us.or(every.service_us),
            service_mb_per_second: self.service_mb_per_second.or(every.service_mb_per_second),
        }
    }

    fn workload(self) -> Result<Workload, String> {
        let name = self.name.ok_or("a workload has no name")?;
        let of = |what: String| format!("workload '{name}': {what}");
        let (sequential, is_sequential_together) =
            match (self.sequential, self.sequential_reads, self.sequential_writes) {
                (Some(all), None, None) => ([all.clone(), all], true),
                (None, Some(reads), Some(writes)) => ([reads, writes], false),
                _ => {
                    let what = "write sequential, or sequential_reads and sequential_writes";
                    return Err(of(what.to_owned()));
                }
            };
        let sizes = size_classes(self.sizes.unwrap_or_default(), self.other_sizes).map_err(of)?;
        let depths = depth_classes(needed(self.depths, &name, "depths")?).map_err(of)?;
        if depths.iter().any(|class| class.depth_max == 0) && self.depth_mean.is_none() {
            let what = "the last depth is 0, but there is no depth_mean that it follows from";
            return Err(of(what.to_owned()));
        }
        let workload = Workload {
            about: needed(self.about, &name, "about")?,
            requests: [needed(self.reads, &name, "reads")?, needed(self.writes, &name, "writes")?],
            bytes: [
                needed(self.read_bytes, &name, "read_bytes")?,
                needed(self.written_bytes, &name, "written_bytes")?,
            ],
            sizes,
            sequential,
            is_sequential_together,
            streams: self.streams.unwrap_or(Sourced::assumed(8)),
            hot_percent: self.hot_percent.unwrap_or(Sourced::assumed(70.0)),
            hot_exponent: self.hot_exponent.unwrap_or(Sourced::assumed(1.1)),
            footprint_bytes: needed(self.footprint_bytes, &name, "footprint_bytes")?,
            depths,
            depth_mean: self.depth_mean,
            depth_within: self.depth_within,
            gap_us: self.gap_us.unwrap_or(Sourced::assumed(3_000)),
            gap_us_max: self.gap_us_max.unwrap_or(Sourced::assumed(25_000)),
            duration_s: self.duration_s,
            pause_s: self.pause_s,
            service_us: self.service_us.unwrap_or(Sourced::assumed(60)),
            service_mb_per_second: self.service_mb_per_second.unwrap_or(Sourced::assumed(400)),
            name,
        };
        workload.check()?;
        Ok(workload)
    }
}

fn size_classes(
    classes: Vec<Class<Vec<u32>>>,
    others: Option<Sourced<Vec<u32>>>,
) -> Result<Vec<SizeClass>, String> {
    let mut all = Vec::new();
    for (sizes, percent, source) in classes {
        let share = Sourced::try_from((percent, source))?;
        all.push(SizeClass { sizes, share: Some(share) });
    }
    all.extend(others.map(|others| SizeClass { sizes: others.value, share: None }));
    let sizes: Vec<u32> = all.iter().flat_map(|class| class.sizes.iter().copied()).collect();
    let is_size = |bytes: &u32| bytes.is_multiple_of(512) && (512..=1 << 20).contains(bytes);
    if sizes.is_empty() || !sizes.iter().all(is_size) {
        return Err("sizes: write multiples of 512 up to 1 MiB, at least one".to_owned());
    }
    let mut different = sizes.clone();
    different.sort_unstable();
    different.dedup();
    if different.len() < sizes.len() || sizes.len() > 64 {
        return Err("sizes: write each size once, and at most 64".to_owned());
    }
    let listed: f64 = all.iter().filter_map(|class| class.share.as_ref()).map(|it| it.value).sum();
    let is_whole = all.iter().all(|class| class.share.is_some());
    let is_share = |class: &SizeClass| class.share.as_ref().is_none_or(|it| it.value >= 0.0);
    match all.iter().all(is_share) && listed <= 101.0 && (!is_whole || listed >= 99.0) {
        true => Ok(all),
        false => Err(format!("sizes: the shares add up to {listed:.1} %; write 100 %")),
    }
}

fn depth_classes(classes: Vec<Class<u32>>) -> Result<Vec<DepthClass>, String> {
    let mut all: Vec<DepthClass> = Vec::new();
    // The number of requests that find a depth: a burst that reaches a depth has reached all lower
    // ones, so that it cannot rise.
    let (mut before, mut least, count) = (0, f64::INFINITY, classes.len());
    for (number, (depth_max, percent, source)) in classes.into_iter().enumerate() {
        let share = Sourced::try_from((percent, source))?;
        let is_last = number + 1 == count;
        let is_open = depth_max == 0 && is_last && before > 0;
        if !is_open && (depth_max <= before || depth_max > DEPTH_MAX) {
            return Err(format!("depths: write ascending depths of 1 to {DEPTH_MAX}"));
        }
        let each = percent / f64::from(depth_max.saturating_sub(before).max(1));
        if !is_open && !(0.0..=least + 1e-9).contains(&each) {
            let what = "a depth cannot be more frequent than the one before it";
            return Err(format!("depths: {what}; lower the share of {depth_max}"));
        }
        (before, least) = (depth_max, each);
        all.push(DepthClass { depth_max, share });
    }
    let sum: f64 = all.iter().map(|class| class.share.value).sum();
    match (99.0..=101.0).contains(&sum) {
        true => Ok(all),
        false => Err(format!("depths: the shares add up to {sum:.1} %; write 100 %")),
    }
}

/// The deepest queue.
pub(crate) const DEPTH_MAX: u32 = 4096;

impl Workload {
    fn check(&self) -> Result<(), String> {
        let of = |what: &str| Err(format!("workload '{}': {what}", self.name));
        let is_percent = |value: &Sourced<f64>| (0.0..=100.0).contains(&value.value);
        if self.requests.iter().any(|it| it.value > 1 << 40)
            || self.bytes.iter().any(|it| it.value > 1 << 50)
        {
            return of("write at most 2^40 requests and 2^50 bytes");
        }
        if self.requests.iter().all(|it| it.value == 0) {
            return of("it has no request; write reads or writes");
        }
        if !self.sequential.iter().chain([&self.hot_percent]).all(is_percent) {
            return of("sequential, hot_percent: write 0 to 100");
        }
        if !(0.1..=5.0).contains(&self.hot_exponent.value) {
            return of("hot_exponent: write 0.1 to 5");
        }
        if !(1..=32).contains(&self.streams.value) {
            return of("streams: write 1 to 32");
        }
        if !(16 << 20..=1 << 50).contains(&self.footprint_bytes.value) {
            return of("footprint_bytes: write at least 16 MiB, at most 2^50");
        }
        let times = [&self.gap_us, &self.gap_us_max, &self.service_us];
        if times.iter().any(|it| it.value > 3_600_000_000) || self.gap_us.value == 0 {
            return of("gap_us, gap_us_max, service_us: write at most an hour, and a gap above 0");
        }
        if !(1..=1_000_000).contains(&self.service_mb_per_second.value) {
            return of("service_mb_per_second: write 1 to 1000000");
        }
        let is_good = |range: &Sourced<(u64, u64)>| {
            let (least, most) = range.value;
            least > 0 && most > least && most < 1 << 30
        };
        if !self.pause_s.as_ref().is_none_or(is_good)
            || self.duration_s.as_ref().is_some_and(|it| it.value > 1 << 30)
        {
            return of("pause_s: write the shortest and the longest, above 0 and below 2^30");
        }
        match self.pause_s.is_some() == self.duration_s.is_some() {
            true => Ok(()),
            false => of("duration_s and pause_s belong together; write both"),
        }
    }
}
