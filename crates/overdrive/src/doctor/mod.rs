//! `overdrive doctor`: what this machine supports, and what is missing for the rest.

mod devices;
mod kernel;
mod memory;
mod place;

use crate::tools::{self, Need, TOOLS};
use serde_json::{Value, json};
use stack::Exit;
use std::fmt::Write;
use std::process::ExitCode;

/// What this machine supports, and what is missing for the rest.
///
/// Looks only: nothing is changed but for a temporary file in the current directory, which tells
/// what direct I/O and locks can do there. Exit status: 0 if 'overdrive serve' can work here, else 1.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ok,
    /// It works, but less well, or not for everything.
    Limited,
    Missing,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// What needs the thing that was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    /// Without it (missing, not just limited) `serve` does not work.
    Serve,
    Attach,
    Demo,
    Tests,
    /// Nothing in this version.
    Also,
}

impl Group {
    const ALL: [Group; 5] = [Group::Serve, Group::Attach, Group::Demo, Group::Tests, Group::Also];

    fn name(self) -> &'static str {
        match self {
            Group::Serve => "serve",
            Group::Attach => "attach",
            Group::Demo => "demo",
            Group::Tests => "tests",
            Group::Also => "also",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Group::Serve => "overdrive serve",
            Group::Attach => "overdrive attach",
            Group::Demo => "overdrive demo",
            Group::Tests => "the project's tests",
            Group::Also => "the machine also has",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Debug)]
struct Check {
    group: Group,
    name: &'static str,
    state: State,
    /// What was found, and what it means.
    found: String,
    /// What to do about it.
    mend: Option<String>,
}

impl Check {
    fn new(group: Group, name: &'static str, state: State, found: impl Into<String>) -> Check {
        Check { group, name, state, found: found.into(), mend: None }
    }

    fn mend(mut self, mend: impl Into<String>) -> Check {
        self.mend = Some(mend.into());
        self
    }
}

/// The command.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let checks = look();
    let works = can_serve(&checks);
    if arguments.json {
        daemon::say!("{}", as_json(&checks, works));
    } else {
        daemon::console::output(format_args!("{}", as_text(&checks, works)));
    }
    if works { ExitCode::SUCCESS } else { ExitCode::from(Exit::Negative as u8) }
}

fn look() -> Vec<Check> {
    let mut checks = kernel::checks();
    checks.extend(memory::checks());
    checks.extend(place::checks());
    checks.extend(devices::checks());
    checks.extend(TOOLS.iter().map(|tool| tool_check(tool, tools::find(tool.name).is_some())));
    checks
}

fn tool_check(tool: &tools::Tool, found: bool) -> Check {
    let group = match tool.need {
        Need::Demo | Need::DemoColumn => Group::Demo,
        Need::Tests => Group::Tests,
        Need::Convenience => Group::Also,
    };
    let state = match tool.need {
        _ if found => State::Ok,
        Need::DemoColumn | Need::Convenience => State::Limited,
        Need::Demo | Need::Tests => State::Missing,
    };
    let check = Check::new(group, tool.name, state, tool.purpose);
    if found { check } else { check.mend(tools::install(&[tool.package])) }
}

fn can_serve(checks: &[Check]) -> bool {
    let mut needed = checks.iter().filter(|check| check.group == Group::Serve);
    needed.all(|check| check.state != State::Missing)
}

fn as_text(checks: &[Check], works: bool) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    for group in Group::ALL {
        let _ = writeln!(out, "{}", group.heading());
        for check in checks.iter().filter(|check| check.group == group) {
            let (state, name) = (check.state.name(), check.name);
            let _ = writeln!(out, "  {state:<8} {name:<20} {}", check.found);
            if let Some(mend) = &check.mend {
                let _ = writeln!(out, "  {:<8} {:<20} -> {mend}", "", "");
            }
        }
        out.push('\n');
    }
    out.push_str(if works {
        "overdrive serve can work here.\n"
    } else {
        "overdrive serve cannot work here: mend what is missing in its list.\n"
    });
    out
}

fn as_json(checks: &[Check], works: bool) -> Value {
    let one = |check: &Check| {
        json!({
            "group": check.group.name(),
            "name": check.name,
            "state": check.state.name(),
            "found": check.found,
            "mend": check.mend,
        })
    };
    json!({
        "schema": "overdrive.doctor/1",
        "serve": works,
        "checks": checks.iter().map(one).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_serve_cannot_do_without_is_a_no() {
        let check = |group, state| Check::new(group, "x", state, "");
        assert!(can_serve(&[check(Group::Serve, State::Limited)]));
        assert!(can_serve(&[check(Group::Demo, State::Missing)]));
        assert!(!can_serve(&[check(Group::Serve, State::Ok), check(Group::Serve, State::Missing)]));
    }

    #[test]
    fn what_is_missing_comes_with_its_mend() {
        let fio = TOOLS.iter().find(|tool| tool.name == "fio").expect("listed");
        let check = tool_check(fio, false);
        assert_eq!((check.group, check.state), (Group::Demo, State::Missing));
        let text = as_text(&[check], true);
        assert!(text.contains("missing  fio"), "{text}");
        assert!(text.contains("apt-get install --no-install-recommends -y fio"), "{text}");
        assert_eq!(tool_check(fio, true).mend, None);
    }
}
