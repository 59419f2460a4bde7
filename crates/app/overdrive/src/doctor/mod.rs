//! `overdrive doctor`: features that this machine supports, those that are missing, and settings
//! that cost speed.

mod devices;
mod kernel;
mod machine;
mod memory;
mod place;

use crate::terminal;
use crate::tools::{self, Need, TOOLS};
use report::terminal::{Line, Look, Span};
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::process::ExitCode;

/// Show the features that this machine supports, those that are missing, and settings that cost
/// speed.
///
/// The verdict comes first. Each setting of disks, processors and memory that needs mending is
/// shown with its effect and the command that mends it. Nothing is changed, except for a temporary
/// file in the current directory to test direct I/O and locks. Exit status: 1 if 'overdrive serve'
/// cannot work here or if something needs mending, otherwise 0.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Also show the requirements of the project's tests, and other features of the machine.
    #[arg(long)]
    all: bool,
}

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ok,
    /// It works, but less well, or not for everything.
    Limited,
    /// A setting that costs speed, lifetime or safety, and that one command mends.
    Costly,
    Missing,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Costly => "mend",
            State::Missing => "missing",
        }
    }

    fn look(self) -> Look {
        match self {
            State::Ok => Look::Good,
            State::Limited => Look::Doubtful,
            State::Costly | State::Missing => Look::Bad,
        }
    }
}

/// The feature that requires the checked item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    /// Without it (missing, not just limited) `serve` does not work.
    Serve,
    /// Settings of the machine.
    Machine,
    Attach,
    Drive,
    Demo,
    Tests,
    /// Nothing in this version.
    Also,
}

impl Group {
    const ALL: [Group; 7] = [
        Group::Serve,
        Group::Machine,
        Group::Attach,
        Group::Drive,
        Group::Demo,
        Group::Tests,
        Group::Also,
    ];

    /// Whether it is shown by default.
    fn is_for_users(self) -> bool {
        !matches!(self, Group::Tests | Group::Also)
    }

    fn name(self) -> &'static str {
        match self {
            Group::Serve => "serve",
            Group::Machine => "machine",
            Group::Attach => "attach",
            Group::Drive => "drive",
            Group::Demo => "demo",
            Group::Tests => "tests",
            Group::Also => "also",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Group::Serve => "overdrive serve",
            Group::Machine => "disks, processors and memory",
            Group::Attach => "overdrive attach",
            Group::Drive => "overdrive drive",
            Group::Demo => "overdrive demo",
            Group::Tests => "the project's tests",
            Group::Also => "the machine also has",
        }
    }
}

/// One checked item.
#[derive(Clone, PartialEq, Debug)]
struct Check {
    group: Group,
    name: &'static str,
    state: State,
    /// The finding, and its consequence.
    found: String,
    /// The measured or cited effect, if it needs mending.
    effect: Option<String>,
    /// The remedy.
    mend: Option<String>,
}

impl Check {
    fn new(group: Group, name: &'static str, state: State, found: impl Into<String>) -> Check {
        Check { group, name, state, found: found.into(), effect: None, mend: None }
    }

    fn mend(mut self, mend: impl Into<String>) -> Check {
        self.mend = Some(mend.into());
        self
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let checks = look();
    let works = can_serve(&checks);
    if arguments.json {
        daemon::say!("{}", as_json(&checks, works));
    } else {
        terminal::print(as_lines(&checks, arguments.all, terminal::width()));
    }
    // A negative answer that was not written is none.
    daemon::console::check_output()?;
    match works && to_mend(&checks) == 0 {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::from(Exit::Negative as u8)),
    }
}

fn look() -> Vec<Check> {
    let mut checks = kernel::checks();
    checks.extend(memory::checks());
    checks.extend(machine::checks());
    checks.extend(place::checks());
    checks.extend(devices::checks());
    checks.extend(TOOLS.iter().map(|tool| tool_check(tool, tools::find(tool.name).is_some())));
    checks
}

fn tool_check(tool: &tools::Tool, found: bool) -> Check {
    let group = match tool.need {
        Need::Demo | Need::DemoColumn => Group::Demo,
        Need::Tests => Group::Tests,
        Need::Convenience => Group::Drive,
    };
    let state = match tool.need {
        _ if found => State::Ok,
        Need::DemoColumn | Need::Convenience => State::Limited,
        Need::Demo | Need::Tests => State::Missing,
    };
    if found {
        return Check::new(group, tool.name, state, tool.purpose);
    }
    let words = format!("missing ({})", tool.purpose);
    Check::new(group, tool.name, state, words).mend(tools::install(&[tool.package]))
}

fn can_serve(checks: &[Check]) -> bool {
    let mut needed = checks.iter().filter(|check| check.group == Group::Serve);
    needed.all(|check| check.state != State::Missing)
}

/// Returns the number of settings that need mending.
fn to_mend(checks: &[Check]) -> usize {
    checks.iter().filter(|check| check.state == State::Costly).count()
}

/// Returns the verdict on the machine's settings.
fn machine_verdict(checks: &[Check]) -> (State, String) {
    let mut names: Vec<&str> = Vec::new();
    for check in checks.iter().filter(|check| check.state == State::Costly) {
        if !names.contains(&check.name) {
            names.push(check.name);
        }
    }
    match to_mend(checks) {
        0 => (State::Ok, "Disks, processors and memory: nothing needs mending.".to_owned()),
        1 => (State::Costly, format!("One setting costs speed: {} (below).", names[0])),
        some => {
            let names = names.join(", ");
            (State::Costly, format!("{some} settings cost speed (below): {names}."))
        }
    }
}

