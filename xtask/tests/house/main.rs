//! The house rules: they apply to the whole tree, so no single crate can check them.
//! CONTRIBUTING.md gives the reason for each.

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
mod words;
