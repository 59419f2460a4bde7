//! The command with which a user starts this daemon again.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Option with which a background process serves the volume that its parent was asked for.
pub(crate) const FOREGROUND: &str = "--foreground";

/// Returns the command that starts this daemon again: that of its service, or its command line.
pub(crate) fn command() -> String {
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match service_in(&group).filter(|_| std::env::var_os("NOTIFY_SOCKET").is_some()) {
        Some(service) => format!("systemctl start {service}"),
        None => line_of(std::env::args_os().skip(1)),
    }
}

/// Returns the service in a list of control groups.
fn service_in(group: &str) -> Option<&str> {
    let mut last = group.lines().filter_map(|line| line.rsplit('/').next());
    last.rfind(|name| name.ends_with(".service"))
}

fn line_of(arguments: impl Iterator<Item = OsString>) -> String {
    let arguments = arguments.filter(|argument| argument != FOREGROUND);
    let words = arguments.map(|argument| quoted(&absolute(&argument)));
    ["overdrive".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns the name of a file as it is found from any directory; other words are returned
/// unchanged.
fn absolute(word: &OsStr) -> String {
    let path = Path::new(word);
    let found = match path.exists() {
        true => std::path::absolute(path).ok(),
        false => None,
    };
    found.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

/// Returns a word quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_repeated_without_what_only_a_background_process_has() {
        let words = ["attach", "/a b/it's.img", "--memory", "4M", FOREGROUND];
        let line = line_of(words.into_iter().map(OsString::from));
        assert_eq!(line, r"overdrive attach '/a b/it'\''s.img' --memory 4M");
        let here = std::env::current_dir().expect("a test has one");
        assert_eq!(absolute(OsStr::new("src")), here.join("src").to_string_lossy());
    }

    #[test]
    fn a_service_is_known_by_its_control_group() {
        let group = "0::/system.slice/system-overdrive.slice/overdrive-device@db.service\n";
        assert_eq!(service_in(group), Some("overdrive-device@db.service"));
        assert_eq!(service_in("0::/user.slice/session-1.scope\n"), None);
    }
}
