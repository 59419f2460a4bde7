//! Drives predicted from their families: each parameter that a figure of the drive itself has set
//! is replaced by the values of its relatives, scaled to the drive.

use super::parameters::{Parameter, is_same, quantities};
use drives::{Kind, Model};

/// The drives that may predict another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relatives {
    /// All but the drive itself.
    Others,
    /// Not those of its product line either.
    OtherLines,
}

/// A relative's parameter, with its value as a number.
type Candidate<'a> = (&'a Model, &'a Parameter, f64);

/// Returns the family's value of a parameter, and the presets that it is from. None: no other drive
/// has a value of its own.
///
/// The family of a drive is its product line, which differs in capacity only; without one, the
/// drives of its maker with its interface; then all drives with its interface; then those with its
/// protocol on another link. Among these only drives count whose value has another source, so that
/// it was not set by a figure of the drive in question. Their values are [scaled](scale) to the
/// drive, and the median is taken. A value that several presets inherit counts once.
pub fn family_value(
    model: &Model,
    parameter: &Parameter,
    all: &[(Model, Vec<Parameter>)],
    relatives: Relatives,
) -> Option<(f64, String)> {
    let is_other = |other: &Model| match relatives {
        Relatives::Others => other.name != model.name,
        Relatives::OtherLines => line_of(&other.name) != line_of(&model.name),
    };
    let others = all.iter().filter(|(other, _)| is_other(other));
    let candidates: Vec<Candidate<'_>> = others
        .filter_map(|(other, parameters)| {
            let same = parameters.iter().find(|it| it.key == parameter.key)?;
            let value = same.value.parse::<f64>().ok()?;
            let is_independent =
                same.source != parameter.source && !is_derived_from(same, parameter);
            // Zero switches a limit off.
            let counts = value > 0.0 && is_independent && is_flash_alike(&same.key, other, model);
            counts.then_some((other, same, value))
        })
        .collect();
    let interface = |model: &Model| model.about.interface.clone();
    let degrees: [&dyn Fn(&Model) -> bool; 4] = [
        &|other| line_of(&other.name) == line_of(&model.name),
        &|other| {
            maker_of(&other.name) == maker_of(&model.name) && interface(other) == interface(model)
        },
        &|other| interface(other) == interface(model),
        &|other| protocol_of(&other.about.interface) == protocol_of(&model.about.interface),
    ];
    let relatives = degrees.iter().find_map(|is_relative| {
        let relatives = candidates.iter().filter(|(other, ..)| is_relative(other));
        let relatives = distinct(relatives.copied());
        (!relatives.is_empty()).then_some(relatives)
    })?;
    let mut logarithms: Vec<f64> = relatives
        .iter()
        .map(|(other, _, value)| (value * scale(&parameter.key, other, model)).ln())
        .collect();
    logarithms.sort_by(f64::total_cmp);
    let (low, high) = ((logarithms.len() - 1) / 2, logarithms.len() / 2);
    let names: Vec<&str> = relatives.iter().map(|(other, ..)| other.name.as_str()).collect();
    Some((((logarithms[low] + logarithms[high]) / 2.0).exp(), names.join(", ")))
}

/// Keeps the first of several presets with one value from one source.
fn distinct<'a>(all: impl Iterator<Item = Candidate<'a>>) -> Vec<Candidate<'a>> {
    let mut kept: Vec<Candidate<'a>> = Vec::new();
    for (model, parameter, value) in all {
        let is_same = |(_, known, _): &Candidate<'_>| {
            (&known.source, &known.value) == (&parameter.source, &parameter.value)
        };
        if !kept.iter().any(is_same) {
            kept.push((model, parameter, value));
        }
    }
    kept
}

/// Whether a relative's source names this value of the parameter as its own origin.
fn is_derived_from(relative: &Parameter, parameter: &Parameter) -> bool {
    let unit = if parameter.key.ends_with("_us") { "us" } else { "MB/s" };
    parameter.value.parse::<f64>().is_ok_and(|own| {
        let named = quantities(&relative.source);
        named.iter().any(|(number, of)| *of == unit && is_same(*number, own))
    })
}

