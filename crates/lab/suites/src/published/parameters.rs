//! Which parameter of which preset was chosen by which published figure, from the presets' own
//! sources.
//!
//! A source names a figure by its number and its unit: `derived from 31,000 writes a second`, or
//! `chosen for 7 of 13 MB/s when used`. A parameter of such a source was set by every figure with
//! that number and unit of the preset, and of the presets that inherit the parameter's file.

use super::{Figure, Wanted};
use drives::{Fact, Model};

/// A parameter of a preset, and where its value is from.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// The preset.
    pub drive: String,
    /// Section and key.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// Its source.
    pub source: String,
    /// The figures of this preset that set it: their names.
    pub figures: Vec<String>,
    /// Whether no source gives the value: it is assumed, or a recollection.
    pub is_free: bool,
}

/// Returns the parameters of a preset that the model uses, with the figures among these that set
/// them.
pub fn parameters_of(model: &Model, figures: &[Figure]) -> Vec<Parameter> {
    let is_used = |fact: &&Fact| {
        let section = fact.key.split('.').next().unwrap_or_default();
        !["about", "published", "capacity", "smart", "power"].contains(&section)
    };
    let figures: Vec<&Figure> = figures.iter().filter(|it| it.drive == model.name).collect();
    let parameter = |fact: &Fact| {
        let named = quantities(&fact.source);
        let sets = |figure: &&&Figure| {
            // AS SSD and its readers write MB/s for 2^20 bytes per second.
            let printed = if figure.unit == "MiB/s" { "MB/s" } else { figure.unit };
            let names = |number: f64| {
                named.iter().any(|(named, unit)| *unit == printed && is_same(*named, number))
            };
            numbers(figure).iter().any(|ends| ends.iter().all(|number| names(*number)))
        };
        let is_number = fact.value.parse::<f64>().is_ok();
        let figures = figures.iter().filter(|_| is_number).filter(sets);
        Parameter {
            drive: model.name.clone(),
            key: fact.key.clone(),
            value: fact.value.clone(),
            source: fact.source.clone(),
            figures: figures.map(|figure| figure.what.clone()).collect(),
            is_free: is_free(&fact.source),
        }
    };
    model.facts.iter().filter(is_used).map(parameter).collect()
}

/// Whether no source gives a value.
fn is_free(source: &str) -> bool {
    ["assumed", "recollection", "chosen"].iter().any(|word| source.contains(word))
}

/// Whether a preset rests on recollections: every figure that it is compared with is one.
pub fn is_recollected(model: &Model) -> bool {
    let figures = super::figures_of(&model.name);
    let is_free = |figure: &Figure| is_free(&figure.source);
    !figures.is_empty() && figures.iter().all(is_free)
}

/// Returns the published numbers of a figure, both ends of a range. AnandTech and AS SSD give rates
/// in units of 2^20 bytes, which sources quote as they were printed.
fn numbers(figure: &Figure) -> Vec<Vec<f64>> {
    let ends = match figure.wanted {
        Wanted::Near(value) => vec![value],
        Wanted::Between(low, high) => vec![low, high],
        Wanted::Least(low) => vec![low],
    };
    match figure.unit {
        "MB/s" => {
            let printed = ends.iter().map(|value| value / super::reviews::MIB).collect();
            vec![ends, printed]
        }
        _ => vec![ends],
    }
}

pub(super) fn is_same(named: f64, number: f64) -> bool {
    (named - number).abs() <= 0.001 * number.abs()
}

/// The units of figures as sources write them.
const UNITS: [(&str, &str); 8] = [
    ("MB/s", "MB/s"),
    ("GB", "GB"),
    ("us", "us"),
    ("reads a second", "IOPS"),
    ("writes a second", "IOPS"),
    ("requests a second", "IOPS"),
    ("reads at", "IOPS"),
    ("writes at", "IOPS"),
];

/// Returns the quantities that a source names. A number without a unit has that of the next one, as
/// in `7 of 13 MB/s`.
pub(super) fn quantities(source: &str) -> Vec<(f64, &'static str)> {
    let mut found = Vec::new();
    let mut waiting: Vec<f64> = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let is_part = |letter: char| letter.is_ascii_digit() || letter == ',' || letter == '.';
        let end = rest[at..].find(|letter| !is_part(letter)).map_or(rest.len(), |end| at + end);
        let is_named =
            rest[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        let number = rest[at..end].trim_end_matches(['.', ',']).replace(',', "");
        rest = &rest[end..];
        let Ok(number) = number.parse::<f64>() else { continue };
        // A number within a name is no quantity: `MT29F`, `intel-x25m_2`.
        if is_named {
            continue;
        }
        waiting.push(number);
        let next = rest.trim_start();
        if let Some((_, unit)) = UNITS.iter().find(|(word, _)| next.starts_with(word)) {
            found.extend(waiting.drain(..).map(|number| (number, *unit)));
        } else if !["of ", "-", "to ", "and ", ", "].iter().any(|word| next.starts_with(word)) {
            waiting.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::quantities;

    #[test]
    fn quantities_are_numbers_with_the_unit_that_follows() {
        for (source, expected) in [
            ("derived from 31,000 writes a second at QD1 (hexus 49301)", vec![(31e3, "IOPS")]),
            (
                "chosen for 7 of 13 MB/s when used (AnandTech 2808)",
                vec![(7.0, "MB/s"), (13.0, "MB/s")],
            ),
            ("derived from 30-40 MB/s random reads", vec![(30.0, "MB/s"), (40.0, "MB/s")]),
            ("AnandTech 7173 p2: 3 GB", vec![(3.0, "GB")]),
            ("xbitlabs intel-x25m_2: 20 packages of 4 GB", vec![(4.0, "GB")]),
            ("specified 520 MB/s, within 1 %", vec![(520.0, "MB/s")]),
            ("data sheet of MT29F2G08AA, 60 of them", vec![]),
        ] {
            let found = quantities(source);
            assert_eq!(found, expected, "{source}");
        }
    }
}