/// Returns the verdict on a group: the consequence of its worst check.
fn verdict(group: Group, checks: &[Check]) -> (State, String) {
    if group == Group::Machine {
        return machine_verdict(checks);
    }
    let count = |state| checks.iter().filter(|it| (it.group, it.state) == (group, state)).count();
    let heading = group.heading();
    match (count(State::Missing), count(State::Limited)) {
        (0, 0) => (State::Ok, format!("{heading} can work here.")),
        (0, 1) => (State::Limited, format!("{heading} can work here, with one limit (below).")),
        (0, some) => {
            (State::Limited, format!("{heading} can work here, with {some} limits (below)."))
        }
        _ => (
            State::Missing,
            format!("{heading} cannot work here: fix the missing items in its list."),
        ),
    }
}

/// Blanks before the findings, and before a second line of one.
const INDENT: usize = 32;

/// Returns the report as lines of at most this width; with `all`, every group.
fn as_lines(checks: &[Check], all: bool, width: Option<usize>) -> Vec<Line> {
    let groups = || Group::ALL.into_iter().filter(|group| all || group.is_for_users());
    let mut lines = Vec::new();
    for group in groups().filter(|group| group.is_for_users()) {
        let (state, words) = verdict(group, checks);
        lines.push(Line::of(Span::new(state.look(), words)));
    }
    for group in groups() {
        lines.extend([Line::default(), Line::heading(group.heading())]);
        for check in checks.iter().filter(|check| check.group == group) {
            let state = Span::new(check.state.look(), format!("{:<8}", check.state.name()));
            let found = Line::from("  ").with(state);
            lines.push(found.with(format!(" {:<20} {}", check.name, check.found)));
            if let Some(effect) = &check.effect {
                lines.push(Line::from(format!("{:INDENT$}{effect}", "")));
            }
            if let Some(mend) = &check.mend {
                lines.push(Line::from(format!("{:INDENT$}-> {mend}", "")));
            }
        }
    }
    lines.iter().flat_map(|line| line.fitted(width, INDENT)).collect()
}

fn as_json(checks: &[Check], works: bool) -> Value {
    let one = |check: &Check| {
        json!({
            "group": check.group.name(),
            "name": check.name,
            "state": check.state.name(),
            "found": check.found,
            "effect": check.effect,
            "mend": check.mend,
        })
    };
    json!({
        "schema": "overdrive.doctor/1",
        "serve": works,
        "to_mend": to_mend(checks),
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
    fn a_setting_that_costs_is_in_the_verdict_with_its_effect_and_its_mend() {
        let costly = |name| Check {
            effect: Some("half as fast".to_owned()),
            ..Check::new(Group::Machine, name, State::Costly, "sda: off").mend("turn it on")
        };
        let checks = [Check::new(Group::Serve, "x", State::Ok, ""), costly("write cache")];
        let printed = text(&as_lines(&checks, false, Some(100)));
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines[1], "One setting costs speed: write cache (below).");
        let at =
            lines.iter().position(|line| line.contains("mend     write cache")).expect("shown");
        assert_eq!((lines[at + 1].trim(), lines[at + 2].trim()), ("half as fast", "-> turn it on"));
        let json = as_json(&checks, true);
        assert_eq!((&json["to_mend"], &json["checks"][1]["state"]), (&1.into(), &"mend".into()));
        assert_eq!(json["checks"][1]["effect"], "half as fast");
        let two = [costly("TRIM"), costly("TRIM")];
        assert_eq!(machine_verdict(&two).1, "2 settings cost speed (below): TRIM.");
        assert_eq!(machine_verdict(&checks[..1]).0, State::Ok);
        assert!(can_serve(&checks), "a costly setting does not stop serve");
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn what_is_missing_comes_with_its_mend() {
        let fio = TOOLS.iter().find(|tool| tool.name == "fio").expect("listed");
        let check = tool_check(fio, false);
        assert_eq!((check.group, check.state), (Group::Demo, State::Missing));
        let text = text(&as_lines(&[check], false, Some(100)));
        assert!(text.contains("missing  fio"), "{text}");
        assert!(text.contains("apt-get install --no-install-recommends -y fio"), "{text}");
        assert_eq!(tool_check(fio, true).mend, None);
    }

    #[test]
    fn the_verdict_comes_first_and_tests_are_shown_if_asked_for() {
        let check = |group, state| Check::new(group, "x", state, "found");
        let checks = [
            check(Group::Serve, State::Ok),
            check(Group::Attach, State::Limited),
            check(Group::Demo, State::Missing),
            check(Group::Tests, State::Missing),
        ];
        let lines = as_lines(&checks, false, Some(100));
        let printed = text(&lines);
        let texts: Vec<&str> = printed.lines().collect();
        assert_eq!(texts[0], "overdrive serve can work here.");
        assert_eq!(texts[1], "Disks, processors and memory: nothing needs mending.");
        assert_eq!(texts[2], "overdrive attach can work here, with one limit (below).");
        assert!(texts[4].starts_with("overdrive demo cannot work here"), "{printed}");
        assert!(!printed.contains("tests"), "{printed}");
        assert_eq!(lines[2].spans()[0].look, Look::Doubtful);
        let all = as_lines(&checks, true, Some(60));
        assert!(text(&all).contains("the project's tests"));
        assert!(all.iter().all(|line| line.width() <= 60), "{}", text(&all));
    }
}
