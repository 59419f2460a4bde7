//! The house rules: what holds for the whole tree and no single crate can see. CONTRIBUTING.md says
//! why each is there.

mod arrows;
mod circles;
mod clock;
mod commits;
mod documents;
mod hygiene;
mod licences;
mod lifecycle;
mod metadata;
mod modules;
mod persons;
mod semantics;
mod source;
mod unsafety;
