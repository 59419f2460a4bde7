//! One model with all its numbers, each with its source, and what follows from them.

use block::Size;
use drives::{Derived, Fact, FlashModel, Kind, Model};
use serde_json::{Value, json};
use std::fmt::Write;

/// The word for a model's kind.
pub(super) fn kind(model: &Model) -> &'static str {
    match model.kind {
        Kind::Flash(_) => "flash",
        Kind::Disk(_) => "disk",
    }
}

/// What a list holds of a model.
pub(super) fn summary(model: &Model) -> Value {
    let published: serde_json::Map<String, Value> =
        model.published.iter().map(|told| (told.key.to_owned(), json!(told.value))).collect();
    let mut object = json!({
        "name": model.name,
        "title": model.title,
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
        object["slc_bytes"] = json!(flash.slc_static_bytes);
    }
    object
}

/// All of a model.
pub(super) fn as_json(model: &Model) -> Value {
    let mut object = summary(model);
    object["schema"] = json!("overdrive.drive.model/1");
    let facts = model.facts.iter();
    object["facts"] = facts
        .map(|fact| {
            let assumed = is_assumed(&fact.source);
            json!({ "key": fact.key, "value": fact.value, "source": fact.source, "assumed": assumed })
        })
        .collect();
    let published = model.published.iter();
    object["published"] = published
        .map(|told| json!({ "key": told.key, "value": told.value, "source": told.source }))
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
        "write_amplification": derived.predicted.map(|told| told.amplification),
        "write_amplification_form": derived.predicted.map(|told| told.form),
        "write_amplification_source": derived.predicted.map(|told| told.source),
        "die_bound_iops": derived.die_bound_iops,
        "firmware_bound_iops": derived.firmware_bound_iops,
    })
}

/// Whether a source says that there is none.
fn is_assumed(source: &str) -> bool {
    source.contains("assumed")
}

/// For people. A file that was checked begins with the verdict.
pub(super) fn as_text(model: &Model, checked: bool) -> String {
    let mut text = String::new();
    let assumed = model.facts.iter().filter(|fact| is_assumed(&fact.source)).count();
    if checked {
        _ = writeln!(text, "{}: sound; {} numbers", model.name, model.facts.len());
    }
    _ = writeln!(text, "{} ({})", model.title, model.name);
    let plain = |source: &str| source.chars().filter(|one| !one.is_control()).collect::<String>();
    let section_of = |fact: &Fact| fact.key.split('.').next().unwrap_or_default().to_owned();
    let facts = model.facts.iter().filter(|fact| section_of(fact) != "published");
    let mut facts: Vec<&Fact> = facts.collect();
    facts.sort_by_cached_key(|fact| section_of(fact));
    let mut section = "";
    for fact in facts {
        let (own, name) = fact.key.split_once('.').unwrap_or(("", &fact.key));
        if own != section {
            _ = writeln!(text, "\n[{own}]");
            section = own;
        }
        _ = writeln!(text, "{name:<22} {:<16} {}", plain(&fact.value), plain(&fact.source));
    }
    if !model.published.is_empty() {
        _ = writeln!(
            text,
            "\nPublished of the real drive, to compare with; what is derived from it says so above"
        );
        for told in &model.published {
            _ = writeln!(text, "{:<22} {:<16} {}", told.key, told.value, plain(&told.source));
        }
    }
    if let Kind::Flash(flash) = &model.kind {
        _ = writeln!(text, "\nWhat follows");
        text.push_str(&derived_text(flash));
    }
    _ = writeln!(text, "\n{} of {} values are assumed.", assumed, model.facts.len());
    text
}

fn derived_text(flash: &FlashModel) -> String {
    let derived = flash.derived();
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<22} {value}");
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let rate = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
    line("raw flash", format!("{} on {} dies", Size(derived.raw_bytes), flash.dies));
    line("over-provisioning", percent(derived.over_provisioning));
    line("spare", format!("{}, without SLC area and hidden loss", percent(derived.spare)));
    let kept = percent(derived.spare_in_use);
    line("spare in use", format!("{kept}, without what cleaning keeps free"));
    let size = Size(derived.superblock_bytes);
    line("superblocks", format!("{} of {size}", derived.superblocks));
    line("flat map", Size(derived.flat_map_bytes).to_string());
    line("dies, all bits", rate(derived.native_bytes_per_second));
    if let Some(slc) = derived.slc_bytes_per_second {
        line("dies, one bit a cell", rate(slc));
    }
    match derived.predicted {
        Some(told) => {
            let (value, form, source) = (told.amplification, told.form, told.source);
            line("write amplification", format!("{value:.2} by theory: {form} ({source})"));
        }
        None => line("write amplification", "these victims have no closed form".to_owned()),
    }
    if let (Some(dies), Some(firmware)) = (derived.die_bound_iops, derived.firmware_bound_iops) {
        let bound =
            format!("{dies:.0} 4 KiB writes a second by its dies, {firmware:.0} by its firmware");
        line("random steady state", bound);
    }
    text
}
