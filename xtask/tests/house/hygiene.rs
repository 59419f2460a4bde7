//! Small rules for the whole tree.

use crate::metadata::crates;
use crate::source::{all, of_crates};

/// Crates in which the compiler proves "no clock, threads, system calls".
const WITHOUT_STD: [&str; 11] = [
    "files",
    "histogram",
    "hotlist",
    "policy",
    "packing",
    "cache",
    "layers",
    "pool",
    "drives",
    "drive-backend",
    "trace",
];

/// Marks of unfinished work, put together so that this file has none.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

fn has_mark(line: &str) -> bool {
    let mut words = line.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| MARKS.contains(&word))
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let mut marked = Vec::new();
    for source in all() {
        let lines = source.text.lines().enumerate();
        let lines = lines.filter(|(_, line)| has_mark(line));
        marked.extend(lines.map(|(number, _)| format!("{}:{}", source.path, number + 1)));
    }
    assert_eq!(marked, [""; 0]);
    let mark = format!("// {}: later", MARKS[0]);
    assert!(has_mark(&mark) && !has_mark("a todo list"));
}

#[test]
fn every_crate_begins_with_what_it_is() {
    for (name, directory) in crates() {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| directory.join(root));
        let texts = roots.iter().filter_map(|root| std::fs::read_to_string(root).ok());
        let texts: Vec<String> = texts.collect();
        assert!(!texts.is_empty(), "{name} has neither a library nor a program");
        for text in texts {
            let first = text.lines().next().unwrap_or_default();
            let said = first.strip_prefix("//! ").unwrap_or_default();
            assert!(said.len() > 20, "{name} must begin with a `//!` that says what it is");
        }
    }
}

#[test]
fn the_engine_is_built_without_std() {
    for (name, directory) in crates() {
        if WITHOUT_STD.contains(&name.as_str()) {
            let text = std::fs::read_to_string(directory.join("src/lib.rs")).expect("a library");
            let without = text.lines().any(|line| line == "#![no_std]");
            assert!(without, "{name} must say #![no_std], without a condition");
        }
    }
}

/// `println!` and similar macros panic when the output is closed, and then the daemon dies.
#[test]
fn the_product_does_not_die_when_nobody_reads_what_it_says() {
    let macros = ["print", "println", "eprint", "eprintln"].map(|name| format!("{name}!("));
    let mut found = Vec::new();
    for source in of_crates(&[
        "stack",
        "daemon",
        "overdrive",
        "holder",
        "export",
        "fuse",
        "nbd",
        "ublk",
        "host",
        "ring",
        "lane",
    ]) {
        // The rest of a file is its tests.
        let product = source.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in product.lines().enumerate() {
            let said = |name: &String| line.trim_start().starts_with(name.as_str());
            if macros.iter().any(said) {
                found.push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    assert_eq!(found, [""; 0], "say it with daemon::say! or daemon::tell!");
}
