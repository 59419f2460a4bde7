//! The files of a package that are made: the program without symbols, manual pages, completions,
//! copyright.

use super::{run_tool, third_party};
use crate::cargo;
use anyhow::Context;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Gathers the files in the directory `release/package` of this build.
///
/// # Errors
/// A file cannot be made.
pub(super) fn gather(target: &Path, epoch: &str) -> anyhow::Result<()> {
    let place = target.join("release/package");
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| place.display().to_string())?;
    }
    fs::create_dir_all(&place)?;
    let built = target.join("release/overdrive");
    let program = place.join("overdrive");
    let mut strip = Command::new("strip");
    // The linker's identity of a build depends on the directory of the build.
    strip.args(["--strip-all", "--remove-section=.note.gnu.build-id", "-o"]);
    run_tool(strip.arg(&program).arg(&built))?;
    run_tool(Command::new(&built).arg("manual").arg(&place).args(["--date", &date(epoch)?]))?;
    for page in place.join("man1").read_dir()?.flatten() {
        // Without the name and the time, which differ between two builds.
        run_tool(Command::new("gzip").args(["--best", "--no-name"]).arg(page.path()))?;
    }
    let third_party = third_party::Notices::gather()?;
    fs::write(place.join("THIRD-PARTY"), &third_party.text)?;
    fs::write(place.join("copyright"), copyright(&third_party)?)?;
    Ok(())
}

/// Returns the day of a time, such as 2026-11-26.
fn date(epoch: &str) -> anyhow::Result<String> {
    let mut date = Command::new("date");
    let output = date.args(["--utc", "--date", &format!("@{epoch}"), "+%Y-%m-%d"]).output();
    let output = output.context("cannot start date")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Returns Debian's file about the licence of the program and of the crates in it.
fn copyright(third_party: &third_party::Notices) -> anyhow::Result<String> {
    let mit = fs::read_to_string(cargo::root().join("LICENSE-MIT")).context("LICENSE-MIT")?;
    let mit: String = mit.trim().lines().map(field_line).collect();
    let crates: String =
        third_party.crates.iter().map(|one| field_line(&format!(" {one}"))).collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: Overdrive\n\
         Comment:\n \
         The program contains these crates. Their notices are in\n \
         /usr/share/doc/overdrive/THIRD-PARTY.\n\
         {crates}\n\
         Files: *\n\
         Copyright: 2026, the authors of Overdrive\n\
         License: Expat or Apache-2.0\n\n\
         License: Expat\n{mit}\n\
         License: Apache-2.0\n \
         On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

/// Returns a line of a field with several lines, in which an empty one is a full stop.
fn field_line(line: &str) -> String {
    if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_field_are_indented_and_not_empty() {
        assert_eq!(field_line("a"), " a\n");
        assert_eq!(field_line(" "), " .\n");
    }

    #[test]
    fn a_day_follows_from_its_time() -> anyhow::Result<()> {
        assert_eq!(date("0")?, "1970-01-01");
        Ok(())
    }
}
