//! The subjects by name: the honest engine, and every planted bug.

use crate::cached::Engine;
use crate::liars::{Liar, Lie};
use crate::subject::{Bare, Subject};
use cache::planted::Bug as EngineBug;

/// A planted bug.
pub struct Bug {
    /// Its name on the command line.
    pub name: String,
    /// The bug itself.
    pub subject: Box<dyn Subject>,
}

/// Bugs that few histories show, each with the number of the first one from the laboratory's own
/// base that did when it was looked for last. A change of the engine may move it: then a hunt from
/// there takes longer, and still has to find it.
const RARE: [(&str, u64); 31] = [
    ("ForgetDurable", 24941),
    ("DirectBesideFetch", 23412),
    ("RangesLast", 8236),
    ("KeepMovedObject", 4585),
    ("AnswerReadaheadError", 3904),
    ("StatusBelowFirst", 2986),
    ("ForgetLostCopy", 2645),
    ("DirectUnkept", 2641),
    ("KeepOvertakenReadahead", 2315),
    ("EarlyUnderRange", 1917),
    ("AdmitLeftBehind", 1655),
    ("CountAcrossReturn", 1298),
    ("DirectUnheld", 880),
    ("WarmOverNewer", 813),
    ("KeepOverRest", 720),
    ("KeepRemovedObject", 670),
    ("ReadMovedObject", 660),
    ("AbsorbWithoutLink", 498),
    ("ForgiveFirstFlush", 473),
    ("StoreCancelled", 383),
    ("DirectBesideChange", 381),
    ("OverlapFlushes", 300),
    ("KeepOvertaken", 258),
    ("ForgetOrder", 241),
    ("WidenLastBlock", 239),
    ("KeepCompressed", 223),
    ("SwitchWithoutDrain", 206),
    ("DirectOverCopy", 175),
    ("MergeAtOnce", 170),
    ("ServeInDoubt", 156),
    ("SpreadAnew", 155),
];

impl Bug {
    /// Returns the number of a history that is known to show it; 0 if it is found soon anyway.
    pub fn known_history(&self) -> u64 {
        RARE.iter().find(|(name, _)| *name == self.name).map_or(0, |(_, number)| *number)
    }
}

/// The product's engine over a disk of this machine.
const HONEST: Engine = Engine { bug: None, layer: None, fence: None, over_link: false };

/// Returns the product's engine.
pub fn honest() -> Box<dyn Subject> {
    Box::new(HONEST)
}

/// Returns the product's engine over the export of a server.
pub fn honest_over_link() -> Box<dyn Subject> {
    Box::new(Engine { over_link: true, ..HONEST })
}

/// Bugs for which no hunt looks, because hardly any history of the engine shows them:
/// `tests/export` finds them.
const NOT_HUNTED: [&str; 2] = ["KeepUnanswered", "KeepAfterLoss"];

/// Returns every planted bug for which a hunt looks.
pub fn bugs() -> Vec<Bug> {
    all().into_iter().filter(|bug| !NOT_HUNTED.contains(&bug.name.as_str())).collect()
}

/// Returns every planted bug: those inside the engine, in the layers on top of it and in the fence
/// of its link, and the lying layers.
fn all() -> Vec<Bug> {
    let subject = |name: String, engine: Engine| Bug { name, subject: Box::new(engine) };
    let inside = EngineBug::ALL.iter().map(|&bug| {
        let over_link = matches!(
            bug,
            EngineBug::StallLostLink | EngineBug::CountAcrossReturn | EngineBug::AbsorbWithoutLink
        );
        subject(format!("{bug:?}"), Engine { bug: Some(bug), over_link, ..HONEST })
    });
    let above = layers::planted::Bug::ALL
        .iter()
        .map(|&bug| subject(format!("{bug:?}"), Engine { layer: Some(bug), ..HONEST }));
    let fence = nbd::fence::planted::Bug::ALL.iter().map(|&bug| {
        subject(format!("{bug:?}"), Engine { fence: Some(bug), over_link: true, ..HONEST })
    });
    let lies = Lie::ALL
        .iter()
        .map(|(lie, _)| Bug { name: format!("Liar{lie:?}"), subject: Box::new(Liar(*lie)) });
    inside.chain(above).chain(fence).chain(lies).collect()
}

/// Returns the subject of this name; "Bare" is the simulated disk alone.
pub fn by_name(name: &str) -> Option<Box<dyn Subject>> {
    if name == "Bare" {
        return Some(Box::new(Bare));
    }
    all().into_iter().find(|bug| bug.name == name).map(|bug| bug.subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_bugs_are_bugs() {
        for (name, _) in RARE {
            assert!(by_name(name).is_some(), "{name}");
        }
    }
}
