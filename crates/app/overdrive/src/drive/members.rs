//! The health of the members of a pool or a stripe that is served.

use super::report::{Health, INDENT, VERDICTS, as_json, as_text};
use crate::terminal;
use block::printable;
use daemon::control::lower_drives::Served;
use serde_json::{Value, json};
use stack::{Exit, Failure};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A member, and its health.
struct Member {
    /// Its name for users.
    name: String,
    /// Its state in the daemon, if it belongs to a pool.
    state: Option<String>,
    health: Known,
}

enum Known {
    Report(Box<Health>),
    /// It is no device.
    Image,
    /// The volume is served without it.
    Missing,
    /// The query has failed.
    Refused(Failure),
}

impl Member {
    fn of(
        path: Option<PathBuf>,
        state: Option<&str>,
        examine: &dyn Fn(&Path) -> Result<Health, Failure>,
    ) -> Member {
        let name = path.as_ref().map_or("missing".into(), |path| path.display().to_string());
        let health = match &path {
            None => Known::Missing,
            Some(path) => match std::fs::metadata(path).map(|found| found.is_file()) {
                Ok(true) => Known::Image,
                Ok(false) => examine(path)
                    .map_or_else(Known::Refused, |health| Known::Report(Box::new(health))),
                Err(error) => {
                    let message =
                        format!("{name}: cannot be found ({error}); does it still exist?");
                    Known::Refused(Failure::new(Exit::Io, message))
                }
            },
        };
        Member { name, state: state.map(str::to_owned), health }
    }

    /// Returns a sentence to print instead of a report.
    fn why(&self) -> Option<String> {
        match &self.health {
            Known::Report(_) => None,
            Known::Image => Some(format!(
                "{}: is not a device and has no health; name the drive below it",
                self.name
            )),
            Known::Missing => Some("the volume is served without this member".to_owned()),
            Known::Refused(failure) => Some(failure.message.clone()),
        }
    }

    fn fails(&self) -> bool {
        let says_so = matches!(&self.health, Known::Report(health) if health.fails());
        let is_lost = self.state.as_deref() == Some("failed");
        says_so || is_lost || matches!(self.health, Known::Missing)
    }

    fn as_json(&self) -> Value {
        let health = match &self.health {
            Known::Report(report) => as_json(&self.name, report),
            _ => Value::Null,
        };
        json!({
            "name": self.name,
            "state": self.state,
            "fails": self.fails(),
            "health": health,
            "why": self.why(),
        })
    }

    fn as_text(&self, number: usize) -> String {
        let mut text = format!("{:<20} {}", format!("member {number}"), printable(&self.name));
        if let Some(state) = &self.state {
            _ = write!(text, ", {state}");
        }
        text.push('\n');
        match (&self.health, self.why()) {
            (Known::Report(report), _) => text.push_str(&as_text(&self.name, report)),
            (_, why) => _ = writeln!(text, "{}", printable(&why.unwrap_or_default())),
        }
        text
    }
}

/// Prints each member's report. The status is 1 if any member fails, otherwise that of the first
/// failed query.
pub(super) fn run(
    mut served: Served,
    paths: Vec<Option<PathBuf>>,
    as_object: bool,
    examine: &dyn Fn(&Path) -> Result<Health, Failure>,
) -> Result<ExitCode, Failure> {
    let stats = served.stats()?;
    let members = paths.into_iter().enumerate();
    let members: Vec<Member> = members
        .map(|(index, path)| {
            let state = stats.members.get(index).map(|member| member.state.as_str());
            Member::of(path, state, examine)
        })
        .collect();
    if as_object {
        let list: Vec<Value> = members.iter().map(Member::as_json).collect();
        let object = json!({
            "schema": "overdrive.drive.health-members/1",
            "volume": served.row().name,
            "backing": served.row().backing,
            "members": list,
        });
        daemon::say!("{object}");
    } else {
        let texts: Vec<String> =
            (1..).zip(&members).map(|(number, member)| member.as_text(number)).collect();
        terminal::print_text(&texts.join("\n"), INDENT, &VERDICTS);
    }
    let refused = members.iter().find_map(|member| match &member.health {
        Known::Refused(failure) => Some(failure.exit),
        Known::Report(health) => health.late.as_ref().map(|late| late.exit),
        _ => None,
    });
    let failing = members.iter().any(Member::fails).then_some(Exit::Negative);
    Ok(failing.or(refused).map_or(ExitCode::SUCCESS, |exit| ExitCode::from(exit as u8)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::smartctl::Report;

    #[test]
    fn a_member_fails_by_its_own_word_or_by_the_pools() {
        let member = |health, state: Option<&str>| Member {
            name: "/dev/sdb".to_owned(),
            state: state.map(str::to_owned),
            health,
        };
        let report_with =
            |passed| Known::Report(Box::new(Health::of(Report { passed, ..Report::default() })));
        for (member, fails) in [
            (member(report_with(Some(true)), Some("good")), false),
            (member(report_with(None), None), false),
            (member(report_with(Some(false)), Some("good")), true),
            (member(report_with(Some(true)), Some("failed")), true),
            (member(Known::Image, Some("slow")), false),
            (member(Known::Missing, None), true),
        ] {
            assert_eq!(member.fails(), fails, "{}", member.as_json());
            assert_eq!(member.as_json()["fails"], fails);
        }
        let text = member(report_with(Some(false)), Some("good")).as_text(2);
        assert!(text.starts_with("member 2             /dev/sdb, good\n"), "{text}");
        assert!(text.contains("its own verdict      FAILING"), "{text}");
    }

    #[test]
    fn a_member_that_is_not_there_is_no_image() {
        let examine = |_: &Path| panic!("it is not asked");
        let gone = Member::of(Some("/no/such/disk".into()), None, &examine);
        assert!(matches!(&gone.health, Known::Refused(failure) if failure.exit == Exit::Io));
        let image = Member::of(Some("/etc/passwd".into()), None, &examine);
        assert!(image.why().is_some_and(|why| why.contains("is not a device")));
    }
}
