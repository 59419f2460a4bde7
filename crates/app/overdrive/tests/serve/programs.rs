//! Programs of a test's own, which replace each other as by a package manager.
//!
//! Another process writes their files. A file that is open for writing cannot be executed, and a
//! child that another test starts at that moment has this process's files open until it executes.

use crate::common::{OVERDRIVE, run};
use crate::mounted::plain;
use std::fs;
use std::path::Path;

/// Copies the program under test to this path, or over the program there.
pub(crate) fn install_overdrive(path: &Path) {
    install(Path::new(OVERDRIVE), path);
}

/// Makes a script of this path, or replaces the program there by it.
pub(crate) fn install_script(path: &Path, text: &str) {
    let written = path.with_extension("text");
    fs::write(&written, text).expect("room");
    install(&written, path);
}

fn install(from: &Path, path: &Path) {
    let fresh = path.with_extension("new");
    run("install", &["-m", "755", plain(from), plain(&fresh)]).well();
    fs::rename(&fresh, path).expect("ours");
}
