//! A table of the properties of a generated trace: published, assumed and generated.

use super::meter::Meter;
use super::profile::{Profile, Sourced, Workload};
use super::requests::{Requests, Scale, scaled};
use report::words::{figure, grouped};

/// Maximum deviation from a published property: points of a percentage, or percent of an amount.
pub const POINTS_MAX: f64 = 0.5;

/// A property.
#[derive(Clone, PartialEq, Debug)]
pub struct Property {
    /// The workload that has it.
    pub workload: String,
    /// Its name.
    pub name: String,
    /// Its unit; empty for a number.
    pub unit: &'static str,
    /// Its value in the data file, at the scale, and its source.
    pub given: Sourced<f64>,
    /// The value of the generated trace.
    pub generated: f64,
    /// The deviation: in points of a percentage, otherwise in percent of the given value.
    pub off_points: f64,
}

impl Property {
    /// Whether the generated trace does not have a published property.
    pub fn is_wrong(&self) -> bool {
        self.given.is_published && self.off_points.abs() > POINTS_MAX
    }

    /// Returns a value in words.
    pub fn in_words(&self, value: f64) -> String {
        match self.unit {
            "" if value >= 1000.0 => grouped(value.round() as u64),
            "" | "s" => figure(value),
            "%" => format!("{value:.2} %"),
            unit => format!("{} {unit}", figure(value)),
        }
    }
}

/// Collects the properties of a workload.
struct Table<'a> {
    workload: &'a Workload,
    all: Vec<Property>,
}

impl Table<'_> {
    fn add(&mut self, name: &str, unit: &'static str, given: &Sourced<f64>, generated: f64) {
        let off_points = match unit {
            "%" => generated - given.value,
            _ if given.value == 0.0 => generated,
            _ => 100.0 * (generated / given.value - 1.0),
        };
        self.all.push(Property {
            workload: self.workload.name.clone(),
            name: name.to_owned(),
            unit,
            given: given.clone(),
            generated,
            off_points,
        });
    }

    fn amount(&mut self, name: &str, unit: &'static str, given: &Sourced<u64>, generated: f64) {
        self.add(name, unit, &given.with(given.value as f64), generated);
    }
}

/// Returns the properties of a workload whose requests were measured.
pub fn properties(workload: &Workload, scale: &Scale, meter: &Meter) -> Vec<Property> {
    let mut table = Table { workload, all: Vec::new() };
    let at_scale = |given: &Sourced<u64>| given.with(scaled(given.value, scale.scale));
    for (direction, name) in ["reads", "writes"].into_iter().enumerate() {
        let given = at_scale(&workload.requests[direction]);
        table.amount(name, "", &given, meter.requests()[direction] as f64);
    }
    for (direction, name) in ["read", "written"].into_iter().enumerate() {
        let given = at_scale(&workload.bytes[direction]);
        let given = given.with(given.value as f64 / 1e9);
        table.add(name, "GB", &given, meter.bytes()[direction] as f64 / 1e9);
    }
    add_sizes(&mut table, meter);
    add_sequential(&mut table, meter);
    add_depths(&mut table, meter);
    add_times(&mut table, scale, meter);
    table.all
}

/// Formats a size in bytes.
fn size(bytes: u32) -> String {
    block::Size(bytes.into()).to_string()
}

fn add_sizes(table: &mut Table<'_>, meter: &Meter) {
    for class in &table.workload.sizes {
        let Some(share) = &class.share else { continue };
        let name = match class.sizes[..] {
            [one] => format!("requests of {}", size(one)),
            [first, .., last] => format!("requests of {} to {}", size(first), size(last)),
            [] => continue,
        };
        table.add(&name, "%", share, meter.percent_of_sizes(&class.sizes));
    }
}

fn add_sequential(table: &mut Table<'_>, meter: &Meter) {
    let [reads, writes] = &table.workload.sequential;
    if table.workload.is_sequential_together {
        return table.add("sequential", "%", reads, meter.percent_sequential_of_all());
    }
    table.add("sequential reads", "%", reads, meter.percent_sequential(0));
    table.add("sequential writes", "%", writes, meter.percent_sequential(1));
}

