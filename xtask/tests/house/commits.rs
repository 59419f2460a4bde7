//! The rule on commits: a subject `area: what changes` of at most 72 characters, and a body with
//! the reason.
//!
//! It applies to commits after [`BASE`], the area to those after [`AREA_BASE`]; older commits have
//! other subjects. Merges are excluded.
//! In a shallow clone, only the newest commit is checked; a tree without this history is skipped,
//! with the reason.

use crate::metadata::root;
use std::path::Path;
use std::process::Command;

/// The last commit before this test enforced the rule.
const BASE: &str = "5c269381fb575b82bc0f6640e1ef4664de532dfc";

/// The last commit before subjects had to begin with an area.
const AREA_BASE: &str = "d457e0d7";

/// Maximum length of a subject, in characters: `git log --oneline` then fits into a terminal.
const SUBJECT_CHARACTERS_MAX: usize = 72;

/// Returns git's output, or the reason why it failed.
fn git(repository: &Path, arguments: &[&str]) -> Result<String, String> {
    let run = Command::new("git").arg("-C").arg(repository).args(arguments).output();
    let output = run.map_err(|error| format!("git does not start: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether this is a line such as `Signed-off-by: A Name`, which gives no reason.
fn is_trailer(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(key, _)| key.contains('-') && !key.contains(' '))
}

/// Whether a subject begins with its area, or several: crates or documents.
fn has_area(subject: &str) -> bool {
    let is_name = |area: &str| {
        let mut letters = area.chars();
        !area.is_empty() && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
    };
    subject.split_once(": ").is_some_and(|(areas, _)| areas.split(", ").all(is_name))
}

/// Returns the faults of a subject without an area.
fn area_faults(subject: &str, _body: &str) -> Vec<String> {
    if has_area(subject) {
        return Vec::new();
    }
    vec!["it does not begin with its area, as in 'cache: what changes'".to_owned()]
}

/// Returns the faults of a commit's message.
fn faults(subject: &str, body: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let length = subject.chars().count();
    if length > SUBJECT_CHARACTERS_MAX {
        faults.push(format!(
            "its subject has {length} characters, at most {SUBJECT_CHARACTERS_MAX} are allowed"
        ));
    }
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty());
    if !lines.any(|line| !is_trailer(line)) {
        faults.push("it has no body that says why".to_owned());
    }
    faults
}

/// Returns the commits since `base` that break the rule `faults`, each with its fault. An error is
/// the reason why the history is not available.
fn offenders(
    repository: &Path,
    base: &str,
    faults: impl Fn(&str, &str) -> Vec<String>,
) -> Result<Vec<String>, String> {
    let is_shallow = git(repository, &["rev-parse", "--is-shallow-repository"])?.trim() == "true";
    let since = format!("{base}..HEAD");
    // A shallow clone cuts branches, whose commits may be older than the base. The newest commit is
    // not older, because it contains this test.
    let range: &[&str] = if is_shallow { &["--max-count=1", "HEAD"] } else { &[&since] };
    if !is_shallow {
        let commit = format!("{base}^{{commit}}");
        git(repository, &["cat-file", "-e", &commit])
            .map_err(|_| format!("commit {base} is not in this history"))?;
    }
    let mut arguments = vec!["log", "--format=%h%x00%P%x00%s%x00%b%x01"];
    arguments.extend(range);
    let log = git(repository, &arguments)?;
    let commits = log.split('\u{1}').map(str::trim_start).filter(|commit| !commit.is_empty());
    let mut wrong = Vec::new();
    for commit in commits {
        let mut parts = commit.split('\0');
        let mut part = || parts.next().unwrap_or_default();
        let (name, parents, subject, body) = (part(), part(), part(), part());
        if parents.split_whitespace().count() > 1 {
            continue;
        }
        wrong
            .extend(faults(subject, body).iter().map(|fault| format!("{name} {subject}: {fault}")));
    }
    Ok(wrong)
}

#[test]
fn commits_have_short_subjects_and_say_why() {
    let all = offenders(&root(), BASE, faults);
    let newer = offenders(&root(), AREA_BASE, area_faults);
    match all.and_then(|all| Ok([all, newer?].concat())) {
        Ok(wrong) => assert_eq!(wrong, [""; 0], "mend the messages with git rebase"),
        Err(reason) => eprintln!("skipped: {reason}"),
    }
}

#[test]
fn an_area_is_one_name_or_several() {
    let good = ["cache: x", "stack, drive-backend: x: y", "SEMANTICS: x"];
    assert!(good.into_iter().all(has_area));
    let bad = ["cache tests: x", "A sentence", "cache:x", ": x", "cache,: x"];
    assert!(!bad.into_iter().any(has_area));
}

#[test]
fn subjects_are_measured_in_characters_and_trailers_are_no_reason() {
    assert_eq!(faults(&"ü".repeat(72), "A reason.\n"), [""; 0]);
    assert_eq!(faults(&"u".repeat(73), "A reason.\n").len(), 1);
    assert_eq!(faults("Short", "\n").len(), 1);
    assert_eq!(faults("Short", "Signed-off-by: A <a@b>\n").len(), 1);
    assert_eq!(faults("Short", "Measured: half.\n"), [""; 0]);
}

/// Creates a commit without files in a repository of the test.
fn commit(repository: &Path, message: &str) {
    let arguments = ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet"];
    let more = ["--allow-empty", "--no-verify", "--no-gpg-sign", "-m", message];
    git(repository, &[&arguments[..], &more[..]].concat()).expect("a commit");
}

#[test]
fn histories_are_looked_at_from_the_base_on_and_shallow_clones_at_their_tip() {
    let place = std::env::temp_dir().join(format!("overdrive-commits-{}", std::process::id()));
    let (whole, shallow) = (place.join("whole"), place.join("shallow"));
    std::fs::create_dir_all(&whole).expect("a directory of our own");
    if let Err(reason) = git(&whole, &["init", "--quiet"]) {
        eprintln!("skipped: {reason}");
        return;
    }
    let long = "l".repeat(80);
    commit(&whole, &long);
    let base = git(&whole, &["rev-parse", "HEAD"]).expect("a commit").trim().to_owned();
    assert_eq!(offenders(&whole, &base, faults), Ok(Vec::new()), "the base itself is older");
    commit(&whole, "Short\n\nThe reason.");
    assert_eq!(offenders(&whole, &base, faults), Ok(Vec::new()));
    commit(&whole, &format!("{long}\n\nThe reason."));
    commit(&whole, "Without a reason");
    assert_eq!(offenders(&whole, &base, faults).map(|wrong| wrong.len()), Ok(2));

    let parent = git(&whole, &["rev-parse", "HEAD~1"]).expect("a parent");
    let tree = git(&whole, &["rev-parse", "HEAD^{tree}"]).expect("a tree");
    let merge = git(
        &whole,
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "commit-tree",
            tree.trim(),
            "-p",
            "HEAD",
            "-p",
            parent.trim(),
            "-m",
            &long,
        ],
    );
    git(&whole, &["update-ref", "HEAD", merge.expect("a merge").trim()]).expect("its place");
    assert_eq!(
        offenders(&whole, &base, faults).map(|wrong| wrong.len()),
        Ok(2),
        "merges are excepted"
    );

    commit(&whole, "Without a reason");
    let from = format!("file://{}", whole.display());
    let to = shallow.to_string_lossy();
    git(&place, &["clone", "--quiet", "--depth", "1", &from, &to]).expect("a shallow clone");
    assert_eq!(
        offenders(&shallow, &base, faults).map(|wrong| wrong.len()),
        Ok(1),
        "only the newest"
    );
    assert!(
        offenders(&whole, "0123456789", faults).is_err_and(|reason| reason.contains("history"))
    );
    std::fs::remove_dir_all(&place).expect("what the test has made");
}
