//! Circular uses between the rooms of a crate, its files and folders.
//!
//! Rooms in a circle can only be understood together. To its neighbours a folder is one room with
//! all its files: two folders may not use each other, by whichever files. A folder's `mod.rs` and
//! the files below it may. No crate has a circle.

use crate::metadata::crates;
use crate::source::{Source, of_crates};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the path of a file's module: `a::b` for `src/a/b.rs`, `a` for `src/a.rs` and
/// `src/a/mod.rs`. None for the crate's root and for tests.
fn module_of(path: &str) -> Option<String> {
    let (_, inside) = path.split_once("/src/")?;
    let module = inside.strip_suffix(".rs")?.replace('/', "::");
    let module = module.strip_suffix("::mod").unwrap_or(&module).to_owned();
    let is_test = module.split("::").any(|name| name == "tests");
    (!is_test && !["lib", "main"].contains(&module.as_str())).then_some(module)
}

/// Returns the module that a path in module `own` begins with, if it is one of these.
fn used<'a>(modules: &'a BTreeSet<String>, own: &str, segments: &[String]) -> Option<&'a String> {
    let root = match segments.first()?.as_str() {
        "crate" => Vec::new(),
        "super" => {
            own.rsplit_once("::").map_or(Vec::new(), |(above, _)| above.split("::").collect())
        }
        _ => return None,
    };
    let whole: Vec<&str> =
        root.into_iter().chain(segments[1..].iter().map(String::as_str)).collect();
    (1..=whole.len()).rev().find_map(|length| modules.get(&whole[..length].join("::")))
}

/// Returns the rooms of these two modules that lie in the same folder: the modules themselves, or
/// folders above them. None where one is below the other: they are one room.
fn rooms<'a>(one: &'a str, two: &'a str) -> Option<(&'a str, &'a str)> {
    let same = one.split("::").zip(two.split("::")).take_while(|(one, two)| one == two);
    let above: usize = same.map(|(name, _)| name.len() + "::".len()).sum();
    let room = |module: &'a str| {
        let name = module.get(above..)?.split("::").next()?;
        Some(&module[..above + name.len()])
    };
    room(one).zip(room(two))
}

/// Returns the rooms that each room uses, of those in the same folder.
fn uses(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let modules: BTreeSet<String> = sources.iter().filter_map(|it| module_of(&it.path)).collect();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let Some(own) = module_of(&source.path) else { continue };
        let names = source.shipped_names();
        let found = names.iter().filter_map(|name| used(&modules, &own, &name.segments));
        for (user, used) in found.filter_map(|module| rooms(&own, module)) {
            uses.entry(user.to_owned()).or_default().insert(used.to_owned());
        }
    }
    uses
}

/// Returns the modules from which a path leads back to themselves.
fn in_circles(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<&str> {
    let returns = |start: &str| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&str> = uses[start].iter().map(String::as_str).collect();
        while let Some(module) = next.pop() {
            if module == start {
                return true;
            }
            if seen.insert(module) {
                next.extend(uses.get(module).into_iter().flatten().map(String::as_str));
            }
        }
        false
    };
    uses.keys().map(String::as_str).filter(|module| returns(module)).collect()
}

#[test]
fn no_module_joins_a_circle() {
    let mut found = Vec::new();
    for (name, _) in crates() {
        let uses = uses(&of_crates(&[&name]));
        let circle = in_circles(&uses).join(" ");
        if !circle.is_empty() {
            found.push(format!("{name}: {circle}"));
        }
    }
    found.sort();
    assert_eq!(found, [""; 0], "modules that use one another in a circle");
}

#[test]
fn no_other_file_speaks_for_the_shared_half() {
    let mut found = Vec::new();
    for source in of_crates(&["cache"]) {
        if source.text.lines().any(|line| line.starts_with("impl Shared {")) {
            let (_, inside) = source.path.split_once("/src/").expect("a source of the crate");
            found.push(inside.to_owned());
        }
    }
    assert_eq!(found, ["shared.rs"], "an `impl Shared` elsewhere");
}

#[test]
fn a_circle_is_seen_and_a_line_is_none() {
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let line = [
        file("crates/x/src/a.rs", "use crate::b::B;"),
        file("crates/x/src/b/mod.rs", "use crate::c::C; use crate::b::inner::D;"),
        file("crates/x/src/b/inner.rs", "use super::E;"),
        file("crates/x/src/c.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
    ];
    assert_eq!(in_circles(&uses(&line)), [""; 0]);
    let [one, two, three, _] = line;
    let circle = [one, two, three, file("crates/x/src/c.rs", "fn f() { crate::a::g() }")];
    assert_eq!(in_circles(&uses(&circle)), ["a", "b", "c"]);
}

#[test]
fn folders_that_use_one_another_are_a_circle_though_their_files_are_none() {
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let mut files = vec![
        file("crates/x/src/a/mod.rs", "mod one; mod two;"),
        file("crates/x/src/a/one.rs", "use crate::b::three::T;"),
        file("crates/x/src/a/two.rs", "pub struct T;"),
        file("crates/x/src/b/three.rs", "pub struct T;"),
        file("crates/x/src/b/four.rs", "use crate::b::three::T;"),
        file("crates/x/src/b/tests.rs", "use crate::a::one::T;"),
    ];
    assert_eq!(in_circles(&uses(&files)), [""; 0]);
    files.push(file("crates/x/src/b/five.rs", "use crate::a::two::T;"));
    assert_eq!(in_circles(&uses(&files)), ["a", "b"]);
    files.push(file("crates/x/src/b/three/mod.rs", "use crate::b::four::T;"));
    assert_eq!(in_circles(&uses(&files)), ["a", "b", "b::four", "b::three"]);
}
