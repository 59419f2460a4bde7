//! The five reviews of the manual: what the modelled drives, and the cache that imitates RAPID,
//! reproduce of the published figures, and what they do not.
//!
//! `reviews --to FOLDER [--rapid REVIEW.json] [PAGE...]` writes a page and a picture for each
//! review, or for the named ones: 840-evo-rapid, xp941, revodrive, x25-m, msata. The page of RAPID
//! is made from the JSON of `overdrive review model:samsung-840-evo-250 --with rapid`, which
//! `cargo xtask reviews` runs first.

#[path = "reviews/document.rs"]
mod document;
#[path = "reviews/drives.rs"]
mod drives;
#[path = "reviews/rapid.rs"]
mod rapid;
#[path = "reviews/stripe.rs"]
mod stripe;

use document::Document;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: host::HugeAllocator = host::HugeAllocator;

/// Measures the figures of a page.
type Page = fn() -> Document;

/// The arguments.
#[derive(Default)]
struct Arguments {
    to: PathBuf,
    rapid: Option<PathBuf>,
    pages: Vec<String>,
}

fn arguments() -> Result<Arguments, String> {
    let (mut found, mut words) = (Arguments::default(), std::env::args().skip(1));
    while let Some(word) = words.next() {
        let mut value = |name: &str| words.next().ok_or(format!("{name}: its value is missing"));
        match word.as_str() {
            "--to" => found.to = value("--to")?.into(),
            "--rapid" => found.rapid = Some(value("--rapid")?.into()),
            page => found.pages.push(page.to_owned()),
        }
    }
    match found.to.as_os_str().is_empty() {
        true => Err("--to FOLDER is missing".to_owned()),
        false => Ok(found),
    }
}

fn write(folder: &Path, document: &Document) -> Result<(), String> {
    for (extension, text) in [("md", document.text()), ("svg", document.picture.clone())] {
        let path = folder.join(format!("{}.{extension}", document.name));
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn run() -> Result<(), String> {
    let arguments = arguments()?;
    let is_chosen =
        |name: &str| arguments.pages.is_empty() || arguments.pages.iter().any(|page| page == name);
    let pages: [(&str, Page); 4] = [
        ("xp941", drives::xp941),
        ("revodrive", drives::revodrive),
        ("x25-m", drives::x25_m),
        ("msata", drives::msata),
    ];
    if let Some(path) = arguments.rapid.as_ref().filter(|_| is_chosen(rapid::NAME)) {
        let wrong = |what: String| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        write(&arguments.to, &rapid::document(&text).map_err(wrong)?)?;
    }
    for (_, page) in pages.iter().filter(|(name, _)| is_chosen(name)) {
        write(&arguments.to, &page())?;
    }
    Ok(())
}

fn main() -> ExitCode {
    host::want_huge_allocations();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("reviews: {what}");
            ExitCode::FAILURE
        }
    }
}
