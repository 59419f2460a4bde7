//! One model with all its numbers, each with its source, and the values that follow from them.

use block::{Size, printable};
use drives::{Derived, Fact, FlashModel, Kind, Model};
use report::terminal::{Column, Fit, Line, Span, Table, Text, sentence_width};
use serde_json::{Value, json};
use std::fmt::Write;
use suites::published::parameters::is_recollected;
use suites::published::{Figure, figures_of, stored_value};

/// Returns the name of a model's kind.
pub(super) fn kind(model: &Model) -> &'static str {
    match model.kind {
        Kind::Flash(_) => "flash",
        Kind::Disk(_) => "disk",
    }
}

/// Returns a model's entry in a list.
pub(super) fn summary(model: &Model) -> Value {
    let published: serde_json::Map<String, Value> =
        model.published.iter().map(|entry| (entry.key.to_owned(), json!(entry.value))).collect();
    let mut object = json!({
        "name": model.name,
        "title": model.title,
        "version": model.version(),
        "kind": kind(model),
        "capacity_bytes": model.user_bytes(),
        "interface": model.about.interface,
        "nand": model.about.nand,
        "year": (model.about.year > 0).then_some(model.about.year),
        "published": published,
    });
    if let Kind::Flash(flash) = &model.kind {
        let derived = flash.derived();
        object["dies"] = json!(flash.dies);
        object["raw_bytes"] = json!(derived.raw_bytes);
        object["over_provisioning"] = json!(derived.over_provisioning);
        object["spare"] = json!(derived.spare);
        object["lost"] = json!(flash.lost());
        object["lost_to_bad_blocks"] = json!(flash.bad_blocks);
        object["lost_to_wear_levelling"] = json!(flash.wear_levelling);
        object["slc_bytes"] = json!(flash.slc_static_bytes);
    }
    object
}

/// Returns all of a model.
pub(super) fn as_json(model: &Model) -> Value {
    let mut object = summary(model);
    object["schema"] = json!("overdrive.drive.model/1");
    let facts = model.facts.iter();
    object["power"] = model
        .power
        .map_or(Value::Null, |power| json!({ "idle_w": power.idle_w, "active_w": power.active_w }));
    object["facts"] = facts
        .map(|fact| {
            let assumed = is_assumed(&fact.source);
            json!({ "key": fact.key, "value": fact.value, "source": fact.source, "assumed": assumed })
        })
        .collect();
    let published = model.published.iter();
    object["published"] = published
        .map(|entry| json!({ "key": entry.key, "value": entry.value, "source": entry.source }))
        .collect();
    let figures = if is_preset(model) { figures_of(&model.name) } else { Vec::new() };
    object["compared"] = figures
        .iter()
        .map(|figure| {
            let found = stored_value(figure);
            json!({
                "what": figure.what, "unit": figure.unit, "state": figure.class.name(),
                "worth": figure.worth.name(), "published": figure.wanted.to_text(), "modelled": found,
                "error": found.map(|found| figure.wanted.error(found)), "source": figure.source,
            })
        })
        .collect();
    if let Kind::Flash(flash) = &model.kind {
        object["derived"] = derived_json(&flash.derived());
    }
    object
}

fn derived_json(derived: &Derived) -> Value {
    json!({
        "raw_bytes": derived.raw_bytes,
        "superblock_bytes": derived.superblock_bytes,
        "superblocks": derived.superblocks,
        "over_provisioning": derived.over_provisioning,
        "spare": derived.spare,
        "spare_in_use": derived.spare_in_use,
        "flat_map_bytes": derived.flat_map_bytes,
        "native_bytes_per_second": derived.native_bytes_per_second,
        "slc_bytes_per_second": derived.slc_bytes_per_second,
        "write_amplification": derived.predicted.map(|prediction| prediction.amplification),
        "write_amplification_form": derived.predicted.map(|prediction| prediction.form),
        "write_amplification_source": derived.predicted.map(|prediction| prediction.source),
        "die_bound_iops": derived.die_bound_iops,
        "firmware_bound_iops": derived.firmware_bound_iops,
    })
}

/// Whether the source states that the number is assumed.
fn is_assumed(source: &str) -> bool {
    source.contains("assumed")
}

/// Blanks before the further lines of a source, and of a derived value.
const SOURCE_INDENT: usize = 40;
const VALUE_INDENT: usize = 23;

/// Formats a model as text of this width. For a checked file, the verdict comes first.
pub(super) fn as_text(model: &Model, checked: bool, width: Option<usize>) -> Text {
    let mut text = Text::default();
    let assumed = model.facts.iter().filter(|fact| is_assumed(&fact.source)).count();
    if checked {
        text.push(printable(&format!("{}: sound; {} numbers", model.name, model.facts.len())));
    }
    text.push(Line::heading(printable(&format!("{} ({})", model.title, model.name))));
    text.push(format!(
        "Version {}: results of other versions are not comparable.",
        model.version()
    ));
    if is_recollected(model) {
        text.push("It rests on a recollection of the drive's specification: no figure was found.");
    }
    let section_of = |fact: &Fact| fact.key.split('.').next().unwrap_or_default().to_owned();
    let facts = model.facts.iter().filter(|fact| section_of(fact) != "published");
    let mut facts: Vec<&Fact> = facts.collect();
    facts.sort_by_cached_key(|fact| section_of(fact));
    let mut section = "";
    for fact in facts {
        let (own, name) = fact.key.split_once('.').unwrap_or(("", &fact.key));
        if own != section {
            text.extend([Line::default(), Line::heading(format!("[{own}]"))]);
            section = own;
        }
        text.extend(sourced(name, &fact.value, &fact.source, width));
    }
    add_published(&mut text, model, width);
    if let Kind::Flash(flash) = &model.kind {
        text.extend([Line::default(), Line::heading("Derived values")]);
        for line in derived_text(flash).lines() {
            text.extend(Line::from(line).fitted(width, VALUE_INDENT));
        }
    }
    text.push("");
    text.push(format!("{} of {} values are assumed.", assumed, model.facts.len()));
    text
}

