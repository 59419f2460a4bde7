//! All dependencies come from the registry, under licences that deny.toml allows.

use crate::metadata::{list, metadata, root, text};
use spdx::{Expression, ParseMode};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn allowed_licences() -> Vec<String> {
    let path = root().join("deny.toml");
    let rules = std::fs::read_to_string(&path).expect("deny.toml stands at the root");
    let rules: toml::Table = rules.parse().expect("deny.toml is TOML");
    let allow = rules["licenses"]["allow"].as_array().expect("a list");
    let names = allow.iter().map(|name| name.as_str().expect("a licence"));
    names.map(str::to_owned).collect()
}

/// Whether `licence` is satisfied by one of the allowed licences, or by several if it requires all
/// of them.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return false;
    };
    expression.evaluate(|requirement| {
        let wanted = requirement.to_string();
        allowed.contains(&wanted)
    })
}

#[test]
fn every_dependency_has_an_allowed_licence_and_comes_from_the_registry() {
    let allowed = allowed_licences();
    let all = metadata(&[]);
    let packages = list(&all, "packages");
    assert!(packages.len() > 20, "cargo named {} packages", packages.len());
    let mut wrong = Vec::new();
    for package in packages {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        if !is_allowed(licence, &allowed) {
            wrong.push(format!("{name}: licence '{licence}'"));
        }
        // The crates of the workspace have no source.
        let source = package["source"].as_str();
        if source.is_some_and(|source| source != REGISTRY) {
            wrong.push(format!("{name}: from {}", source.unwrap_or_default()));
        }
        if source.is_none()
            && !text(package, "manifest_path").starts_with(&*root().to_string_lossy())
        {
            wrong.push(format!("{name}: from a path outside the workspace"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn licences_are_judged_as_expressions() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for good in [
        "MIT",
        "MIT/Apache-2.0",
        "MIT OR GPL-3.0-only",
        "GPL-2.0-only OR (MIT AND Apache-2.0)",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "my own"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}
