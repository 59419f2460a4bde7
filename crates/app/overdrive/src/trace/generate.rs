//! `overdrive trace generate`.

use super::generate_options::Options;
use super::{generate_like, generate_named};
use stack::{Exit, Failure};
use std::path::Path;
use std::process::ExitCode;
use suites::generated::Profile;

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    // With --like, the only other word is the output.
    let (name, output) = match (&options.like, &options.name, &options.output) {
        (None, name, output) => (name.as_deref(), output.as_deref()),
        (Some(_), word, None) => (None, word.as_deref().map(Path::new)),
        (Some(_), Some(name), Some(_)) => {
            let message = format!("{name}: with --like there is no name; omit one of the two");
            return Err(Failure::new(Exit::Usage, message));
        }
        (Some(_), None, Some(_)) => (None, options.output.as_deref()),
    };
    if output.is_some_and(|path| path.as_os_str() == "-") && options.json {
        let message = "--json: the standard output has the trace; name a file for one of them";
        return Err(Failure::new(Exit::Usage, message));
    }
    match &options.like {
        Some(trace) => generate_like::run(options, trace, output),
        None => {
            let profile = profile(name.unwrap_or_default())?;
            generate_named::run(options, profile, output)
        }
    }
}

/// Returns the profile of this name, or of this file.
fn profile(name: &str) -> Result<Profile, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    if let Some(profile) = Profile::find(name) {
        return Ok(profile);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let names = Profile::names();
        let near = stack::near(name, names.into_iter());
        let near = near.map_or(String::new(), |near| format!("did you mean '{near}'? "));
        let all = names.join(", ");
        return Err(usage(format!(
            "{name}: there is no such trace; {near}Write one of {all}, or FILE.toml"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| usage(format!("{name}: {error}")))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Profile::parse(&stem, &text).map_err(|what| usage(format!("{name}: {what}")))
}