fn add_depths(table: &mut Table<'_>, meter: &Meter) {
    let mut over = 0;
    for class in &table.workload.depths {
        let most = class.depth_max;
        let name = match most {
            0 => format!("depth above {over}"),
            most if most == over + 1 => format!("depth {most}"),
            most => format!("depth {} to {most}", over + 1),
        };
        let last = if most == 0 { u32::MAX } else { most };
        table.add(&name, "%", &class.share, meter.percent_of_depths(over, last));
        over = most;
    }
    if let Some(given) = &table.workload.depth_within {
        let (depth, percent) = given.value;
        let name = format!("depth up to {depth}");
        table.add(&name, "%", &given.with(percent), meter.percent_of_depths(0, depth));
    }
    if let Some(given) = &table.workload.depth_mean {
        table.add("mean depth", "", given, meter.depth_mean());
    }
}

fn add_times(table: &mut Table<'_>, scale: &Scale, meter: &Meter) {
    let workload = table.workload;
    if let Some(duration) = &workload.duration_s
        && scale.idle_ns_max == u64::MAX
    {
        let given = duration.with(duration.value as f64 * scale.scale / 3600.0);
        table.add("duration", "h", &given, meter.duration_ns() as f64 / 3.6e12);
    }
    let capped_ns = (workload.gap_us_max.value * 1000).min(scale.idle_ns_max);
    if workload.duration_s.is_none() {
        let given = workload.gap_us_max.with(capped_ns as f64 / 1e6);
        table.add("longest idle time", "ms", &given, meter.idle_ns_max() as f64 / 1e6);
    }
    let footprint = scaled(workload.footprint_bytes.value, scale.scale).min(scale.disk_bytes);
    let given = workload.footprint_bytes.with(footprint as f64 / 1e9);
    table.add("part of the disk", "GB", &given, meter.end_bytes() as f64 / 1e9);
}

/// Generates a whole profile without keeping it, and returns the properties of all workloads.
///
/// # Errors
/// The scale is absurd, or the profile's numbers contradict each other.
pub fn measure(profile: &Profile, scale: &Scale) -> Result<Vec<Property>, String> {
    let mut all = Vec::new();
    for workload in &profile.workloads {
        let mut meter = Meter::default();
        Requests::new(workload, scale)?.for_each(|event| meter.add(&event));
        all.extend(properties(workload, scale, &meter));
    }
    Ok(all)
}

/// Returns the tables of the program's own profiles, for docs/GENERATED.md. Each is generated at
/// the smallest scale that has a quarter of a million requests, or whole.
///
/// # Panics
/// If the program's own profiles contradict themselves.
pub fn markdown() -> String {
    let mut text = String::new();
    for name in Profile::names() {
        let profile = Profile::find(name).expect("one of the program's own");
        let requests = |workload: &Workload| workload.requests.iter().map(|it| it.value).sum();
        let most: u64 = profile.workloads.iter().map(requests).max().unwrap_or(1);
        let scale = (250_000.0 / most as f64).min(1.0);
        // A scale that can be written: one digit.
        let digit = 10f64.powf(scale.log10().floor());
        let scale = Scale { scale: (scale / digit).ceil() * digit, ..Scale::default() };
        let measured = measure(&profile, &scale).expect("they fit together");
        text +=
            &format!("\n## `{name}`\n\n{}, generated at scale {}:\n\n", profile.title, scale.scale);
        text +=
            "| workload | property | published | assumed | generated |\n|---|---|---|---|---|\n";
        for property in &measured {
            let given = property.in_words(property.given.value);
            let (published, assumed) = match property.given.is_published {
                true => (given, String::new()),
                false => (String::new(), given),
            };
            let generated = property.in_words(property.generated);
            let (workload, name) = (&property.workload, &property.name);
            text += &format!("| {workload} | {name} | {published} | {assumed} | {generated} |\n");
        }
    }
    text
}