/// Returns the factor from a relative's value to the drive's.
///
/// The limits of a controller grow with the number of controllers, and with the link that they were
/// made for, and its times shrink with their number, because they work side by side. An SLC area is
/// a share of the flash. All other values belong to one die, one channel, one command or one
/// firmware. The models themselves multiply them by the numbers of dies and channels.
fn scale(key: &str, relative: &Model, model: &Model) -> f64 {
    let ratio = |of: fn(&Model) -> f64| of(model) / of(relative);
    match key {
        "firmware.read_us"
        | "firmware.write_us"
        | "firmware.slot_us"
        | "firmware.relocate_us"
        | "firmware.trim_us"
        | "firmware.trim_slot_us" => 1.0 / ratio(controllers),
        "limits.read_mb_s" | "limits.write_mb_s" => ratio(controllers) * ratio(link_mb_s),
        "limits.native_write_mb_s" => ratio(controllers),
        "slc.static_bytes" | "slc.dynamic_bytes" => ratio(flash_bytes),
        _ => 1.0,
    }
}

fn controllers(model: &Model) -> f64 {
    f64::from(model.about.controllers)
}

/// Returns the rate of a drive's link; 1 without one, as for a disk.
fn link_mb_s(model: &Model) -> f64 {
    let fact = model.facts.iter().find(|fact| fact.key == "link.mb_s");
    fact.and_then(|fact| fact.value.parse().ok()).filter(|rate| *rate > 0.0).unwrap_or(1.0)
}

/// Returns all flash of a drive; 1 for a disk.
fn flash_bytes(model: &Model) -> f64 {
    match &model.kind {
        Kind::Flash(flash) => {
            let units = f64::from(flash.dies) * f64::from(flash.blocks) * f64::from(flash.pages);
            units * flash.unit_bytes as f64
        }
        Kind::Disk(_) => 1.0,
    }
}

/// Whether a relative's value of this key can be that of the drive's flash: times of its cells
/// depend on the number of bits in them.
fn is_flash_alike(key: &str, relative: &Model, model: &Model) -> bool {
    let bits = |model: &Model| match &model.kind {
        Kind::Flash(flash) => flash.bits,
        Kind::Disk(_) => 0,
    };
    let is_of_cells = ["nand.read_us", "nand.program_us", "nand.erase_us"].contains(&key);
    !is_of_cells || bits(relative) == bits(model)
}

/// Returns a preset's name without the capacity.
fn line_of(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(line, _)| line)
}

/// Returns the first word of a preset's name.
fn maker_of(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// Returns the first word of an interface: `NVMe` of `NVMe, PCIe 3.0 x4`.
fn protocol_of(interface: &str) -> &str {
    interface.split([' ', ',']).next().unwrap_or(interface)
}

/// A drive predicted from its family.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The model with its family's values.
    pub model: Model,
    /// The replaced parameters: key, own value, family's value, the presets that it is from.
    pub replaced: Vec<(String, String, f64, String)>,
    /// The parameters for which no other drive has a value: they keep the value that a figure has
    /// set, so that figure is not predicted.
    pub kept: Vec<Parameter>,
}

/// Returns a drive in which each parameter that one of its own figures has set is replaced by its
/// family's value.
pub fn left_out(
    model: &Model,
    all: &[(Model, Vec<Parameter>)],
    relatives: Relatives,
) -> Option<LeftOut> {
    let (_, parameters) = all.iter().find(|(other, _)| other.name == model.name)?;
    let mut sections = std::collections::BTreeMap::<&str, String>::new();
    let (mut replaced, mut kept) = (Vec::new(), Vec::new());
    // The interface is on the label, whatever figure gives its rate.
    let is_replaced = |it: &&Parameter| !it.figures.is_empty() && !it.key.starts_with("link.");
    for parameter in parameters.iter().filter(is_replaced) {
        let Some((value, from)) = family_value(model, parameter, all, relatives) else {
            kept.push(parameter.clone());
            continue;
        };
        let (section, name) = parameter.key.split_once('.')?;
        // Numbers of things and bytes are whole.
        let is_measure = name.ends_with("_us") || name.ends_with("_mb_s");
        let shown = if is_measure { format!("{value:.4}") } else { format!("{value:.0}") };
        *sections.entry(section).or_default() += &format!("{name} = [{shown}, \"its family\"]\n");
        replaced.push((parameter.key.clone(), parameter.value.clone(), value, from));
    }
    let mut text = format!("like = \"{}\"\ntitle = \"{}\"\n", model.name, model.title);
    for (section, lines) in sections {
        text += &format!("[{section}]\n{lines}");
    }
    let model = Model::parse(&model.name, &text).ok()?;
    Some(LeftOut { model, replaced, kept })
}