/// Returns the lines of a value and its source.
fn sourced(name: &str, value: &str, source: &str, width: Option<usize>) -> Vec<Line> {
    let line = format!("{name:<22} {:<16} {}", printable(value), printable(source));
    Line::from(line).fitted(width, SOURCE_INDENT)
}

/// Adds the published figures, next to the model's results.
fn add_published(text: &mut Text, model: &Model, width: Option<usize>) {
    let figures = if is_preset(model) { figures_of(&model.name) } else { Vec::new() };
    if !figures.is_empty() {
        let about = "Published figures of the real drive, next to the model's results in the same \
                     tests. Only 'predicted' rows test the model; 'circular' figures are its own \
                     values, and 'fitted' ones were used to tune it. A figure's source is below it.";
        text.push("");
        text.extend(Line::from(about).wrapped(sentence_width(width), 0));
        text.push("");
        text.extend(compared(&figures).lines(width));
    }
    // Figures that no test of the suites measures, and those of a user's file.
    let rest = model.published.iter().filter(|entry| figures.iter().all(|it| it.what != entry.key));
    let rest: Vec<_> = rest.collect();
    if !rest.is_empty() {
        text.extend([Line::default(), Line::heading("Other published figures")]);
    }
    for entry in rest {
        text.extend(sourced(entry.key, &entry.value.to_string(), &entry.source, width));
    }
}

/// Returns the table of published figures and the model's results.
fn compared(figures: &[Figure]) -> Table {
    let state = Column::text("state", Fit::Whole).left_out(0);
    let mut columns = vec![Column::text("test", Fit::Wrap(20)), state];
    columns.extend(["published", "modelled", "error"].map(Column::number));
    columns.push(Column::text("worth", Fit::Whole));
    let mut table = Table::new(2, columns);
    for figure in figures {
        let wanted = format!("{} {}", figure.wanted.to_text(), figure.unit);
        let (found, error) = match stored_value(figure) {
            Some(found) => {
                let digits = if found.abs() < 100.0 { 2 } else { 0 };
                let error = figure.wanted.error(found) * 100.0;
                (format!("{found:.digits$}"), format!("{error:+.0} %"))
            }
            None => ("-".to_owned(), "-".to_owned()),
        };
        let (state, worth) = (figure.class.name(), figure.worth.name());
        let what: &str = &figure.what;
        let cells = [what, state, &wanted, &found, &error, worth];
        table.push(cells.map(Span::from).into());
        table.push_note(&*figure.source);
    }
    table
}

/// Whether a model is the preset of its name, not a file with the same name.
fn is_preset(model: &Model) -> bool {
    Model::names().any(|name| name == model.name)
        && Model::preset(&model.name).as_ref() == Some(model)
}

fn derived_text(flash: &FlashModel) -> String {
    let derived = flash.derived();
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<22} {value}");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let rate = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
    line("raw flash", format!("{} on {} dies", Size(derived.raw_bytes), flash.dies));
    line("over-provisioning", percent(derived.over_provisioning));
    line("spare", format!("{}, without SLC area, map and losses", percent(derived.spare)));
    let lost = [flash.lost(), flash.bad_blocks, flash.wear_levelling].map(percent);
    line(
        "losses",
        format!("{}, of it bad blocks {}, wear levelling {}", lost[0], lost[1], lost[2]),
    );
    let kept = percent(derived.spare_in_use);
    line("spare in use", format!("{kept}, without the space that cleaning keeps free"));
    let size = Size(derived.superblock_bytes);
    line("superblocks", format!("{} of {size}", derived.superblocks));
    line("flat map", Size(derived.flat_map_bytes).to_string());
    line("dies, all bits", rate(derived.native_bytes_per_second));
    if let Some(slc) = derived.slc_bytes_per_second {
        line("dies, one bit per cell", rate(slc));
    }
    match derived.predicted {
        Some(prediction) => {
            let (value, form, source) =
                (prediction.amplification, prediction.form, prediction.source);
            line("write amplification", format!("{value:.2} by theory: {form} ({source})"));
        }
        None => line("write amplification", "these victims have no closed form".to_owned()),
    }
    if let (Some(dies), Some(firmware)) = (derived.die_bound_iops, derived.firmware_bound_iops) {
        let bound =
            format!("{dies:.0} 4 KiB writes per second by its dies, {firmware:.0} by its firmware");
        line("random steady state", bound);
    }
    text
}
