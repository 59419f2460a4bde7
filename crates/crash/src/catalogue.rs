//! What can be tried, by name: the honest engine, and every planted bug.

use crate::cached::Engine;
use crate::liars::{Liar, Lie};
use crate::subject::{Bare, Subject};

/// A planted bug.
pub struct Bug {
    /// Its name on the command line.
    pub name: String,
    /// The bug itself.
    pub subject: Box<dyn Subject>,
}

/// The engine that ships.
pub fn honest() -> Box<dyn Subject> {
    Box::new(Engine { bug: None, layer: None })
}

/// Every planted bug: those inside the engine and in the layers on top of it, and the layers that lie.
pub fn bugs() -> Vec<Bug> {
    let subject = |name: String, engine: Engine| Bug { name, subject: Box::new(engine) };
    let inside = cache::planted::Bug::ALL
        .iter()
        .map(|bug| subject(format!("{bug:?}"), Engine { bug: Some(*bug), layer: None }));
    let above = layers::planted::Bug::ALL
        .iter()
        .map(|bug| subject(format!("{bug:?}"), Engine { bug: None, layer: Some(*bug) }));
    let lies = Lie::ALL
        .iter()
        .map(|(lie, _)| Bug { name: format!("Liar{lie:?}"), subject: Box::new(Liar(*lie)) });
    inside.chain(above).chain(lies).collect()
}

/// The subject of this name; "Bare" is the simulated disk alone.
pub fn by_name(name: &str) -> Option<Box<dyn Subject>> {
    if name == "Bare" {
        return Some(Box::new(Bare));
    }
    bugs().into_iter().find(|bug| bug.name == name).map(|bug| bug.subject)
}
